// Code of commands that waits in tasks, for the thread that runs the command.

internal import Annals
internal import Synchronization

#if canImport(Glibc)
    internal import Glibc
#else
    internal import Musl
#endif

enum ToolTask {
    /// Runs code that waits, and waits for it.
    static func wait(_ body: @escaping @Sendable () async throws -> Void) throws(ToolFailure) {
        let end = TaskEnd()
        Task.detached {
            do {
                try await body()
                end.come(nil)
            } catch {
                end.come(ToolFailure(error))
            }
        }
        if let failure = end.wait() { throw failure }
    }
}

/// The end of a task, for the thread that waits for it.
///
/// Sound although it is shared: the memory is a semaphore's, which any thread may use.
private final class TaskEnd: @unchecked Sendable {
    private let semaphore = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)
    private let failure = Mutex<ToolFailure?>(nil)

    init() { sem_init(semaphore, 0, 0) }

    deinit {
        sem_destroy(semaphore)
        semaphore.deallocate()
    }

    func come(_ failure: ToolFailure?) {
        self.failure.withLock { $0 = failure }
        sem_post(semaphore)
    }

    func wait() -> ToolFailure? {
        while sem_wait(semaphore) != 0 {}
        return failure.withLock { $0 }
    }
}
