// Lists the frames of a file one after the other, and judges the end of the list.

/// A frame as its header describes it, and whether it is good.
package struct ListedFrame: Equatable, Sendable {
    package var offset: UInt64
    package var header: FrameHeader
    /// Nil for a good frame, otherwise its fault; it is then the last one listed.
    package var fault: String?
}

/// The place where the frames end.
package struct FrameListEnd: Equatable, Sendable {
    package enum Verdict: String, Sendable {
        case end
        case tornTail
        case damage
        case unsupported
    }

    /// The offset at which reading stopped.
    package var offset: UInt64
    /// The end of the groups that count: below `offset` if a transaction is not complete.
    package var end: UInt64
    package var verdict: Verdict
    package var sentence: String
}

/// Walks a store file by its chain, through copies. For one thread at a time; it only reads.
package final class FrameLister {
    private let files: any FileSystem
    private let file: Descriptor
    private let window: ByteWindow
    private var state: LogState
    private var scanner: FrameScanner
    /// Set when the last frame was listed.
    package private(set) var ending: FrameListEnd?

    /// Throws if the file cannot be opened, and `notAStore`, `unsupportedVersion`, `damaged` if its header page
    /// is none.
    package init(_ path: String, files: any FileSystem, windowBytes: Int = 1 << 20) throws(StoreError) {
        do throws(StoreError) {
            let file = try files.openStoreFile(path)
            do throws(StoreError) {
                window = ByteWindow(files, file, stepBytes: windowBytes)
                state = LogState(header: try Log.readHeader(window).0)
            } catch {
                files.close(file)
                throw error
            }
            self.file = file
        } catch {
            throw error.at(path: path)
        }
        self.files = files
        scanner = FrameScanner(
            window: window, salt: state.header.salt, position: state.reach, previousChecksum: state.chainChecksum)
    }

    deinit { files.close(file) }

    /// The next frame; nil after the last, when `ending` has the reason.
    package func next() throws(StoreError) -> ListedFrame? {
        guard ending == nil else { return nil }
        let place = state.reach
        switch try scanner.next() {
        case .frame(let frame):
            do throws(StoreError) {
                _ = try state.accept(frame)
                return ListedFrame(offset: frame.offset, header: frame.header)
            } catch  where error.isAboutContent {
                stop(at: place, error)
                return ListedFrame(offset: frame.offset, header: frame.header, fault: error.message)
            }
        case .stop(let reason): return try judge(reason, at: place)
        }
    }

    /// The verdict on a place where no frame could be read.
    private func judge(_ reason: ScanStop, at place: UInt64) throws(StoreError) -> ListedFrame? {
        var walk = LogWalk(state: state, window: window)
        do throws(StoreError) {
            let end = try walk.toTheEnd(asker: .judge) { (_, _, _) throws(StoreError) in }
            if walk.state.reach > place { return try readOn() }
            ending = FrameListEnd(
                offset: place, end: state.end, verdict: end.verdict == .tornTail ? .tornTail : .end,
                sentence: end.stop.sentence + ".")
        } catch  where error.isAboutContent {
            if walk.state.reach > place { return try readOn() }
            stop(at: place, error)
        }
        return try headerOfBadFrame(reason, at: place)
    }

    /// A writer has finished frames that could not be read before.
    private func readOn() throws(StoreError) -> ListedFrame? {
        window.forget()
        return try next()
    }

    private func stop(at place: UInt64, _ error: StoreError) {
        ending = FrameListEnd(
            offset: place, end: state.end, verdict: error.code == .unsupportedVersion ? .unsupported : .damage,
            sentence: error.message)
    }

    /// A frame with a good header but bad content is listed as well.
    private func headerOfBadFrame(_ reason: ScanStop, at place: UInt64) throws(StoreError) -> ListedFrame? {
        guard case .good(let header) = try FrameCursor(window, salt: state.header.salt, at: place).decoded() else {
            return nil
        }
        return ListedFrame(offset: place, header: header, fault: reason.sentence + ".")
    }
}
