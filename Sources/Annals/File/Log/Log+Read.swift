// Reading back: all frames in order, and large values piece by piece. Lent bytes were verified in a private copy.

extension Log {
    /// Passes every frame that counts to `visit`, from the first to the last that this handle knows of, verified.
    ///
    /// `visit` gets the frame and the state up to it; the frame's bytes live until it returns. `visit` gets the frames
    /// of a transaction before its commit frame is read; but up to the end known at the call, all transactions count.
    /// Linear in the size of the file, in memory of a window. Throws `damaged` with the offset, and errors of `visit`.
    package func forEachFrame(
        _ visit: (FrameView, LogState) throws(StoreError) -> Void
    ) throws(StoreError) {
        try whileOpen { () throws(StoreError) in try readFrames(visit) }
    }

    private func readFrames(_ visit: (FrameView, LogState) throws(StoreError) -> Void) throws(StoreError) {
        let end = current.end
        let window = ByteWindow(files, file, stepBytes: limits.windowBytes)
        defer { withExtendedLifetime(window) {} }
        var reading = LogState(header: header)
        let scanner = FrameScanner(
            window: window, salt: header.salt, position: reading.end, previousChecksum: reading.endChecksum)
        do throws(StoreError) {
            while reading.reach < end {
                switch try scanner.next() {
                case .frame(let frame):
                    _ = try reading.accept(frame)
                    try visit(frame, reading)
                case .stop(let stop):
                    throw StoreError(
                        .damaged,
                        "The store is damaged: \(stop.sentence), although it was readable before. Restore it from a "
                            + "backup.", offset: reading.reach)
                }
            }
        } catch {
            throw error.at(path: path)
        }
    }

    /// Passes a large value to the caller piece by piece, verified.
    ///
    /// Throws `damaged` if the reference does not lead to a complete value. Memory of one frame.
    package func readLargeValue(
        _ reference: LargeValueReference, _ visit: (UnsafeRawBufferPointer) throws(StoreError) -> Void
    ) throws(StoreError) {
        try whileOpen { () throws(StoreError) in try readPieces(reference, visit) }
    }

    private func readPieces(
        _ reference: LargeValueReference, _ visit: (UnsafeRawBufferPointer) throws(StoreError) -> Void
    ) throws(StoreError) {
        let window = ByteWindow(files, file, stepBytes: FormatLimits.maximumFrameBytes)
        defer { withExtendedLifetime(window) {} }
        do throws(StoreError) {
            var offset = reference.offset
            var position: UInt64 = 0
            var before: UInt64?
            while position < reference.valueBytes {
                let frame = try valueFrame(at: offset, window)
                let piece = try ValuePiece.decode(frame)
                guard piece.valueBytes == reference.valueBytes, piece.position == position,
                    piece.first == reference.offset,
                    before == nil
                        ? frame.header.checksum == reference.checksum : frame.header.previousChecksum == before
                else { throw Log.lostValue(offset) }
                try visit(frame.body.slice(0, Int(piece.pieceBytes)))
                position += UInt64(piece.pieceBytes)
                before = frame.header.checksum
                offset = frame.end
            }
        } catch {
            throw error.at(path: path)
        }
    }

    private func valueFrame(at offset: UInt64, _ window: ByteWindow) throws(StoreError) -> FrameView {
        let cursor = FrameCursor(window, salt: header.salt, at: offset)
        guard let frame = try cursor.frame(.value) else { throw Log.lostValue(offset) }
        return frame
    }

    private static func lostValue(_ offset: UInt64) -> StoreError {
        StoreError(
            .damaged,
            "F23: a row refers to a large value, and no piece of it begins here. Restore the store from a backup.",
            offset: offset)
    }
}
