// Stores in memory that write random transactions and merge those of the others, each in an order of its own.

import Annals
import AnnalsMirror
import FoundationEssentials
import Synchronization
import TestSupport
import Testing

/// A machine whose random numbers are the same in each run.
private struct SeededEnvironment: Environment {
    private final class Numbers: Sendable {
        let random: Mutex<SeededRandom>
        init(_ seed: UInt64) { random = Mutex(SeededRandom(seed)) }
    }

    private let real = RealEnvironment()
    private let numbers: Numbers

    init(seed: UInt64) { numbers = Numbers(seed) }

    func wallClockMicroseconds() -> Int64 { real.wallClockMicroseconds() }
    func monotonicMicroseconds() -> UInt64 { real.monotonicMicroseconds() }
    func coarseSeconds() -> Int64 { real.coarseSeconds() }
    func random() -> UInt64 { numbers.random.withLock { $0.next() } }
    func processID() -> UInt32 { real.processID() }
    func processName() -> String { real.processName() }
    func sleep(microseconds: UInt64) { real.sleep(microseconds: microseconds) }
}

/// A store of a group that makes random transactions.
final class GroupMember {
    let store: Store
    private(set) var merging: MergingStore
    /// All transactions that it has, for the expected state.
    private(set) var all: [MergeTransaction] = []

    /// - Parameter seed: Decides the store's identifier, and so the order of concurrent transactions.
    convenience init(seed: UInt64) throws {
        let store = try Self.store(seed: seed)
        self.init(store, try MergingStore(store))
    }

    init(_ store: Store, _ merging: MergingStore) { (self.store, self.merging) = (store, merging) }

    static func store(seed: UInt64, _ entities: [EntityDescription] = MergeModel.entities) throws -> Store {
        var options = Store.Options()
        options.environment = SeededEnvironment(seed: seed)
        return try Store(inMemory: entities, options: options)
    }

    /// Another process takes over. Returns the own transactions that it publishes again: those that are not settled.
    @discardableResult
    func restart() throws -> [OwnTransaction] {
        merging = try MergingStore(store)
        var again: [OwnTransaction] = []
        while true {
            let next = try merging.takeOwn()
            if next.isEmpty { return again }
            again += next
        }
    }

    /// Expects that these are some of the transactions that were published before.
    static func expectSame(_ again: [OwnTransaction], _ log: [OwnTransaction]) throws {
        for own in again {
            let before = try #require(log.first { $0.transaction.token == own.transaction.token })
            #expect(own.lamport == before.lamport && own.knowledge == before.knowledge)
            #expect(own.transaction.previous == before.transaction.previous)
            #expect(own.transaction.changes == before.transaction.changes)
        }
    }

    /// Its own new transactions.
    func take() throws -> [OwnTransaction] {
        let own = try merging.takeOwn()
        for transaction in own {
            all.append(MergeTransaction(Stamp(transaction.lamport, store.identifier), transaction.transaction))
        }
        return own
    }

    func receive(_ own: OwnTransaction) throws {
        let merged = try merging.merge(own.transaction, lamport: own.lamport)
        if merged != nil {
            all.append(MergeTransaction(Stamp(own.lamport, own.transaction.store), own.transaction))
        }
    }

    func mergeParked() throws { _ = try merging.mergeParked() }

    /// Tries a random transaction. The store refuses many.
    func write(_ random: inout SeededRandom) throws { try RandomWriter(store: store).write(&random) }

    /// The state of all its transactions, applied from the beginning in the group's order.
    var expected: MergeState {
        var state = MergeState(MergeModel.schema)
        for transaction in all.sorted(by: { $0.stamp < $1.stamp }) { state.apply(transaction) }
        return state
    }

    /// The differences between the store and the expected state, for people.
    func differences() throws -> [String] {
        let (expected, view) = (expected, try ExchangeView(try store.snapshot()))
        var found: [String] = []
        var count: [String: Int] = [:]
        func local(_ name: GroupObject) throws -> ObjectID? {
            try view.object(named: ExportedObject(name.id, of: name.store))
        }
        for (name, object) in expected.objects where object.exists && expected.name(name) == name {
            count[object.entity, default: 0] += 1
            guard let here = try local(name), let row = try view.insertion(of: here) else {
                found.append("\(object.entity) \(name) is missing")
                continue
            }
            for (attribute, value) in zip(row.attributes, row.values) {
                let here = MergeValue(value, from: store.identifier).mapped { try? local($0) == nil ? nil : $0 }
                let shown = expected.shown(name, attribute)
                let left = try MergePicture(here, { try view.snapshot.row($0) != nil ? $0 : nil }, local)
                let right = try MergePicture(shown, { $0 }, local)
                if left != right { found.append("\(object.entity) \(name) \(attribute): \(left), expected \(right)") }
            }
        }
        for entity in MergeModel.entities {
            let rows = try store.snapshot().rows(of: entity.name).count
            if rows != count[entity.name] ?? 0 {
                found.append("\(entity.name): \(rows) objects, expected \(count[entity.name] ?? 0)")
            }
        }
        return found
    }
}

/// Writes random transactions of the model to a store.
struct RandomWriter {
    let store: Store

    /// Tries a random transaction. The store refuses many.
    func write(_ random: inout SeededRandom) throws {
        do {
            try store.write(author: "app") { transaction in
                for _ in 0..<Int.random(in: 1...3, using: &random) { try change(transaction, &random) }
            }
        } catch let error as StoreError {
            let expected: [StoreError.Code] = [
                .uniqueViolation, .requiredMissing, .deleteDenied, .objectNotFound, .referenceMissing,
            ]
            guard expected.contains(error.code) else { throw error }
        }
    }

    private func objects(_ entity: String) throws -> [ObjectID] {
        try store.snapshot().rows(of: entity).map(\.id)
    }

    private func change(_ transaction: Transaction, _ random: inout SeededRandom) throws {
        let entity = random.one(of: MergeModel.entities)
        let object = try objects(entity.name).randomElement(using: &random)
        switch Int.random(in: 0..<10, using: &random) {
        case 0...3:
            try transaction.insert(entity.name, try values(entity, entity.attributes.map(\.name), &random))
        case 4...7:
            guard let object else { return }
            let chosen = entity.attributes.map(\.name).filter { _ in random.happens(0.4) }
            try transaction.update(object, try values(entity, chosen, &random))
        default:
            guard let object else { return }
            try transaction.delete(object)
        }
    }

    private func values(
        _ entity: EntityDescription, _ names: [String], _ random: inout SeededRandom
    ) throws -> [String: Value] {
        var values: [String: Value] = [:]
        for attribute in entity.attributes where names.contains(attribute.name) {
            let targets = try attribute.target.map(objects) ?? []
            switch attribute.type {
            case .string: values[attribute.name] = .string("text \(Int.random(in: 0..<4, using: &random))")
            case .int:
                values[attribute.name] = random.happens(0.3) ? .null : .int(Int64(random.next(below: 5 as UInt64)))
            case .object:
                let target = random.happens(0.8) ? targets.randomElement(using: &random) : nil
                values[attribute.name] = target.map { .object($0) } ?? .null
            case .objects: values[attribute.name] = .objects(targets.filter { _ in random.happens(0.3) })
            default: values[attribute.name] = .orderedObjects(targets.filter { _ in random.happens(0.3) })
            }
        }
        return values
    }
}

/// A value with the objects of one store.
enum MergePicture: Equatable {
    case plain(MergeValue)
    case objects([ObjectID])
    case set(Set<ObjectID>)

    init(
        _ value: MergeValue, _ existing: (ObjectID) throws -> ObjectID?, _ local: (GroupObject) throws -> ObjectID?
    ) throws {
        let objects = try value.references.compactMap(local).compactMap(existing)
        switch value {
        case .plain: self = .plain(value)
        case .null, .object, .ordered: self = .objects(objects)
        case .objects: self = objects.isEmpty ? .objects([]) : .set(Set(objects))
        }
    }
}

@Suite struct MergingStoreTests {
    @Test(arguments: 1...12 as ClosedRange<UInt64>)
    func storesThatMergeInAnyOrderAreEqual(seed: UInt64) throws {
        let replays = try run(seed: seed, steps: 120, settles: false)
        #expect(replays > 0, "seed \(seed): nothing was replayed")
    }

    @Test(arguments: Array(101...116) + [6014, 6042, 6145, 6172, 6190, 6194] as [UInt64])
    func storesThatForgetWhatAllHaveAreEqual(seed: UInt64) throws {
        try run(seed: seed, steps: 200, settles: true)
    }

    @Test(arguments: 201...212 as ClosedRange<UInt64>)
    func storesThatForgetTooMuchLookBack(seed: UInt64) throws {
        try run(seed: seed, steps: 120, settles: true, tooFar: true)
    }

    @Test func ownTransactionsAreReadAgainInPieces() throws {
        let (a, b) = (try GroupMember(seed: 1), try GroupMember(seed: 2))
        let text = Value.string(String(repeating: "x", count: 10_000))
        var log: [OwnTransaction] = []
        func take() throws {
            let own = try a.take()
            for own in own { try b.receive(own) }
            log += own
        }
        for number in 1...700 {
            try a.store.write { try $0.insert("Folder", ["name": number % 3 == 0 ? text : "short"]) }
            try take()
            guard number % 50 == 0 else { continue }
            try b.store.write { try $0.insert("Folder", ["name": "other"]) }
            for own in try b.take() { try a.receive(own) }
        }
        // The knowledge and the order of the ones in the middle come from history.
        let first = try a.restart()
        #expect(first.map(\.transaction.token) == log.map(\.transaction.token))
        try GroupMember.expectSame(first, log)
        try a.merging.settle(below: Stamp(log[620].lamport, a.store.identifier))
        try a.merging.save()
        let later = try a.restart()
        #expect(later.map(\.transaction.token) == log[620...].map(\.transaction.token))
        try GroupMember.expectSame(later, log)
    }

    @Test func aKeyThatCameLaterConnectsEarlierTransactions() throws {
        let tag = EntityDescription(
            "Tag", attributes: [AttributeDescription("name", .string), AttributeDescription("rank", .int)])
        let members = try [1, 2, 3].map { (seed: UInt64) throws -> GroupMember in
            let store = try GroupMember.store(seed: seed, [tag])
            return GroupMember(store, try MergingStore(store))
        }
        func exchange(from writer: Int, to readers: [Int]) throws {
            for own in try members[writer].take() { for reader in readers { try members[reader].receive(own) } }
        }
        for writer in 0...2 { try exchange(from: writer, to: [0, 1, 2].filter { $0 != writer }) }
        let (first, _) = try members[0].store.write { try $0.insert("Tag", ["name": "x"]) }
        try exchange(from: 0, to: [1, 2])
        // Concurrently, and the second store is earlier in the order: two tags have one name.
        try members[1].store.write { try $0.insert("Tag", ["name": "k"]) }
        for rank in 1...3 as ClosedRange<Int64> {
            try members[0].store.write { try $0.update(first, ["rank": .int(rank)]) }
        }
        try members[0].store.write { try $0.update(first, ["name": "k"]) }
        // By then its first name is free.
        try members[0].store.write { try $0.insert("Tag", ["name": "x"]) }
        let concurrent = try members[0].take()
        for own in concurrent { try members[2].receive(own) }
        // Now the name must be unique.
        for member in members {
            try member.store.changeSchema([.addKey(IndexDescription(["name"], isUnique: true), to: "Tag")])
        }
        try exchange(from: 1, to: [2, 0])
        for own in concurrent { try members[1].receive(own) }
        for writer in 0...2 { try exchange(from: writer, to: [0, 1, 2].filter { $0 != writer }) }
        for member in members {
            let tags = try member.store.snapshot().rows(of: "Tag").map {
                "\($0["name"] ?? .null) \($0["rank"] ?? .null)"
            }
            // The later insertion has the values of the tag whose name it shares.
            #expect(tags.sorted() == ["string(\"k\") null", "string(\"x\") null"])
            #expect(member.merging.parkedCount == 0)
        }
    }

    @Test func referencesFollowAnObjectWhoseNameAnotherTakes() throws {
        let (a, b) = (try GroupMember(seed: 1), try GroupMember(seed: 2))
        let (first, _) = try a.store.write { try $0.insert("Tag", ["name": "x"]) }
        for own in try a.take() { try b.receive(own) }
        // Concurrently: b gives the tag a name under which a inserts another one later in the order.
        let copy = try #require(try b.store.snapshot().rows(of: "Tag").first).id
        try b.store.write { try $0.update(copy, ["name": "y"]) }
        for number in 0..<5 { try a.store.write { try $0.insert("Folder", ["name": .string("\(number)")]) } }
        let (folder, _) = try a.store.write { transaction in
            let second = try transaction.insert("Tag", ["name": "y", "rank": 2])
            return try transaction.insert("Folder", ["name": "kept", "guard": .object(second)])
        }
        let (ownOfA, ownOfB) = (try a.take(), try b.take())
        for own in ownOfB { try a.receive(own) }
        let tags = try a.store.snapshot().rows(of: "Tag")
        #expect(tags.map(\.id) == [first] && tags.first?["name"] == "y" && tags.first?["rank"] == 2)
        #expect(try a.store.snapshot().row(folder)?["guard"] == .object(first))
        for own in ownOfA { try b.receive(own) }
        #expect(try StorePicture.lines(of: a.store) == StorePicture.lines(of: b.store))
    }

    @Test func neighboursWhoseNamesMoveTogetherKeepTheirNames() throws {
        let (a, b, c) = (try GroupMember(seed: 1), try GroupMember(seed: 2), try GroupMember(seed: 3))
        let members = [a, b, c]
        let tags = try a.store.write { transaction in
            try ["a", "b"].map { try transaction.insert("Tag", ["name": .string($0)]) }
        }.result
        for own in try a.take() { for member in [b, c] { try member.receive(own) } }
        // b inserts two neighbours; a gives its own tags the same names, earlier in the order.
        for number in 0..<5 { try b.store.write { try $0.insert("Folder", ["name": .string("\(number)")]) } }
        try b.store.write { transaction in
            for name in ["p", "q", "r"] { try transaction.insert("Tag", ["name": .string(name)]) }
        }
        let ownOfB = try b.take()
        for own in ownOfB { try c.receive(own) }
        try a.store.write { transaction in
            for (tag, name) in zip(tags, ["p", "q"]) { try transaction.update(tag, ["name": .string(name)]) }
        }
        let ownOfA = try a.take()
        for own in ownOfA { for member in [b, c] { try member.receive(own) } }
        for own in ownOfB { try a.receive(own) }
        let pictures = try members.map { try StorePicture.lines(of: $0.store) }
        #expect(pictures[0] == pictures[1] && pictures[1] == pictures[2])
        #expect(try c.store.snapshot().rows(of: "Tag").count == 3)
        // b knows them by its own names, and c by those of a.
        try b.store.write { transaction in
            for row in try b.store.snapshot().rows(of: "Tag") { try transaction.update(row.id, ["rank": 7]) }
        }
        for own in try b.take() { for member in [a, c] { try member.receive(own) } }
        for member in members {
            #expect(try member.store.snapshot().rows(of: "Tag").allSatisfy { $0["rank"] == 7 })
        }
    }

    @Test func aRefusedDeletionIsTriedAgainByALaterMirror() throws {
        let entities = [
            EntityDescription(
                "Folder",
                attributes: [
                    AttributeDescription("name", .string),
                    AttributeDescription("parent", .object, target: "Folder", whenTargetIsDeleted: .cascade),
                ]),
            EntityDescription(
                "Lock",
                attributes: [AttributeDescription("folder", .object, target: "Folder", whenTargetIsDeleted: .deny)]),
        ]
        let members = try [1, 2, 3].map { (seed: UInt64) throws -> GroupMember in
            let store = try GroupMember.store(seed: seed, entities)
            return GroupMember(store, try MergingStore(store))
        }
        func exchange(from writer: Int, to readers: [Int]) throws {
            for own in try members[writer].take() { for reader in readers { try members[reader].receive(own) } }
        }
        func only(_ entity: String, of member: Int, _ name: String? = nil) throws -> ObjectID {
            let rows = try members[member].store.snapshot().rows(of: entity)
            let row = rows.first { name == nil || $0["name"]?.string == name }
            return try #require(row).id
        }
        try exchange(from: 1, to: [0, 2])
        try exchange(from: 2, to: [0, 1])
        try members[0].store.write { transaction in
            _ = try transaction.insert("Folder", ["name": "outer"])
            let inner = try transaction.insert("Folder", ["name": "inner"])
            try transaction.insert("Lock", ["folder": .object(inner)])
        }
        try exchange(from: 0, to: [1, 2])
        // Concurrently: the inner folder gets a parent, the parent is deleted, and the lock of the inner one opens.
        let (outer, inner) = (try only("Folder", of: 0, "outer"), try only("Folder", of: 0, "inner"))
        try members[0].store.write { try $0.update(inner, ["parent": Value.object(outer)]) }
        try members[1].store.write { try $0.insert("Folder", ["name": "other"]) }
        let (copy, lock) = (try only("Folder", of: 1, "outer"), try only("Lock", of: 2))
        try members[1].store.write { try $0.delete(copy) }
        try members[2].store.write { try $0.update(lock, ["folder": Value.null]) }
        let (ownOfA, ownOfB, ownOfC) = (try members[0].take(), try members[1].take(), try members[2].take())
        for own in ownOfB { try members[0].receive(own) }
        #expect(try members[0].store.snapshot().rows(of: "Folder").count == 3, "the lock keeps both folders")
        // The insertions connect everything for as long as they are in the window.
        try members[0].merging.settle(below: Stamp(ownOfA[0].lamport, members[0].store.identifier))
        try members[0].merging.save()
        try members[0].restart()
        for own in ownOfC { try members[0].receive(own) }
        for own in ownOfA + ownOfC { try members[1].receive(own) }
        for own in ownOfA + ownOfB { try members[2].receive(own) }
        for member in members {
            let names = try member.store.snapshot().rows(of: "Folder").map { $0["name"]?.string }
            #expect(names == ["other"])
        }
    }

    /// - Parameter tooFar: Stores settle what others do not have yet.
    @discardableResult
    private func run(seed: UInt64, steps: Int, settles: Bool, tooFar: Bool = false) throws -> Int {
        var random = SeededRandom(seed)
        let count = 2 + Int(seed % 3)
        let members = try (0..<count).map { try GroupMember(seed: seed << 8 | UInt64($0)) }
        var logs: [[OwnTransaction]] = try members.map { try $0.take() }
        var read = Array(repeating: Array(repeating: 0, count: count), count: count)
        func receive(_ reader: Int, _ writer: Int) throws -> Bool {
            guard read[reader][writer] < logs[writer].count else { return false }
            let next = logs[writer][read[reader][writer]]
            for peer in 0..<count where peer != reader {
                let known = next.knowledge[members[peer].store.identifier]
                guard members[reader].merging.knowledge[members[peer].store.identifier] >= known else { return false }
            }
            try members[reader].receive(next)
            read[reader][writer] += 1
            return true
        }
        for step in 0..<steps {
            let member = Int.random(in: 0..<count, using: &random)
            let writer = Int.random(in: 0..<count, using: &random)
            if member == writer {
                try members[member].write(&random)
                logs[member] += try members[member].take()
            } else {
                _ = try receive(member, writer)
            }
            let differences = try members[member].differences()
            try #require(differences.isEmpty, "seed \(seed), step \(step), store \(member)")
            if settles, step % 16 == 15 {
                let stable = (0..<count).map { writer in
                    let known = (0..<count).map { $0 == writer ? logs[writer].count : read[$0][writer] }.min() ?? 0
                    return Stamp(known > 0 ? logs[writer][known - 1].lamport : 0, members[writer].store.identifier)
                }.min()
                for member in members {
                    let own = Stamp(member.merging.lamport + 1, member.store.identifier)
                    if let stable { try member.merging.settle(below: tooFar ? own : stable) }
                    if random.happens(0.5) { try member.merging.save() }
                }
                let member = Int.random(in: 0..<count, using: &random)
                logs[member] += try members[member].take()
                // The mirror's consumer keeps what a new mirror needs.
                if !tooFar { _ = try members[member].store.clean() }
                try GroupMember.expectSame(try members[member].restart(), logs[member])
            }
        }
        var moves = true
        while moves {
            moves = false
            for reader in 0..<count {
                for writer in 0..<count where writer != reader { if try receive(reader, writer) { moves = true } }
                try #require(try members[reader].differences().isEmpty, "seed \(seed), at the end, store \(reader)")
            }
        }
        for reader in 0..<count {
            for writer in 0..<count where writer != reader {
                #expect(read[reader][writer] == logs[writer].count, "seed \(seed): a transaction never came")
            }
            let path = members[reader].store.path
            let report = try Checker.check(path, options: CheckOptions(), files: try Store.files(for: path))
            #expect(report.isIntact, "seed \(seed): \(report.findings)")
        }
        return members.map(\.merging.replays).reduce(0, +)
    }
}
