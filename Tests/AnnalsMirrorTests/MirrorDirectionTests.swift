// Mirrors that only publish or only receive: everything else waits, and nothing is lost when they do both again (MI4).

import Annals
import AnnalsMirror
import FoundationEssentials
import TestSupport
import Testing

@Suite struct MirrorDirectionTests {
    private func begin(
        _ store: Store, _ exchange: SimulatedExchange, run: UInt64, _ direction: Mirror.Direction
    ) throws -> MirrorPeer {
        try MirrorPeer.begin(
            store, exchange.courier(for: store.identifier.uuidString), firstNumber: run * 1_000_000, instance: run,
            direction: direction, clock: { exchange.now })
    }

    private func step(_ peers: [MirrorPeer], _ exchange: SimulatedExchange, rounds: Int = 60) throws {
        for _ in 0..<rounds {
            for peer in peers {
                do {
                    try peer.step()
                } catch let error as StoreError where error.code == .courierUnreachable {
                    // It tries again.
                }
            }
            exchange.advance(by: 1)
        }
    }

    private func names(in store: Store) throws -> [String] {
        try store.snapshot().rows(of: "Tag").compactMap { $0["name"]?.string }.sorted()
    }

    private func insert(_ name: String, in store: Store) throws {
        _ = try store.write { try $0.insert("Tag", ["name": .string(name)]) }
    }

    @Test(arguments: Mirror.Direction.allCases)
    func theOtherDirectionWaits(direction: Mirror.Direction) throws {
        let exchange = SimulatedExchange(seed: 1)
        let stores = try [1, 2].map { try GroupMember.store(seed: $0) }
        for store in stores { try store.setRetention(.none) }
        var peers = try stores.map { try begin($0, exchange, run: 1, .both) }
        try insert("before", in: stores[0])
        try step(peers, exchange)
        for peer in peers { #expect(peer.isQuiet) }
        try peers[0].save()
        peers[0] = try begin(stores[0], exchange, run: 2, direction)
        for round in 1...3 {
            for (index, store) in stores.enumerated() {
                try insert("\(index) \(round)", in: store)
                try store.clean()
            }
            try step(peers, exchange)
            for peer in peers { try peer.save() }
        }
        let (own, remote) = ((1...3).map { "0 \($0)" }, (1...3).map { "1 \($0)" })
        #expect(try names(in: stores[0]) == own + (direction == .publish ? [] : remote) + ["before"])
        #expect(try names(in: stores[1]) == (direction == .receive ? [] : own) + remote + ["before"])
        // It waits for nothing, although transactions wait for it.
        #expect(peers[0].isQuiet && peers[0].pauseSeconds == .infinity)
        #expect(peers[1].isQuiet == (direction != .publish))
        try peers[0].save()
        peers[0] = try begin(stores[0], exchange, run: 3, .both)
        try step(peers, exchange)
        for peer in peers { #expect(peer.isQuiet) }
        for store in stores { #expect(try names(in: store) == own + remote + ["before"]) }
        #expect(try StorePicture.lines(of: stores[0]) == StorePicture.lines(of: stores[1]))
    }

    /// A store becomes a member of its group with any direction.
    @Test(arguments: Mirror.Direction.allCases)
    func aStoreJoins(direction: Mirror.Direction) throws {
        let exchange = SimulatedExchange(seed: 1)
        let stores = try [1, 2].map { try GroupMember.store(seed: $0) }
        try insert("group", in: stores[0])
        try insert("brought along", in: stores[1])
        let member = try begin(stores[0], exchange, run: 1, .both)
        try step([member], exchange, rounds: 10)
        let peer = try begin(stores[1], exchange, run: 1, direction)
        try step([member, peer], exchange)
        #expect(peer.phase == .member)
        #expect(try names(in: stores[1]) == ["brought along"] + (direction == .publish ? [] : ["group"]))
        #expect(try names(in: stores[0]) == (direction == .receive ? ["group"] : ["brought along", "group"]))
    }

    /// A state has no transaction that only its store has: the group could not go on without that store.
    @Test(arguments: [0, 1])
    func aStateHasNothingThatWaits(receiver: Int) throws {
        let exchange = SimulatedExchange(seed: 1)
        let stores = try [1, 2, 3].map { try GroupMember.store(seed: $0) }
        var peers = try stores.prefix(2).map { try begin($0, exchange, run: 1, .both) }
        for store in stores.prefix(2) { try insert("\(store.identifier)", in: store) }
        try step(peers, exchange)
        for peer in peers { try peer.save() }
        peers[receiver] = try begin(stores[receiver], exchange, run: 2, .receive)
        // Settled transactions come by a state only.
        exchange.beginAgain()
        try insert("waits", in: stores[receiver])
        try insert("later", in: stores[1 - receiver])
        try step(peers, exchange)
        peers.append(try begin(stores[2], exchange, run: 1, .both))
        try step(peers, exchange)
        #expect(peers[2].phase == .member)
        try insert("joined", in: stores[2])
        try step(peers, exchange)
        #expect(try names(in: stores[1 - receiver]).contains("joined"))
        #expect(try !names(in: stores[2]).contains("waits"))
        peers[receiver] = try begin(stores[receiver], exchange, run: 3, .both)
        try step(peers, exchange)
        for peer in peers { #expect(peer.isQuiet) }
        for store in stores { #expect(try names(in: store) == names(in: stores[0])) }
        #expect(try names(in: stores[0]).count == 5)
    }

    /// A store that only receives still answers for the transactions that it has published before.
    @Test func publishedTransactionsAreSentAgain() throws {
        var exchange = SimulatedExchange(seed: 1)
        let stores = try [1, 2].map { try GroupMember.store(seed: $0) }
        var peers = try stores.map { try begin($0, exchange, run: 1, .both) }
        try step(peers, exchange)
        try insert("published", in: stores[0])
        for _ in 0..<3 { try peers[0].step() }
        for peer in peers { try peer.save() }
        // The engine has lost it, before the other store has read it.
        exchange = SimulatedExchange(seed: 2)
        try insert("waits", in: stores[0])
        peers = [try begin(stores[0], exchange, run: 2, .receive), try begin(stores[1], exchange, run: 2, .both)]
        try step(peers, exchange)
        for peer in peers { #expect(peer.isQuiet) }
        #expect(try names(in: stores[1]) == ["published"])
    }

    /// Directions change at any time, with a bad courier.
    @Test(arguments: 1...24 as ClosedRange<UInt64>)
    func storesBecomeEqualWhenAllDoBoth(seed: UInt64) throws {
        var random = SeededRandom(seed)
        let exchange = SimulatedExchange(seed: seed, faults: seed % 2 == 0 ? .rough : .none)
        let members = try (0..<3).map { try GroupMember(seed: seed << 8 | UInt64($0)) }
        var run: UInt64 = 1
        var peers = try members.map { try begin($0.store, exchange, run: run, .both) }
        func change(_ peer: Int, _ direction: Mirror.Direction) throws {
            try peers[peer].save()
            run += 1
            peers[peer] = try begin(members[peer].store, exchange, run: run, direction)
        }
        try step(peers, exchange, rounds: 20)
        for _ in 0..<150 {
            let peer = Int.random(in: 0..<3, using: &random)
            switch Int.random(in: 0..<12, using: &random) {
            case 0: try change(peer, Mirror.Direction.allCases.randomElement(using: &random) ?? .both)
            case 1...5: try members[peer].write(&random)
            default: try step([peers[peer]], exchange, rounds: 1)
            }
        }
        exchange.calm()
        for peer in peers.indices { try change(peer, .both) }
        var rounds = 0
        while !peers.allSatisfy(\.isQuiet) || rounds < 3 {
            rounds += 1
            try #require(rounds < 300, "seed \(seed): the peers do not become quiet")
            try step(peers, exchange, rounds: 1)
        }
        let pictures = try members.map { try StorePicture.lines(of: $0.store) }
        #expect(!pictures[0].isEmpty && pictures.allSatisfy { $0 == pictures[0] }, "seed \(seed)")
        for member in members {
            let report = try Checker.check(
                member.store.path, options: CheckOptions(), files: try Store.files(for: member.store.path))
            #expect(report.isIntact, "seed \(seed): \(report.findings)")
        }
    }
}
