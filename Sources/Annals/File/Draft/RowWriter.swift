// Writes one row of a transaction attribute by attribute: validates the values that are set, and fills in the rest.
//
// Invariants:
// W1  Variable attributes reach the row in the order of their positions. Skipped ones are filled in first.
// W2  An update's row keeps every attribute that was not set. An insert's row has the defaults, or the deleted values
//     if the object is inserted again.
// W3  Values differ if they read differently. An old row that lacks an attribute reads as its default.
// W4  A value that was absent but no longer may be becomes the default in an update's row, and counts as changed.

/// Sets the values of one object that is inserted or updated. It lives until the closure that borrows it returns.
///
/// Positions are those of the entity handle. Set strings, data, JSON and lists in ascending position, and each position
/// once. In an insert, an attribute that you do not set has its default or null. In an update it keeps its value. If a
/// method throws, nothing of the object is written; let the error pass.
///
/// All methods throw `invalidArgument` for an unknown position or a wrong order, `typeMismatch` or `invalidArgument`
/// for another type, and `tooLarge`.
///
/// Sound although it holds addresses: it lives only while the closure that borrows it runs, and its caller holds the
/// memory.
public struct RowWriter: ~Copyable {
    /// First, because of the thread sanitizer. If `bytes.pointee` changes, the compiler reports a change of this
    /// struct, at the address in its first word. That must be memory of this thread alone.
    let bytes: UnsafeMutablePointer<ByteWriter>
    let shape: RowShape
    /// The row's offset in `bytes`.
    let start: Int
    /// The first variable attribute whose slot is not yet written.
    var nextVariable = 0
    private let frames: Unmanaged<DraftFrames>
    /// The row that an update changes, or that a deletion has removed; nil for a new row.
    private let old: RowImage?
    private let hasOldLayout: Bool
    let maximumInlineValueBytes: Int
    private let marks: AttributeNotes
    /// The number of attributes of fixed size that were not set.
    var fixedToSet: Int
    let purpose: Purpose
    /// Whether it is a new row and no attribute of fixed size was set to null. Then the presence bits show which were
    /// set.
    var isPlain: Bool
    /// Whether a value was refused. Then the row is not written, even if the caller has caught the error.
    private var isRefused = false
    /// Whether values must be moved out of the finished row.
    private(set) var isTooLong = false

    /// The purpose of a row.
    package enum Purpose {
        /// An object that is inserted, or updated. An attribute that is not set has its default, or keeps its value.
        case object
        /// An update, which throws `unchanged` if nothing differs.
        case difference
        /// An object that is inserted again. An attribute that is not set keeps its deleted value.
        case objectAgain
        /// A deletion, whose row has only the values that are set.
        case deletion
    }

    init(
        _ layout: RowLayout, _ bytes: UnsafeMutablePointer<ByteWriter>, _ frames: DraftFrames, distance: UInt16,
        old: RowImage?, _ purpose: Purpose
    ) {
        self.bytes = bytes
        shape = RowShape(layout)
        start = bytes.pointee.count
        self.frames = .passUnretained(frames)
        maximumInlineValueBytes = frames.limits.maximumInlineValueBytes
        marks = frames.marks
        marks.begin(attributes: shape.count)
        fixedToSet = shape.count &- shape.variableCount
        self.purpose = purpose
        isPlain = old == nil
        self.old = old
        hasOldLayout = old.map { !$0.isLike(layout) } ?? false
        bytes.pointee.appendFewZeros(shape.variableOffset)
        bytes.pointee.patch(UInt32(distance) | UInt32(frames.schemaVersion) << 16, at: start)
    }

    /// Whether the object is inserted again.
    var isInsertedAgain: Bool { purpose == .objectAgain }

    /// Whether the row has no predecessor.
    @inline(__always)
    var isNew: Bool { old == nil }

    /// Sets the attributes that `set` sets, and all others that the row must have. Throws `unchanged` if something must
    /// differ and nothing does.
    @inline(__always)
    mutating func write(_ set: (inout RowWriter) throws(StoreError) -> Void) throws(StoreError) {
        try set(&self)
        if purpose == .difference, !isRefused, changed.isEmpty { throw StoreError(.unchanged, "Nothing differs.") }
        try fillIn()
        isTooLong = variableBytes > frames.takeUnretainedValue().limits.maximumInlineRowBytes
        finish()
    }

    package var layout: RowLayout { shape.layout.takeUnretainedValue() }

    /// Whether a value set so far differs from the old row.
    package var differs: Bool { !changed.isEmpty }

    /// The attributes that differ from the old row; nothing without one.
    var changed: AttributeSet { old == nil ? AttributeSet() : marks.changes(attributes: shape.count) }

    // MARK: Fixed values

    /// Sets a value in the row of an insert. Returns false if that takes more work, or the value is refused: then call
    /// `set`. The same holds for the other functions of this name.
    @inline(__always)
    package mutating func storeNew(bool: Bool, at position: Int) -> Bool {
        guard let place = placeOfNew(1, position) else { return false }
        place.storeBytes(of: bool ? 1 : 0, as: UInt8.self)
        return true
    }

    @inline(__always)
    package mutating func storeNew(int: Int64, at position: Int) -> Bool {
        storeNew(word: UInt64(bitPattern: int), 2, position)
    }

    @inline(__always)
    package mutating func storeNew(double: Double, at position: Int) -> Bool {
        storeNew(word: double.bitPattern, 3, position)
    }

    /// Seconds since 2001-01-01T00:00:00Z.
    @inline(__always)
    package mutating func storeNew(date: Double, at position: Int) -> Bool {
        storeNew(word: date.bitPattern, 6, position)
    }

    @inline(__always)
    mutating func storeNew(word: UInt64, _ typeNumber: UInt8, _ position: Int) -> Bool {
        guard let place = placeOfNew(typeNumber, position) else { return false }
        place.storeBytes(of: word.littleEndian, as: UInt64.self)
        return true
    }

    /// Marks a fixed attribute as set. The row's slots and presence bits are in `bytes` from `start` on.
    @inline(__always)
    mutating func placeOfNew(_ typeNumber: UInt8, _ position: Int) -> UnsafeMutableRawPointer? {
        let content = shape.content
        guard isPlain, UInt(bitPattern: position) < UInt(bitPattern: content.pointee.count),
            content.pointee.slots[position].typeNumber == typeNumber
        else { return nil }
        let row = row
        guard markPresent(position, in: row) else { return nil }
        fixedToSet &-= 1
        return row + Int(content.pointee.slots[position].offset)
    }

    /// Sets a value of fixed size.
    private mutating func setFixed(_ value: StoredValue, at position: Int) throws(StoreError) {
        guard value.fits(try slot(position).type) else { throw wrongType() }
        if isSet(position) { throw setTwice() }
        if old != nil { try noteIfChanged(value, position) }
        fixedToSet &-= 1
        store(value, at: position)
    }

    /// Sets null, if the attribute is optional.
    package mutating func setAbsent(at position: Int) throws(StoreError) {
        let slot = try slot(position)
        guard slot.isOptional else { throw missing(position) }
        if slot.isVariable {
            try beginVariable(slot)
            skipVariables(to: Int(slot.variableIndex) &+ 1)
        } else {
            if isSet(position) { throw setTwice() }
            marks.noteAbsence(position)
            isPlain = false
            fixedToSet &-= 1
        }
        guard let old else { return }
        if let place = oldPosition(position) {
            if old.isPresent(place) { marks.noteChange(position) }
        } else if valueBeforeItExisted(position) != .absent {
            marks.noteChange(position)
        }
    }

    /// Notes that a fixed attribute changed, unless the old row has the same value (W3). A row without the attribute
    /// reads as the default.
    @inline(never)
    private mutating func noteIfChanged(_ value: StoredValue, _ position: Int) throws(StoreError) {
        guard let old else { return }
        if let place = oldPosition(position) {
            if try compared({ () throws(StoreError) in try old.value(at: place) == value }) { return }
        } else if valueBeforeItExisted(position) == value {
            return
        }
        marks.noteChange(position)
    }

    /// The old row's value at a position; nil for a new row, and if the old row has no such attribute.
    func valueBefore(at position: Int) throws(StoreError) -> StoredValue? {
        guard let old, let place = oldPosition(position) else { return nil }
        return try old.value(at: place)
    }

    private func valueBeforeItExisted(_ position: Int) -> StoredValue {
        layout.entity.attributes[position].valueBeforeItExisted
    }

    // MARK: Variable values

    package mutating func set(text: String, at position: Int) throws(StoreError) {
        let slot = try textSlot(position)
        var text = text
        // Native strings lend their bytes.
        if text.utf8.withContiguousStorageIfAvailable({ _ in }) == nil { text.makeContiguousUTF8() }
        var failure: StoreError?
        text.withUTF8 { utf8 in
            do throws(StoreError) {
                try append(UnsafeRawBufferPointer(utf8), slot, at: position)
            } catch { failure = error }
        }
        if let failure { throw failure }
    }

    /// Sets a text from its UTF-8 in the row of an insert, if it is the next variable attribute. Returns false like the
    /// functions for fixed sizes.
    @inline(__always)
    package mutating func storeNew(utf8: UnsafeRawBufferPointer, at position: Int) -> Bool {
        let content = shape.content
        guard isNew, UInt(bitPattern: position) < UInt(bitPattern: content.pointee.count) else { return false }
        let slot = content.pointee.slots + position
        guard slot.pointee.isText, Int(slot.pointee.variableIndex) == nextVariable,
            utf8.count <= maximumInlineValueBytes
        else { return false }
        let before = bytes.pointee.count
        guard bytes.pointee.appendNotingASCII(utf8) || utf8.isText else {
            bytes.pointee.truncate(to: before)
            return false
        }
        nextVariable &+= 1
        let row = bytes.pointee.base + start
        let end = UInt32(truncatingIfNeeded: bytes.pointee.count &- start)
        row.storeBytes(of: end.littleEndian, toByteOffset: Int(slot.pointee.offset), as: UInt32.self)
        markPresent(position, in: row)
        return true
    }

    /// Sets a string or JSON from its UTF-8. Throws `invalidArgument` if it is not valid.
    public mutating func set(utf8: UnsafeRawBufferPointer, at position: Int) throws(StoreError) {
        if storeNew(utf8: utf8, at: position) { return }
        let slot = try textSlot(position)
        guard utf8.isText else { throw refused("A text is not valid UTF-8.") }
        try append(utf8, slot, at: position)
    }

    /// Sets the bytes of data.
    public mutating func set(data: UnsafeRawBufferPointer, at position: Int) throws(StoreError) {
        try append(data, try slot(position, .data), at: position)
    }

    /// Sets any value of the attribute's type.
    package mutating func set(stored value: StoredValue, at position: Int) throws(StoreError) {
        switch value {
        case .absent: try setAbsent(at: position)
        case .bool, .int, .double, .date, .uuid, .decimal, .object: try setFixed(value, at: position)
        case .string(let text):
            guard try slot(position).type == .string else { throw wrongType() }
            try set(text: text, at: position)
        case .json(let text):
            guard try slot(position).type == .json else { throw wrongType() }
            try set(text: text, at: position)
        case .data, .orderedObjects, .objects: try setBytes(of: value, at: position)
        case .large(let reference):
            let slot = try slot(position)
            guard value.fits(slot.type) else { throw wrongType() }
            try beginVariable(slot)
            marks.noteChange(position)
            append(reference: reference, slot, position)
        }
    }

    private mutating func setBytes(of value: StoredValue, at position: Int) throws(StoreError) {
        let slot = try slot(position)
        guard value.fits(slot.type) else { throw wrongType() }
        try ObjectList.require(value)
        var content = ByteWriter(capacity: max(64, value.variableBytes))
        value.appendContent(to: &content)
        try append(content.bytes, slot, at: position)
    }

    private mutating func append(
        _ content: UnsafeRawBufferPointer, _ slot: RowSlot, at position: Int
    ) throws(StoreError) {
        if Int(slot.variableIndex) != nextVariable { try beginVariable(slot) }
        if old != nil, try differs(content, at: position) { marks.noteChange(position) }
        guard content.count > maximumInlineValueBytes else {
            return append(inline: content, slot, position)
        }
        try appendLarge(content, at: position)
    }

    @inline(never)
    private mutating func appendLarge(_ content: UnsafeRawBufferPointer, at position: Int) throws(StoreError) {
        var done = 0
        let large: StoredValue
        do throws(StoreError) {
            large = try frames.takeUnretainedValue().addLargeValue(bytes: UInt64(content.count)) {
                (buffer) throws(StoreError) in
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
        append(reference: reference, shape.slot(position), position)
    }

    /// Values in value frames count as different: they are not read for the comparison.
    private mutating func differs(_ content: UnsafeRawBufferPointer, at position: Int) throws(StoreError) -> Bool {
        guard let old else { return true }
        guard let place = oldPosition(position) else {
            let before = valueBeforeItExisted(position)
            if case .absent = before { return true }
            var written = ByteWriter(capacity: max(64, before.variableBytes))
            before.appendContent(to: &written)
            return !written.bytes.hasSameBytes(as: content)
        }
        return try compared { () throws(StoreError) in
            guard case .inline(let before) = try old.variable(at: place) else { return true }
            return !before.hasSameBytes(as: content)
        }
    }

    /// Compares with the old row. If that is damaged the new one is not written, even if the caller has caught the
    /// error.
    @inline(__always)
    private mutating func compared(_ body: () throws(StoreError) -> Bool) throws(StoreError) -> Bool {
        do throws(StoreError) {
            return try body()
        } catch {
            isRefused = true
            throw error
        }
    }

    /// Notes that a value could not be provided. Then the row is not written.
    package mutating func refuse() { isRefused = true }

    // MARK: Validation

    @inline(__always)
    private mutating func slot(_ position: Int) throws(StoreError) -> RowSlot {
        guard position >= 0, position < shape.count else { throw unknown(position) }
        return shape.slot(position)
    }

    @inline(__always)
    private mutating func slot(_ position: Int, _ type: AttributeType) throws(StoreError) -> RowSlot {
        let slot = try slot(position)
        guard slot.type == type else { throw wrongType() }
        return slot
    }

    @inline(__always)
    private mutating func textSlot(_ position: Int) throws(StoreError) -> RowSlot {
        let slot = try slot(position)
        guard slot.type.isText else { throw wrongType() }
        return slot
    }

    /// Whether a fixed attribute was set.
    private func isSet(_ position: Int) -> Bool {
        isPresent(position) || marks.isAbsent(position)
    }

    @inline(never)
    private mutating func unknown(_ position: Int) -> StoreError {
        refused("The entity has no attribute at position \(position): ask its handle for positions.")
    }

    @inline(never)
    private mutating func setTwice() -> StoreError { refused("An attribute is set twice: set each attribute once.") }

    @inline(never)
    private mutating func wrongType() -> StoreError { refused("A value does not have its attribute's type.") }

    @inline(never)
    private mutating func refused(_ message: String) -> StoreError {
        isRefused = true
        return StoreError(.invalidArgument, message)
    }

    @inline(never)
    private mutating func missing(_ position: Int) -> StoreError {
        isRefused = true
        return .required(layout.entity.attributes[position].name.text, of: layout.entity.name.text)
    }

    // MARK: Attributes that are not set

    @inline(__always)
    private func oldPosition(_ position: Int) -> Int? {
        hasOldLayout ? old?.layout.position(ofAttribute: layout.entity.attributes[position].number) : position
    }

    private mutating func requireOrder(_ slot: RowSlot) throws(StoreError) {
        guard Int(slot.variableIndex) >= nextVariable else {
            throw refused("Texts, data and lists must be set once, in the order of their attributes.")
        }
    }

    /// Fills in the skipped variable attributes before this one.
    private mutating func beginVariable(_ slot: RowSlot) throws(StoreError) {
        try requireOrder(slot)
        if purpose == .deletion { return }
        try fillVariables(below: Int(slot.variableIndex))
    }

    private mutating func fillVariables(below end: Int) throws(StoreError) {
        do throws(StoreError) {
            for index in nextVariable..<end { try fill(shape.variable(index)) }
        } catch {
            isRefused = true
            throw error
        }
    }

    /// Fills in all attributes that were not set (W2).
    private mutating func fillIn() throws(StoreError) {
        if isRefused {
            throw refused(
                "A value of this row was rejected, so the row is not written: let the error pass, or write the row "
                    + "again."
            )
        }
        if purpose == .deletion { return }
        try fillVariables(below: shape.variableCount)
        if fixedToSet > 0 {
            for position in 0..<shape.count where !shape.slot(position).isVariable && !isSet(position) {
                try fill(position)
            }
        }
        if old != nil { marks.countDefaults(attributes: shape.count) }
    }

    /// Fills in an attribute that was not set.
    private mutating func fill(_ position: Int) throws(StoreError) {
        if let old, let place = oldPosition(position) {
            if old.isPresent(place) || shape.slot(position).isOptional { return try copy(old, place, to: position) }
            // W4.
            marks.noteDefault(position)
        }
        guard shape.hasDefaults else {
            if !shape.slot(position).isOptional { throw missing(position) }
            return
        }
        let attribute = layout.entity.attributes[position]
        if attribute.defaultValue != nil {
            store(attribute.valueBeforeItExisted, at: position)
        } else if !attribute.isOptional {
            throw missing(position)
        }
    }

    private mutating func copy(_ old: RowImage, _ place: Int, to position: Int) throws(StoreError) {
        guard old.isPresent(place) else { return }
        let type = shape.slot(position).type
        guard type.isVariable else {
            return store(try old.value(at: place), at: position)
        }
        switch try old.variable(at: place) {
        case .absent: return
        case .inline(let content):
            guard content.count <= FormatLimits.maximumInlineValueBytes else {
                throw StoreError(
                    .damaged, "F22: an inline value exceeds the inline limit. Restore the store from a backup.",
                    offset: old.fileOffset)
            }
            append(inline: content, shape.slot(position), position)
        case .large(let reference): append(reference: reference, shape.slot(position), position)
        }
    }
}
