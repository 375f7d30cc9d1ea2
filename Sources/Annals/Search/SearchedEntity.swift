// The texts of an entity that a search looks at, in the rows of one state.

/// The searchable attributes of an entity, in the order in which a plan numbers them.
struct SearchedEntity {
    /// One of them.
    struct Column {
        let name: String
        /// Its number in the entity. A renamed attribute keeps it.
        let attribute: UInt16
        /// In rows of the layout.
        let position: Int
        let weight: Double
    }

    let layout: RowLayout
    let columns: [Column]
    var entity: UInt16 { layout.number }
    var names: [String] { columns.map(\.name) }
    var weights: [Double] { columns.map(\.weight) }

    init(_ layout: RowLayout, _ columns: [Column]) { (self.layout, self.columns) = (layout, columns) }

    /// Attributes by number with their weights. Those that the layout lacks, or that are no texts, are left out.
    init(_ layout: RowLayout, _ weights: [(attribute: UInt16, weight: Double)]) {
        var columns: [Column] = []
        for (attribute, weight) in weights {
            guard let position = layout.position(ofAttribute: attribute), layout.types[position] == .string else {
                continue
            }
            columns.append(
                Column(name: layout.names[position], attribute: attribute, position: position, weight: weight))
        }
        self.init(layout, columns)
    }

    /// The attributes of an index.
    init(_ layout: RowLayout, _ state: SearchState) {
        self.init(layout, state.attributes.map { ($0.number, $0.weight) })
    }

    /// The object with a number. Throws `damaged` if there can be none.
    func object(_ number: UInt64) throws(StoreError) -> ObjectID {
        guard let object = ObjectID(entityNumber: entity, number: number) else {
            throw SearchBlocks.damaged("the number of an object")
        }
        return object
    }

    /// Calls `body` with each text of a row, by the number of its column.
    func forEachText(
        _ row: borrowing RowView, _ body: (Int, UnsafeRawBufferPointer) -> Void
    ) throws(StoreError) {
        for (number, column) in columns.enumerated() {
            _ = try row.withBytes(at: column.position) { body(number, $0) }
        }
    }
}
