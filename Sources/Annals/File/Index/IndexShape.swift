// An ordered index as the newest schema defines it: the keys that a row has in it.

/// An ordered index, and the locations of its attributes in the newest layout.
///
/// A class, because a change of a row passes on the shape of each index, and a copy of a struct would retain four
/// arrays.
final class IndexShape: Sendable {
    let id: IndexID
    let layout: RowLayout
    let positions: [Int]
    let types: [AttributeType]

    private init(_ id: IndexID, _ layout: RowLayout) {
        self.id = id
        self.layout = layout
        positions = id.attributes.compactMap { layout.position(ofAttribute: $0) }
        assert(positions.count == id.attributes.count, "An index is over an attribute that its layout lacks.")
        types = positions.map { layout.slots[$0].type }
    }

    /// The attribute whose references are indexed; nil for other indexes.
    var reference: AttributeDefinition? { isOfReferences ? layout.entity.attributes[positions[0]] : nil }

    /// Whether `reference` is not nil.
    var isOfReferences: Bool { types.count == 1 && types[0].isReference }

    /// Whether it has an entry for each element of a list of objects, and no entry for an empty list.
    var isOfList: Bool { types.count == 1 && types[0].isObjectList }

    /// Whether it is over the attributes with these names of that layout, in this order. False if the layout is not the
    /// one of the index.
    func isOver(_ names: [String], _ layout: RowLayout) -> Bool {
        guard layout === self.layout, names.count == positions.count else { return false }
        for place in names.indices where !names[place].hasSameBytes(as: layout.names[positions[place]]) { return false }
        return true
    }

    static func all(of layout: RowLayout) -> [IndexShape] {
        IndexID.all(of: layout.entity).map { IndexShape($0, layout) }
    }

    /// Passes the keys of a row of any schema version to `body`: one, or one for each element of a list, in the list's
    /// order. `writer` is unchanged when it returns.
    func forEachKey(
        of row: RowImage, in writer: inout ByteWriter, large: IndexKey.LargeValueReader,
        _ body: (_ key: UnsafeRawBufferPointer, _ hasAbsent: Bool) throws(StoreError) -> Void
    ) throws(StoreError) {
        let start = writer.count
        guard isOfList else {
            let hasAbsent = try appendKey(of: row, to: &writer, large: large)
            try body(writer.bytes.slice(start, writer.count - start), hasAbsent)
            return writer.truncate(to: start)
        }
        for element in try elements(of: row, large: large) {
            IndexKey.append(element: element, to: &writer)
            try body(writer.bytes.slice(start, writer.count - start), false)
            writer.truncate(to: start)
        }
    }

    /// The targets of a row's references, for an index over references.
    func elements(of row: RowImage, large: IndexKey.LargeValueReader) throws(StoreError) -> [ObjectID] {
        let value: StoredValue
        if row.isLike(layout) {
            value = try row.value(at: positions[0])
        } else {
            switch try id.columns(in: row.layout, of: layout.entity)[0] {
            case .position(let position): value = try row.value(at: position)
            case .value(let before, _): value = before
            }
        }
        switch value {
        case .object(let object): return [object]
        case .orderedObjects(let objects), .objects(let objects): return objects
        case .large(let reference):
            // A list always lies in its row.
            try large(reference) { (_) in }
            return []
        default: return []
        }
    }

    /// Appends the key of a row of any schema version; returns whether a component is absent. Not for lists.
    func appendKey(
        of row: RowImage, to writer: inout ByteWriter, large: IndexKey.LargeValueReader
    ) throws(StoreError) -> Bool {
        if row.isLike(layout) {
            return try IndexKey.append(row: row, positions: positions, to: &writer, large: large)
        }
        let columns = try id.columns(in: row.layout, of: layout.entity)
        return try IndexKey.append(row: row, columns: columns, to: &writer, large: large)
    }

    /// Whether rows older than an attribute have the same keys in both.
    func hasSameDefaults(as other: IndexShape) -> Bool {
        zip(positions, other.positions).allSatisfy { (position, place) in
            layout.entity.attributes[position].defaultValue == other.layout.entity.attributes[place].defaultValue
        }
    }

    /// Names of the attributes, for messages.
    var attributeNames: String { attributes.map { "“\($0)”" }.joined(separator: ", ") }

    /// The names of the attributes of the key, in its order.
    var attributes: [String] { positions.map { layout.entity.attributes[$0].name.text } }
}

extension IndexShape {
    /// Rejects an indexed value in value frames; no writer makes such rows.
    static func noLargeKeys(
        _ reference: LargeValueReference, _ visit: (UnsafeRawBufferPointer) throws(StoreError) -> Void
    ) throws(StoreError) {
        throw tooLarge([], of: nil)
    }

    /// The reason why a row of the newest schema has no key: values of the key are in value frames. Nil if it has one.
    func tooLarge(_ row: RowImage, _ object: ObjectID) throws(StoreError) -> StoreError? {
        guard row.isLike(layout) else { return nil }
        var names: [String] = []
        for position in positions {
            if case .large = try row.value(at: position) { names.append(layout.entity.attributes[position].name.text) }
        }
        return names.isEmpty ? nil : Self.tooLarge(names, of: layout.entity.name.text, object)
    }

    static func tooLarge(_ attributes: [String], of entity: String?, _ object: ObjectID? = nil) -> StoreError {
        let named = attributes.map { "“\($0)”" }.joined(separator: ", ")
        let what = entity.map { "\(named) of “\($0)”" } ?? "A value"
        var error = StoreError(
            .tooLarge,
            "\(what) is too long for an index: shorten it. An indexed value may have at most "
                + "\(FormatLimits.maximumInlineValueBytes) bytes, and all indexed values of an object together at most "
                + "\(FormatLimits.maximumInlineRowBytes)."
        )
        if let entity { error.facts = ObjectFacts(entity, attributes, object: object) }
        return error
    }
}
