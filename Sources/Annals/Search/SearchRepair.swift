// Repairs indexes whose record is damaged, and frees blocks that belong to no index.
//
// Invariants:
// XP1  A block is removed with its index. One that no record names is removed with any index, if all other records of
//      the state can be read.

extension SearchBlocks {
    /// The rows of blocks and of bitmaps that no other record than this one names. They belong to it, or to no record
    /// at all, as after salvage. Nil if another record cannot be read (XP1). Looks at the rows that exist, because the
    /// numbers in a damaged record may be impossible.
    func blocks(namedByNoneBut own: ObjectID) throws(StoreError) -> [ObjectID]? {
        var named: [Range<UInt64>] = []
        for record in try records() where record.object != own {
            guard let state = record.state else { return nil }
            for segment in state.segments {
                named.append(segment.firstBlock..<segment.firstBlock + UInt64(segment.descriptor.blockCount))
                named.append(segment.deadRow..<segment.deadRow + 1)
            }
        }
        var found: [ObjectID] = []
        try view.scan(entity: blocks.number) { (object, _) throws(StoreError) in
            if !named.contains(where: { $0.contains(object.number) }) { found.append(object) }
            return true
        }
        return found
    }

    /// Replaces a damaged record by one of an index of these attributes that is not built yet. Without attributes, only
    /// removes the damaged one.
    func repair(_ record: Record, with attributes: [SearchState.Attribute], _ draft: Draft) throws(StoreError) {
        for block in try blocks(namedByNoneBut: record.object) ?? [] { try draft.delete(block) }
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
