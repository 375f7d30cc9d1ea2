// Reading values from rows: in loops where a row is of the binding's layout, otherwise property by property.

internal import FoundationEssentials

extension EntityBinding {
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
        _ column: PropertyColumn, _ row: RowImage, _ view: View, isNew: Bool, into value: UnsafeMutableRawPointer
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
        _ type: Property.Type, _ cells: RowCells, _ column: PropertyColumn, _ place: UnsafeMutableRawPointer,
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
        _ type: Integer.Type, _ cells: RowCells, _ column: PropertyColumn, _ place: UnsafeMutableRawPointer
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
}
