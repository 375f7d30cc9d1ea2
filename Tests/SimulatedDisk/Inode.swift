// A simulated file: what is durable of it, what processes see, and the operations between the two.

internal import Annals

/// The unit in which a disk keeps or loses what was written to it.
package let sectorBytes = 512

/// The bytes of the smallest run of sectors that covers so many bytes.
func roundedUpToSector(_ byteCount: Int) -> Int { (byteCount + sectorBytes - 1) / sectorBytes * sectorBytes }

/// A change of a file that is not durable yet.
struct PendingOperation: Sendable {
    enum SizeChange: Sendable {
        /// A write makes the file reach its end.
        case atLeast(Int)
        case exactly(Int)
    }

    /// Rises from operation to operation of one file.
    var sequence: UInt64
    /// Bytes of whole sectors as the cache held them after the operation: a disk is written in sectors, so what else
    /// stood in them goes along.
    var firstSector: Int
    var sectors: [UInt8]
    var size: SizeChange

    func newSize(after size: Int) -> Int {
        switch self.size {
        case .atLeast(let end): max(size, end)
        case .exactly(let exact): exact
        }
    }
}

enum InodeKind: Sendable, Equatable {
    case regular
    case symbolicLink(target: String)
    /// A FIFO, a device, anything that a store cannot be.
    case other
}

struct Inode: Sendable {
    var kind = InodeKind.regular
    var isInUse = true
    var mode: UInt32 = 0o600
    var owner: UInt32 = 1000
    var group: UInt32 = 1000
    var links: UInt64 = 0

    private(set) var durable: [UInt8]
    private(set) var pending: [PendingOperation] = []
    private(set) var cached: CachedBytes
    private var nextSequence: UInt64 = 1

    /// Counts the write-back errors of this file; a descriptor whose own count is lower has one to report.
    private(set) var errorCount: UInt64 = 0
    /// Whether anybody was told of the last one. While nobody was, also a descriptor opened later will be.
    private var isErrorReported = true

    init(durable: [UInt8] = []) {
        self.durable = durable
        cached = CachedBytes(durable)
    }

    /// The last operation given so far: a synchronize covers everything up to it.
    var lastSequence: UInt64 { nextSequence - 1 }

    // MARK: Changing the cache

    mutating func write(_ bytes: UnsafeRawBufferPointer, at offset: Int) {
        guard !bytes.isEmpty else { return }
        cached.write(bytes, at: offset)
        let end = offset + bytes.count
        note(offset / sectorBytes * sectorBytes..<roundedUpToSector(end), .atLeast(end))
    }

    mutating func setSize(_ size: Int) {
        let old = cached.count
        guard size != old else { return }
        cached.resize(to: size)
        // What is cut reads as zeros if the file grows again; a growing file changes no sector.
        let firstCut = size / sectorBytes * sectorBytes
        note(size < old ? firstCut..<roundedUpToSector(old) : 0..<0, .exactly(size))
    }

    private mutating func note(_ sectors: Range<Int>, _ size: PendingOperation.SizeChange) {
        pending.append(
            PendingOperation(
                sequence: nextSequence, firstSector: sectors.lowerBound / sectorBytes, sectors: cached.padded(sectors),
                size: size))
        nextSequence += 1
    }

    // MARK: Making it durable, or losing it

    /// Makes the operations up to and including `sequence` durable.
    mutating func makeDurable(through sequence: UInt64) {
        let covered = pending.prefix { $0.sequence <= sequence }.count
        for operation in pending[..<covered] {
            let size = operation.newSize(after: durable.count)
            if size < durable.count { durable.removeLast(durable.count - size) }
            if size > durable.count { durable.append(contentsOf: repeatElement(0, count: size - durable.count)) }
            let start = operation.firstSector * sectorBytes
            let count = min(operation.sectors.count, size - start)
            if count > 0 { durable.replaceSubrange(start..<start + count, with: operation.sectors[..<count]) }
        }
        pending.removeFirst(covered)
    }

    /// A write-back failed: the operations up to `sequence` never become durable, and an error waits for each
    /// descriptor.
    mutating func lose(through sequence: UInt64, revertingCache: Bool) {
        pending.removeAll { $0.sequence <= sequence }
        if revertingCache {
            pending = []
            cached.replaceAll(with: durable)
        }
        errorCount += 1
        isErrorReported = false
    }

    /// Where the error count of a descriptor opened now begins.
    var errorCountAtOpening: UInt64 { isErrorReported ? errorCount : errorCount - 1 }

    /// Whether an error waits for a descriptor that has seen `seen` of them; if so it counts as reported.
    mutating func reportError(toOneThatSaw seen: UInt64) -> Bool {
        guard seen < errorCount else { return false }
        isErrorReported = true
        return true
    }

    /// The machine starts again with what is durable (`losing`) or after everything was written back.
    mutating func restart(losingPending losing: Bool) {
        if !losing { makeDurable(through: lastSequence) }
        pending = []
        cached = CachedBytes(durable)
        isErrorReported = true
    }

    // MARK: From outside the rules

    /// Changes a byte everywhere, as rot or a stranger would.
    mutating func corrupt(at offset: Int, to byte: UInt8) {
        if offset < durable.count { durable[offset] = byte }
        withUnsafeBytes(of: byte) { cached.write($0, at: offset) }
        for index in pending.indices {
            let start = pending[index].firstSector * sectorBytes
            let sectors = start..<start + pending[index].sectors.count
            if sectors.contains(offset) { pending[index].sectors[offset - start] = byte }
        }
    }

    mutating func moveCacheToRegion(of byteCount: Int) -> Bool { cached.moveToRegion(of: byteCount) }

    mutating func release() {
        self = Inode()
        isInUse = false
    }
}
