// Following: adopting frames of other handles.

internal import Synchronization

extension Log {
    /// Reads the frames appended since this handle last looked. Takes no lock that another process could hold.
    ///
    /// - Returns: the state after that.
    /// - Throws: `damaged`, `diverged`, and errors of reading.
    @discardableResult
    package func catchUp() throws(StoreError) -> LogState { try catchUp { $0 } }

    /// The same; `body` runs before any thread can change the state. Throws `storeReplaced` if another file has taken
    /// this one's place, as `requireNotReplaced` does, unless `looksAtPlace` is false.
    func catchUp<Result>(
        looksAtPlace: Bool = true, _ body: (borrowing LogState) -> Result
    ) throws(StoreError) -> Result {
        try whileOpen { () throws(StoreError) in
            try follow.withLock { () throws(StoreError) -> Result in
                // K1: with a kept lock, nothing can be new.
                if !known.isAppending, !isLockKept.load(ordering: .acquiring), try !isNothingNew() {
                    _ = try adopt(asker: .follower)
                }
                if looksAtPlace, !known.isAppending { try requireNotReplaced() }
                return body(known.state)
            }
        }
    }

    /// Adopts all groups after `state.end`. With `follow` locked.
    func adopt(asker: StopFindings.Asker) throws(StoreError) -> WalkEnd {
        assert(!known.isAppending, "G2: frames are adopted while this handle appends.")
        if let failure = known.adoptionFailure { throw failure }
        let window = ByteWindow(files, file, stepBytes: limits.windowBytes)
        defer { withExtendedLifetime(window) {} }
        known.knownSize = 0
        try compareLastFrame()
        try requireLiveMapping()
        var walk = LogWalk(state: known.state, window: window, endsBesideWriters: true)
        defer {
            walk.state.dropOpenTransaction()
            // A frame that the follower refused never counts for this handle: the state stays before the new groups.
            if !walk.hasFailedToVisit, walk.state.end > known.state.end { adopt(walk.state.progress, walk.state.rare) }
        }
        do throws(StoreError) {
            return try walk.toTheEnd(asker: asker) { (frame, accepted, state) throws(StoreError) in
                try follower?.adopt(frame, accepted, state)
            }
        } catch {
            let failure = error.at(path: path)
            if walk.hasFailedToVisit { known.adoptionFailure = failure }
            throw failure
        }
    }

    /// Throws if the last adopted frame has changed: a lost transaction's place may hold another one. With `follow`
    /// locked.
    func compareLastFrame() throws(StoreError) {
        guard let last = known.state.lastFrame else { return }
        let found = try bytes(at: last, count: 8) { $0.integer(at: FrameField.checksum, as: UInt64.self) }
        guard found == known.state.endChecksum else {
            throw overwritten()
                ?? StoreError(
                    .diverged,
                    "The last transaction that this handle has read is missing: it was lost before it was durable, or "
                        + "an older copy was written over the file. Open the store again.",
                    path: path, offset: last)
        }
    }

    /// Passes bytes of a frame's header to `body`, from the mapping if the file is known to reach that far; nil at the
    /// end of the file.
    private func bytes<Result>(
        at offset: UInt64, count: Int, _ body: (UnsafeRawBufferPointer) -> Result
    ) throws(StoreError) -> Result? {
        let end = offset + UInt64(count)
        if let mapping, end <= known.seenSize, end <= UInt64(mapping.bytes.count) {
            return body(mapping.bytes.slice(Int(offset), count))
        }
        let window = ByteWindow(files, file, stepBytes: FrameField.bytes)
        defer { withExtendedLifetime(window) {} }
        let bytes = try window.bytes(at: offset, count: count)
        guard bytes.count == count else { return nil }
        known.seenSize = max(known.seenSize, end)
        return body(bytes)
    }

    /// The new state counts from here on: no transaction is open in it. With `follow` locked.
    @inline(__always)
    func adopt(_ next: LogProgress, _ rare: LogState.SharedLogState) {
        assert(next.end >= known.state.end && next.lastNumber >= known.state.lastNumber, "G1: the state moves back.")
        if next.recoveries > known.state.recoveries { known.isTailTorn = false }
        known.state.become(next, rare)
        known.seenSize = max(known.seenSize, next.end)
        ledger.advance(to: next.end, mark: next.durableMark)
        follower?.publish(next)
    }

    /// Whether no frame begins after `state.end`, and the last frame below it is unchanged. With `follow` locked.
    func isNothingNew() throws(StoreError) -> Bool {
        try compareLastFrame()
        // A frame is written from its beginning. The part of the header on the next page is ignored: that page has
        // usually never been touched, and the system would read ahead megabytes of zeros.
        let pageBytes = FormatLimits.pageBytes
        let inPage = min(FrameField.bytes, pageBytes - Int(known.state.end % UInt64(pageBytes)))
        return try bytes(at: known.state.end, count: inPage) { $0.allZero } ?? true
    }
}
