// A transaction's object is of one body: who keeps it against the rules holds nothing that works, and never another transaction.

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
            try store.commit { transaction in
                #expect(kept == nil)
                kept = transaction
                try transaction.insert("Note", ["title": .string(title)])
            }
            #expect(kept == nil)
        }
        #expect(try store.snapshot().count(of: "Note") == 3)
        try store.close()
    }
}
