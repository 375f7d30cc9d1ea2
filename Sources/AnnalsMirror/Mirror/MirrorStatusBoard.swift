// The status of a mirror, for the threads that read it and the streams that report its changes.

internal import Synchronization

/// Any thread may call any method.
final class MirrorStatusBoard: Sendable {
    private struct State {
        var status = Mirror.Status()
        var streams: [UInt64: AsyncStream<Mirror.Status>.Continuation] = [:]
        var nextStream: UInt64 = 0
    }

    private let state = Mutex(State())

    var status: Mirror.Status { state.withLock { $0.status } }

    /// Changes the status, and reports it if it is another one now.
    func change(_ body: (inout Mirror.Status) -> Void) {
        state.withLock { state in
            var changed = state.status
            body(&changed)
            guard changed != state.status else { return }
            state.status = changed
            // Under the lock, so that no stream gets an older status after a newer one.
            for stream in state.streams.values { stream.yield(changed) }
        }
    }

    func updates() -> AsyncStream<Mirror.Status> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: Mirror.Status.self, bufferingPolicy: .bufferingNewest(1))
        let number = state.withLock { state in
            continuation.yield(state.status)
            state.nextStream += 1
            state.streams[state.nextStream] = continuation
            return state.nextStream
        }
        continuation.onTermination = { [weak self] _ in
            self?.state.withLock { $0.streams[number] = nil }
        }
        return stream
    }

    /// Ends all streams.
    func finish() {
        let streams = state.withLock { state in
            defer { state.streams = [:] }
            return state.streams.values
        }
        // Not under the lock: the end of a stream takes it.
        for stream in streams { stream.finish() }
    }
}
