// One object where it stands in the store: an attribute is read without decoding the others.
//
// Invariants:
// R1  The row's view in the file layer, `view` and `layout` live as long as the row: the code that lends a row holds
//     them until the closure has returned, and a row can neither be copied nor kept. So referring to them without
//     counting is sound, and costs a scan nothing.
// R2  Positions are those of `layout`. The row itself may be of another schema version; then each position is
// translated.

public import FoundationEssentials

/// An object's values in one state of the store, looked at in place. It lives until the closure that was given it
/// returns.
///
/// Positions are those of the entity handle that was asked with, or of the entity in the newest schema of the snapshot.
/// Asking for a position that there is not, or for another type than the attribute's, is a mistake of the program and
/// traps. An attribute that the entity got after the object was last written reads as its default.
///
/// Reading costs a few nanoseconds for each attribute asked for, plus what a `String`, `Data` or `Decimal` costs to
/// make.
public struct RowView: ~Copyable {
    /// The ID of the object.
    public let id: ObjectID
    private let row: UnsafePointer<RowImage>
    private let isCurrent: Bool
    private let view: Unmanaged<View>
    private let layout: Unmanaged<RowLayout>

    @inline(__always)
    init(_ id: ObjectID, _ row: UnsafePointer<RowImage>, view: View, layout: RowLayout) {
        self.id = id
        self.row = row
        isCurrent = row.pointee.isLike(layout)
        self.view = .passUnretained(view)
        self.layout = .passUnretained(layout)
    }

    /// How many attributes the entity has: positions are below it.
    public var count: Int { layout.takeUnretainedValue().count }

    // MARK: One value

    /// Whether the object has a value there.
    public func isPresent(at position: Int) -> Bool {
        if isCurrent { return row.pointee.isPresent(position) }
        guard let place = place(of: position) else { return fallback(position) != .absent }
        return row.pointee.isPresent(place)
    }

    /// Nil if it is absent. Throws `damaged`.
    public func bool(at position: Int) throws(StoreError) -> Bool? {
        guard let place = isCurrent ? position : place(of: position) else {
            if case .bool(let bool) = fallback(position) { return bool }
            return nil
        }
        guard let byte = row.pointee.cells.bool(place) else { return nil }
        if byte <= 1 { return byte == 1 }
        return try row.pointee.bool(at: place)
    }

    /// Nil if it is absent.
    public func int(at position: Int) -> Int64? {
        guard let place = isCurrent ? position : place(of: position) else {
            if case .int(let int) = fallback(position) { return int }
            return nil
        }
        return row.pointee.cells.int(place)
    }

    /// Nil if it is absent.
    public func double(at position: Int) -> Double? {
        guard let place = isCurrent ? position : place(of: position) else {
            if case .double(let double) = fallback(position) { return double }
            return nil
        }
        return row.pointee.cells.double(place)
    }

    /// A date as the store has it: microseconds since 1970, UTC. Nil if it is absent.
    public func microseconds(at position: Int) -> Int64? {
        guard let place = isCurrent ? position : place(of: position) else {
            if case .date(let microseconds) = fallback(position) { return microseconds }
            return nil
        }
        return row.pointee.cells.date(place)
    }

    /// The nearest `Date`, which is exact from 1930 to 2071. Nil if it is absent.
    public func date(at position: Int) -> Date? { microseconds(at: position).map(Microseconds.date) }

    /// Nil if it is absent.
    public func uuid(at position: Int) -> UUID? {
        guard let place = isCurrent ? position : place(of: position) else {
            if case .uuid(let uuid) = fallback(position) { return UUID(uuid) }
            return nil
        }
        return row.pointee.uuid(at: place).map { UUID($0) }
    }

    /// Nil if it is absent. Throws `damaged`.
    public func object(at position: Int) throws(StoreError) -> ObjectID? {
        guard let place = isCurrent ? position : place(of: position) else {
            if case .object(let object) = fallback(position) { return object }
            return nil
        }
        return try row.pointee.object(at: place)
    }

    /// The text of a string or of JSON; nil if it is absent. Throws `damaged`.
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

    /// Gives `body` the bytes of a string, JSON (both UTF-8) or data, where they stand: they live until it returns.
    /// False if the value is absent, and then `body` is not called. A value over 64 KiB is put together in memory
    /// first. Throws `damaged`.
    public func withBytes(at position: Int, _ body: (UnsafeRawBufferPointer) -> Void) throws(StoreError) -> Bool {
        guard let place = isCurrent ? position : place(of: position) else {
            return Self.withBytes(of: fallback(position), body)
        }
        if let bytes = row.pointee.cells.variableBytes(place) {
            body(bytes)
            return true
        }
        return try withOtherBytes(at: place, body)
    }

    @inline(never)
    private func withOtherBytes(
        at place: Int, _ body: (UnsafeRawBufferPointer) -> Void
    ) throws(StoreError) -> Bool {
        let variable = try row.pointee.variable(at: place)
        switch variable {
        case .absent: return false
        case .inline(let bytes):
            body(bytes)
            return true
        case .large: return Self.withBytes(of: try whole(place), body)
        }
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

    /// The value, whatever its type. Throws `damaged`, and `valueOutOfRange` for a decimal that `Decimal` cannot hold.
    public func value(at position: Int) throws(StoreError) -> Value {
        guard let place = isCurrent ? position : place(of: position) else { return try Value(fallback(position)) }
        return try Value(try whole(place))
    }

    // MARK: All values

    /// A copy that lives on. `names` are those of the handle or the snapshot, shared by all rows.
    func row(entity: String, names: [String]) throws(StoreError) -> Row {
        var values: [Value] = []
        values.reserveCapacity(count)
        for position in 0..<count { values.append(try value(at: position)) }
        return Row(id: id, entity: entity, attributes: names, values: values)
    }

    // MARK: Another schema version

    /// Where in the row the attribute at that position is; nil where the row has none of that number and type.
    @inline(never)
    private func place(of position: Int) -> Int? {
        let (mine, asked) = (row.pointee.layout, layout.takeUnretainedValue())
        let attribute = asked.entity.attributes[position]
        guard let place = mine.position(ofAttribute: attribute.number),
            mine.entity.attributes[place].type == attribute.type
        else { return nil }
        return place
    }

    @inline(never)
    private func fallback(_ position: Int) -> StoredValue {
        layout.takeUnretainedValue().entity.attributes[position].valueBeforeItExisted
    }

    @inline(never)
    private func whole(_ place: Int) throws(StoreError) -> StoredValue {
        let view = view.takeUnretainedValue()
        return try view.value(row.pointee, at: place)
    }
}
