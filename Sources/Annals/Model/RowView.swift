// One object, read in place: reading an attribute does not decode the others.
//
// Invariants:
// R1  The row's view in the file layer, `view` and `layout` live as long as the row. The code that lends a row holds
//     them until the closure has returned, and a row cannot be copied or kept. So unowned references to them are sound,
//     and cost a scan nothing.
// R2  Positions are those of `layout`. The row itself may be of another schema version; then each position is
//     translated.

public import FoundationEssentials

/// An object's values in one state of the store, read in place. It is valid until the closure that received it returns.
///
/// Positions are those of the entity handle that you passed, or of the entity in the snapshot's newest schema. A
/// position that does not exist, or a type other than the attribute's, is a programming error and traps. If an
/// attribute is newer than the object's last change, it reads as its default; if the object is deleted, as null.
///
/// Reading takes a few nanoseconds for each attribute that you read. Creating a `String`, `Data` or `Decimal` costs
/// extra.
public struct RowView: ~Copyable {
    /// The ID of the object.
    public let id: ObjectID
    @usableFromInline let row: UnsafePointer<RowImage>
    /// Whether positions of the row are those of `layout` (R2).
    @usableFromInline let isCurrent: Bool
    private let view: Unmanaged<View>
    private let layout: Unmanaged<RowLayout>
    private let role: Role

    /// The origin of a row, which decides how it reads.
    enum Role {
        /// Part of a state: a reference to an object that is not in that state is null.
        case state
        /// Values written at some time: references are as written.
        case history
        /// The preserved values of a deleted object: an attribute that the row lacks was not preserved, so it has no
        /// default.
        case preserved
    }

    @inline(__always)
    init(_ id: ObjectID, _ row: UnsafePointer<RowImage>, view: View, layout: RowLayout, as role: Role) {
        self.init(id, row, view: view, shape: RowShape(layout), as: role)
    }

    /// The same without counting a reference to the layout.
    @inline(__always)
    init(_ id: ObjectID, _ row: UnsafePointer<RowImage>, view: View, shape: RowShape, as role: Role) {
        (self.id, self.role, self.row) = (id, role, row)
        isCurrent = row.pointee.isLike(shape)
        // R1.
        self.view = .passUnretained(view)
        layout = shape.layout
    }

    /// The number of attributes. Positions are below it.
    public var count: Int { layout.takeUnretainedValue().count }

    // MARK: One value

    /// Whether the attribute has a value, and is not null.
    public func isPresent(at position: Int) -> Bool {
        guard let place = isCurrent ? position : place(of: position) else { return fallback(position) != .absent }
        guard row.pointee.isPresent(place) else { return false }
        guard role == .state, layout.takeUnretainedValue().slots[position].type == .object else { return true }
        return (try? object(at: position)) != nil
    }

    /// The value, or nil for null. Throws `damaged`.
    @inlinable @inline(__always)
    public func bool(at position: Int) throws(StoreError) -> Bool? {
        guard isCurrent, let byte = row.pointee.cells.bool(position), byte <= 1 else {
            return try otherBool(at: position)
        }
        return byte == 1
    }

    /// The value, or nil for null.
    @inlinable @inline(__always)
    public func int(at position: Int) -> Int64? {
        isCurrent ? row.pointee.cells.int(position) : olderInt(at: position)
    }

    /// The value, or nil for null.
    @inlinable @inline(__always)
    public func double(at position: Int) -> Double? {
        isCurrent ? row.pointee.cells.double(position) : olderDouble(at: position)
    }

    /// The value, or nil for null.
    public func date(at position: Int) -> Date? {
        guard let place = isCurrent ? position : place(of: position) else {
            if case .date(let seconds) = fallback(position) { return Date(timeIntervalSinceReferenceDate: seconds) }
            return nil
        }
        return row.pointee.cells.date(place).map { Date(timeIntervalSinceReferenceDate: $0) }
    }

    /// The value, or nil for null.
    public func uuid(at position: Int) -> UUID? {
        guard let place = isCurrent ? position : place(of: position) else {
            if case .uuid(let uuid) = fallback(position) { return UUID(uuid) }
            return nil
        }
        return row.pointee.uuid(at: place).map { UUID($0) }
    }

    /// The reference, or nil for null. In a snapshot, a reference to an object that does not exist is null. Throws
    /// `damaged`.
    public func object(at position: Int) throws(StoreError) -> ObjectID? {
        var reference: ObjectID?
        if let place = isCurrent ? position : place(of: position) {
            reference = try row.pointee.object(at: place)
        } else if case .object(let object) = fallback(position) {
            reference = object
        }
        guard role == .state, let object = reference else { return reference }
        return try view.takeUnretainedValue().has(object) ? object : nil
    }

    /// The text of a string or of JSON, or nil for null. Throws `damaged`.
    public func string(at position: Int) throws(StoreError) -> String? {
        var text: String?
        var isText = true
        _ = try withBytes(at: position) { bytes in
            text = bytes.text
            isText = text != nil
        }
        guard isText else {
            throw StoreError(.damaged, "A text in a row is not valid UTF-8.", offset: row.pointee.fileOffset)
        }
        return text
    }

    /// Calls `body` with the bytes of a string, of JSON (both UTF-8) or of data, in place. They are valid until `body`
    /// returns. Returns false, without calling `body`, for null. A value over 64 KiB is first assembled in memory.
    /// Throws `damaged`.
    @inlinable @inline(__always)
    public func withBytes(at position: Int, _ body: (UnsafeRawBufferPointer) -> Void) throws(StoreError) -> Bool {
        guard isCurrent, let bytes = row.pointee.cells.variableBytes(position) else {
            return try withOtherBytes(at: position, body)
        }
        body(bytes)
        return true
    }

    private static func withBytes(of value: StoredValue, _ body: (UnsafeRawBufferPointer) -> Void) -> Bool {
        switch value {
        case .string(var text), .json(var text):
            text.withUTF8 { (utf8: UnsafeBufferPointer<UInt8>) -> Void in body(UnsafeRawBufferPointer(utf8)) }
        case .data(let bytes): bytes.withUnsafeBytes { body($0) }
        default: return false
        }
        return true
    }

    /// The value, of any type. In a snapshot, references to objects that do not exist are null, and lists do not
    /// contain them. Throws `damaged`, and `valueOutOfRange` for a decimal that `Decimal` cannot represent.
    public func value(at position: Int) throws(StoreError) -> Value {
        guard let place = isCurrent ? position : place(of: position) else {
            return try Value(shown(fallback(position)))
        }
        return try Value(try shown(try whole(place)))
    }

    private func shown(_ value: StoredValue) throws(StoreError) -> StoredValue {
        role == .state ? try view.takeUnretainedValue().withoutMissing(value) : value
    }

    // MARK: All values

    /// A copy that outlives the closure. `names` are those of the handle or the snapshot, shared by all rows.
    func row(entity: String, names: [String]) throws(StoreError) -> Row {
        var values: [Value] = []
        values.reserveCapacity(count)
        for position in 0..<count { values.append(try value(at: position)) }
        return Row(id: id, entity: entity, attributes: names, values: values)
    }

    // MARK: Another schema version, and what is seldom read

    /// The position in the row of the attribute at `position` of the layout. Nil if the row has none of that number and
    /// type (R2).
    @inline(never)
    private func place(of position: Int) -> Int? {
        let (mine, asked) = (row.pointee.layout, layout.takeUnretainedValue())
        let attribute = asked.entity.attributes[position]
        guard let place = mine.position(ofAttribute: attribute.number),
            mine.entity.attributes[place].type == attribute.type
        else { return nil }
        return place
    }

    @usableFromInline @inline(never)
    func otherBool(at position: Int) throws(StoreError) -> Bool? {
        guard let place = isCurrent ? position : place(of: position) else {
            if case .bool(let bool) = fallback(position) { return bool }
            return nil
        }
        return try row.pointee.bool(at: place)
    }

    @usableFromInline @inline(never)
    func olderInt(at position: Int) -> Int64? {
        guard let place = place(of: position) else {
            if case .int(let int) = fallback(position) { return int }
            return nil
        }
        return row.pointee.cells.int(place)
    }

    @usableFromInline @inline(never)
    func olderDouble(at position: Int) -> Double? {
        guard let place = place(of: position) else {
            if case .double(let double) = fallback(position) { return double }
            return nil
        }
        return row.pointee.cells.double(place)
    }

    /// Of a row of another version, a large value, no value, and damage.
    @usableFromInline @inline(never)
    func withOtherBytes(
        at position: Int, _ body: (UnsafeRawBufferPointer) -> Void
    ) throws(StoreError) -> Bool {
        guard let place = isCurrent ? position : place(of: position) else {
            return Self.withBytes(of: fallback(position), body)
        }
        switch try row.pointee.variable(at: place) {
        case .absent: return false
        case .inline(let bytes):
            body(bytes)
            return true
        case .large: return Self.withBytes(of: try whole(place), body)
        }
    }

    @inline(never)
    private func fallback(_ position: Int) -> StoredValue {
        role == .preserved ? .absent : layout.takeUnretainedValue().entity.attributes[position].valueBeforeItExisted
    }

    @inline(never)
    private func whole(_ place: Int) throws(StoreError) -> StoredValue {
        let view = view.takeUnretainedValue()
        return try view.value(row.pointee, at: place)
    }
}
