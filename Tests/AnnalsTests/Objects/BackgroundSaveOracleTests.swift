// Random work in contexts that save in the background, several at once, beside merges, `follow`, a tracker, other
// writers, undo and compaction. Each context sets one attribute of its own. What must hold at every step: a context has
// no edits of an attribute that it never set, and its lists show each object once. In the end: no transaction of a
// context has changed another attribute, no object was inserted twice, and every context shows what the store has.
//
// In some runs keys are used again: then saving throws, or a context that upserts takes over the object of that key,
// with all its attributes.

import Annals
import FoundationEssentials
import TestSupport
import Testing

private struct Cell: Entity {
    var key = 0
    var a0 = 0
    var a1 = 0
    var a2 = 0
    var writer = 0
    /// How often a hook was called. Everybody's hooks set the same value.
    var isSaved = false
    var next: Reference<Cell>?

    static let schema = Schema<Cell> { Attribute(\.key, .unique) }

    mutating func willSave() { isSaved = true }
}

@Suite struct BackgroundSaveOracleTests {
    /// Longer with `Tests/run long background`.
    @MainActor @Test(arguments: [1, 2, 3, 4] as [UInt64]) func noAttributeIsWrittenThatWasNotSet(
        _ number: UInt64
    ) async throws {
        guard let long = LongRun("background", seed: number, operations: 300) else { return }
        var (left, store) = (long.operations, 0 as UInt64)
        while left > 0 {
            let count = min(left, 500)
            do {
                let run = try BackgroundRun(seed: long.seed &* 10_000 &+ store)
                try await run.run(operations: count)
            } catch { return long.record(error, "store \(store)") }
            left -= count
            store += 1
        }
        print("background, seed \(long.seed): \(long.operations) operations on \(store) stores")
    }
}

@MainActor private final class BackgroundRun {
    private let folder: StoreFolder
    private var random: SeededRandom
    private var stores: [Store] = []
    private var contexts: [Context] = []
    private var lists: [Results<Cell>] = []
    private var held: [[Object<Cell>]] = [[], [], []]
    private var tasks: [[Task<HistoryToken, any Error>]] = [[], [], []]
    private var tracker: HistoryTracker?
    private var number = 0
    /// The last transaction that was looked at.
    private var checked: UInt64 = 0
    private var earlier: [Int: EarlierState] = [:]
    private var done: [String] = []
    private let deletes: Bool
    private let reusesKeys: Bool

    init(seed: UInt64) throws {
        folder = try StoreFolder()
        random = SeededRandom(seed)
        deletes = Bool.random(using: &random)
        reusesKeys = Int.random(in: 0..<3, using: &random) == 0
        var options = Store.Options()
        options.durability = .relaxed
        // Two contexts of one store, and one of another handle.
        let (one, two) = (
            try Store(at: folder.path, entities: [Cell.self], options: options),
            try Store(at: folder.path, entities: [Cell.self], options: options)
        )
        stores = [one, one, two]
        for index in 0..<3 {
            let context = stores[index].makeContext(author: "\(index)")
            context.mergePolicy = MergePolicy.allCases[Int.random(in: 0..<5, using: &random)]
            if Bool.random(using: &random) { context.undoLevels = 5 }
            // Two contexts may insert a deleted object again, also one whose insertion was undone. Then all of it is in
            // conflict, and these policies save all of it.
            if context.undoLevels > 0, [.objectWins, .overwrite].contains(context.mergePolicy) {
                context.mergePolicy = .storeWins
            }
            context.upserts = reusesKeys && Bool.random(using: &random)
            contexts.append(context)
            lists.append(try context.results(Cell.self))
        }
        if Bool.random(using: &random) { try contexts[0].follow() }
        if Bool.random(using: &random) {
            tracker = try HistoryTracker(
                store: one, contexts: [contexts[1]], currentAuthor: "1", allAuthors: ["0", "1", "2", "writer"],
                logLevel: 0)
        }
    }

    func run(operations: Int) async throws {
        for step in 0..<operations {
            let index = Int.random(in: 0..<3, using: &random)
            do {
                try await act(index)
                for index in 0..<3 { try check(index) }
                try checkHistory()
            } catch let difference as OracleDifference {
                let last = done.suffix(40).joined(separator: ", ")
                throw OracleDifference("operation \(step), context \(index): \(difference); done: \(last)")
            }
        }
        try await end()
    }

    private func pick(_ index: Int) -> Object<Cell>? {
        held[index].filter { !$0.objectStatus.isGone && !$0.objectStatus.isDeleted }.randomElement(using: &random)
    }

    private func act(_ index: Int) async throws {
        let context = contexts[index]
        let action = Int.random(in: 0..<100, using: &random)
        done.append("\(index):\(action)")
        switch action {
        case 0..<10: held[index].append(insert(context, index))
        case 10..<35:
            number += 1
            if let cell = pick(index) { set(cell, index, number) }
        case 35..<40: held[index] = try context.fetch(Cell.self)
        case 40..<42: if deletes, let cell = pick(index) { context.delete(cell) }
        case 42..<52: begin(index)
        case 52..<58: try save(index)
        case 58..<64: try merge(index)
        case 64..<66: context.rollback()
        case 66..<68: if let cell = pick(index) { context.discard(cell) }
        case 68..<71:
            if let cell = pick(index) {
                let keepsEdits = Bool.random(using: &random)
                do { try context.refresh(cell, keepingEdits: keepsEdits) } catch let error as StoreError {
                    if error.code != .objectGone { throw error }
                }
            }
        case 71..<75:
            do {
                if Bool.random(using: &random) { try context.undo() } else { try context.redo() }
            } catch let error as StoreError { if error.code != .undoConflict { throw error } }
        case 75..<82: try writeElsewhere(index)
        case 82..<90: await Task.yield()
        case 90..<95: if let task = tasks[index].first { _ = await task.result }
        case 95..<97: tasks[index].randomElement(using: &random)?.cancel()
        case 97..<98: await wait(index)
        case 98..<99: held[index] = []
        default:
            // The other handle may be at it by itself.
            do { try stores[index].compact() } catch let error as StoreError { if error.code != .busy { throw error } }
        }
    }

    /// Merges to the newest state, or to one that was taken at an earlier merge.
    private func merge(_ index: Int) throws {
        guard Bool.random(using: &random) else {
            try contexts[index].merge()
            return
        }
        let state = earlier[index]
        earlier[index] = try EarlierState(stores[index], using: &random)
        try state?.merge(contexts[index])
    }

    private func insert(_ context: Context, _ index: Int) -> Object<Cell> {
        number += 1
        let key = reusesKeys && Bool.random(using: &random) ? -Int.random(in: 1...12, using: &random) : number
        let cell = context.insert(Cell(key: key))
        set(cell, index, number)
        return cell
    }

    private func set(_ cell: Object<Cell>, _ index: Int, _ value: Int) {
        switch index {
        case 0: cell.a0 = value
        case 1: cell.a1 = value
        default: cell.a2 = value
        }
    }

    private func begin(_ index: Int) {
        let context = contexts[index]
        tasks[index].append(Task { try await context.saveInBackground() })
    }

    private func save(_ index: Int) throws {
        do {
            try contexts[index].save()
            if contexts[index].hasChanges { throw OracleDifference("unsaved after saving") }
        } catch let error as StoreError {
            try requireExpected(error)
            contexts[index].rollback()
        }
    }

    /// Another context may delete what this one has changed.
    private func requireExpected(_ error: StoreError) throws {
        if reusesKeys, error.code == .uniqueViolation { return }
        guard [.mergeConflict, .objectGone, .busy].contains(error.code) else { throw OracleDifference("\(error)") }
    }

    private func writeElsewhere(_ index: Int) throws {
        number += 1
        let value = number
        try stores[index].write(author: "writer") { transaction in
            let found = try transaction.references(to: Cell.self)
            guard let cell = found.randomElement(using: &random) else { return }
            try transaction.update(cell) { $0.writer = value }
        }
    }

    private func wait(_ index: Int) async {
        for task in tasks[index] { _ = await task.result }
        tasks[index] = []
    }

    // MARK: What always holds

    private func check(_ index: Int) throws {
        let own = "a\(index)"
        // An inserted object that takes over another one sets all of its attributes.
        for cell in contexts[index].changedObjects(Cell.self) where !contexts[index].upserts {
            let changed = cell.objectStatus.changedValues.keys
            if changed.contains(where: { $0 != own && $0 != "isSaved" }) {
                throw OracleDifference("\(cell.objectReference) has edits of \(changed.sorted())")
            }
        }
        let shown = lists[index].map(\.key)
        let references = lists[index].references
        if Set(references).count != references.count { throw OracleDifference("the list shows an object twice") }
        let found = try contexts[index].fetch(Cell.self)
        if shown.sorted() != found.map(\.key).sorted() {
            let difference = Set(shown).symmetricDifference(found.map(\.key))
            let objects = (found + held[index]).filter { difference.contains($0.key) }.map { cell in
                let status = cell.objectStatus
                return "\(cell.key) \(cell.objectReference), inserted: \(status.isInserted), gone: \(status.isGone)"
            }
            throw OracleDifference("the list shows \(shown.count) objects, a fetch finds \(found.count): \(objects)")
        }
    }

    /// An upsert sets all attributes, and what it has set may be in conflict with the one of a context.
    private func checkHistory() throws {
        for transaction in try stores[0].history(after: checked) {
            checked = transaction.number
            guard let author = transaction.author, author != "writer", !contexts.contains(where: \.upserts) else {
                continue
            }
            for change in transaction.changes where change.kind == .update {
                if Set(change.attributes).subtracting(["isSaved"]).isSubset(of: ["a\(author)"]) { continue }
                throw OracleDifference(
                    "context \(author) has written \(change.attributes) of \(change.object) in \(transaction.number)")
            }
        }
    }

    private func end() async throws {
        for index in 0..<3 {
            await wait(index)
            try save(index)
        }
        try checkHistory()
        await tracker?.stop()
        let snapshot = try stores[0].snapshot()
        let cells = try snapshot.fetch(Cell.self)
        if Set(cells.map(\.key)).count != cells.count { throw OracleDifference("an object was inserted twice") }
        for index in 0..<3 {
            try contexts[index].merge()
            try check(index)
            if contexts[index].hasChanges { throw OracleDifference("unsaved in the end") }
            let shown = try contexts[index].fetch(Cell.self).map(\.objectStatus.snapshot)
            if shown.map(\.text) != cells.map(\.text) {
                let other = zip(shown, cells).filter { $0.text != $1.text }.prefix(3).map {
                    "\($0.text), not \($1.text)"
                }
                throw OracleDifference(
                    "context \(index) shows \(shown.count) objects of \(cells.count): \(other); \(done.suffix(60))"
                )
            }
        }
        for context in contexts { context.close() }
        try stores[0].close()
        try stores[2].close()
        try folder.expectIntact()
    }
}

extension Cell {
    fileprivate var text: String { "\(key) \(a0) \(a1) \(a2) \(writer) \(isSaved)" }
}
