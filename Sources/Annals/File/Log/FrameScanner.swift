// Reads frames one after the other, following the chain. It only reads: its callers judge a bad place.

/// The reason why a scanner stopped.
package enum ScanStop: Equatable, Sendable {
    /// Fewer than 64 bytes are left in the file, or the next 64 are zeros.
    case nothing
    case badHeader
    /// A header whose checksum is right, with sizes that no frame has.
    case impossibleSize
    /// A header that checks but names another frame as the one before it.
    case brokenChain
    case badTable
    case badBody
    /// The file ends within the frame.
    case cutShort
    case unsupported(kind: UInt8, flags: UInt8)

    var place: StopFindings.Place {
        switch self {
        case .nothing: .nothing
        case .unsupported: .unsupported
        case .impossibleSize: .invalid
        default: .bad
        }
    }

    package var sentence: String {
        switch self {
        case .nothing: "nothing was written here"
        case .badHeader: "F4: no valid frame header begins here"
        case .impossibleSize: "F6: the header of this frame matches its checksum, but its sizes are impossible"
        case .brokenChain: "F5: the frame here does not follow the one before it"
        case .badTable: "F7: the table of this frame does not match its checksum"
        case .badBody: "F7: the body of this frame does not match its checksum"
        case .cutShort: "F4: the file ends within this frame"
        case .unsupported(let kind, let flags) where kind > 0 && FrameKind(rawValue: kind) != nil && flags <= 1:
            "F8: a reserved field of this frame's header is in use"
        case .unsupported(let kind, let flags): "F8: kind \(kind) with flags \(flags) is unknown"
        }
    }
}

package enum ScanStep {
    /// A good frame of the chain; its bytes live until the next step.
    case frame(FrameView)
    case stop(ScanStop)
}

/// Follows the chain of frames from a place where the checksum of the frame before is known.
final class FrameScanner {
    private var cursor: FrameCursor
    private var previousChecksum: UInt64

    init(window: ByteWindow, salt: UInt64, position: UInt64, previousChecksum: UInt64) {
        cursor = FrameCursor(window, salt: salt, at: position)
        self.previousChecksum = previousChecksum
    }

    var position: UInt64 { cursor.position }

    /// The next frame, or the reason for stopping. After a stop, the next call reads the same place again.
    func next() throws(StoreError) -> ScanStep {
        let header: FrameHeader
        switch try cursor.decoded() {
        case .bad:
            if try cursor.isZero() { return .stop(.nothing) }
            return .stop(try cursor.hasImpossibleSize() ? .impossibleSize : .badHeader)
        case .unsupported(let kind, let flags):
            return .stop(.unsupported(kind: kind, flags: flags))
        case .good(let decoded): header = decoded
        }
        guard header.previousChecksum == previousChecksum else { return .stop(.brokenChain) }
        guard let frame = try cursor.unverified(header) else { return .stop(.cutShort) }
        guard frame.checksumsMatch(salt: cursor.salt) else {
            return .stop(frame.tableMatches(salt: cursor.salt) ? .badBody : .badTable)
        }
        assert(frame.offset == cursor.position && frame.end > frame.offset, "A scanner does not advance.")
        cursor.position = frame.end
        previousChecksum = header.checksum
        return .frame(frame)
    }
}

extension UnsafeRawBufferPointer {
    /// Whether all bytes are zero.
    package var allZero: Bool {
        // Only an empty buffer may have no base address.
        guard let base = baseAddress else { return true }
        var position = 0
        while count &- position >= 8 {
            if base.loadUnaligned(fromByteOffset: position, as: UInt64.self) != 0 { return false }
            position &+= 8
        }
        while position < count {
            if self[position] != 0 { return false }
            position += 1
        }
        return true
    }
}
