// Which entities of a store are searched, and the upkeep of their indexes.

internal import FoundationEssentials

/// The texts of an entity to search.
struct SearchDeclaration {
    struct Text {
        /// Of the attribute.
        let name: String
        let weight: Double
        /// Nil for a program that does not say: positions stay as they are, and a new index has them.
        var keepsPositions: Bool?
    }

    let entity: String
    let attributes: [Text]
}

extension Store {
    package var searchUpdates: SearchUpdates { SearchUpdates(handle, identifier) }

    /// Makes texts searchable, if the store does not know that yet. Nothing that other programs search is removed.
    /// From then on the handle keeps the indexes up to date.
    func declare(_ declarations: [SearchDeclaration]) throws {
        guard !declarations.isEmpty, options.access == .readWrite else { return }
        try declareSearches(declarations)
        let indexer = SearchIndexer(searchUpdates, declarations)
        extensions.indexer = indexer
        // Most programs find nothing to do, and need no thread for it.
        if try searchUpdates.areBehind() { indexer.wake() }
    }

    func declareSearches(_ declarations: [SearchDeclaration]) throws {
        if try !hasDeclared(declarations) {
            try add(reserved: true) { (catalog) in
                [ReservedEntity.searches, .searchBlocks].filter { catalog.number(ofEntity: $0.name) == nil }
                    .map { .addEntity($0.description) }
            }
            _ = try handle.write(author: SearchUpdates.name, durability: options.durability) { draft in
                for declaration in declarations { try self.declare(declaration, draft) }
            }
            try searchUpdates.keepConsumer()
        }
    }

    private func hasDeclared(_ declarations: [SearchDeclaration]) throws(StoreError) -> Bool {
        let view = try newest().view
        guard let blocks = try SearchBlocks(view) else { return false }
        let records = try blocks.records()
        return declarations.allSatisfy { declaration in
            guard let number = view.catalog.number(ofEntity: declaration.entity),
                let layout = view.shape.newestLayout(number),
                let record = records.first(where: { $0.entity == number })
            else { return false }
            // A newer program's record stays as it is, and so does a damaged one until it is built again.
            guard let state = record.state else { return true }
            return Self.union(state.attributes, declaration, layout) == state.attributes
        }
    }

    private func declare(_ declaration: SearchDeclaration, _ draft: Draft) throws(StoreError) {
        let view = draft.base
        guard let blocks = try SearchBlocks(view), let number = view.catalog.number(ofEntity: declaration.entity),
            let layout = view.shape.newestLayout(number)
        else { return }
        let place = TransactionPlace(number: view.number, tag: view.tag)
        guard let record = try blocks.record(of: number) else {
            let state = SearchState(place: place, attributes: try Self.checkedUnion([], declaration, layout))
            _ = try draft.insert(entity: blocks.searches.number, [.int(Int64(number)), .data(state.encoded)])
            return
        }
        let snapshot = Snapshot(view, engine(of: view), identifier)
        guard let state = record.state, var step = try SearchStep(snapshot, draft, number, SearchLimits()) else {
            return
        }
        try step.declare(try Self.checkedUnion(state.attributes, declaration, layout))
    }

    /// Throws `invalidArgument` if they are too many for a segment.
    private static func checkedUnion(
        _ known: [SearchState.Attribute], _ declaration: SearchDeclaration, _ layout: RowLayout
    ) throws(StoreError) -> [SearchState.Attribute] {
        let attributes = union(known, declaration, layout)
        guard attributes.count <= SearchPlan.maximumAttributes else {
            throw StoreError(
                .invalidArgument,
                "“\(declaration.entity)” would have \(attributes.count) searchable attributes: at most "
                    + "\(SearchPlan.maximumAttributes) are possible.", ObjectFacts(declaration.entity))
        }
        return attributes
    }

    /// Known attributes and declared ones, which set the weight. Positions that the index has stay. (XS3)
    static func union(
        _ known: [SearchState.Attribute], _ declaration: SearchDeclaration, _ layout: RowLayout
    ) -> [SearchState.Attribute] {
        var attributes = known.filter { layout.position(ofAttribute: $0.number) != nil }
        for text in declaration.attributes {
            guard let attribute = layout.entity.attributes.first(where: { isSameName($0.name.text, text.name) }) else {
                continue
            }
            let hasPositions = known.first { $0.number == attribute.number }?.keepsPositions
            attributes.removeAll { $0.number == attribute.number }
            attributes.append(
                SearchState.Attribute(
                    number: attribute.number, weight: text.weight,
                    keepsPositions: hasPositions == true || text.keepsPositions ?? hasPositions ?? true))
        }
        return attributes.inOrder { $0.number < $1.number }
    }
}
