// Writes one row of a transaction attribute by attribute: checks what is set, and fills in what is not.
//
// Invariants:
// W1  Variable attributes reach the row in the order of their positions: those that were passed over are filled in first.
// W2  An update's row has every attribute of the row before it that was not set; an insert's has the defaults.
// W3  What differs is what reads differently: an old row that is without an attribute reads as its default.
// W4  What was absent before and may not be any more has the default in an update's row, and counts as changed.

/// A row while a closure sets its attributes. Positions are those of the entity's newest layout.
///
/// Values of variable size (texts, data, lists) are set in ascending position. What is refused throws, and the row is not written.
/// Sound although it holds addresses: it lives only while the closure runs that it is lent to, and its caller holds what they are of.
package struct RowWriter: ~Copyable {
    private let shape: RowShape
    private let row: UnsafeMutablePointer<RowBuilder>
    private let bytes: UnsafeMutablePointer<ByteWriter>
    private let transaction: Unmanaged<TransactionBuilder>
    /// The row that an update changes; nil for an insert.
    private let old: RowView?
    private let hasOldLayout: Bool
    private let maximumInlineValueBytes: Int
    private var touched = AttributeSet()
    /// What differs from the old row.
    private(set) var changed = AttributeSet()
    /// What became the default because it may not be absent any more.
    private var defaulted = AttributeSet()
    private var nextVariable = 0
    /// Whether a value was refused: then the row is not written, even if whoever set it has caught the error.
    private var isRefused = false

    init(
        _ layout: RowLayout, _ row: UnsafeMutablePointer<RowBuilder>, _ bytes: UnsafeMutablePointer<ByteWriter>,
        _ transaction: TransactionBuilder, old: RowView?
    ) {
        shape = RowShape(layout)
        self.row = row
        self.bytes = bytes
        self.transaction = .passUnretained(transaction)
        maximumInlineValueBytes = transaction.limits.maximumInlineValueBytes
        self.old = old
        hasOldLayout = old.map { !$0.isLike(layout) } ?? false
    }

    package var layout: RowLayout { shape.layout.takeUnretainedValue() }

    // MARK: Fixed values

    package mutating func set(bool: Bool, at position: Int) throws(FileError) {
        try touch(position, .bool)
        if let old, let place = oldPosition(position),
            try compared({ () throws(FileError) in try old.bool(at: place) == bool })
        {
        } else {
            noteChange(position, .bool(bool))
        }
        row.pointee.set(bool: bool, at: position, in: &bytes.pointee)
    }

    package mutating func set(int: Int64, at position: Int) throws(FileError) {
        try touch(position, .int)
        if let old, let place = oldPosition(position), old.int(at: place) == int {
        } else {
            noteChange(position, .int(int))
        }
        row.pointee.set(int: int, at: position, in: &bytes.pointee)
    }

    package mutating func set(double: Double, at position: Int) throws(FileError) {
        try touch(position, .double)
        if let old, let place = oldPosition(position), old.double(at: place)?.bitPattern == double.bitPattern {
        } else {
            noteChange(position, .double(double))
        }
        row.pointee.set(double: double, at: position, in: &bytes.pointee)
    }

    /// Microseconds since 1970.
    package mutating func set(date: Int64, at position: Int) throws(FileError) {
        try touch(position, .date)
        if let old, let place = oldPosition(position), old.date(at: place) == date {
        } else {
            noteChange(position, .date(microseconds: date))
        }
        row.pointee.set(date: date, at: position, in: &bytes.pointee)
    }

    package mutating func set(uuid: UUIDBytes, at position: Int) throws(FileError) {
        try touch(position, .uuid)
        if let old, let place = oldPosition(position), old.uuid(at: place) == uuid {
        } else {
            noteChange(position, .uuid(uuid))
        }
        row.pointee.set(uuid: uuid, at: position, in: &bytes.pointee)
    }

    package mutating func set(decimal: DecimalValue, at position: Int) throws(FileError) {
        try touch(position, .decimal)
        if let old, let place = oldPosition(position),
            try compared({ () throws(FileError) in try old.decimal(at: place) == decimal })
        {
        } else {
            noteChange(position, .decimal(decimal))
        }
        row.pointee.set(decimal: decimal, at: position, in: &bytes.pointee)
    }

    package mutating func set(object: ObjectID, at position: Int) throws(FileError) {
        try touch(position, .object)
        if let old, let place = oldPosition(position),
            try compared({ () throws(FileError) in try old.object(at: place) == object })
        {
        } else {
            noteChange(position, .object(object))
        }
        row.pointee.set(object: object, at: position, in: &bytes.pointee)
    }

    /// No value, where the attribute is optional.
    package mutating func setAbsent(at position: Int) throws(FileError) {
        try checkPosition(position)
        guard shape.slot(position).isOptional else { throw missing(position) }
        if shape.slot(position).isVariable { try fillVariables(below: position) }
        touched.insert(position)
        if let old, let place = oldPosition(position), !old.isPresent(place) {
        } else {
            noteChange(position, .absent)
        }
    }

    // MARK: Variable values

    package mutating func set(text: String, at position: Int) throws(FileError) {
        try touchText(position)
        var text = text
        // A native string lends its bytes.
        if text.utf8.withContiguousStorageIfAvailable({ _ in }) == nil { text.makeContiguousUTF8() }
        var failure: FileError?
        text.withUTF8 { utf8 in
            do throws(FileError) {
                try append(UnsafeRawBufferPointer(utf8), at: position)
            } catch { failure = error }
        }
        if let failure { throw failure }
    }

    /// A text as its UTF-8; throws where it is not valid.
    package mutating func set(utf8: UnsafeRawBufferPointer, at position: Int) throws(FileError) {
        try touchText(position)
        guard utf8.isText else { throw refused("A text is not valid UTF-8.") }
        try append(utf8, at: position)
    }

    package mutating func set(data: UnsafeRawBufferPointer, at position: Int) throws(FileError) {
        try touch(position, .data)
        try append(data, at: position)
    }

    /// Any value of the attribute's type.
    package mutating func set(_ value: Value, at position: Int) throws(FileError) {
        switch value {
        case .absent: try setAbsent(at: position)
        case .bool(let bool): try set(bool: bool, at: position)
        case .int(let int): try set(int: int, at: position)
        case .double(let double): try set(double: double, at: position)
        case .date(let microseconds): try set(date: microseconds, at: position)
        case .uuid(let uuid): try set(uuid: uuid, at: position)
        case .decimal(let decimal): try set(decimal: decimal, at: position)
        case .object(let object): try set(object: object, at: position)
        case .string(let text):
            try checkPosition(position)
            guard shape.slot(position).type == .string else { throw wrongType() }
            try set(text: text, at: position)
        case .json(let text):
            try checkPosition(position)
            guard shape.slot(position).type == .json else { throw wrongType() }
            try set(text: text, at: position)
        case .data, .orderedObjects, .objects: try setBytes(of: value, at: position)
        case .large(let reference):
            try checkPosition(position)
            guard value.fits(shape.slot(position).type) else { throw wrongType() }
            try touch(position, shape.slot(position).type)
            try fillVariables(below: position)
            changed.insert(position)
            row.pointee.append(reference: reference, at: position, in: &bytes.pointee)
        }
    }

    private mutating func setBytes(of value: Value, at position: Int) throws(FileError) {
        try checkPosition(position)
        guard value.fits(shape.slot(position).type) else { throw wrongType() }
        if case .orderedObjects(let objects) = value, !ObjectList.isDistinct(objects) {
            throw refused("An ordered list names an object twice.")
        }
        try touch(position, shape.slot(position).type)
        var content = ByteWriter(capacity: max(64, value.variableBytes))
        value.appendContent(to: &content)
        try append(content.bytes, at: position)
    }

    @inline(__always)
    private mutating func append(_ content: UnsafeRawBufferPointer, at position: Int) throws(FileError) {
        if !isNextVariable(position) { try fillVariables(below: position) }
        if old == nil {
            changed.insert(position)
        } else if try differs(content, at: position) {
            changed.insert(position)
        }
        guard content.count > maximumInlineValueBytes else {
            return row.pointee.append(content, at: position, in: &bytes.pointee)
        }
        try appendLarge(content, at: position)
    }

    @inline(never)
    private mutating func appendLarge(_ content: UnsafeRawBufferPointer, at position: Int) throws(FileError) {
        var done = 0
        let large: Value
        do throws(FileError) {
            large = try transaction.takeUnretainedValue().addLargeValue(bytes: UInt64(content.count)) {
                (buffer) throws(FileError) in
                let count = min(buffer.count, content.count - done)
                buffer.copyMemory(from: content.slice(done, count))
                done += count
                return count
            }
        } catch {
            isRefused = true
            throw error
        }
        guard case .large(let reference) = large else { return }
        row.pointee.append(reference: reference, at: position, in: &bytes.pointee)
    }

    /// Values in value frames count as different: they are not read to be compared.
    private mutating func differs(_ content: UnsafeRawBufferPointer, at position: Int) throws(FileError) -> Bool {
        guard let old else { return true }
        guard let place = oldPosition(position) else {
            let before = layout.entity.attributes[position].valueBeforeItExisted
            if case .absent = before { return true }
            var written = ByteWriter(capacity: max(64, before.variableBytes))
            before.appendContent(to: &written)
            return !written.bytes.hasSameBytes(as: content)
        }
        return try compared { () throws(FileError) in
            guard case .inline(let before) = try old.variable(at: place) else { return true }
            return !before.hasSameBytes(as: content)
        }
    }

    /// The attribute was set, and does not stand like that in the old row. An old row without the attribute read as if it had the value from before
    /// the attribute existed.
    @inline(__always)
    private mutating func noteChange(_ position: Int, _ value: @autoclosure () -> Value) {
        if hasOldLayout, oldPosition(position) == nil, isValueBeforeItExisted(value(), position) { return }
        changed.insert(position)
    }

    @inline(never)
    private func isValueBeforeItExisted(_ value: Value, _ position: Int) -> Bool {
        layout.entity.attributes[position].valueBeforeItExisted == value
    }

    /// Looks at the old row: where that is damaged the new one is not written, even if whoever set the value has caught the error.
    @inline(__always)
    private mutating func compared(_ body: () throws(FileError) -> Bool) throws(FileError) -> Bool {
        do throws(FileError) {
            return try body()
        } catch {
            isRefused = true
            throw error
        }
    }

    /// Says that a value could not be given: the row is not written then.
    package mutating func refuse() { isRefused = true }

    // MARK: Checks

    @inline(__always)
    private mutating func touch(_ position: Int, _ type: AttributeType) throws(FileError) {
        try checkPosition(position)
        guard shape.slot(position).type == type else { throw wrongType() }
        touched.insert(position)
    }

    @inline(__always)
    private mutating func touchText(_ position: Int) throws(FileError) {
        try checkPosition(position)
        guard shape.slot(position).type.isText else { throw wrongType() }
        touched.insert(position)
    }

    @inline(__always)
    private mutating func checkPosition(_ position: Int) throws(FileError) {
        guard position >= 0, position < shape.count else {
            throw refused("The entity has no attribute at that position.")
        }
        guard !touched.contains(position) else { throw refused("An attribute is set twice.") }
    }

    @inline(never)
    private mutating func wrongType() -> FileError { refused("A value is not of its attribute's type.") }

    @inline(never)
    private mutating func refused(_ message: String) -> FileError {
        isRefused = true
        return FileError(.invalidArgument, message)
    }

    @inline(never)
    private mutating func missing(_ position: Int) -> FileError {
        isRefused = true
        return FileError(
            .requiredMissing,
            "“\(layout.entity.attributes[position].name)” of “\(layout.entity.name)” must have a value: it is not optional."
        )
    }

    // MARK: What is not set

    @inline(__always)
    private func oldPosition(_ position: Int) -> Int? {
        hasOldLayout ? old?.layout.position(ofAttribute: layout.entity.attributes[position].number) : position
    }

    /// Goes on to the attribute if it is the next one of variable size, as it mostly is.
    @inline(__always)
    private mutating func isNextVariable(_ position: Int) -> Bool {
        guard nextVariable < shape.variableCount, shape.variable(nextVariable) == position else { return false }
        nextVariable += 1
        return true
    }

    /// Fills in the variable attributes that were passed over.
    private mutating func fillVariables(below position: Int) throws(FileError) {
        while nextVariable < shape.variableCount, shape.variable(nextVariable) < position {
            try fill(shape.variable(nextVariable))
            nextVariable += 1
        }
        guard isNextVariable(position) else {
            throw refused("Texts, data and lists are set in the order of their attributes.")
        }
    }

    /// Fills in everything that was not set. The row can then be finished.
    mutating func finish() throws(FileError) {
        if isRefused {
            throw refused(
                "A value of this row was refused, so the row is not written: let the error pass, or write the row anew."
            )
        }
        while nextVariable < shape.variableCount {
            try fill(shape.variable(nextVariable))
            nextVariable += 1
        }
        for position in 0..<shape.count where !touched.contains(position) && !shape.slot(position).isVariable {
            try fill(position)
        }
        if !defaulted.isEmpty { changed.formUnion(defaulted) }
    }

    /// The value that the attribute has where it is not set.
    private mutating func fill(_ position: Int) throws(FileError) {
        if touched.contains(position) { return }
        if let old, let place = oldPosition(position) {
            if old.isPresent(place) || shape.slot(position).isOptional { return try copy(old, place, to: position) }
            defaulted.insert(position)
        }
        guard shape.hasDefaults else {
            if !shape.slot(position).isOptional { throw missing(position) }
            return
        }
        let attribute = layout.entity.attributes[position]
        if attribute.defaultValue != nil {
            var value = RowFill(row: row, bytes: bytes)
            try value.append(attribute.valueBeforeItExisted, position)
        } else if !attribute.isOptional {
            throw missing(position)
        }
    }

    private func copy(_ old: RowView, _ place: Int, to position: Int) throws(FileError) {
        guard old.isPresent(place) else { return }
        let type = shape.slot(position).type
        guard type.isVariable else {
            var value = RowFill(row: row, bytes: bytes)
            return try value.append(try old.value(at: place), position)
        }
        switch try old.variable(at: place) {
        case .absent: return
        case .inline(let content): row.pointee.append(content, at: position, in: &bytes.pointee)
        case .large(let reference): row.pointee.append(reference: reference, at: position, in: &bytes.pointee)
        }
    }
}

/// Sets a value that was checked before: of an older row, or a default.
private struct RowFill {
    let row: UnsafeMutablePointer<RowBuilder>
    let bytes: UnsafeMutablePointer<ByteWriter>

    mutating func append(_ value: Value, _ position: Int) throws(FileError) {
        switch value {
        case .absent: break
        case .bool(let bool): row.pointee.set(bool: bool, at: position, in: &bytes.pointee)
        case .int(let int): row.pointee.set(int: int, at: position, in: &bytes.pointee)
        case .double(let double): row.pointee.set(double: double, at: position, in: &bytes.pointee)
        case .date(let microseconds): row.pointee.set(date: microseconds, at: position, in: &bytes.pointee)
        case .uuid(let uuid): row.pointee.set(uuid: uuid, at: position, in: &bytes.pointee)
        case .decimal(let decimal): row.pointee.set(decimal: decimal, at: position, in: &bytes.pointee)
        case .object(let object): row.pointee.set(object: object, at: position, in: &bytes.pointee)
        case .large(let reference): row.pointee.append(reference: reference, at: position, in: &bytes.pointee)
        case .string, .json, .data, .orderedObjects, .objects:
            var content = ByteWriter(capacity: max(64, value.variableBytes))
            value.appendContent(to: &content)
            row.pointee.append(content.bytes, at: position, in: &bytes.pointee)
        }
    }
}

extension UnsafeRawBufferPointer {
    func hasSameBytes(as other: UnsafeRawBufferPointer) -> Bool {
        count == other.count && OrderedBytes.commonBytes(self, other, limit: count) == count
    }
}
