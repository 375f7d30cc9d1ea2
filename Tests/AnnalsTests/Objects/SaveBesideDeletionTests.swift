// A background save while others delete its object, by enumeration: whatever comes of the object, the context has no
// edit of an attribute that it never set, and writes none.

import Annals
import TestSupport
import Testing

private struct Pair: Entity {
    /// The context sets it.
    var a = 0
    /// The other writer sets it.
    var b = 0
}

@Suite struct SaveBesideDeletionTests {
    private enum Operation: String, CaseIterable {
        case edit, other, deleteThere, insertThere, merge, refresh, refreshKeepingEdits, write, rollback, cancel
    }

    /// Sequences that have failed.
    private static let known: [[Operation]] = [
        [.other, .merge, .deleteThere, .edit, .write], [.other, .refresh, .edit, .rollback, .cancel],
    ]

    /// After an edit has begun to be saved: sequences of five operations; every one of them with
    /// `Tests/run long deletions 100000`.
    @MainActor @Test(arguments: MergePolicy.allCases)
    func noSequenceOfOperationsTurnsForeignChangesIntoEdits(_ policy: MergePolicy) async throws {
        let all = Operation.allCases
        guard let long = LongRun("deletions", operations: 40) else { return }
        let seed = Int(long.seed - 1) * long.operations
        var sequences = Self.known
        for number in seed..<seed + long.operations {
            // A factor without 2 and 5: each sequence has its turn once.
            var rest = number * 61_291 % 100_000
            var sequence: [Operation] = []
            for _ in 0..<5 {
                sequence.append(all[rest % all.count])
                rest /= all.count
            }
            sequences.append(sequence)
        }
        for sequence in sequences {
            let run = try await Run(policy)
            do {
                for operation in sequence { try await run.step(operation) }
                try await run.end()
            } catch {
                Issue.record("\(policy), \(sequence.map(\.rawValue)): \(error)")
                return
            }
        }
        print("deletions, \(policy): \(sequences.count) sequences")
    }

    /// Undo of a deletion shows the object in the state of the context, which may have moved since the save began.
    @MainActor @Test(arguments: [false, true])
    func undoOfADeletionDuringASaveTurnsNoForeignChangeIntoAnEdit(isMerged: Bool) async throws {
        let store = try Store(inMemory: [Pair.self])
        let context = store.makeContext(author: "context")
        context.undoLevels = 5
        let thing = context.insert(Pair())
        try context.save()
        thing.a = 1
        let gate = Gate(store)
        let save = Task { try await context.saveInBackground() }
        while context.hasChanges { await Task.yield() }
        let reference = thing.objectReference
        if !isMerged { context.delete(thing) }
        try writeAtOnce(store) { try $0.update(reference) { $0.b = 2 } }
        try context.merge()
        if isMerged { context.delete(thing) }
        try context.undo()
        #expect(thing.a == 1 && thing.b == 2 && !context.hasChanges)
        save.cancel()
        await #expect(throws: CancellationError.self) { try await save.value }
        #expect(thing.objectStatus.changedValues == ["a": .int(1)])
        gate.open()
        try context.save()
        #expect(try store.snapshot()[reference]?.b == 2)
        context.close()
        try store.close()
    }

    @MainActor private final class Run {
        private let store: Store
        private let context: Context
        private let thing: Object<Pair>
        private let save: Task<HistoryToken, any Error>
        private var gate: Gate
        private var next = 1
        private var deletion: HistoryToken?

        init(_ policy: MergePolicy) async throws {
            store = try Store(inMemory: [Pair.self])
            let context = store.makeContext(author: "context")
            context.mergePolicy = policy
            thing = context.insert(Pair())
            try context.save()
            thing.a = 1
            gate = Gate(store)
            save = Task { try await context.saveInBackground() }
            self.context = context
            while context.hasChanges { await Task.yield() }
        }

        func step(_ operation: Operation) async throws {
            if operation == .cancel {
                save.cancel()
                _ = await save.result
            } else {
                try act(operation)
            }
            try check("\(operation)")
        }

        private func act(_ operation: Operation) throws {
            next += 1
            let (reference, value) = (thing.objectReference, next)
            let isThere = try store.snapshot()[reference] != nil
            switch operation {
            case .edit: if !thing.objectStatus.isGone { thing.a = value }
            case .other: if isThere { try writeAtOnce(store) { try $0.update(reference) { $0.b = value } } }
            case .deleteThere:
                if isThere {
                    deletion = try store.writeOptimistically(author: "other") { try $0.delete(reference) }.token
                }
            case .insertThere:
                if !isThere, let deletion { try store.revert(deletion, author: "other") }
            case .merge: try context.merge()
            case .refresh, .refreshKeepingEdits:
                do {
                    try context.refresh(thing, keepingEdits: operation == .refreshKeepingEdits)
                } catch let error as StoreError where error.code == .objectGone {}
            case .write:
                let former = gate
                former.open()
                gate = Gate(store)
            case .rollback: context.rollback()
            case .cancel: break
            }
        }

        private func check(_ place: String) throws {
            let edits = thing.objectStatus.isChanged ? thing.objectStatus.changedValues.keys.sorted() : []
            if !edits.isEmpty, edits != ["a"] { throw OracleDifference("after \(place), there are edits of \(edits)") }
        }

        func end() async throws {
            gate.open()
            do { _ = try await save.value } catch is CancellationError {
            } catch let error as StoreError where error.code == .mergeConflict {}
            try check("the save")
            try context.merge()
            try check("the merge")
            do { try context.save() } catch let error as StoreError where error.code == .mergeConflict {
                context.rollback()
            }
            try check("saving again")
            for transaction in try store.history(HistoryRequest(authors: ["context"])) {
                for change in transaction.changes where change.kind == .update && change.attributes != ["a"] {
                    throw OracleDifference("the context has written \(change.attributes)")
                }
            }
            let (shown, stored) = (thing.objectStatus.isGone ? nil : thing, try store.snapshot()[thing.objectReference])
            guard shown?.a == stored?.a, shown?.b == stored?.b else {
                throw OracleDifference(
                    "it shows \(String(describing: shown?.objectStatus.snapshot)), not \(stored as Any)")
            }
            context.close()
            try store.close()
        }
    }
}
