// A schema version in the form that reading and writing rows need, computed once for all users.

/// Shared by all views of one schema version.
///
/// Sound although it is shared: nothing changes after `init`, including the memory of the shapes; `newest` retains
/// their layouts.
final class StoreShape: @unchecked Sendable {
    let catalog: SchemaCatalog
    /// The layouts of the schema's entities, by ascending entity number.
    private let newest: [RowLayout]
    /// The ordered indexes of this schema, entity by entity; their positions number them.
    let indexes: [IndexShape]
    /// The numbers of the entities that are the store's own.
    let reservedEntities: Set<UInt16>
    /// The gaps in history, by entity; usually none.
    let historyGaps: [HistoryGap]
    /// By entity, the numbers of the indexes of attributes that may refer to its objects; under 0 those that may refer
    /// to any.
    private let referring: [UInt16: [Int]]

    /// At index n: the index in `newest` of the entity with number n, plus 1; 0 if the schema lacks it. Only numbers,
    /// because a file may use the highest ones and change its schema thousands of times.
    private let places: UnsafeMutablePointer<UInt16>
    private let placeCount: Int
    /// For reading many rows: one for each of `newest`, after one for no entity.
    private let known: UnsafeMutablePointer<KnownEntity>
    private let newestVersion: UInt16

    private struct KnownEntity {
        /// Rows of this version and later ones have the shape; by default above all versions.
        var since: UInt32 = .max
        var shape: RowShape?
        /// The entity's range of `indexes`.
        var indexes = 0..<0
    }

    init(_ catalog: SchemaCatalog) {
        self.catalog = catalog
        newestVersion = catalog.newestVersion
        historyGaps = catalog.historyGaps
        placeCount = catalog.entityNumbers.last.map { Int($0) + 1 } ?? 0
        places = .allocate(capacity: Swift.max(placeCount, 1))
        places.initialize(repeating: 0, count: placeCount)
        known = .allocate(capacity: catalog.entityNumbers.count + 1)
        known.initialize(to: KnownEntity())
        var layouts: [RowLayout] = []
        var indexes: [IndexShape] = []
        var reserved: [UInt16] = []
        for number in catalog.entityNumbers {
            guard let (since, layout) = catalog.newestLayout(entity: number) else { continue }
            layouts.append(layout)
            if layout.isReserved { reserved.append(number) }
            let start = indexes.count
            indexes += IndexShape.all(of: layout)
            places[Int(number)] = UInt16(layouts.count)
            (known + layouts.count).initialize(
                to: KnownEntity(since: UInt32(since), shape: RowShape(layout), indexes: start..<indexes.count))
        }
        assert(layouts.count <= catalog.entityNumbers.count, "There are more layouts than places for them.")
        newest = layouts
        self.indexes = indexes
        referring = Dictionary(
            grouping: indexes.indices.filter { indexes[$0].isOfReferences },
            by: { indexes[$0].reference?.target ?? 0 })
        reservedEntities = reserved.isEmpty ? [] : Set(reserved)
    }

    deinit {
        places.deallocate()
        known.deallocate()
    }

    @inline(__always)
    private func place(_ entity: UInt16) -> Int { Int(entity) < placeCount ? Int(places[Int(entity)]) : 0 }

    /// The newest layout of an entity; nil if the schema lacks it.
    @inline(__always)
    func newestLayout(_ entity: UInt16) -> RowLayout? {
        let place = place(entity)
        return place == 0 ? nil : newest[place - 1]
    }

    @inline(__always)
    func isNewest(_ layout: RowLayout) -> Bool { known[place(layout.number)].shape?.isOf(layout) ?? false }

    /// The layout of a row of an entity; nil for an unknown version of it.
    @inline(__always)
    func shape(version: UInt16, entity: UInt16) -> RowShape? {
        let place = place(entity)
        if UInt32(version) >= known[place].since, version <= newestVersion { return known[place].shape }
        return catalog.layout(version: version, entity: entity).map { RowShape($0) }
    }

    /// Whether the entity is in the schema.
    @inline(__always)
    func has(_ entity: UInt16) -> Bool { place(entity) != 0 }

    /// The layout of a row.
    func layout(version: UInt16, entity: UInt16) -> RowLayout? { catalog.layout(version: version, entity: entity) }

    /// The indexes of an entity, by their numbers in `indexes`.
    @inline(__always)
    func indexes(of entity: UInt16) -> Range<Int> { known[place(entity)].indexes }

    /// The number of the index of an entity over these attributes, in this order; nil if it has none.
    func index(of entity: UInt16, over attributes: [UInt16]) -> Int? {
        indexes(of: entity).first { indexes[$0].id.attributes == attributes }
    }

    /// Whether any attribute refers to objects.
    var hasReferences: Bool { !referring.isEmpty }

    /// The numbers of the indexes of attributes that may refer to objects of an entity.
    func referring(to entity: UInt16) -> [Int] {
        referring.isEmpty ? [] : (referring[entity] ?? []) + (referring[0] ?? [])
    }
}
