// Following: adopting what others have appended.

extension Log {
    /// Reads what was appended since this handle last looked. Takes no lock that another process could hold.
    ///
    /// - Returns: what is known then.
    /// - Throws: `damaged`, `diverged`, and what reading throws.
    @discardableResult
    package func catchUp() throws(FileError) -> LogState {
        try follow.withLock { () throws(FileError) -> LogState in
            if !isAppending, try !isNothingNew() { _ = try adopt(asker: .follower) }
            return state
        }
    }

    /// Takes in everything that stands behind `state.end`. With `follow` locked.
    func adopt(asker: StopFindings.Asker) throws(FileError) -> WalkEnd {
        let window = ByteWindow(files, file, stepBytes: limits.windowBytes)
        try compareLastFrame(window)
        var walk = LogWalk(state: state, window: window)
        defer {
            walk.state.dropOpenTransaction()
            if walk.state.end > state.end { take(walk.state) }
        }
        do throws(FileError) {
            return try walk.toTheEnd(asker: asker) { (_, _, _) throws(FileError) in }
        } catch {
            throw error.at(path: path)
        }
    }

    /// What was adopted last must still stand there: a lost transaction's place may have been given to another.
    private func compareLastFrame(_ window: ByteWindow) throws(FileError) {
        guard let last = state.lastFrame else { return }
        let header = try window.bytes(at: last, count: FrameField.bytes)
        if case .good(let found) = FrameHeader.decode(header, offset: last, salt: state.header.salt),
            found.checksum == state.endChecksum
        {
            return
        }
        throw FileError(
            .diverged,
            "The last transaction that this handle has seen is no longer there: it was lost before it was durable. "
                + "Open the store again.",
            path: path, offset: last)
    }

    /// The new state counts from here on. With `follow` locked.
    func take(_ next: LogState) {
        state = next
        seenSize = max(seenSize, next.end)
        ledger.advance(to: next.end, mark: next.durableMark)
    }

    /// Whether nobody has begun a frame behind `state.end`. With `follow` locked.
    func isNothingNew() throws(FileError) -> Bool {
        let end = state.end
        let headerEnd = end + UInt64(FrameField.bytes)
        if let mapping, headerEnd <= seenSize, headerEnd <= UInt64(mapping.bytes.count) {
            return mapping.bytes.slice(Int(end), FrameField.bytes).allZero
        }
        let window = ByteWindow(files, file, stepBytes: FrameField.bytes)
        return try window.bytes(at: end, count: FrameField.bytes).allZero
    }
}
