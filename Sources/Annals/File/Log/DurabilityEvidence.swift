// Looks above a bad place for evidence that bytes there were durable. For the verdict only, never for data.

/// Searches all bytes from `place` to the end of the file for evidence of durability.
///
/// `position` is the end of the frames that count: `place`, or the start of the transaction that contains `place`. A
/// hint above it, or a frame header that checks and whose durable mark lies above it, is evidence. Linear in the bytes
/// written above the place.
enum DurabilityEvidence {
    static func look(
        _ window: ByteWindow, from place: UInt64, position: UInt64, salt: UInt64, hintedEnd: UInt64
    ) throws(StoreError) -> StopFindings.Above {
        if hintedEnd > position { return .evidence }
        var onlyZeros = true
        var offset = place
        let step = 1 << 16
        // Skips space that was reserved and never written, often some MiB. A header may begin in the zeros before other
        // bytes.
        while let content = try window.content(from: offset) {
            offset = max(offset, (content - min(content, UInt64(FrameField.bytes))) & ~7)
            let bytes = try window.bytes(at: offset, count: step)
            var index = 0
            while index + FrameField.bytes <= bytes.count {
                let at = offset + UInt64(index)
                let header = bytes.slice(index, FrameField.bytes)
                if FrameHeader.provenMark(header, offset: at, salt: salt, above: position) != nil { return .evidence }
                index += FormatLimits.frameAlignment
            }
            onlyZeros = onlyZeros && bytes.allZero
            if bytes.count < step { break }
            // The last header that fits begins 64 bytes before the end of these bytes: the next stretch begins after
            // it.
            offset += UInt64(index)
        }
        return onlyZeros ? .zeros : .otherBytes
    }
}
