// Undoing transactions: what it restores, what stands against it, and what it refuses.

import Annals
import Foundation
import TestSupport
import Testing

@Suite struct RevertTests {
    let folder: StoreFolder
    let store: Store

    init() throws {
        folder = try StoreFolder()
        store = try folder.open([Sample.clip])
    }

    private func close() throws {
        try store.close()
        try folder.expectIntact()
    }

    private func insert(_ values: [String: Value]...) throws -> [ObjectID] {
        try store.writeOptimistically { transaction in try values.map { try transaction.insert("Clip", $0) } }.result
    }

    private func commit(_ body: (Transaction) throws -> Void) throws -> HistoryToken {
        try #require(try store.writeOptimistically(author: "app", body).token)
    }

    /// Without the transaction's own state: what the objects hold.
    private func rows() throws -> [Row] { try store.snapshot().rows(of: "Clip") }

    @Test func everyKindOfChangeIsUndone() throws {
        let long = Value.string(String(repeating: "long ", count: 40_000))
        let ids = try insert(
            ["title": "A", "url": "a", "rank": 1], ["title": long, "url": "b"], ["title": "C", "url": "c"])
        let before = try rows()
        let token = try commit { transaction in
            try transaction.update(ids[0], ["title": "A2", "rank": nil, "url": "b2"])
            try transaction.delete(ids[1])
            try transaction.update(ids[2], ["title": long])
            try transaction.insert("Clip", ["title": "D"])
        }
        let outcome = try store.revert(token, author: "undo", contextName: "test")
        #expect(try rows() == before && outcome.conflicts.isEmpty && outcome.token == (store.currentToken))
        let undoing = try store.history(after: token, includingValues: true)[0]
        #expect(undoing.author == "undo" && undoing.contextName == "test")
        #expect(Set(undoing.changes.map(\.kind)) == Set(HistoryChange.Kind.allCases) && undoing.changes.count == 4)
        #expect(try store.snapshot().count(of: "Clip") == 3)
        #expect(try store.snapshot().rows(of: "Clip", where: "url", equals: "b").map(\.id) == [ids[1]])
        // Undoing that once more is doing it again, but for the object, which keeps its ID.
        try store.revert(#require(outcome.token))
        #expect(try rows().map(\.id).count == 3 && store.snapshot().row(ids[1]) == nil)
        #expect(try store.snapshot().row(ids[0])?.values == ["A2", "b2", nil])
        // Nothing is left to be undone.
        #expect(try store.revert(token).token != nil)
        #expect(try rows() == before)
        let again = try store.revert(token)
        #expect(again.token == nil && again.conflicts.isEmpty)
        try close()
    }

    @Test func laterChangesStay() throws {
        let ids = try insert(["title": "A", "url": "a", "rank": 1])
        let token = try commit { try $0.update(ids[0], ["rank": 2]) }
        _ = try commit { try $0.update(ids[0], ["title": "later"]) }
        #expect(try store.revert(token).conflicts.isEmpty)
        #expect(try rows().map(\.values) == [["later", "a", 1]])
        try close()
    }

    @Test func conflictsAreListedAndNothingIsWritten() throws {
        let ids = try insert(
            ["title": "A", "url": "a", "rank": 1], ["title": "B", "url": "b", "rank": 1], ["title": "C", "url": "c"])
        var inserted: ObjectID?
        let token = try commit { transaction in
            try transaction.update(ids[0], ["title": "A2", "rank": 2])
            try transaction.update(ids[1], ["rank": 2])
            try transaction.delete(ids[2])
            inserted = try transaction.insert("Clip", ["title": "D", "url": "d"])
        }
        let new = try #require(inserted)
        _ = try commit { transaction in
            try transaction.update(ids[0], ["rank": 3])
            try transaction.delete(ids[1])
            try transaction.update(new, ["title": "D2"])
            try transaction.insert("Clip", ["title": "E", "url": "c"])
        }
        let other = try #require(try rows().first { $0["url"] == "c" }).id
        let before = try rows()
        let newest = try store.currentToken
        let stopped = try store.revert(token)
        #expect(try stopped.token == nil && rows() == before && store.currentToken == newest)
        func conflict(
            _ object: ObjectID, _ kind: HistoryChange.Kind, _ reason: RevertConflict.Reason, _ names: [String]
        ) -> String {
            "\(object) Clip \(kind) \(reason) \(names)"
        }
        func text(_ conflict: RevertConflict) -> String {
            "\(conflict.object) \(conflict.entity) \(conflict.kind) \(conflict.reason) \(conflict.attributes)"
        }
        let expected: Set = [
            conflict(ids[0], .update, .changedSince, ["rank"]), conflict(ids[1], .update, .deletedSince, []),
            conflict(ids[2], .delete, .keyTaken(by: other), ["url"]), conflict(new, .insert, .changedSince, ["title"]),
        ]
        #expect(Set(stopped.conflicts.map(text)) == expected && stopped.conflicts.count == 4)
        let skipped = try store.revert(token, conflicts: .storeWins)
        #expect(Set(skipped.conflicts.map(text)) == expected && skipped.token != nil)
        // Only the title could be set back.
        #expect(try store.snapshot().row(ids[0])?.values == ["A", "a", 3])
        #expect(try rows().dropFirst() == before.dropFirst())
        try close()
    }

    /// Keys that move in a circle are free once all of them move back; with one kept from moving, those after it are,
    /// too.
    @Test func exchangedKeysAreRevertedTogetherOrNotAtAll() throws {
        let ids = try insert(["url": "a", "rank": 0], ["url": "b", "rank": 0], ["url": "c", "rank": 0])
        let token = try commit { transaction in
            for (id, url) in zip(ids, ["b", "c", "a"]) { try transaction.update(id, ["url": .string(url), "rank": 1]) }
        }
        let outcome = try store.revert(token)
        #expect(try outcome.conflicts.isEmpty && rows().map { $0["url"] } == ["a", "b", "c"])
        try store.revert(#require(outcome.token))
        #expect(try rows().map { $0["url"] } == ["b", "c", "a"])
        _ = try commit { transaction in
            try transaction.update(ids[0], ["url": "x"])
            try transaction.insert("Clip", ["url": "b", "rank": 9])
        }
        let skipped = try store.revert(token, conflicts: .storeWins)
        // The first was changed; “b” is taken, so the second keeps “c”, and the third its own.
        #expect(skipped.conflicts.count == 3 && skipped.token != nil)
        #expect(
            skipped.conflicts.filter { if case .keyTaken = $0.reason { true } else { false } }.map(\.attributes)
                == [["url"], ["url"]])
        #expect(try rows().map { $0["url"] } == ["x", "c", "a", "b"] && rows().map { $0["rank"] } == [0, 0, 0, 9])
        try close()
    }

    @Test func anObjectThatExistsAgainIsAConflict() throws {
        let ids = try insert(["url": "a"])
        let deletion = try commit { try $0.delete(ids[0]) }
        #expect(try store.revert(deletion).token != nil)
        // As it was: nothing is left to be done.
        let again = try store.revert(deletion)
        #expect(again.token == nil && again.conflicts.isEmpty)
        _ = try commit { try $0.update(ids[0], ["rank": 5]) }
        #expect(try store.revert(deletion).conflicts.map(\.reason) == [.insertedSince])
        let second = try commit { try $0.delete(ids[0]) }
        #expect(try store.revert(deletion).conflicts.map(\.reason) == [.deletedSince])
        #expect(try store.revert(second).conflicts.isEmpty && store.snapshot().row(ids[0])?["rank"] == 5)
        try close()
    }

    @Test func aChangeThatTheSchemaForbidsNowIsAConflict() throws {
        let ids = try insert(["url": "a"], ["url": "b", "rank": 4])
        let update = try commit { try $0.update(ids[0], ["rank": 2]) }
        let deletion = try commit { try $0.delete(ids[1]) }
        try store.changeSchema([
            .replaceAttribute(
                "title", of: "Clip", by: AttributeDescription("title", .int, isOptional: false, defaultValue: 3)),
            .addEntity(EntityDescription("Other", attributes: [AttributeDescription("x", .string)])),
        ])
        expect(.notRevertible) { try store.revert(store.currentToken) }
        // The attribute of that name is another one now. Its default is not what was deleted.
        let refused = try store.revert(deletion)
        #expect(refused.conflicts.map(\.reason) == [.attributeReplaced] && refused.token == nil)
        #expect(refused.conflicts.map(\.attributes) == [["title"]])
        #expect(try store.revert(deletion, conflicts: .storeWins).token != nil)
        #expect(try store.snapshot().row(ids[1])?["title"] == 3 && store.snapshot().row(ids[1])?["rank"] == 4)
        let other = try store.writeOptimistically { try $0.insert("Other", ["x": "y"]) }
        try store.changeSchema([.removeEntity("Other")])
        #expect(try store.revert(#require(other.token)).conflicts.map(\.reason) == [.entityRemoved])
        #expect(try store.revert(update).conflicts.isEmpty && store.snapshot().row(ids[0])?["rank"] == .null)
        expect(.tokenUnknown) { try store.revert(99) }
        expect(.tokenExpired) { try store.revert(0) }
        try close()
    }

    /// Undone from the newest to the oldest, every state comes back.
    @Test(arguments: 1...4) func revertingBackwardsRestoresEveryState(seed: UInt64) throws {
        try store.close()
        let other = try StoreFolder()
        let store = try other.open([Sample.clip, RandomHistory.note, RandomHistory.wide])
        _ = try RandomHistory(store, seed: seed)
        // Only up to the schema change.
        let all = try store.history(after: 0)
        let first = try #require(all.last { $0.changesSchema }).number
        for transaction in all.reversed() where transaction.number > first {
            let outcome = try store.revert(transaction.number)
            #expect(outcome.conflicts.isEmpty)
            let (now, then) = (try store.snapshot(), try store.snapshot(asOf: transaction.number - 1))
            for entity in ["Clip", "Note", "Wide"] {
                #expect(try now.rows(of: entity) == then.rows(of: entity), "\(transaction.number)")
                #expect(try now.count(of: entity) == then.count(of: entity))
            }
        }
        try store.close()
        try other.expectIntact()
    }
}
