// Rows from values, checked: what is not to be written throws and leaves the writer as it was.

/// How much may stand in a row itself. A writer may choose less than the format's limits, never more.
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

package enum RowEncoder {
    /// The positions, ascending, of the values that must be put in value frames and replaced by references: those over
    /// the limit for one value; then the largest first, and of equals the first, until the row fits. A value no longer
    /// than a reference stays. Values that an index of the entity is over are moved only if nothing else makes room:
    /// such a row is refused.
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
        inline.sort {
            if $0.isIndexed != $1.isIndexed { return $1.isIndexed }
            return $0.bytes != $1.bytes ? $0.bytes > $1.bytes : $0.position < $1.position
        }
        for value in inline where total > limits.rowBytes {
            moved.append(value.position)
            total -= value.bytes - ReferenceField.bytes
        }
        return moved.sorted()
    }

    /// Appends a row of these values, one for each attribute of the layout in its order; returns its size without
    /// padding.
    ///
    /// Throws `invalidArgument` if a value is not of its type, absent though required, or a list with an object
    /// twice, and `tooLarge` if `valuesToMoveOut` was not heeded.
    @discardableResult
    package static func append(
        _ values: [StoredValue], layout: RowLayout, entryDistance: UInt16, schemaVersion: UInt16,
        isDeletion: Bool = false,
        to writer: inout ByteWriter
    ) throws(StoreError) -> Int {
        guard values.count == layout.count else { throw refused("A row has not one value for each attribute.") }
        let start = writer.count
        var row = RowBuilder(layout, entryDistance: entryDistance, schemaVersion: schemaVersion, in: &writer)
        do throws(StoreError) {
            var variableBytes = 0
            for position in 0..<values.count {
                let slot = layout.slots[position]
                try validate(values[position], slot, isDeletion)
                variableBytes += try append(values[position], position, to: &row, &writer)
            }
            guard variableBytes <= FormatLimits.maximumInlineRowBytes else { throw tooLarge() }
        } catch {
            writer.truncate(to: start)
            throw error
        }
        return row.finish(in: &writer)
    }

    @inline(__always)
    private static func validate(_ value: StoredValue, _ slot: RowSlot, _ isDeletion: Bool) throws(StoreError) {
        if case .absent = value {
            guard slot.isOptional || isDeletion else { throw refused("A required attribute has no value.") }
            return
        }
        guard value.fits(slot.type) else { throw refused("A value is not of its attribute's type.") }
        guard !isDeletion || slot.isPreservedOnDeletion else {
            throw refused("A deleted object's row holds an attribute that is not preserved.")
        }
    }

    /// Returns what the value takes of the variable part.
    @inline(__always)
    private static func append(
        _ value: StoredValue, _ position: Int, to row: inout RowBuilder, _ writer: inout ByteWriter
    ) throws(StoreError) -> Int {
        switch value {
        case .absent: break
        case .bool(let bool): row.set(bool: bool, at: position, in: &writer)
        case .int(let int): row.set(int: int, at: position, in: &writer)
        case .double(let double): row.set(double: double, at: position, in: &writer)
        case .date(let seconds): row.set(date: seconds, at: position, in: &writer)
        case .uuid(let uuid): row.set(uuid: uuid, at: position, in: &writer)
        case .decimal(let decimal): row.set(decimal: decimal, at: position, in: &writer)
        case .object(let object): row.set(object: object, at: position, in: &writer)
        case .string(let text), .json(let text):
            let bytes = try inline(text.utf8.count)
            row.append(text: text, at: position, in: &writer)
            return bytes
        case .data(let data):
            let bytes = try inline(data.count)
            data.withUnsafeBytes { row.append($0, at: position, in: &writer) }
            return bytes
        case .orderedObjects(let objects):
            try ObjectList.require(value)
            return try append(objects, position, to: &row, &writer)
        case .objects(let objects):
            try ObjectList.require(value)
            return try append(ObjectList.set(objects), position, to: &row, &writer)
        case .large(let reference):
            row.append(reference: reference, at: position, in: &writer)
            return ReferenceField.bytes
        }
        return 0
    }

    private static func append(
        _ objects: [ObjectID], _ position: Int, to row: inout RowBuilder, _ writer: inout ByteWriter
    ) throws(StoreError) -> Int {
        let bytes = try inline(objects.count * 8)
        row.append(objects: objects, at: position, in: &writer)
        return bytes
    }

    private static func inline(_ bytes: Int) throws(StoreError) -> Int {
        guard bytes <= FormatLimits.maximumInlineValueBytes else { throw tooLarge() }
        return bytes
    }

    @inline(never)
    private static func refused(_ message: String) -> StoreError { StoreError(.invalidArgument, message) }

    @inline(never)
    private static func tooLarge() -> StoreError {
        StoreError(.tooLarge, "The values of a row are too long to stand in it. Put them in value frames.")
    }
}
