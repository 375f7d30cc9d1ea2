// Peers with stores in memory, over a simulated courier that loses, doubles, delays and reorders messages.

import Annals
import AnnalsMirror
import FoundationEssentials
import TestSupport
import Testing

@Suite struct MirrorPeerTests {
    @Test(arguments: 1...10 as ClosedRange<UInt64>)
    func peersOverABadCourierBecomeEqual(seed: UInt64) throws {
        var random = SeededRandom(seed)
        let count = 2 + Int(seed % 3)
        let exchange = SimulatedExchange(seed: seed, faults: .rough)
        let members = try (0..<count).map { try GroupMember(seed: seed << 8 | UInt64($0)) }
        let peers = members.map { member in
            MirrorPeer(
                member.merging, exchange.courier(for: member.store.identifier.uuidString), clock: { exchange.now })
        }
        func step(_ peer: Int) throws {
            do {
                try peers[peer].step()
            } catch let error as StoreError where error.code == .courierUnreachable {
                // It tries again.
            }
        }
        for _ in 0..<150 {
            let peer = Int.random(in: 0..<count, using: &random)
            if random.happens(0.5) { try members[peer].write(&random) } else { try step(peer) }
            exchange.advance(by: Double.random(in: 0..<0.3, using: &random))
        }
        exchange.calm()
        var rounds = 0
        while !peers.allSatisfy(\.isQuiet) || rounds < 3 {
            rounds += 1
            try #require(rounds < 300, "seed \(seed): the peers do not become quiet")
            for peer in peers.indices { try step(peer) }
            exchange.advance(by: 1)
        }
        var pictures: [[String]] = []
        for member in members { pictures.append(try StorePicture.lines(of: member.store)) }
        for peer in pictures.indices.dropFirst() {
            try #require(pictures[peer] == pictures[0], "seed \(seed): the stores 0 and \(peer) differ")
        }
        #expect(!pictures[0].isEmpty, "seed \(seed)")
        for member in members {
            let report = try Checker.check(
                member.store.path, options: CheckOptions(), files: try Store.files(for: member.store.path))
            #expect(report.isIntact, "seed \(seed): \(report.findings)")
        }
    }

    /// Their first messages are no sign of a group.
    @Test func storesWithCleanedHistoryFoundAGroup() throws {
        let exchange = SimulatedExchange(seed: 1)
        let store = try GroupMember.store(seed: 1)
        try store.write { _ = try $0.insert("Tag", ["name": "old"]) }
        try store.deleteHistory(before: try store.currentToken.number + 1)
        let peer = try MirrorPeer.begin(
            store, exchange.courier(for: store.identifier.uuidString), firstNumber: 1, instance: 1,
            clock: { exchange.now })
        // The only message of a store that never came back.
        let other = try GroupMember.store(seed: 2)
        try other.write { _ = try $0.insert("Tag", ["name": "other"]) }
        try other.deleteHistory(before: try other.currentToken.number + 1)
        let gone = try MirrorPeer.begin(
            other, exchange.courier(for: other.identifier.uuidString), firstNumber: 1, instance: 2,
            clock: { exchange.now })
        try gone.step()
        for _ in 0..<20 {
            try peer.step()
            exchange.advance(by: 1)
        }
        #expect(peer.phase == .member)
    }

    /// The last confirmation is lost, and its sender has nothing else to say.
    @Test(arguments: [true, false]) func aLostReceiptIsSentAgain(hasOwn: Bool) throws {
        let exchange = SimulatedExchange(seed: 1)
        let members = try [1, 2].map { try GroupMember(seed: $0) }
        let peers = members.map { member in
            MirrorPeer(
                member.merging, exchange.courier(for: member.store.identifier.uuidString), clock: { exchange.now })
        }
        func step(rounds: Int) throws {
            for _ in 0..<rounds {
                for peer in peers { try peer.step() }
                exchange.advance(by: 1)
            }
        }
        if hasOwn { try members[1].store.write { _ = try $0.insert("Tag", ["name": "own"]) } }
        try step(rounds: 20)
        try members[0].store.write { _ = try $0.insert("Tag", ["name": "last"]) }
        try peers[0].step()
        exchange.faults.forget = 1
        // It confirms.
        while try members[1].store.snapshot().rows(of: "Tag").count < (hasOwn ? 2 : 1) { try peers[1].step() }
        try peers[1].step()
        exchange.faults = .none
        try #require(peers[1].isQuiet && !peers[0].isQuiet)
        try step(rounds: 20)
        for peer in peers { #expect(peer.isQuiet) }
        let count = exchange.messageCount
        try step(rounds: 200)
        #expect(exchange.messageCount == count)
    }

    /// MM1: while a peer has much to publish, its receipts promise no more than it will keep.
    @Test func receiptsPromiseOnlyWhatIsStillToCome() throws {
        let exchange = SimulatedExchange(seed: 1, maximumBodyBytes: 1 << 20)
        let members = try [1, 2].map { try GroupMember(seed: $0) }
        let peers = members.map { member in
            MirrorPeer(
                member.merging, exchange.courier(for: member.store.identifier.uuidString), clock: { exchange.now })
        }
        let text = Value.string(String(repeating: "x", count: 20_000))
        for _ in 0..<300 { try members[0].store.write { try $0.insert("Folder", ["name": text]) } }
        for _ in 0..<20 { try members[1].store.write { try $0.insert("Folder", ["name": "other"]) } }
        var rounds = 0
        while try !peers.allSatisfy(\.isQuiet) || members[1].store.snapshot().rows(of: "Folder").count < 320 {
            rounds += 1
            try #require(rounds < 100, "the peers do not become quiet")
            for peer in peers { try peer.step() }
            exchange.advance(by: 1)
        }
        for member in members {
            var (promised, receipts, transactions) = (0 as UInt64, 0, 0)
            for message in exchange.messages(from: member.store.identifier.uuidString) {
                guard case .whole(let message) = try MessageBody(message.body) else { continue }
                switch message.content {
                case .receipt(let receipt): (promised, receipts) = (max(promised, receipt.lamport), receipts + 1)
                case .transaction(let message):
                    #expect(message.lamport > promised)
                    transactions += 1
                default: break
                }
            }
            #expect(receipts > 1 && transactions >= 20)
        }
        #expect(try StorePicture.lines(of: members[0].store) == StorePicture.lines(of: members[1].store))
    }

    /// Retention and cleaning leave what a member that is off has not confirmed. Otherwise the others could not go on.
    @Test func aMemberThatIsOffKeepsHistory() throws {
        let exchange = SimulatedExchange(seed: 1)
        let members = try [1, 2, 3].map { try GroupMember.store(seed: $0) }
        func begin(_ store: Store, _ run: UInt64) throws -> MirrorPeer {
            try MirrorPeer.begin(
                store, exchange.courier(for: store.identifier.uuidString), firstNumber: run * 1_000_000,
                instance: run, clock: { exchange.now })
        }
        func step(_ peers: [MirrorPeer]) throws {
            for _ in 0..<60 {
                for peer in peers { try peer.step() }
                exchange.advance(by: 1)
            }
        }
        func write(_ store: Store) throws { _ = try store.write { try $0.insert("Folder", ["name": "new"]) } }
        var peers = try members.map { try begin($0, 1) }
        for store in members { try write(store) }
        try step(peers)
        for peer in peers { #expect(peer.isQuiet) }
        for store in members { try store.setRetention(.none) }
        for round in 1...3 {
            for store in members.prefix(2) {
                try write(store)
                try store.clean()
                try store.deleteHistory(before: .max)
            }
            // The third one is off meanwhile, and writes.
            try write(members[2])
            try step(Array(peers.prefix(2)))
            for peer in peers.prefix(2) { try peer.save() }
            peers = try members.prefix(2).map { try begin($0, UInt64(1 + round)) } + [peers[2]]
        }
        try step(peers)
        for peer in peers { #expect(peer.isQuiet && peer.obstacle == nil) }
        let pictures = try members.map { try StorePicture.lines(of: $0) }
        #expect(pictures[0].count == 12 && pictures.allSatisfy { $0 == pictures[0] })
        // Then nothing holds it.
        for (peer, store) in zip(peers, members) {
            try peer.save()
            try write(store)
            try store.clean()
            #expect(try store.oldestToken.number > 3)
        }
    }

    /// Confirmations that came while no mirror ran.
    @Test func aMirrorRestsAfterItsTransactionsWereConfirmed() throws {
        let exchange = SimulatedExchange(seed: 1, maximumBodyBytes: 1 << 20)
        let stores = try [1, 2].map { try GroupMember.store(seed: $0) }
        func begin(_ store: Store, _ run: UInt64) throws -> MirrorPeer {
            try MirrorPeer.begin(
                store, exchange.courier(for: store.identifier.uuidString), firstNumber: run * 1_000_000,
                instance: run, clock: { exchange.now })
        }
        func step(_ peers: [MirrorPeer], _ rounds: Int) throws {
            for _ in 0..<rounds {
                for peer in peers { try peer.step() }
                exchange.advance(by: 1)
            }
        }
        let peers = try stores.map { try begin($0, 1) }
        try step(peers, 20)
        let text = Value.string(String(repeating: "x", count: 20_000))
        for _ in 0..<200 { _ = try stores[0].write { try $0.insert("Folder", ["name": text]) } }
        // More than one piece.
        for _ in 0..<20 { try peers[0].step() }
        try peers[0].save()
        try step([peers[1]], 60)
        #expect(try stores[1].snapshot().rows(of: "Folder").count == 200)
        let next = try begin(stores[0], 2)
        try step([next, peers[1]], 60)
        #expect(next.isQuiet && next.pauseSeconds == .infinity && next.mayLeave)
    }

    /// Also right after a start, when transactions that are not settled are still to be published again.
    @Test func theLastPublishedTransactionIsRemembered() throws {
        let exchange = SimulatedExchange(seed: 1)
        let stores = try [1, 2].map { try GroupMember.store(seed: $0) }
        func begin(_ store: Store, _ run: UInt64) throws -> MirrorPeer {
            try MirrorPeer.begin(
                store, exchange.courier(for: store.identifier.uuidString), firstNumber: run * 1_000_000,
                instance: run, clock: { exchange.now })
        }
        let peers = try stores.map { try begin($0, 1) }
        for _ in 0..<20 {
            for peer in peers { try peer.step() }
            exchange.advance(by: 1)
        }
        func write() throws { _ = try stores[0].write { try $0.insert("Folder", ["name": "new"]) } }
        // The other one does not confirm it.
        try write()
        for _ in 0..<3 { try peers[0].step() }
        let published = peers[0].publishedNumber
        #expect(published > 0)
        // The courier does not acknowledge it.
        exchange.cutOff(stores[0].identifier.uuidString)
        try write()
        #expect(throws: StoreError.self) { try peers[0].step() }
        #expect(peers[0].publishedNumber == published)
        exchange.join(stores[0].identifier.uuidString)
        try peers[0].save()
        for run in 2...3 {
            #expect(try begin(stores[0], UInt64(run)).publishedNumber == published)
            #expect(try MirrorRecord.load(stores[0])?.published == published)
        }
    }

    /// Numbers of messages follow the clock of a machine, which may go back between two runs of a mirror.
    @Test func oldReceiptsWithHigherNumbersHideNoNewOnes() throws {
        let exchange = SimulatedExchange(seed: 1)
        let members = try [1, 2].map { try GroupMember.store(seed: $0) }
        func begin(_ store: Store, firstNumber: UInt64) throws -> MirrorPeer {
            try MirrorPeer.begin(
                store, exchange.courier(for: store.identifier.uuidString), firstNumber: firstNumber,
                instance: firstNumber, clock: { exchange.now })
        }
        func becomeQuiet(_ peers: [MirrorPeer]) throws {
            for _ in 0..<60 {
                for peer in peers { try peer.step() }
                exchange.advance(by: 1)
            }
            for peer in peers { #expect(peer.isQuiet) }
        }
        func write(_ store: Store) throws { _ = try store.write { try $0.insert("Folder", ["name": "new"]) } }
        let (first, second) = (try begin(members[0], firstNumber: 1), try begin(members[1], firstNumber: 1_000_000))
        for store in members { try write(store) }
        try becomeQuiet([first, second])
        try second.save()
        let later = try begin(members[1], firstNumber: 1000)
        for peer in [first, later] { try peer.step() }
        // Those of the earlier run come again, after the first ones of this run.
        exchange.double(from: members[1].identifier.uuidString, number: 1_000_000)
        for store in members { try write(store) }
        try becomeQuiet([first, later])
        #expect(try StorePicture.lines(of: members[0]).count == 4)
        #expect(try StorePicture.lines(of: members[0]) == StorePicture.lines(of: members[1]))
    }
}

/// The objects of a store as text that does not depend on IDs: an object is described by its values, and the objects
/// that it refers to are described in it, to some depth.
enum StorePicture {
    static func lines(of store: Store) throws -> [String] {
        let snapshot = try store.snapshot()
        var lines: [String] = []
        for entity in MergeModel.entities {
            for row in try snapshot.rows(of: entity.name) {
                lines.append(try picture(row.id, entity, snapshot, depth: 3))
            }
        }
        return lines.sorted()
    }

    private static func picture(
        _ object: ObjectID, _ entity: EntityDescription, _ snapshot: Snapshot, depth: Int
    ) throws -> String {
        guard let row = try snapshot.row(object) else { return "nothing" }
        let values = try entity.attributes.map { attribute in
            let value = row[attribute.name] ?? .null
            let targets: [ObjectID] =
                switch value {
                case .object(let target): [target]
                case .orderedObjects(let targets), .objects(let targets): targets
                default: []
                }
            let existing = try targets.filter { try snapshot.row($0) != nil }
            guard attribute.type.isReference else { return "\(attribute.name): \(value)" }
            if depth == 0 { return "\(attribute.name): \(existing.count) objects" }
            // Numbers of entities differ from store to store.
            let target = try #require(MergeModel.entities.first { $0.name == attribute.target })
            var pictures = try existing.map { try picture($0, target, snapshot, depth: depth - 1) }
            if attribute.type == .objects { pictures.sort() }
            return "\(attribute.name): \(pictures)"
        }
        return "\(entity.name)(\(values.joined(separator: ", ")))"
    }
}
