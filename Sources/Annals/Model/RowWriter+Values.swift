// Writing an object value by value, with the types that programs use.

public import FoundationEssentials

extension RowWriter {
    /// Sets an attribute by its position. Throws `typeMismatch` if it has another type.
    public mutating func set(bool: Bool, at position: Int) throws(StoreError) {
        if storeNew(bool: bool, at: position) { return }
        try set(stored: .bool(bool), at: position)
    }

    /// Sets an attribute by its position. Throws `typeMismatch` if it has another type.
    public mutating func set(int: Int64, at position: Int) throws(StoreError) {
        if storeNew(int: int, at: position) { return }
        try set(stored: .int(int), at: position)
    }

    /// Sets an attribute by its position. Throws `typeMismatch` if it has another type.
    public mutating func set(double: Double, at position: Int) throws(StoreError) {
        if storeNew(double: double, at: position) { return }
        try set(stored: .double(double), at: position)
    }

    /// Sets an attribute by its position. Throws `typeMismatch` if it has another type.
    public mutating func set(date: Date, at position: Int) throws(StoreError) {
        let seconds = date.timeIntervalSinceReferenceDate
        if storeNew(date: seconds, at: position) { return }
        try set(stored: .date(seconds), at: position)
    }

    /// Sets an attribute by its position. Throws `typeMismatch` if it has another type.
    public mutating func set(uuid: UUID, at position: Int) throws(StoreError) {
        try set(stored: .uuid(uuid.stored), at: position)
    }

    /// Sets an attribute by its position. Throws `typeMismatch` if it has another type.
    public mutating func set(decimal: Decimal, at position: Int) throws(StoreError) {
        try set(.decimal(decimal), at: position)
    }

    /// Sets a reference by its position. Throws `typeMismatch` if the attribute has another type.
    public mutating func set(object: ObjectID, at position: Int) throws(StoreError) {
        try set(stored: .object(object), at: position)
    }

    /// Sets a string or JSON text. Throws `typeMismatch` if the attribute has another type.
    public mutating func set(string: String, at position: Int) throws(StoreError) {
        try set(text: string, at: position)
    }

    /// Sets any value. `null` removes the present value; for a required attribute it throws `requiredMissing`. Throws
    /// `typeMismatch` if the attribute has another type.
    public mutating func set(_ value: Value, at position: Int) throws(StoreError) {
        if value.isNull {
            try setAbsent(at: position)
        } else {
            let converted: StoredValue
            do throws(StoreError) {
                converted = try value.storedValue()
            } catch {
                refuse()
                throw error
            }
            try set(stored: converted, at: position)
        }
    }
}
