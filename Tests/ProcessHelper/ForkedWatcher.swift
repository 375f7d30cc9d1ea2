// The program that forks while a thread of it waits for changes, or tells them: its child is told that the store is not
// its own.

import Annals
import Foundation
import Glibc

/// `fork STORE`: makes a store, forks, and ends with 0 if everything went as it should.
enum ForkedWatcher {
    private typealias Fork = @convention(c) () -> pid_t

    static func run(_ path: String) throws {
        var options = Store.Options()
        options.durability = .relaxed
        let clip = EntityDescription("Clip", attributes: [AttributeDescription("rank", .int)])
        let store = try Store(at: path, entities: [clip], options: options)
        let clips = try store.entity("Clip")
        // Many transactions, so that they are still being told while the process forks.
        for rank in 0..<20_000 {
            try store.writeOptimistically { transaction in
                try transaction.insert(clips) { (row) throws(StoreError) in try row.set(int: Int64(rank), at: 0) }
            }
        }
        guard let symbol = dlsym(nil, "fork") else { throw Wrong("there is no fork") }
        let fork = unsafeBitCast(symbol, to: Fork.self)
        for round in 0..<20 {
            let watcher = try store.changeWatcher(after: .number(0))
            Thread { while (try? watcher.next(timeout: .seconds(20))) ?? nil != nil {} }.start()
            // From before the thread looks to where it waits.
            usleep(UInt32(round * 1000))
            let child = fork()
            if child == 0 {
                // Who waits for a lock of its parent's would wait for ever.
                alarm(20)
                _exit(isTold(watcher, store) ? 0 : 1)
            }
            var ending: Int32 = 0
            while waitpid(child, &ending, 0) < 0, errno == EINTR {}
            guard ending == 0 else { throw Wrong("round \(round): the child ended with \(ending)") }
            watcher.stop()
        }
        try store.close()
    }

    private static func isTold(_ watcher: ChangeWatcher, _ store: Store) -> Bool {
        do {
            _ = try watcher.next(timeout: .zero)
            return false
        } catch let error as StoreError where error.code == .forked {
        } catch {
            return false
        }
        do {
            _ = try store.oldestToken
            return false
        } catch {
            return (error as? StoreError)?.code == .forked
        }
    }
}
