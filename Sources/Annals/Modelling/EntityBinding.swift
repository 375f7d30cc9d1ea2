// The locations of a type's properties in the rows of one store: reading and writing whole values by address.
//
// Invariants:
// EB1  Columns are in the order of their positions in the row, each property once.
// EB2  A column's form and the attribute's type fit: a loop reads the slot of the type that the form is stored as.

internal import FoundationEssentials

extension RowLayout {
    /// The position of a property's attribute: the one of its name, or the one that had the name before. Nil without
    /// one.
    func position(ofProperty name: String, _ catalog: SchemaCatalog) -> Int? {
        entity.position(of: name) ?? catalog.attribute(formerly: name, of: number).flatMap { position(ofAttribute: $0) }
    }
}

/// A type's properties in the rows of one layout.
///
/// Sound although it is shared: nothing changes after `init`, the memory of the columns included.
final class EntityBinding: @unchecked Sendable {
    /// A property for loops: no reference in it.
    private struct Column {
        let position: Int
        let offset: Int
        let form: PropertyForm
        let isOptional: Bool
        let place: RowColumn
        /// Whether a new row that does not set it has a default.
        let hasDefault: Bool
    }

    let model: EntityModel
    /// The mark of the store (`UUIDBytes.mark`).
    let storeMark: UInt32
    private let columns: UnsafeMutablePointer<Column>
    /// In the order of the columns (EB1).
    let properties: [EntityModel.Property]
    private let count: Int
    /// The numbers of their attributes.
    let attributes: [UInt16]

    /// Whether the layout's entity is the type's: otherwise references lead to nothing of it.
    let isOfEntity: Bool
    /// The position of the time of the last change; -1 without one.
    private let lastChange: Int
    /// Positions that the program requires, and the store does not.
    private let required: Set<Int>
    /// The positions of the properties.
    let known: Set<Int>
    /// Whether the store has attributes that are no property of the type.
    let isPartial: Bool
    /// Whether it refers to objects.
    let hasReferences: Bool
    /// Whether `write` needs no code of the program for it.
    let isWrittenByAddress: Bool
    /// Whether reading may return values that rows lack: initial ones for missing values, and nothing for references to
    /// deleted objects.
    let readsOtherValues: Bool
    /// Whether the store may have a property in several forms that are equal.
    let hasForms: Bool
    /// Whether a fallback may replace a stored value that the property's type does not have.
    let hasFallbacks: Bool
    /// Whether a property has the name that its attribute had before.
    let usesFormerNames: Bool

    private static func mismatch(
        _ property: EntityModel.Property, _ model: EntityModel, _ message: String
    ) -> StoreError {
        StoreError(.schemaMismatch, message, ObjectFacts(model.name, [property.name]))
    }

    private static func widenedSince(
        _ property: EntityModel.Property, _ model: EntityModel, _ type: AttributeType
    ) -> StoreError {
        mismatch(
            property, model,
            "“\(property.name)” of “\(model.name)” had the type \(type) at that time, and has the type "
                + "\(property.codec.attributeType) in the program, because a migration has changed it since: read this "
                + "state by names, `snapshot.rows(of: \"\(model.name)\")`.")
    }

    /// Throws `schemaMismatch` if the store lacks an attribute, or has it with another type.
    init(_ model: EntityModel, _ layout: RowLayout, _ catalog: SchemaCatalog) throws(StoreError) {
        self.model = model
        storeMark = layout.storeMark
        isOfEntity = isSameName(layout.entity.name.text, model.name)
        guard isOfEntity else {
            (properties, attributes) = ([], [])
            count = 0
            columns = .allocate(capacity: 1)
            (hasReferences, isWrittenByAddress, readsOtherValues, hasForms) = (false, true, false, false)
            (hasFallbacks, usesFormerNames) = (false, false)
            lastChange = -1
            (required, known, isPartial) = ([], [], false)
            return
        }
        var placed: [(position: Int, property: EntityModel.Property)] = []
        for property in model.properties {
            let attributes = layout.entity.attributes
            guard let position = layout.position(ofProperty: property.name, catalog) else {
                throw Self.mismatch(
                    property, model,
                    "The store has no attribute “\(property.name)” of “\(model.name)”: open it with this entity in "
                        + "`entities:`. If you do that already, another version of the program has removed the "
                        + "attribute.")
            }
            guard attributes[position].type == property.codec.attributeType else {
                if catalog.isOfPast { throw Self.widenedSince(property, model, attributes[position].type) }
                throw Self.mismatch(
                    property, model,
                    "“\(property.name)” of “\(model.name)” has the type \(attributes[position].type) in the store, but "
                        + "the type \(property.codec.attributeType) in the program. The store may have had a migration "
                        + "that the program lacks: open it with all its `migrations:`, or declare the type of the "
                        + "store.")
            }
            placed.append((position, property))
        }
        placed.putInOrder { $0.position < $1.position }
        properties = placed.map(\.property)
        attributes = placed.map { layout.entity.attributes[$0.position].number }
        hasReferences = properties.contains { $0.codec.attributeType.isReference }
        isWrittenByAddress = !properties.contains { $0.codec.form == .other }
        hasForms = properties.contains { $0.codec.attributeType == .json }
        hasFallbacks = properties.contains { $0.codec.fallback != nil }
        usesFormerNames = placed.contains { layout.entity.position(of: $0.property.name) == nil }
        readsOtherValues = placed.contains { (position, property) in
            let attribute = layout.entity.attributes[position]
            return property.codec.attributeType.isReference
                ? attribute.deleteRule == .noAction : !property.codec.isOptional && attribute.isOptional
        }
        count = placed.count
        known = Set(placed.map(\.position))
        isPartial = known.count < layout.count
        columns = .allocate(capacity: max(1, count))
        lastChange = placed.first { $0.property.name == model.lastChange }?.position ?? -1
        required = Set(
            placed.filter { $0.property.isRequired && layout.slots[$0.position].isOptional }.map(\.position))
        for (index, (position, property)) in placed.enumerated() {
            (columns + index).initialize(
                to: Column(
                    position: position, offset: property.offset, form: property.codec.form,
                    isOptional: property.codec.isOptional, place: RowColumn(layout, position),
                    hasDefault: layout.entity.attributes[position].defaultValue != nil))
        }
    }

    deinit { columns.deallocate() }

    /// The index in `properties` of a property, by its place in a value; nil if it is not kept.
    func index(ofPropertyAt offset: Int) -> Int? { (0..<count).first { columns[$0].offset == offset } }

    /// The position in rows of a property, by its index in `properties`.
    func position(of index: Int) -> Int { columns[index].position }

    // MARK: Reading

    /// Sets the properties of the value at an address to those of a row. A property without a value in the row does not
    /// change, unless it is optional.
    func read(
        _ row: RowImage, _ object: ObjectID, _ view: View, _ layout: RowLayout, isOfState: Bool = true,
        into value: UnsafeMutableRawPointer
    ) throws(StoreError) {
        guard row.isLike(layout), isOfState else {
            for index in 0..<count { try readSlowly(row, object, view, layout, index, isOfState, into: value) }
            return
        }
        for index in 0..<count {
            if try !read(columns[index], row, view, isNew: false, into: value) {
                try readSlowly(row, object, view, layout, index, into: value)
            }
        }
    }

    /// Makes a value of a row, in uninitialized memory. Properties that the row lacks are as in another value, which
    /// the program itself has made. If this throws, the memory is not initialized.
    ///
    /// Only for types that keep all their properties in the store: otherwise a new value must be made and read into.
    func make(
        _ row: RowImage, _ object: ObjectID, _ view: View, _ layout: RowLayout, like initial: UnsafeRawPointer,
        _ bytes: Int, in value: UnsafeMutableRawPointer
    ) throws(StoreError) {
        // Parts that are no properties take no space or mean nothing: the other sides of relationships. This is right
        // for properties of fixed size that the row lacks; all others are initialized below.
        value.copyMemory(from: initial, byteCount: bytes)
        let isLike = row.isLike(layout)
        var index = 0
        do throws(StoreError) {
            while index < count {
                let isMade = isLike ? try read(columns[index], row, view, isNew: true, into: value) : false
                if !isMade { try makeSlowly(row, object, view, layout, index, like: initial, in: value) }
                index &+= 1
            }
        } catch {
            for made in 0..<index { properties[made].codec.deinitialize(at: value + columns[made].offset) }
            throw error
        }
    }

    /// Reads one property of a row of this layout (EB2). Returns false, without having touched the property, if that
    /// takes more work.
    ///
    /// If `isNew`, the property is not initialized, but its bytes are those of the initial value.
    @inline(__always)
    private func read(
        _ column: Column, _ row: RowImage, _ view: View, isNew: Bool, into value: UnsafeMutableRawPointer
    ) throws(StoreError) -> Bool {
        let cells = row.cells
        let place = value + column.offset
        switch column.form {
        case .string:
            guard let bytes = column.place.variableBytes(cells) else {
                guard column.isOptional, column.place.slot(cells) == nil else { return false }
                Self.put(nil as String?, place, isNew)
                return true
            }
            guard let text = bytes.text else { throw malformed(row, column.position) }
            if column.isOptional {
                Self.put(text as String?, place, isNew)
            } else {
                Self.put(text, place, isNew)
            }
        case .int64: readWord(Int64.self, cells, column, place) { Int64(bitPattern: $0) }
        case .double: readWord(Double.self, cells, column, place) { Double(bitPattern: $0) }
        case .date: readWord(Date.self, cells, column, place) { Date(bitPattern: $0) }
        case .bool:
            let byte = column.place.slot(cells)?.load(as: UInt8.self)
            // Throws the error for any other byte.
            if let byte, byte > 1 { _ = try row.bool(at: column.position) }
            if column.isOptional {
                place.storeBytes(of: byte.map { $0 == 1 }, as: Bool?.self)
            } else if let byte {
                place.storeBytes(of: byte == 1, as: Bool.self)
            }
        case .reference:
            var target = try row.object(at: column.position)
            if let named = target, try !view.has(named) { target = nil }
            place.storeBytes(
                of: target.map { ReferenceContent(id: $0, store: storeMark) }, as: ReferenceContent?.self)
        case .int8: try readInteger(Int8.self, cells, column, place)
        case .int16: try readInteger(Int16.self, cells, column, place)
        case .int32: try readInteger(Int32.self, cells, column, place)
        case .uint8: try readInteger(UInt8.self, cells, column, place)
        case .uint16: try readInteger(UInt16.self, cells, column, place)
        case .uint32: try readInteger(UInt32.self, cells, column, place)
        case .uint64: try readInteger(UInt64.self, cells, column, place)
        case .float, .other: return false
        }
        return true
    }

    @inline(__always)
    private static func put<Property>(_ property: Property, _ place: UnsafeMutableRawPointer, _ isNew: Bool) {
        let place = place.assumingMemoryBound(to: Property.self)
        if isNew { place.initialize(to: property) } else { place.pointee = property }
    }

    /// Only for types without references: then a value may be written over another one or nothing.
    @inline(__always)
    private func readWord<Property>(
        _ type: Property.Type, _ cells: RowCells, _ column: Column, _ place: UnsafeMutableRawPointer,
        _ convert: (UInt64) -> Property
    ) {
        let word = column.place.word(cells)
        if column.isOptional {
            place.initializeMemory(as: Property?.self, to: word.map(convert))
        } else if let word {
            place.initializeMemory(as: Property.self, to: convert(word))
        }
    }

    @inline(__always)
    private func readInteger<Integer: FixedWidthInteger & BitwiseCopyable>(
        _ type: Integer.Type, _ cells: RowCells, _ column: Column, _ place: UnsafeMutableRawPointer
    ) throws(StoreError) {
        guard let word = column.place.word(cells) else {
            if column.isOptional { place.storeBytes(of: nil, as: Integer?.self) }
            return
        }
        guard let integer = Integer(exactly: Int64(bitPattern: word)) else { throw outOfRange(column.position) }
        if column.isOptional {
            place.storeBytes(of: integer, as: Integer?.self)
        } else {
            place.storeBytes(of: integer, as: Integer.self)
        }
    }

    /// For a row of another schema version, for one of history, where references are as written, or for a property that
    /// loops do not know.
    @inline(never)
    private func readSlowly(
        _ row: RowImage, _ object: ObjectID, _ view: View, _ layout: RowLayout, _ index: Int, _ isOfState: Bool = true,
        into value: UnsafeMutableRawPointer
    ) throws(StoreError) {
        let column = columns[index]
        let stored = try withUnsafePointer(to: row) { (row) throws(StoreError) in
            try RowView(object, row, view: view, layout: layout, as: isOfState ? .state : .history)
                .value(at: column.position)
        }
        try store(stored, index, into: value)
    }

    /// The same for a property that is not initialized. If this throws, it still is not.
    @inline(never)
    private func makeSlowly(
        _ row: RowImage, _ object: ObjectID, _ view: View, _ layout: RowLayout, _ index: Int,
        like initial: UnsafeRawPointer, in value: UnsafeMutableRawPointer
    ) throws(StoreError) {
        let (codec, offset) = (properties[index].codec, columns[index].offset)
        codec.initialize(at: value + offset, from: initial + offset)
        do throws(StoreError) {
            try readSlowly(row, object, view, layout, index, into: value)
        } catch {
            codec.deinitialize(at: value + offset)
            throw error
        }
    }

    /// The same for a row that a transaction may have written itself, with values that are not in the file yet.
    func read(
        _ row: RowImage, _ draft: Draft, _ layout: RowLayout, keepingDeleted: Bool,
        into value: UnsafeMutableRawPointer
    ) throws(StoreError) {
        for index in properties.indices {
            let attribute = layout.entity.attributes[columns[index].position]
            let stored: Value
            if let place = row.layout.position(ofAttribute: attribute.number) {
                let value = try draft.value(row, at: place)
                stored = try Value(try draft.withoutMissing(value, keepingDeleted: keepingDeleted))
            } else {
                stored = try Value(attribute.valueBeforeItExisted)
            }
            try store(stored, index, into: value)
        }
    }

    /// Sets a property to a stored value. Null leaves a property that is not optional as it is.
    func store(_ stored: Value, _ index: Int, into value: UnsafeMutableRawPointer) throws(StoreError) {
        let property = properties[index]
        if stored.isNull, !property.codec.isOptional { return }
        guard property.codec.store(stored, of: storeMark, at: value + property.offset) else {
            throw outOfRange(columns[index].position)
        }
    }

    @inline(never)
    private func malformed(_ row: RowImage, _ position: Int) -> StoreError {
        StoreError(.damaged, "A text in a row is not valid UTF-8.", offset: row.fileOffset)
    }

    @inline(never)
    private func outOfRange(_ position: Int) -> StoreError {
        let property = properties.indices.first { columns[$0].position == position }.map { properties[$0] }
        let name = property?.name ?? ""
        return StoreError(
            .valueOutOfRange,
            "“\(name)” of “\(model.name)” has a value in the store that is not a value of its type in the program: use "
                + "a wider type, or a newer version of the program.",
            ObjectFacts(model.name, [name]))
    }

    /// Throws `objectNotFound` if the object is of another entity: it may have the type's name now.
    @inline(__always)
    func requireObject(_ object: ObjectID, _ layout: RowLayout) throws(StoreError) {
        if object.entityNumber != layout.number { throw notFound(object) }
    }

    @inline(never)
    func notFound(_ object: ObjectID) -> StoreError {
        StoreError(
            .objectNotFound, "There is no object \(object) of “\(model.name)”: it was deleted, or never existed.",
            ObjectFacts(model.name, object: object))
    }

    // MARK: Writing

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
        _ type: Integer.Type, _ place: UnsafeRawPointer, _ column: Column, to row: inout RowWriter
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
    private func writeNull(_ column: Column, to row: inout RowWriter) throws(StoreError) {
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
