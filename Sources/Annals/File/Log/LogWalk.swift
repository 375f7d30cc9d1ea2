// Walks the frames from a state to their end, and judges that end.

/// The end of a walk, and its reason.
package struct WalkEnd {
    package var verdict: Verdict
    package var stop: ScanStop
    /// The offset at which reading stopped: at or above the end of the groups that count.
    package var place: UInt64
}

package struct LogWalk {
    private let window: ByteWindow
    package var state: LogState
    private var scanner: FrameScanner
    /// Whether the walk may end while another handle keeps writing, with everything that existed when it began.
    private let endsBesideWriters: Bool
    /// Whether `visit` has thrown: then the state has a frame that the visitor lacks.
    private(set) var hasFailedToVisit = false
    /// The file's size, read after the walk began: earlier acknowledged commits lie below it.
    private var knownSize: UInt64?
    /// The number of rounds in which the walk continues because a writer has written more while it read above the end.
    private static let maximumRounds = 8

    package init(state: LogState, window: ByteWindow, endsBesideWriters: Bool = false) {
        (self.endsBesideWriters, self.state, self.window) = (endsBesideWriters, state, window)
        scanner = FrameScanner(
            window: window, salt: state.header.salt, position: state.reach, previousChecksum: state.chainChecksum)
    }

    /// Reads frames to the end, a torn tail or another stop. Hands each to `visit` after accepting it, with the state
    /// after it.
    ///
    /// Throws `damaged` or `unsupportedVersion` with the offset, and errors of reading and of `visit`. If a writer
    /// replaces a torn tail while it is read, frames already handed out never counted: with `mayRepeat`, `visit` then
    /// gets the new ones; otherwise this throws `busy`.
    package mutating func toTheEnd(
        asker: StopFindings.Asker, mayRepeat: Bool = true,
        visit: (FrameView, LogState.Accepted, LogState) throws(StoreError) -> Void
    ) throws(StoreError) -> WalkEnd {
        var rounds = 0
        while true {
            guard let stop = try scan(visit) else { return endForNow() }
            var findings = StopFindings(
                asker: asker, place: stop.place, isInsideTransaction: state.open != nil)
            let place = scanner.position
            deciding: while true {
                let verdict = Verdict.of(findings)
                switch verdict {
                case .lookAbove: findings.above = try lookAbove(place)
                case .lookAgain: findings.secondLook = try isStill(stop) ? .same : .changed
                case .readOn:
                    rounds += 1
                    // The first scan that stopped has read all commits acknowledged before.
                    if endsBesideWriters, rounds > Self.maximumRounds { return endForNow() }
                    try startOver(mayRepeat)
                    break deciding
                case .damage: throw damage(stop, at: place)
                case .unsupported: throw unsupported(stop, at: place)
                case .end, .tornTail, .endForNow:
                    try state.requireWholeBase()
                    assert(place >= state.end, "A walk has stopped below its end.")
                    return WalkEnd(verdict: verdict, stop: stop, place: place)
                }
            }
        }
    }

    private func endForNow() -> WalkEnd {
        WalkEnd(verdict: .endForNow, stop: .nothing, place: scanner.position)
    }

    /// Nil if the walk may end, although more frames follow.
    private mutating func scan(
        _ visit: (FrameView, LogState.Accepted, LogState) throws(StoreError) -> Void
    ) throws(StoreError) -> ScanStop? {
        let start = scanner.position
        while true {
            switch try scanner.next() {
            case .frame(let frame):
                let accepted = try state.accept(frame)
                do throws(StoreError) { try visit(frame, accepted, state) } catch {
                    hasFailedToVisit = true
                    throw error
                }
                if endsBesideWriters, frame.end - start > Self.longWayBytes, try hasReadEnough() { return nil }
            case .stop(let stop):
                return stop
            }
        }
    }

    /// A short way needs no such check, which is a system call.
    private static let longWayBytes: UInt64 = 1 << 20

    /// Whether writers, and this walk, have passed the size that the file had during this walk.
    private mutating func hasReadEnough() throws(StoreError) -> Bool {
        guard let knownSize else {
            knownSize = try window.fileSize()
            return false
        }
        return state.end > knownSize
    }

    private func lookAbove(_ place: UInt64) throws(StoreError) -> StopFindings.Above {
        window.forget()
        let first = window.beside(stepBytes: FormatLimits.pageBytes)
        defer { withExtendedLifetime(first) {} }
        let page = try first.bytes(at: 0, count: FormatLimits.pageBytes)
        let hinted = HintSlot.durableEnd(in: page, salt: try FileHeader.decode(page).salt)
        return try DurabilityEvidence.look(
            window, from: place, position: state.end, salt: state.header.salt, hintedEnd: hinted)
    }

    /// Reads the place once more, and the frames of an unfinished transaction before it. Returns whether all is
    /// unchanged.
    private func isStill(_ stop: ScanStop) throws(StoreError) -> Bool {
        window.forget()
        var again = state
        again.dropOpenTransaction()
        let second = FrameScanner(
            window: window, salt: state.header.salt, position: again.end, previousChecksum: again.endChecksum)
        while true {
            switch try second.next() {
            case .frame(let frame):
                do throws(StoreError) { _ = try again.accept(frame) } catch { return false }
                if again.open == nil { return false }
            case .stop(let now):
                return now == stop && second.position == scanner.position
                    && again.open?.checksum == state.open?.checksum
            }
        }
    }

    /// Continues from the end of the groups that count: later bytes may have been overwritten.
    private mutating func startOver(_ mayRepeat: Bool) throws(StoreError) {
        if state.open != nil, !mayRepeat {
            throw StoreError(.busy, "A writer has replaced the bytes while they were read: try again.")
        }
        state.dropOpenTransaction()
        scanner = FrameScanner(
            window: window, salt: state.header.salt, position: state.end, previousChecksum: state.endChecksum)
    }

    private func damage(_ stop: ScanStop, at place: UInt64) -> StoreError {
        let proof =
            stop.place == .invalid ? "and no crash writes such a header" : "and later bytes were durable"
        return StoreError(
            .damaged,
            "\(stop.sentence), \(proof): the store is damaged. Restore it from a backup, or salvage the readable part.",
            offset: place
        ).under("F4")
    }

    private func unsupported(_ stop: ScanStop, at place: UInt64) -> StoreError {
        StoreError(
            .unsupportedVersion,
            "\(stop.sentence): a newer version of Annals wrote this store. Use that version.", offset: place)
    }
}
