// Repairs indexes whose record is damaged, and frees blocks that belong to no index.
//
// Invariants:
// XP1  A block is removed if no record of its state names it, and every other record of the state can be read.

extension SearchBlocks {
    /// The rows of blocks and of bitmaps that no record names: they belonged to a damaged record, or to one that
    /// salvage could not read. `damaged` is the record to repair. Empty if another record cannot be read (XP1).
    func unnamedBlocks(except damaged: ObjectID? = nil) throws(StoreError) -> [ObjectID] {
        var named: Set<UInt64> = []
        for record in try records() where record.object != damaged {
            guard let state = record.state else { return [] }
            for segment in state.segments {
                named.formUnion(segment.firstBlock..<segment.firstBlock + UInt64(segment.descriptor.blockCount))
                named.insert(segment.deadRow)
            }
        }
        var unnamed: [ObjectID] = []
        try view.scan(entity: blocks.number) { (object, _) throws(StoreError) in
            if !named.contains(object.number) { unnamed.append(object) }
            return true
        }
        return unnamed
    }

    /// Replaces a damaged record by one of an index of these attributes that is not built yet. Without attributes, only
    /// removes the damaged one.
    func repair(_ record: Record, with attributes: [SearchState.Attribute], _ draft: Draft) throws(StoreError) {
        for block in try unnamedBlocks(except: record.object) { try draft.delete(block) }
        if attributes.isEmpty { return try draft.delete(record.object) }
        let state = SearchState(
            place: TransactionPlace(number: view.number, tag: view.tag), attributes: attributes)
        try draft.update(record.object, [(1, .data(state.encoded))])
    }
}

extension Store {
    /// The attributes of a damaged index: those that its record still shows, and those that this handle's types search.
    /// Throws `damaged` if there are none.
    func attributes(
        ofDamaged record: SearchBlocks.Record, _ layout: RowLayout
    ) throws(StoreError) -> [SearchState.Attribute] {
        let known = record.attributes.filter { attribute in
            layout.position(ofAttribute: attribute.number).map { layout.types[$0] == .string } ?? false
        }
        let name = layout.entity.name.text
        let declared = (extensions.indexer as? SearchIndexer)?.declarations.first { isSameName($0.entity, name) }
        let attributes = declared.map { Self.union(known, $0, layout) } ?? known
        guard attributes.isEmpty else { return attributes }
        throw StoreError(
            .damaged,
            "The search index of “\(name)” is damaged, and does not show which texts it has. Remove it: `annals "
                + "search-index STORE --remove \(name)`. Then make its texts searchable again.", ObjectFacts(name))
    }
}
