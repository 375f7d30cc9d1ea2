// What a schema version means for reading and writing rows, worked out once for all that use it.

/// Shared by all views of one schema version.
///
/// Sound although it is shared: nothing changes after `init`, the memory of the shapes included; the layouts that they refer to are kept in
/// `newest`.
final class StoreShape: @unchecked Sendable {
    let catalog: SchemaCatalog
    /// By entity number.
    private let newest: [Newest?]
    /// The ordered indexes that this schema asks for; their positions number them.
    let indexes: [IndexShape]
    /// The numbers of the entities that are the store's own.
    let reservedEntities: Set<UInt16>
    /// What is not kept of history, by entity; mostly nothing.
    let historyGaps: [HistoryGap]
    /// By entity number: which of them are of the entity.
    private let indexesOfEntity: [[Int]]

    /// By entity number, what `newest` says, for those who read many rows.
    private let shapes: UnsafeMutablePointer<NewestShape>
    private let shapeCount: Int
    private let newestVersion: UInt16

    private struct NewestShape {
        /// Rows of this version and later ones have the shape; above all versions where there is none.
        var since: UInt32 = .max
        var shape: RowShape?
    }

    struct Newest: Sendable {
        /// Rows of this version and later ones have the layout.
        let since: UInt16
        let layout: RowLayout
    }

    init(_ catalog: SchemaCatalog) {
        self.catalog = catalog
        let limit = catalog.entityNumberLimit
        newest = (0..<limit).map { number in
            catalog.newestLayout(entity: UInt16(truncatingIfNeeded: number)).map {
                Newest(since: $0.since, layout: $0.layout)
            }
        }
        newestVersion = catalog.newestVersion
        let reserved = newest.compactMap { $0.flatMap { $0.layout.isReserved ? $0.layout.number : nil } }
        reservedEntities = reserved.isEmpty ? [] : Set(reserved)
        historyGaps = catalog.historyGaps
        shapeCount = limit
        shapes = .allocate(capacity: Swift.max(limit, 1))
        for (number, known) in newest.enumerated() {
            let shape = known.map { NewestShape(since: UInt32($0.since), shape: RowShape($0.layout)) }
            (shapes + number).initialize(to: shape ?? NewestShape())
        }
        indexes = newest.flatMap { $0.map { IndexShape.all(of: $0.layout) } ?? [] }
        var ofEntity = [[Int]](repeating: [], count: limit)
        for (number, index) in indexes.enumerated() { ofEntity[Int(index.id.entity)].append(number) }
        indexesOfEntity = ofEntity
    }

    /// The newest layout of an entity; nil where it is not in the schema any more.
    @inline(__always)
    func newestLayout(_ entity: UInt16) -> RowLayout? {
        Int(entity) < newest.count ? newest[Int(entity)]?.layout : nil
    }

    @inline(__always)
    func isNewest(_ layout: RowLayout) -> Bool {
        let entity = Int(layout.number)
        return entity < shapeCount && shapes[entity].shape?.isOf(layout) ?? false
    }

    deinit { shapes.deallocate() }

    /// The layout of a row of an entity; nil where there is no such version of it.
    @inline(__always)
    func shape(version: UInt16, entity: UInt16) -> RowShape? {
        if Int(entity) < shapeCount, UInt32(version) >= shapes[Int(entity)].since, version <= newestVersion {
            return shapes[Int(entity)].shape
        }
        return catalog.layout(version: version, entity: entity).map { RowShape($0) }
    }

    /// Whether the entity is in the schema.
    @inline(__always)
    func has(_ entity: UInt16) -> Bool { Int(entity) < shapeCount && shapes[Int(entity)].shape != nil }

    /// The layout of a row.
    func layout(version: UInt16, entity: UInt16) -> RowLayout? { catalog.layout(version: version, entity: entity) }

    /// Which indexes an entity has, by their numbers in `indexes`.
    @inline(__always)
    func indexes(of entity: UInt16) -> [Int] {
        Int(entity) < indexesOfEntity.count ? indexesOfEntity[Int(entity)] : []
    }
}

/// An ordered index, and where its attributes stand in the newest layout.
struct IndexShape: Sendable {
    let id: IndexID
    let layout: RowLayout
    let positions: [Int]
    let types: [AttributeType]

    static func all(of layout: RowLayout) -> [IndexShape] {
        IndexID.all(of: layout.entity).map { id in
            let positions = id.attributes.compactMap { layout.position(ofAttribute: $0) }
            return IndexShape(
                id: id, layout: layout, positions: positions, types: positions.map { layout.slots[$0].type })
        }
    }

    /// Appends the key of a row of any schema version; gives back whether a component is absent.
    func appendKey(
        of row: RowView, to writer: inout ByteWriter, large: IndexKey.LargeValueReader
    ) throws(FileError) -> Bool {
        if row.isLike(layout) {
            return try IndexKey.append(row: row, positions: positions, to: &writer, large: large)
        }
        let columns = try id.columns(in: row.layout, of: layout.entity)
        return try IndexKey.append(row: row, columns: columns, to: &writer, large: large)
    }

    /// Whether rows from before an attribute existed have the same keys in both.
    func hasSameDefaults(as other: IndexShape) -> Bool {
        zip(positions, other.positions).allSatisfy { (position, place) in
            layout.entity.attributes[position].defaultValue == other.layout.entity.attributes[place].defaultValue
        }
    }

    /// Names of the attributes, for messages.
    var attributeNames: String {
        positions.map { "“\(layout.entity.attributes[$0].name)”" }.joined(separator: ", ")
    }
}
