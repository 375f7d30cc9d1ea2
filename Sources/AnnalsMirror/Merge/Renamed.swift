// Transactions from before a renaming, with the names that the store has now.

internal import Annals

extension ExportedTransaction {
    /// The same changes with the present names of entities and attributes.
    func renamed(_ names: PresentNames) -> ExportedTransaction {
        if names.isEmpty { return self }
        var renamed = self
        renamed.changes = changes.map { $0.renamed(names) }
        return renamed
    }
}

extension ExportedChange {
    func renamed(_ names: PresentNames) -> ExportedChange {
        if names.isEmpty { return self }
        let entity = names.entity(entity)
        return ExportedChange(
            kind: kind, object: object, entity: entity,
            attributes: attributes.map { names.attribute($0, of: entity) }, values: values, before: before)
    }
}

extension MergeWindow {
    /// The same transactions with the present names of entities and attributes. Linear.
    func renamed(_ names: PresentNames) -> MergeWindow {
        var window = MergeWindow()
        for (number, entry) in entries { window.append(entry.renamed(names), number: number) }
        return window
    }
}

extension MergeEntry {
    fileprivate func renamed(_ names: PresentNames) -> MergeEntry {
        var entry = self
        entry.transaction.changes = transaction.changes.map { change in
            let entity = names.entity(change.entity)
            let values = change.values.map { (names.attribute($0.key, of: entity), $0.value) }
            return MergeChange(change.kind, change.object, entity, Dictionary(values) { _, last in last })
        }
        entry.resources.changed = Set(
            resources.changed.map { resource in
                guard case .key(let key, let attribute, let part) = resource else { return resource }
                let entity = names.entity(key.entity)
                let attributes = key.attributes.map { names.attribute($0, of: entity) }
                return .key(
                    MergeSchema.Key(entity: entity, attributes: attributes),
                    attribute: names.attribute(attribute, of: entity), part)
            })
        return entry
    }
}
