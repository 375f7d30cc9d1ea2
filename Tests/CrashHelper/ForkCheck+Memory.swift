// Stores in memory across a fork: the parent's stays the parent's, and a child makes its own.

import Annals
import Glibc
import Synchronization

extension ForkCheck {
    private static let clip = EntityDescription("Clip", attributes: [AttributeDescription("title", .string)])

    /// `fork-memory`: ends with 0 if everything went as it should.
    static func runInMemory() throws {
        let store = try Store(inMemory: [clip])
        let watcher = try store.changeWatcher()
        try add(store)
        // Another thread makes and drops stores, and so holds the lock of their table now and then.
        let isDone = Flag()
        let thread = try BackgroundThread(name: "makes stores") {
            while !isDone.value.load(ordering: .relaxed) { _ = try? Store(inMemory: [clip]).close() }
        }
        defer {
            isDone.value.store(true, ordering: .relaxed)
            thread.join()
        }
        for _ in 0..<50 {
            let child = try fork()
            if child == 0 { _exit(behaveAsChild(store, watcher)) }
            try expectSuccess(of: child)
        }
        try add(store)
        guard try store.snapshot().count(of: "Clip") == 2 else { throw Failure("a child has written to the store") }
        try store.close()
        guard try Checker.check(store.path, files: try Store.files(for: store.path)).isIntact else {
            throw Failure("the store is damaged")
        }
    }

    private static func add(_ store: Store) throws {
        _ = try store.writeOptimistically { try $0.insert("Clip", ["title": "t"]) }
    }

    private static func behaveAsChild(_ store: Store, _ watcher: ChangeWatcher) -> Int32 {
        do {
            try expectForked { _ = try store.snapshot() }
            try expectForked { try add(store) }
            try expectForked { _ = try watcher.next() }
            do {
                _ = try Store(at: store.path)
                throw Failure("the child opens the parent's store")
            } catch let error as StoreError where error.code == .notFound {}
            let own = try Store(inMemory: [clip])
            let other = try Store(at: own.path)
            try add(own)
            guard try other.snapshot().count(of: "Clip") == 1 else { throw Failure("the child's store is empty") }
            try own.close()
            return 0
        } catch {
            print("in the child: \(error)")
            fflush(nil)
            return 1
        }
    }
}
