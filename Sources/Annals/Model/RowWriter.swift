// Writing an object value by value, without a row in between: the fast way in.
//
// The writer of the file layer lives in the frame of the function that calls the user's closure. This one refers to it by address. It is lent to the
// closure, which can neither copy nor exchange nor keep it, and nobody else can make one: so it does not outlive what it refers to.

internal import AnnalsFile
public import FoundationEssentials

/// Sets the values of one object that is inserted or updated. It lives until the closure that it is lent to returns.
///
/// Positions are those of the entity handle. Strings, data, JSON and lists must be set in ascending position, to `null` too, everything else in any order,
/// and each position once. What is not set is the default or absent in an insert, and as it was in an update. An error that a method
/// throws means that nothing of the object is written; let it pass.
///
/// All methods throw `invalidArgument` for a position that there is not or out of order, `typeMismatch` or `invalidArgument` for another
/// type, and `tooLarge`.
public struct RowWriter: ~Copyable {
    private let writer: UnsafeMutablePointer<FileRowWriter>

    @inline(__always)
    init(_ writer: UnsafeMutablePointer<FileRowWriter>) { self.writer = writer }

    public func set(bool: Bool, at position: Int) throws(StoreError) {
        if writer.pointee.storeNew(bool: bool, at: position) { return }
        try set(file: .bool(bool), at: position)
    }

    public func set(int: Int64, at position: Int) throws(StoreError) {
        if writer.pointee.storeNew(int: int, at: position) { return }
        try set(file: .int(int), at: position)
    }

    public func set(double: Double, at position: Int) throws(StoreError) {
        if writer.pointee.storeNew(double: double, at: position) { return }
        try set(file: .double(double), at: position)
    }

    /// A date as microseconds since 1970, UTC.
    public func set(microseconds: Int64, at position: Int) throws(StoreError) {
        if writer.pointee.storeNew(date: microseconds, at: position) { return }
        try set(file: .date(microseconds: microseconds), at: position)
    }

    /// Kept to the nearest microsecond. Throws `valueOutOfRange` for what is too far away.
    public func set(date: Date, at position: Int) throws(StoreError) { try set(.date(date), at: position) }

    public func set(uuid: UUID, at position: Int) throws(StoreError) {
        try set(file: .uuid(uuid.file), at: position)
    }

    public func set(decimal: Decimal, at position: Int) throws(StoreError) {
        try set(.decimal(decimal), at: position)
    }

    public func set(object: ObjectID, at position: Int) throws(StoreError) {
        try set(file: .object(object.file), at: position)
    }

    /// For attributes of the types string and JSON.
    public func set(string: String, at position: Int) throws(StoreError) {
        try mapping { () throws(FileError) in try writer.pointee.set(text: string, at: position) }
    }

    /// The UTF-8 of a string or of JSON. Throws `invalidArgument` where it is not valid.
    public func set(utf8: UnsafeRawBufferPointer, at position: Int) throws(StoreError) {
        if writer.pointee.storeNew(utf8: utf8, at: position) { return }
        try mapping { () throws(FileError) in try writer.pointee.set(utf8: utf8, at: position) }
    }

    /// The bytes of data.
    public func set(data: UnsafeRawBufferPointer, at position: Int) throws(StoreError) {
        try mapping { () throws(FileError) in try writer.pointee.set(data: data, at: position) }
    }

    /// Any value. `null` takes away what was there, and throws `requiredMissing` where the attribute is required.
    public func set(_ value: Value, at position: Int) throws(StoreError) {
        if value.isNull {
            try mapping { () throws(FileError) in try writer.pointee.setAbsent(at: position) }
        } else {
            let converted: FileValue
            do throws(StoreError) {
                converted = try value.fileValue()
            } catch {
                writer.pointee.refuse()
                throw error
            }
            try set(file: converted, at: position)
        }
    }

    @inline(never)
    private func set(file value: FileValue, at position: Int) throws(StoreError) {
        try mapping { () throws(FileError) in try writer.pointee.set(value, at: position) }
    }
}
