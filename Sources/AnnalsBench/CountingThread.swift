// Threads of the benchmark.

import Glibc

/// A thread that counts what it does.
///
/// Sound although it is shared: the thread alone touches the result until it has ended, and other threads read it only
/// then.
final class CountingThread: @unchecked Sendable {
    private let body: @Sendable () throws -> Int
    private var thread = pthread_t()
    private var result = Result<Int, any Error>.success(0)

    init(_ body: @escaping @Sendable () throws -> Int) throws {
        self.body = body
        let context = Unmanaged.passRetained(self).toOpaque()
        let status = pthread_create(
            &thread, nil,
            { context in
                guard let context else { return nil }
                let thread = Unmanaged<CountingThread>.fromOpaque(context).takeRetainedValue()
                thread.result = Result { try thread.body() }
                return nil
            }, context)
        guard status == 0 else {
            Unmanaged<CountingThread>.fromOpaque(context).release()
            throw BenchError(message: "a thread cannot be started")
        }
    }

    /// Waits for its end. Once.
    func wait() throws -> Int {
        pthread_join(thread, nil)
        return try result.get()
    }
}
