// A transaction's object is of one body: who keeps it against the rules holds nothing that works, and never another
// transaction.

import Annals
import TestSupport
import Testing

@Suite struct TransactionLifeTests {
    @Test func aTransactionDoesNotOutliveItsBody() throws {
        let directory = try TemporaryDirectory()
        let note = EntityDescription("Note", attributes: [AttributeDescription("title", .string)])
        let store = try Store(at: directory.path("life.annals"), entities: [note])
        weak var kept: Transaction?
        for title in ["a", "b", "c"] {
            try store.writeOptimistically { transaction in
                #expect(kept == nil)
                kept = transaction
                try transaction.insert("Note", ["title": .string(title)])
            }
            #expect(kept == nil)
        }
        #expect(try store.snapshot().count(of: "Note") == 3)
        try store.close()
    }

    @Test func theSnapshotOfATransactionIsOfTheFileThatItBeganWith() throws {
        let directory = try TemporaryDirectory()
        let note = EntityDescription("Note", attributes: [AttributeDescription("title", .string)])
        let store = try Store(at: directory.path("life.annals"), entities: [note])
        for number in 1...300 {
            try store.writeOptimistically { try $0.insert("Note", ["title": .string("note \(number)")]) }
        }
        let other = try Store(at: directory.path("life.annals"))
        var snapshot: Snapshot?
        try store.writeOptimistically { transaction in
            if snapshot == nil {
                try other.deleteHistory(before: 200)
                try other.compact()
                // Met here: the store goes over to the new file.
                #expect(try store.snapshot().count(of: "Note") == 300)
                snapshot = transaction.snapshot
            }
            try transaction.insert("Note", ["title": .string("last")])
        }
        let kept = try #require(snapshot)
        var numbers: [UInt64] = []
        try store.forEachTransaction(after: 199, in: kept) { (transaction) in
            numbers.append(transaction.number)
            return true
        }
        #expect(numbers == Array(200...301))
        #expect(try kept.count(of: "Note") == 300)
        #expect(try store.snapshot().count(of: "Note") == 301)
        try other.close()
        try store.close()
    }

    @Test func handlesOfEntitiesOutliveTheFile() throws {
        let directory = try TemporaryDirectory()
        let note = EntityDescription("Note", attributes: [AttributeDescription("title", .string)])
        let store = try Store(at: directory.path("life.annals"), entities: [note])
        let other = try Store(at: directory.path("life.annals"))
        let handle = try store.entity("Note")
        for number in 1...3 {
            try other.compact()
            let object = try store.writeOptimistically { try $0.insert(handle, [.string("note \(number)")]) }.result
            var title: String?
            _ = try store.snapshot().withRow(object, in: handle) { (row) throws(StoreError) in
                title = try row.string(at: 0)
            }
            #expect(title == "note \(number)")
        }
        try other.close()
        try store.close()
    }
}
