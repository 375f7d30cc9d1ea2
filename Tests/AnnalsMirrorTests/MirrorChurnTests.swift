// Groups whose peers join, restart, leave and are lost, over a courier that may forget everything.

import Annals
import AnnalsMirror
import FoundationEssentials
import TestSupport
import Testing

@Suite struct MirrorChurnTests {
    /// A group in memory.
    private final class Group {
        let seed: UInt64
        let exchange: SimulatedExchange
        var stores: [Store] = []
        /// Nil for one that has left or is lost.
        var peers: [MirrorPeer?] = []
        private var instances: UInt64 = 0
        /// Stores that have to join again, because all that had what they need were lost.
        var conflicts = 0
        /// Stores that were declared lost although they had more.
        var losses = 0
        /// Whether the stores have a local entity.
        let hasDrafts: Bool
        /// The titles of each store's drafts, with their ranks. A generator of its own leaves the rest of a run alone.
        private var drafts: [[String: Int64]] = []
        private var draftRandom: SeededRandom

        init(seed: UInt64, _ faults: SimulatedExchange.Faults) {
            self.seed = seed
            (hasDrafts, draftRandom) = (seed % 2 == 1, SeededRandom(seed << 32))
            exchange = SimulatedExchange(seed: seed, faults: faults)
            exchange.faults.maximumDelaySeconds /= 3
            exchange.faults.maximumDownSeconds /= 5
        }

        var present: [Int] { peers.indices.filter { peers[$0] != nil } }

        /// Returns false if the courier failed.
        private func attempt(_ body: () throws -> Void) throws -> Bool {
            do {
                try body()
                return true
            } catch let error as StoreError where error.code == .courierUnreachable {
                return false
            }
        }

        func addStore() throws {
            let entities = MergeModel.entities + (hasDrafts ? [Self.draft] : [])
            let store = try GroupMember.store(seed: seed << 8 | UInt64(stores.count), entities)
            stores.append(store)
            peers.append(nil)
            drafts.append([:])
            for _ in 0..<4 { try writeDraft(stores.count - 1) }
            try begin(stores.count - 1, isFirst: true)
            // A store that gets no answer founds a group of its own, so the members must be able to answer.
            var rounds = 0
            while case .listens? = peers[stores.count - 1]?.phase {
                rounds += 1
                try #require(rounds < 3000, "seed \(seed): the store \(stores.count - 1) is not admitted")
                for index in peers.indices { try step(index) }
                exchange.advance(by: 0.2)
            }
        }

        private static let draft = EntityDescription(
            "Draft",
            attributes: [
                AttributeDescription("title", .string, isUnique: true), AttributeDescription("rank", .int),
                AttributeDescription("next", .object, target: "Draft", whenTargetIsDeleted: .nullify),
            ])

        /// Changes a draft, in a transaction with or without a change for the group.
        private func writeDraft(_ index: Int) throws {
            guard hasDrafts, index < drafts.count else { return }
            let (title, rank) = ("secret \(draftRandom.next(below: 6 as UInt64))", Int64(draftRandom.next() >> 1))
            let (isDeletion, isMixed) = (draftRandom.happens(0.3), draftRandom.happens(0.3))
            var next = drafts[index]
            do {
                let rows = try stores[index].snapshot().rows(of: "Draft")
                let found = rows.first { $0["title"]?.string == title }?.id
                let target = rows.last?.id
                try stores[index].write { transaction in
                    let values: [String: Value] = [
                        "title": .string(title), "rank": .int(rank), "next": target.map { .object($0) } ?? .null,
                    ]
                    if let found, isDeletion {
                        try transaction.delete(found)
                        next[title] = nil
                    } else {
                        if let found {
                            try transaction.update(found, values)
                        } else {
                            try transaction.insert("Draft", values)
                        }
                        next[title] = rank
                    }
                    if isMixed { try transaction.insert("Tag", ["name": .string("tag \(rank % 3)")]) }
                }
                drafts[index] = next
            } catch let error as StoreError where error.code == .uniqueViolation {
                // Another store has this tag.
            }
        }

        /// Begins a mirror, as a new process does.
        func begin(_ index: Int, isFirst: Bool = false) throws {
            let (store, exchange) = (stores[index], exchange)
            repeat {
                instances += 1
            } while try !attempt {
                peers[index] = try MirrorPeer.begin(
                    store, exchange.courier(for: store.identifier.uuidString), firstNumber: instances << 32,
                    instance: instances, localEntities: hasDrafts && isFirst ? ["Draft"] : nil,
                    clock: { exchange.now })
            }
        }

        func step(_ index: Int) throws {
            do {
                _ = try attempt { try peers[index]?.step() }
            } catch let error as StoreError where error.code == .groupConflict {
                // The one that had made its state was lost before it had the rest.
                conflicts += 1
                if let other = present.first(where: { $0 != index }) { try lose(index, declaredBy: other) }
            }
        }

        func write(_ index: Int, _ random: inout SeededRandom) throws {
            try RandomWriter(store: stores[index]).write(&random)
            if draftRandom.happens(0.4) { try writeDraft(index) }
        }

        /// One of the group declares that another one is lost.
        func lose(_ index: Int, declaredBy other: Int) throws {
            peers[index] = nil
            try peers[other]?.declareLost(stores[index].identifier)
        }

        func leaveIfItMay(_ index: Int) throws {
            guard let peer = peers[index], peer.mayLeave else { return }
            try peer.leave()
            var rounds = 0
            while !peer.hasLeft {
                rounds += 1
                try #require(rounds < 3000, "seed \(seed): the store \(index) cannot leave")
                for index in peers.indices { try step(index) }
                exchange.advance(by: 0.2)
            }
            peers[index] = nil
        }

        func becomeQuiet() throws {
            exchange.calm()
            // A store may be lost together with the only one that knew that another one was lost.
            if let first = present.first {
                for index in peers.indices where peers[index] == nil {
                    try peers[first]?.declareLost(stores[index].identifier)
                }
            }
            var rounds = 0
            while !peers.allSatisfy({ $0?.isQuiet ?? true }) || rounds < 3 {
                rounds += 1
                try #require(rounds < 600, "seed \(seed): the peers do not become quiet: \(facts)")
                for index in peers.indices { try step(index) }
                exchange.advance(by: 1)
            }
        }

        private var facts: String {
            present.map { index in
                let peer = peers[index]
                return "\(stores[index].identifier.uuidString.prefix(4)) \(peer.map { "\($0.phase)" } ?? "gone") "
                    + "\(peer?.obstacles.values.map(\.message) ?? []) \(peer?.members.present.count ?? 0)"
            }.joined(separator: "; ")
        }

        func requireEqual() throws {
            let pictures = try present.map { try StorePicture.lines(of: stores[$0]) }
            for (index, picture) in zip(present, pictures).dropFirst() {
                try #require(
                    picture == pictures[0], "seed \(seed): the stores \(present[0]) and \(index) of \(present) differ")
            }
            for (index, expected) in drafts.enumerated() where hasDrafts {
                let rows = try stores[index].snapshot().rows(of: "Draft")
                let found = rows.map { ($0["title"]?.string ?? "", $0["rank"]?.int ?? 0) }
                #expect(Dictionary(found, uniquingKeysWith: { $1 }) == expected, "seed \(seed)")
                #expect(rows.count == expected.count, "seed \(seed)")
            }
            let sent = exchange.bodies
            #expect(!sent.contains { $0.contains("secret".utf8) || $0.contains("Draft".utf8) }, "seed \(seed)")
            for store in stores {
                let report = try Checker.check(
                    store.path, options: CheckOptions(), files: try Store.files(for: store.path))
                #expect(report.isIntact, "seed \(seed): \(report.findings)")
            }
        }
    }

    @Test(arguments: 1...12 as ClosedRange<UInt64>)
    func aStoreJoinsAfterTheCourierHasForgottenEverything(seed: UInt64) throws {
        var random = SeededRandom(seed)
        let group = Group(seed: seed, seed % 2 == 0 ? .none : .rough)
        for _ in 0..<(1 + Int(seed % 3)) { try group.addStore() }
        if group.stores.count == 1 { try group.addStore() }
        for _ in 0..<60 {
            let index = Int.random(in: group.peers.indices, using: &random)
            if random.happens(0.5) { try group.write(index, &random) } else { try group.step(index) }
        }
        try group.becomeQuiet()
        group.exchange.beginAgain()
        try group.addStore()
        // Writers go on meanwhile.
        for _ in 0..<40 {
            let index = Int.random(in: group.peers.indices, using: &random)
            if random.happens(0.4), index < group.stores.count - 1 { try group.write(index, &random) }
            try group.step(index)
            group.exchange.advance(by: 0.3)
        }
        try group.becomeQuiet()
        try group.requireEqual()
        let last = group.stores.count - 1
        let isJoined = try #require(group.peers[last]).members.present.count == last
        #expect(isJoined, "seed \(seed)")
        // It is a peer like the others.
        for _ in 0..<40 {
            let index = Int.random(in: group.peers.indices, using: &random)
            if random.happens(0.6) { try group.write(index, &random) } else { try group.step(index) }
        }
        try group.becomeQuiet()
        try group.requireEqual()
    }

    /// It has entities that the group does not know, and lacks those of the group.
    @Test func aStoreOfAnotherSchemaBringsItsObjects() throws {
        var random = SeededRandom(7)
        let group = Group(seed: 7, .none)
        for _ in 0..<2 { try group.addStore() }
        for _ in 0..<20 { try group.write(Int.random(in: 0..<2, using: &random), &random) }
        try group.becomeQuiet()
        group.exchange.beginAgain()
        let own = EntityDescription("Own", attributes: [AttributeDescription("text", .string, isUnique: true)])
        let store = try Store(inMemory: [own])
        // More than are made again in one step, while all unneeded history is cleaned.
        for number in 0..<150 {
            try store.write(author: "app \(number)") { _ = try $0.insert("Own", ["text": .string("\(number)")]) }
        }
        group.stores.append(store)
        group.peers.append(nil)
        try group.begin(2)
        for _ in 0..<60 {
            for index in 0..<3 {
                try group.step(index)
                try group.peers[index]?.save()
                _ = try group.stores[index].clean()
            }
            group.exchange.advance(by: 0.3)
        }
        try group.becomeQuiet()
        try group.requireEqual()
        for store in group.stores {
            let texts = try store.snapshot().rows(of: "Own").compactMap { $0["text"]?.string }
            #expect(Set(texts) == Set((0..<150).map { "\($0)" }))
        }
    }

    private static let operations = 300

    /// One for each group. `Tests/run long mirror` gives a first seed and a number of operations.
    private static let seeds: [UInt64] = {
        func number(_ name: String) -> UInt64? { ProcessInfo.processInfo.environment[name].flatMap { UInt64($0) } }
        guard let seed = number("ANNALS_MIRROR_SEED"), let all = number("ANNALS_MIRROR_OPERATIONS") else {
            // Those after 24 were found by longer runs.
            return Array(1...24) + [196_648, 327_718, 393_238, 458_793, 983_066, 1_769_480, 2_293_778]
        }
        let groups = max(1, all / UInt64(operations))
        print("mirror, seed \(seed): \(groups) groups")
        return (0..<groups).map { seed << 16 | $0 }
    }()

    @Test(arguments: Self.seeds)
    func groupsThatChangeBecomeEqual(seed: UInt64) throws {
        var random = SeededRandom(seed << 20)
        let group = Group(seed: seed, seed % 3 == 0 ? .none : .rough)
        for _ in 0..<2 { try group.addStore() }
        for _ in 0..<Self.operations {
            let index = try #require(group.present.randomElement(using: &random))
            switch Int.random(in: 0..<100, using: &random) {
            case 0..<45: try group.write(index, &random)
            case 45..<93: try group.step(index)
            case 93..<95:
                if random.happens(0.5) { try group.peers[index]?.save() }
                try group.begin(index)
            case 95: if group.stores.count < 6 { try group.addStore() }
            case 96: group.exchange.beginAgain()
            case 97: if group.present.count > 2 { try group.leaveIfItMay(index) }
            case 98:
                let other = group.present.first { $0 != index }
                if let other, group.present.count > 2 {
                    group.losses += 1
                    try group.lose(index, declaredBy: other)
                }
            default: _ = try group.stores[index].clean()
            }
            group.exchange.advance(by: Double.random(in: 0..<0.3, using: &random))
        }
        try group.becomeQuiet()
        try group.requireEqual()
        #expect(group.conflicts <= group.losses, "seed \(seed)")
    }
}
