// Random work in several contexts on one store: both sides of relationships always agree, fetching shows what the
// objects show, and in the end every context shows what the store has.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct ContextOracleTests {
    /// Longer with `Tests/run long contexts`.
    @Test(arguments: [1, 2, 3] as [UInt64]) func contextsConverge(_ number: UInt64) throws {
        guard let long = LongRun("contexts", seed: number, operations: 600) else { return }
        let stores = long.forEachStore(1000) { seed, count in try ContextRun(seed: seed).run(operations: count) }
        if let stores { print("contexts, seed \(long.seed): \(long.operations) operations on \(stores) stores") }
    }
}

private final class ContextRun {
    private let folder: StoreFolder
    private var stores: [Store] = []
    private var contexts: [Context] = []
    /// Held, so that merges have objects to refresh.
    private var held: [[AnyObject]] = []
    private var random: SeededRandom
    private var step = 0
    private var earlier: [Int: EarlierState] = [:]

    init(seed: UInt64) throws {
        folder = try StoreFolder()
        random = SeededRandom(seed)
        for number in 0..<3 {
            stores.append(try Store(at: folder.path, entities: [Group.self, Note.self, Label.self]))
            contexts.append(stores[number].makeContext(author: "\(number)"))
            contexts[number].mergePolicy = MergePolicy.allCases[number % MergePolicy.allCases.count]
            held.append([])
        }
    }

    func run(operations: Int) throws {
        for step in 0..<operations {
            self.step = step
            let number = Int.random(in: 0..<contexts.count, using: &random)
            do {
                try act(in: contexts[number], number)
                try check(contexts[number])
            } catch let difference as OracleDifference {
                throw OracleDifference("operation \(step), context \(number): \(difference)")
            }
        }
        for context in contexts { context.rollback() }
        let snapshot = try stores[0].snapshot()
        for context in contexts {
            try context.merge()
            try check(context)
            try compare(context, snapshot)
        }
        for context in contexts { context.close() }
        for store in stores { try store.close() }
        try folder.expectIntact()
    }

    private func pick<Element>(_ elements: [Element]) -> Element? { elements.randomElement(using: &random) }

    private func groups(_ context: Context) throws -> [Object<Group>] { try context.fetch(Group.self) }
    private func notes(_ context: Context) throws -> [Object<Note>] { try context.fetch(Note.self) }
    private func labels(_ context: Context) throws -> [Object<Label>] { try context.fetch(Label.self) }

    private func act(in context: Context, _ number: Int) throws {
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<8:
            let group = context.insert(Group(name: "g\(Int.random(in: 0..<60, using: &random))"))
            if Bool.random(using: &random) { group.parent = pick(try groups(context)) }
            held[number].append(group)
        case 8..<24:
            var note = Note(title: "n\(step)", rank: Int.random(in: 0..<20, using: &random))
            note.group = pick(try groups(context))?.objectReference
            held[number].append(context.insert(note))
        case 24..<30: held[number].append(context.insert(Label(name: "l\(step)")))
        case 30..<40: pick(try notes(context))?.rank = Int.random(in: 0..<20, using: &random)
        case 40..<48:
            pick(try notes(context))?.objectUpdate {
                $0.title = "t\(step % 17)"
                $0.text = step.isMultiple(of: 3) ? nil : "x"
            }
        case 48..<56: pick(try notes(context))?.group = pick(try groups(context))
        case 56..<64:
            guard let note = pick(try notes(context)), let label = pick(try labels(context)) else { return }
            if note.labels.contains(where: { $0 === label }) {
                note.labels.removeAll { $0 === label }
            } else {
                note.labels.insert(label, at: 0)
            }
        case 64..<68: pick(try groups(context))?.parent = pick(try groups(context))
        case 68..<72: if let group = pick(try groups(context)) { context.delete(group) }
        case 72..<76: if let note = pick(try notes(context)) { context.delete(note) }
        case 76..<78: if let label = pick(try labels(context)) { context.delete(label) }
        case 78..<90: try save(context)
        case 90..<94: try merge(context, number)
        case 94..<95: context.rollback()
        case 95..<96: if let note = pick(try notes(context)) { context.discard(note) }
        case 96..<98:
            let rank = Int.random(in: 0..<20, using: &random)
            try stores[number].update(Note.self, where: #Predicate { $0.rank == rank }) { $0.rank += 1 }
        case 98..<99:
            let rank = Int.random(in: 0..<20, using: &random)
            try stores[number].delete(Note.self, where: #Predicate { $0.rank == rank })
        default: held[number].removeAll()
        }
    }

    /// Merges to the newest state, or to one that was taken at an earlier merge.
    private func merge(_ context: Context, _ number: Int) throws {
        guard Bool.random(using: &random) else {
            try context.merge()
            return
        }
        let state = earlier[number]
        earlier[number] = try EarlierState(stores[number], using: &random)
        try state?.merge(context)
    }

    private func save(_ context: Context) throws {
        let before = context.hasChanges
        // Nobody else writes in between.
        let refusal: StoreError?
        do {
            try context.validate()
            refusal = nil
        } catch let error as StoreError {
            refusal = error
        }
        do {
            try context.save()
            if let refusal { throw OracleDifference("saved, although not valid: \(refusal)") }
            if context.hasChanges { throw OracleDifference("unsaved after saving") }
        } catch let error as StoreError {
            switch error.code {
            // `wrongContext`: a group was deleted before it was ever saved, and others still refer to it (`deny`).
            case .mergeConflict, .uniqueViolation, .deleteDenied, .referenceMissing, .validationFailed, .wrongContext:
                if error != refusal { throw OracleDifference("\(error), but \(String(describing: refusal)) before") }
                if context.hasChanges != before { throw OracleDifference("another state after \(error)") }
                context.rollback()
            default: throw OracleDifference("\(error)")
            }
        }
    }

    // MARK: What always holds

    private func check(_ context: Context) throws {
        let (groups, notes, labels) = (try groups(context), try notes(context), try labels(context))
        for group in groups {
            let refer = notes.filter { $0.group === group }.map { ObjectIdentifier($0) }
            let members = group.notes.map { ObjectIdentifier($0) }
            if Set(refer) != Set(members) || refer.count != members.count {
                throw OracleDifference("group \(group.name): \(refer.count) refer, \(members.count) are listed")
            }
            if group.groups.contains(where: { $0.parent !== group }) {
                throw OracleDifference("group \(group.name) lists another's groups")
            }
        }
        for label in labels {
            let refer = notes.filter { $0.labels.contains { $0 === label } }.map { ObjectIdentifier($0) }
            if Set(refer) != Set(label.notes.map { ObjectIdentifier($0) }) {
                throw OracleDifference("label \(label.name): other notes refer than it lists")
            }
        }
        let rank = Int.random(in: 0..<20, using: &random)
        let found = try context.fetch(
            Note.self, where: #Predicate { $0.rank >= rank && $0.group != nil }, sortedBy: .descending(\.rank))
        // A reference to an object that others have deleted leads to none, in predicates and in properties.
        let wanted = notes.filter { $0.rank >= rank && $0.group != nil }
        if Set(found.map { ObjectIdentifier($0) }) != Set(wanted.map { ObjectIdentifier($0) }) {
            throw OracleDifference("a fetch finds \(found.count) notes, and \(wanted.count) are shown")
        }
        if found.map(\.rank) != found.map(\.rank).sorted(by: >) { throw OracleDifference("not in order") }
        let name = "g\(Int.random(in: 0..<60, using: &random))"
        let inGroup = try context.count(Note.self, where: #Predicate { $0.group?.name == name })
        if inGroup != notes.count(where: { $0.group?.name == name }) {
            throw OracleDifference("a fetch across a relationship counts \(inGroup)")
        }
        let sum: Int = try context.sum(of: \Note.rank)
        if sum != notes.reduce(0, { $0 + $1.rank }) { throw OracleDifference("another sum") }
    }

    private func compare(_ context: Context, _ snapshot: Snapshot) throws {
        if context.hasChanges { throw OracleDifference("unsaved after a rollback") }
        let (groups, notes, labels) = (try groups(context), try notes(context), try labels(context))
        let same =
            try groups.map(\.objectStatus.snapshot) == snapshot.fetch(Group.self)
            && notes.map(\.objectStatus.snapshot) == snapshot.fetch(Note.self)
            && labels.map(\.objectStatus.snapshot) == snapshot.fetch(Label.self)
        if !same { throw OracleDifference("the context does not show what the store has") }
    }
}
