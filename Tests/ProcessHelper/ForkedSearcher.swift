// The program that forks while a thread of it indexes: its child is told that the store is not its own, and searches
// through a handle of its own.

import Annals
import Glibc
import TestSupport

/// `searchers fork STORE`: makes a store, forks, and ends with 0 if everything went as it should.
enum ForkedSearcher {
    private typealias Fork = @convention(c) () -> pid_t

    static func run(_ path: String) throws {
        guard let symbol = dlsym(nil, "fork") else { throw Wrong("there is no fork") }
        let fork = unsafeBitCast(symbol, to: Fork.self)
        let store = try Searchers.open(path)
        for round in 0..<8 {
            // So many that the thread begins to index.
            try store.insert(contentsOf: (0..<1200).map { SearchNote(title: "swift \($0)", rank: round) })
            usleep(UInt32(round * 4000))
            let child = fork()
            if child == 0 {
                // A wait for a lock of the parent would not end.
                alarm(60)
                _exit(isRight(store, path, round) ? 0 : 1)
            }
            var ending: Int32 = 0
            while waitpid(child, &ending, 0) < 0, errno == EINTR {}
            guard ending == 0 else { throw Wrong("round \(round): the child ended with \(ending)") }
        }
        try store.updateSearchIndexes()
        try Searchers.require(store, "the parent")
        try store.close()
    }

    private static func isRight(_ store: Store, _ path: String, _ round: Int) -> Bool {
        do {
            try store.updateSearchIndexes()
            return false
        } catch {
            guard (error as? StoreError)?.code == .forked else { return false }
        }
        do {
            _ = try store.snapshot()
            return false
        } catch {
            guard (error as? StoreError)?.code == .forked else { return false }
        }
        try? store.close()
        do {
            let own = try Searchers.open(path)
            let count = try own.snapshot().searchCount(SearchNote.self, for: "swift")
            try own.close()
            return count == 1200 * (round + 1)
        } catch {
            return false
        }
    }
}
