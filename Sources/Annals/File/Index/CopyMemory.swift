// Memory for copies of a file: each byte at the address of its offset, in pages that are used again.
//
// The system fills each new page with zeros when it is touched. In a scan, that took longer than reading the file. So
// pages of forgotten copies are kept, and moved to the addresses of the next copies.
//
// Invariants:
// CM1  Pages are moved from a piece without copies to a piece without copies: no thread reads either. Both are whole.
// CM2  Where nothing was copied, a piece has zeros or the rest of forgotten copies. It has zeros in the first page of
//      the file, which is in no frame: nothing is moved there.
// CM3  The pieces take at most `heldBytes`, apart from rounding to pages.

/// Sound although it is shared: one thread at a time writes and forgets (`VerifiedFile.monitor`), and none reads while
/// copies are forgotten.
package final class CopyMemory: @unchecked Sendable {
    private let memory: PrivateMemory
    /// A power of two, and at least a page of the system.
    private let pieceBytes: Int
    private let limit: Int
    /// The pieces with copies.
    private var pieces: [Int: Piece] = [:]
    /// The pieces without copies whose pages wait for the next ones.
    private var kept: [Int] = []
    private var movesPages = true
    /// The memory of all pieces.
    package private(set) var heldBytes = 0

    private struct Piece {
        /// The memory of its pages.
        var held: Int
        var copied = 0
    }

    /// - Parameter limit: The number of held bytes above which the owner forgets copies.
    package init(_ memory: PrivateMemory, limit: UInt64) {
        self.memory = memory
        self.limit = Int(clamping: limit)
        let most = min(max(self.limit / 32, SystemCalls.pageBytes), 2 << 20)
        pieceBytes = 1 << (Int.bitWidth - 1 - most.leadingZeroBitCount)
    }

    package var bytes: UnsafeMutableRawBufferPointer { memory.bytes }

    /// Copies bytes to the addresses of their offsets. None of them may be in use there.
    package func write(_ source: UnsafeRawBufferPointer, at offset: Int) {
        room(at: offset, count: source.count).copyMemory(from: source)
    }

    /// Memory at the addresses of offsets, which the caller fills. None of it may be in use.
    package func room(at offset: Int, count: Int) -> UnsafeMutableRawBufferPointer {
        assert(offset >= FormatLimits.pageBytes || count == 0, "CM2: bytes are copied to the first page.")
        var place = offset
        while place < offset + count {
            let piece = place / pieceBytes
            let end = min(offset + count, (piece + 1) * pieceBytes)
            prepare(piece, for: end - place)
            place = end
        }
        return bytes.slice(offset, count)
    }

    /// Forgets all copies. Pages of pieces that were at least half full are kept, others are released: those of a
    /// scan return, those of scattered reads would take more memory than their copies.
    package func forget() {
        let full = pieces.filter { movesPages && $0.value.copied >= pieceBytes / 2 && isWhole($0.key) }
        kept = full.keys.sorted().suffix(limit / pieceBytes)
        pieces.removeAll(keepingCapacity: true)
        heldBytes = kept.count * pieceBytes
        var start = 0
        for piece in kept {
            SystemCalls.clearMemory(bytes.slice(start, piece * pieceBytes - start))
            start = (piece + 1) * pieceBytes
        }
        SystemCalls.clearMemory(bytes.slice(start, bytes.count - start))
    }

    // MARK: Pieces

    private func isWhole(_ piece: Int) -> Bool { (piece + 1) * pieceBytes <= bytes.count }

    private func range(of piece: Int) -> UnsafeMutableRawBufferPointer { bytes.slice(piece * pieceBytes, pieceBytes) }

    private func prepare(_ piece: Int, for count: Int) {
        var state = pieces[piece] ?? Piece(held: givePages(to: piece) ? pieceBytes : 0)
        state.copied += count
        heldBytes += max(0, state.copied - state.held)
        state.held = max(state.held, state.copied)
        pieces[piece] = state
        // Copies elsewhere take the place of kept pages.
        while heldBytes > limit, let last = kept.popLast() { release(last) }
        assert(heldBytes >= kept.count * pieceBytes + state.held, "CM3: less memory is counted than is held.")
    }

    /// Gives kept pages to a piece without copies, if there are any. Beside a piece with copies it is probably going to
    /// be filled; elsewhere, most of the pages would be given in vain.
    private func givePages(to piece: Int) -> Bool {
        if let own = kept.firstIndex(of: piece) {
            kept.remove(at: own)
            return true
        }
        assert(pieces[piece] == nil, "CM1: pages are moved to a piece with copies.")
        // CM2.
        guard piece > 0, isWhole(piece), let source = kept.last else { return false }
        guard pieces[piece - 1] != nil || pieces[piece + 1] != nil else { return false }
        guard SystemCalls.moveMemory(range(of: source), to: range(of: piece)) else {
            stopMoving()
            return false
        }
        kept.removeLast()
        return true
    }

    /// Without the system's help, copies take new pages.
    private func stopMoving() {
        movesPages = false
        while let last = kept.popLast() { release(last) }
    }

    private func release(_ piece: Int) {
        SystemCalls.clearMemory(range(of: piece))
        heldBytes -= pieceBytes
    }
}
