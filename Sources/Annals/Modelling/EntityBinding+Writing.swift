// Writing values to rows, and the attributes that a value would change.

internal import FoundationEssentials

extension EntityBinding {
    /// Sets attributes of a row to the properties of the value at an address: all, or those whose properties are at
    /// these places in values.
    func write(
        _ value: UnsafeRawPointer, to row: inout RowWriter, at offsets: [Int]? = nil
    ) throws(StoreError) {
        for index in 0..<count {
            let column = columns[index]
            let (place, position) = (value + column.offset, column.position)
            if let offsets, !offsets.contains(column.offset) { continue }
            switch column.form {
            case .string:
                if column.isOptional, place.assumingMemoryBound(to: String?.self).pointee == nil {
                    try writeNull(column, to: &row)
                    continue
                }
                // A non-nil optional begins with its content.
                try write(place.assumingMemoryBound(to: String.self), position, to: &row)
            case .int64: try writeInteger(Int64.self, place, column, to: &row)
            case .double:
                let double = column.isOptional ? place.load(as: Double?.self) : place.load(as: Double.self)
                guard let double else {
                    try writeNull(column, to: &row)
                    continue
                }
                try row.set(double: double, at: position)
            case .bool:
                let bool = column.isOptional ? place.load(as: Bool?.self) : place.load(as: Bool.self)
                guard let bool else {
                    try writeNull(column, to: &row)
                    continue
                }
                try row.set(bool: bool, at: position)
            case .date:
                if position == lastChange { continue }
                let date = column.isOptional ? place.load(as: Date?.self) : place.load(as: Date.self)
                guard let date else {
                    try writeNull(column, to: &row)
                    continue
                }
                try row.set(date: date, at: position)
            case .reference:
                guard let target = place.load(as: ReferenceContent?.self) else {
                    try writeNull(column, to: &row)
                    continue
                }
                if target.store != storeMark, isForeign(target.store) { throw foreign(target.id, index) }
                try row.set(object: target.id, at: position)
            case .int8: try writeInteger(Int8.self, place, column, to: &row)
            case .int16: try writeInteger(Int16.self, place, column, to: &row)
            case .int32: try writeInteger(Int32.self, place, column, to: &row)
            case .uint8: try writeInteger(UInt8.self, place, column, to: &row)
            case .uint16: try writeInteger(UInt16.self, place, column, to: &row)
            case .uint32: try writeInteger(UInt32.self, place, column, to: &row)
            case .uint64:
                let number = column.isOptional ? place.load(as: UInt64?.self) : place.load(as: UInt64.self)
                if let number, number > UInt64(Int64.max) { throw cannotStore(index) }
                try writeInteger(UInt64.self, place, column, to: &row)
            case .float, .other:
                let stored = try self.value(of: value, index)
                if hasFallbacks, try keepsUnknown(stored, row.valueBefore(at: position), index) { continue }
                if stored.isNull {
                    try writeNull(column, to: &row)
                } else {
                    try row.set(stored, at: position)
                }
            }
        }
        if lastChange >= 0 { try writeLastChange(to: &row) }
    }

    /// The stored value of a property.
    func value(of value: UnsafeRawPointer, _ index: Int) throws(StoreError) -> Value {
        let property = properties[index]
        if property.codec.target != nil, let object = foreignReference(value, index) { throw foreign(object, index) }
        do {
            let stored = try property.codec.value(at: value + property.offset)
            try ObjectList.require(try stored.storedValue())
            return stored
        } catch {
            throw cannotStore(index, error)
        }
    }

    /// An object of another store that a property refers to; nil if none is.
    private func foreignReference(_ value: UnsafeRawPointer, _ index: Int) -> ObjectID? {
        let (codec, place) = (properties[index].codec, value + properties[index].offset)
        guard codec.form == .reference else { return codec.foreignReference(at: place, to: storeMark) }
        return place.load(as: ReferenceContent?.self).flatMap { isForeign($0.store) ? $0.id : nil }
    }

    private func isForeign(_ store: UInt32) -> Bool { store != storeMark && store != 0 && storeMark != 0 }

    @inline(never)
    private func foreign(_ object: ObjectID, _ index: Int) -> StoreError {
        let target = properties[index].codec.target?.model.name
        return .referenceForeign(object, of: target ?? "", at: (model.name, properties[index].name))
    }

    /// Attributes with the properties of the value at an address, in ascending order.
    func changes(_ value: UnsafeRawPointer) throws(StoreError) -> [(position: Int, value: StoredValue)] {
        var changes: [(position: Int, value: StoredValue)] = []
        changes.reserveCapacity(count)
        for index in 0..<count where columns[index].position != lastChange {
            changes.append((columns[index].position, try self.value(of: value, index).storedValue()))
        }
        return changes
    }

    /// Properties of the value at an address, by their places in values: all, or those at these places. They are
    /// written later, perhaps to rows of a newer schema, in which their attributes have other positions.
    func encoded(
        _ value: UnsafeRawPointer, at offsets: [Int]?
    ) throws(StoreError) -> [(offset: Int, value: StoredValue)] {
        var encoded: [(offset: Int, value: StoredValue)] = []
        encoded.reserveCapacity(offsets?.count ?? count)
        for index in 0..<count where columns[index].position != lastChange {
            let offset = columns[index].offset
            if let offsets, !offsets.contains(offset) { continue }
            encoded.append((offset, try self.value(of: value, index).storedValue()))
        }
        return encoded
    }

    /// The attributes of properties that were encoded with another binding of the type or with this one, in ascending
    /// order.
    func changes(_ encoded: [(offset: Int, value: StoredValue)]) -> [(position: Int, value: StoredValue)] {
        (0..<count).compactMap { index in
            encoded.first { $0.offset == columns[index].offset }.map { (columns[index].position, $0.value) }
        }
    }

    /// Sets attributes of a row, in ascending order, and then the time of its last change.
    func write(
        _ changes: [(position: Int, value: StoredValue)], to row: inout RowWriter
    ) throws(StoreError) {
        for (position, value) in changes {
            if value == .absent { try requireNone(at: position) }
            try row.set(stored: value, at: position)
        }
        try writeLastChange(to: &row)
    }

    /// Whether two stored values of a property are equal, in any of their forms. The second is in the current form.
    func isSame(_ left: StoredValue, _ right: StoredValue, at position: Int) throws(StoreError) -> Bool {
        if left == right { return true }
        guard hasForms, left != .absent, right != .absent,
            let index = (0..<count).first(where: { columns[$0].position == position })
        else { return false }
        return try properties[index].codec.canonical(Value(left)).storedValue() == right
    }

    /// Whether a property has its fallback, and the row a value that its type does not have. The row's value stays.
    func keepsUnknown(_ value: Value, _ before: StoredValue?, _ index: Int) throws(StoreError) -> Bool {
        let codec = properties[index].codec
        guard let before, codec.fallback == value else { return false }
        if case .large = before { return true }
        return codec.isUnknown(try Value(before))
    }

    /// The same for a property at a position.
    func keepsUnknown(_ value: StoredValue, _ before: StoredValue, at position: Int) throws(StoreError) -> Bool {
        guard hasFallbacks, let index = (0..<count).first(where: { columns[$0].position == position }) else {
            return false
        }
        return try keepsUnknown(Value(value), before, index)
    }

    /// Whether a property may be stored outside its row: such values are not compared.
    func mayHaveLongValues(_ value: UnsafeRawPointer) -> Bool {
        for index in 0..<count {
            let column = columns[index]
            switch column.form {
            case .string:
                let place = value + column.offset
                let bytes =
                    column.isOptional
                    ? place.assumingMemoryBound(to: String?.self).pointee?.utf8.count ?? 0
                    : place.assumingMemoryBound(to: String.self).pointee.utf8.count
                if bytes > Transaction.longValueBytes { return true }
            case .other: if properties[index].codec.attributeType.isVariable { return true }
            default: continue
            }
        }
        return false
    }

    @inline(__always)
    private func writeInteger<Integer: FixedWidthInteger & BitwiseCopyable>(
        _ type: Integer.Type, _ place: UnsafeRawPointer, _ column: PropertyColumn, to row: inout RowWriter
    ) throws(StoreError) {
        guard column.isOptional else {
            return try row.set(int: Int64(truncatingIfNeeded: place.load(as: Integer.self)), at: column.position)
        }
        guard let integer = place.load(as: Integer?.self) else { return try writeNull(column, to: &row) }
        try row.set(int: Int64(truncatingIfNeeded: integer), at: column.position)
    }

    @inline(__always)
    private func write(
        _ text: UnsafePointer<String>, _ position: Int, to row: inout RowWriter
    ) throws(StoreError) {
        guard text.pointee.isContiguousUTF8 else { return try row.set(text: text.pointee, at: position) }
        // Lends the bytes of the text where it is, so nothing is retained. Asks for memory that may be changed, but
        // changes only a text that is not contiguous.
        let isWritten = UnsafeMutablePointer(mutating: text).pointee.withUTF8 {
            row.storeNew(utf8: UnsafeRawBufferPointer($0), at: position)
        }
        if !isWritten { try row.set(text: text.pointee, at: position) }
    }

    /// Called after all other properties: sets the time of the last change if the row is new or differs.
    func writeLastChange(to row: inout RowWriter) throws(StoreError) {
        guard lastChange >= 0, row.isNew || row.isInsertedAgain || row.differs else { return }
        try row.set(date: .now, at: lastChange)
    }

    /// Whether the program requires a value that the store does not.
    func isRequired(at position: Int) -> Bool { required.contains(position) }

    /// Throws `requiredMissing` if the program requires a value that the store does not.
    func requireNone(at position: Int) throws(StoreError) {
        guard required.contains(position) else { return }
        let name = properties.indices.first { columns[$0].position == position }.map { properties[$0].name } ?? ""
        throw .required(name, of: model.name)
    }

    /// In a new row, an attribute that is not set is null, unless it has a default.
    private func writeNull(_ column: PropertyColumn, to row: inout RowWriter) throws(StoreError) {
        if !required.isEmpty { try requireNone(at: column.position) }
        if row.isNew, !column.hasDefault { return }
        try row.setAbsent(at: column.position)
    }

    @inline(never)
    private func cannotStore(_ index: Int, _ error: (any Error)? = nil) -> StoreError {
        let name = properties[index].name
        let reason =
            (error as? StoreError)?.message ?? error.map(StoreError.sentence) ?? "It is outside the range of the store."
        return StoreError(
            (error as? StoreError)?.code ?? .valueOutOfRange,
            "“\(name)” of “\(model.name)” has a value that cannot be stored: \(reason)", ObjectFacts(model.name, [name])
        )
    }
}
