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
