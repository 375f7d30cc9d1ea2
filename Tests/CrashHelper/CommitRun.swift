// A process that commits, for tests in which others watch.

import Annals
import Glibc

/// `commit STORE COUNT AUTHOR full|relaxed`: inserts COUNT objects of the first entity, one a transaction, and prints
/// number and tag of the last.
enum CommitRun {
    static func run(_ store: String, count: Int, author: String, durability: Durability) throws {
        let engine = try Engine.open(store, files: RealFileSystem(), environment: RealEnvironment())
        var last: AppendedTransaction?
        for _ in 0..<count {
            last = try engine.commit(author: author, durability: durability) { transaction in
                try transaction.insert(entity: 1) { (row) throws(StoreError) in
                    try row.set(.string(author), at: 0)
                }
            }.transaction
        }
        // Not closed: what a process leaves that ends without closing is what watchers meet.
        let line = last.map { "\($0.number) \($0.tag)\n" } ?? "\n"
        _ = write(1, line, line.utf8.count)
    }
}
