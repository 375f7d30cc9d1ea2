// Cursors that have moved and are not written yet: a consumer's is written at most once in a while, because each time costs a frame.
//
// Invariants:
// C1  What waits for a consumer begins where the file says that it stands, and ends where this handle last moved it to.

internal import Synchronization

/// For one handle. Who changes anything holds `turn` from looking to having written, and nobody holds `known` for longer than it takes to look.
final class ConsumerCursors: Sendable {
    private struct Known {
        var waiting: [IdentifierName: ConsumerAdvance] = [:]
        /// On the monotonic clock.
        var written: [IdentifierName: UInt64] = [:]
    }

    private let turn = Monitor()
    private let known = Mutex(Known())

    /// Where this handle has moved a consumer to, where that is not written yet. Never waits for who writes.
    func place(of name: String) -> TransactionPlace? { known.withLock { $0.waiting[IdentifierName(name)]?.to } }

    var isEmpty: Bool { known.withLock { $0.waiting.isEmpty } }

    /// Moves a consumer on: now, or by a later `write`. `file` is what the file says.
    ///
    /// Returns when it is to be written; nil where it is.
    func advance(
        _ advance: ConsumerAdvance, now: UInt64, interval: UInt64, file: () throws(FileError) -> TrackingState,
        write: ([ConsumerAdvance]) throws(FileError) -> Void
    ) throws(FileError) -> UInt64? {
        let name = IdentifierName(advance.name)
        return try turn.withLock { () throws(FileError) -> UInt64? in
            let tracking = try file()
            let (earlier, last) = known.withLock { ($0.waiting[name], $0.written[name]) }
            var next = advance
            if let earlier {
                try tracking.check(advance, from: earlier.to)
                next.from = earlier.from
            } else {
                try tracking.check(advance, from: try tracking.known(advance.name).place)
            }
            let waiting = next
            known.withLock { $0.waiting[name] = waiting }
            if let last, now < last &+ interval { return last &+ interval }
            try self.write(name, waiting, now, write)
            return nil
        }
    }

    /// Writes everything that waits. What cannot be written because somebody else has moved the consumer is dropped: its next move says so.
    func write(now: UInt64, _ write: ([ConsumerAdvance]) throws(FileError) -> Void) throws(FileError) {
        try turn.withLock { () throws(FileError) in
            for (name, advance) in known.withLock({ $0.waiting }) {
                do throws(FileError) {
                    try self.write(name, advance, now, write)
                } catch  where !error.mayPass {
                }
            }
        }
    }

    private func write(
        _ name: IdentifierName, _ advance: ConsumerAdvance, _ now: UInt64,
        _ write: ([ConsumerAdvance]) throws(FileError) -> Void
    ) throws(FileError) {
        do throws(FileError) {
            try write([advance])
        } catch {
            if !error.mayPass { known.withLock { $0.waiting[name] = nil } }
            throw error
        }
        known.withLock { known in
            known.waiting[name] = nil
            known.written[name] = now
        }
    }

    func forget(_ name: String) {
        turn.withLock {
            known.withLock { known in
                known.waiting[IdentifierName(name)] = nil
                known.written[IdentifierName(name)] = nil
            }
        }
    }
}

extension FileError {
    /// Whether the same may succeed later.
    fileprivate var mayPass: Bool {
        switch code {
        case .consumerConflict, .consumerUnknown, .consumerLost, .invalidArgument: false
        default: true
        }
    }
}
