// Values that leave their row: cut into value frames, which precede the rows that name them.

extension DraftFrames {
    /// Reads a value in pieces from `source`, which fills the buffer and returns the number of bytes, at least 1. Rows
    /// of this transaction may then contain the value.
    package func addLargeValue(
        bytes: UInt64, from source: (UnsafeMutableRawBufferPointer) throws(StoreError) -> Int
    ) throws(StoreError) -> StoredValue {
        guard bytes >= 1, bytes <= UInt64(FormatLimits.maximumValueBytes) else {
            throw StoreError(
                .tooLarge,
                "A value may have 1 to \(FormatLimits.maximumValueBytes) bytes, and this one has \(bytes).")
        }
        let front = FrameField.bytes + ValueField.bytes
        let pieceLimit = UInt64((limits.maximumFrameBytes - front) & ~7)
        assert(pieceLimit > 0, "A value frame has no room for a piece.")
        try requireUsable(whileRowIsWritten: true)
        var position: UInt64 = 0
        var piecesSoFar = 0
        while position < bytes {
            let piece = Int(min(pieceLimit, bytes - position))
            scratch.truncate()
            scratch.appendZeros(front + piece.paddedTo8)
            do throws(StoreError) {
                try fill(scratch.mutableBytes(front..<(front + piece)), from: source)
            } catch {
                // Drops the pieces so far, which belong to no value.
                prepared.members.removeLast(piecesSoFar)
                throw error
            }
            let record = ValuePiece(valueBytes: bytes, position: position, first: 0, pieceBytes: UInt32(piece))
            record.encode(into: scratch.mutableBytes(FrameField.bytes..<front))
            try spoolScratch(tableBytes: ValueField.bytes, content: .value(values, position))
            position += UInt64(piece)
            piecesSoFar += 1
        }
        values += 1
        assert(position == bytes, "A large value is not complete.")
        guard let reference = OwnValue.reference(index: values - 1, bytes: bytes) else {
            throw StoreError(.tooLarge, "A transaction has too many large values: use several transactions.")
        }
        return .large(reference)
    }

    private func fill(
        _ buffer: UnsafeMutableRawBufferPointer,
        from source: (UnsafeMutableRawBufferPointer) throws(StoreError) -> Int
    ) throws(StoreError) {
        var done = 0
        while done < buffer.count {
            let rest = UnsafeMutableRawBufferPointer(rebasing: buffer[done...])
            let count = try source(rest)
            guard count > 0, count <= rest.count else {
                throw StoreError(.invalidArgument, "The source of a large value ended before its announced size.")
            }
            done += count
        }
    }

    /// The positions, ascending, of the values that must be put in value frames and replaced by references: those over
    /// the limit for one value; then the largest first, and of equals the first, until the row fits. A value no longer
    /// than a reference stays. Indexed values are moved only as a last resort: such a row is refused.
    package static func valuesToMoveOut(
        _ values: [StoredValue], of entity: EntityDefinition? = nil, limits: InlineLimits = InlineLimits()
    ) -> [Int] {
        fits(values, limits) ? [] : largestValues(values, entity, limits)
    }

    /// Nearly every row fits, and then nothing is allocated.
    private static func fits(_ values: [StoredValue], _ limits: InlineLimits) -> Bool {
        var total = 0
        for value in values {
            let bytes = value.variableBytes
            if bytes > limits.valueBytes { return false }
            total += bytes
        }
        return total <= limits.rowBytes
    }

    private static func largestValues(
        _ values: [StoredValue], _ entity: EntityDefinition?, _ limits: InlineLimits
    ) -> [Int] {
        let indexed = entity?.attributesInIndexes ?? []
        var moved: [Int] = []
        var inline: [(isIndexed: Bool, bytes: Int, position: Int)] = []
        var total = 0
        for (position, value) in values.enumerated() {
            let bytes = value.variableBytes
            if case .large = value {
                total += bytes
            } else if bytes > limits.valueBytes && bytes > ReferenceField.bytes {
                moved.append(position)
                total += ReferenceField.bytes
            } else {
                total += bytes
                if bytes > ReferenceField.bytes {
                    let isIndexed = entity.map { indexed.contains($0.attributes[position].number) } ?? false
                    inline.append((isIndexed, bytes, position))
                }
            }
        }
        guard total > limits.rowBytes else { return moved }
        inline.putInOrder {
            if $0.isIndexed != $1.isIndexed { return $1.isIndexed }
            return $0.bytes != $1.bytes ? $0.bytes > $1.bytes : $0.position < $1.position
        }
        for value in inline where total > limits.rowBytes {
            moved.append(value.position)
            total -= value.bytes - ReferenceField.bytes
        }
        return moved.inOrder()
    }

    func moveOutLargeValues(_ row: [StoredValue], of entity: EntityDefinition) throws(StoreError) -> [StoredValue] {
        let positions = Self.valuesToMoveOut(
            row, of: entity,
            limits: InlineLimits(valueBytes: limits.maximumInlineValueBytes, rowBytes: limits.maximumInlineRowBytes))
        if positions.isEmpty { return row }
        var values = row
        for position in positions { values[position] = try moveOut(row[position]) }
        return values
    }

    private func moveOut(_ value: StoredValue) throws(StoreError) -> StoredValue {
        var content = ByteWriter(capacity: max(64, value.variableBytes))
        switch value {
        case .string(let text), .json(let text): content.append(text: text)
        case .data(let bytes): content.append(bytes)
        case .orderedObjects(let objects):
            try ObjectList.require(value)
            for object in objects { content.append(object.rawValue) }
        case .objects(let objects):
            try ObjectList.require(value)
            for object in ObjectList.set(objects) { content.append(object.rawValue) }
        default: break
        }
        var done = 0
        return try addLargeValue(bytes: UInt64(content.count)) { buffer throws(StoreError) in
            let count = min(buffer.count, content.count - done)
            buffer.copyMemory(from: content.bytes.slice(done, count))
            done += count
            return count
        }
    }

    /// Remembers where a row that was just written has references to values of this transaction.
    @inline(__always)
    func noteRelocations(layout: RowLayout, rowStart: Int) {
        if values > 0 { findRelocations(layout, rowStart) }
    }

    private func findRelocations(_ layout: RowLayout, _ rowStart: Int) {
        for position in layout.variables {
            let slot = body.bytes.integer(at: rowStart + Int(layout.slots[Int(position)].offset), as: UInt32.self)
            guard slot & RowField.largeBit != 0 else { continue }
            let start = rowStart + Int(slot & ~RowField.largeBit) - ReferenceField.bytes
            let offset = body.bytes.integer(at: start + ReferenceField.offset, as: UInt64.self)
            guard let index = OwnValue.index(ofOffset: offset, of: values) else { continue }
            assert((relocations.last?.position ?? -1) < start - headroom, "B5: a reference is noted twice.")
            relocations.append(Relocation(position: start - headroom, value: index))
        }
    }
}

extension DraftFrames {
    /// The content of a value to which a row of this transaction refers; nil if the reference leads to a value in the
    /// file.
    package func ownContent(of reference: LargeValueReference) throws(StoreError) -> [UInt8]? {
        guard let value = OwnValue.index(ofOffset: reference.offset, of: values) else { return nil }
        let front = FrameField.bytes + ValueField.bytes
        var content: [UInt8] = []
        for frame in prepared.members {
            guard case .value(value, _) = frame.content else { continue }
            try prepared.spool.withBytes(at: frame.spoolOffset, count: Int(frame.frameBytes)) {
                (bytes) throws(StoreError) in
                let pieceBytes = bytes.integer(at: FrameField.bytes + ValueField.pieceBytes, as: UInt32.self)
                content += bytes.slice(front, Int(pieceBytes))
            }
        }
        return content
    }
}

/// The size up to which values may be in the row itself. A writer may choose less than the format's limits, never more.
package struct InlineLimits: Equatable, Sendable {
    package let valueBytes: Int
    package let rowBytes: Int

    package init(
        valueBytes: Int = FormatLimits.maximumInlineValueBytes, rowBytes: Int = FormatLimits.maximumInlineRowBytes
    ) {
        self.valueBytes = min(valueBytes, FormatLimits.maximumInlineValueBytes)
        self.rowBytes = min(rowBytes, FormatLimits.maximumInlineRowBytes)
    }
}

/// References to values whose offset is not known yet: numbers above every possible offset.
enum OwnValue {
    static func reference(index: Int, bytes: UInt64) -> LargeValueReference? {
        LargeValueReference(
            offset: FormatLimits.maximumFileBytes - UInt64(index + 1) * 8, valueBytes: bytes, checksum: 0)
    }

    static func index(ofOffset offset: UInt64, of count: Int) -> Int? {
        let index = (FormatLimits.maximumFileBytes - offset) / 8
        return index >= 1 && index <= UInt64(count) ? Int(index) - 1 : nil
    }
}
