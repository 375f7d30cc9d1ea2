// Code of commands that waits in tasks, for the thread that runs the command.

internal import Annals
internal import Synchronization

enum ToolTask {
    /// Runs code that waits, and waits for it.
    static func wait(_ body: @escaping @Sendable () async throws -> Void) throws(ToolFailure) {
        let end = TaskEnd()
        Task.detached {
            do {
                try await body()
                end.come(.success(()))
            } catch {
                end.come(.failure(ToolFailure(error)))
            }
        }
        try end.wait().get()
    }
}

/// The end of a task, for the thread that waits for it.
private final class TaskEnd: Sendable {
    private let monitor = Monitor()
    private let result = Mutex<Result<Void, ToolFailure>?>(nil)

    func come(_ result: Result<Void, ToolFailure>) {
        self.result.withLock { $0 = result }
        monitor.withLock { monitor.signalAll() }
    }

    func wait() -> Result<Void, ToolFailure> {
        monitor.withLock {
            while true {
                if let result = result.withLock({ $0 }) { return result }
                monitor.wait()
            }
        }
    }
}
