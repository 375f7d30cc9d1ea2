// Net changes: many transactions folded into one change for each object.

/// All changes of one object as one, from before the first change to after the last.
///
/// | existed before | exists after | net change |
/// |---|---|---|
/// | no | no | none: inserted and deleted |
/// | no | yes | an insert with the last values |
/// | yes | no | a deletion of the first values |
/// | yes | yes | an update; `attributes` are all that were written, even if they have their first values again |
///
/// For an object that was deleted and inserted again, the net change is an update of the attributes that differ, or
/// none if nothing differs. The first change shows whether an object existed before, the last whether it exists after.
public struct NetChange: Hashable, Sendable, Codable {
    /// The kind of the net change.
    public let kind: HistoryChange.Kind
    /// The object that was changed.
    public let object: ObjectID
    /// The name of the object's entity; the last name if the entity was removed.
    public let entity: String
    /// For an update: the names of the changed attributes after the last change, in the schema's order. Attributes that
    /// were removed since are left out. Empty for other kinds.
    public let attributes: [String]
    /// The object before the first change. Nil for an insert, and if values were not requested.
    public let before: Row?
    /// The object after the last change. Nil for a deletion, and if values were not requested.
    public let after: Row?
    /// The preserved attributes of a deleted object. Nil without any.
    public let preserved: Row?
    /// The number of the first transaction that changed it.
    public let firstTransaction: UInt64
    /// The number of the last transaction that changed it.
    public let lastTransaction: UInt64
}

extension Store {
    /// Calls `body` with one net change for each object that a request selects, until `body` returns false.
    ///
    /// The request's places, authors, contexts, entities and objects select the changes to fold. Changes of excluded
    /// transactions show only in the values. The request's kinds and attributes select among the net changes. They come
    /// by ascending object ID, or by descending ID if the request's order is newest first. The limit counts net
    /// changes.
    ///
    /// Linear in the number of changes. They are sorted in 32 MiB of memory and, for more than about 600,000 changes,
    /// in an unnamed temporary file (56 bytes for each change). Rows are read only if values are requested, and for
    /// objects that were deleted and inserted again. Throws as `forEachTransaction`, and `noSpace`.
    public func forEachNetChange(
        _ request: HistoryRequest, includingValues: Bool = false, in snapshot: Snapshot? = nil,
        _ body: (NetChange) throws -> Bool
    ) throws {
        var folded = request
        folded.kinds = nil
        folded.changedAttributes = nil
        // Resolved for its errors, and for the choice below.
        let choice = try ResolvedRequest(request, self, snapshot)
        let resolved = try ResolvedRequest(
            folded, self, snapshot ?? Snapshot(choice.view, choice.engine, identifier),
            named: choice.changes?.namedEntities)
        guard resolved.limit > 0 else { return }
        let folding = try fold(resolved)
        var left = resolved.limit
        var failure: (any Error)?
        try folding.forEachResult { (change) throws(StoreError) in
            do {
                let net = NetChangeReader(change, resolved.view)
                guard let value = try net.value(includingValues, choice.changes) else { return true }
                left -= 1
                return try body(value) && left > 0
            } catch {
                failure = error
                return false
            }
        }
        if let failure { throw failure }
    }

    /// The net changes as values. All of them are in memory at once: give the request a limit. Throws as
    /// `forEachNetChange`.
    public func netChanges(
        _ request: HistoryRequest, includingValues: Bool = false
    ) throws -> [NetChange] {
        var changes: [NetChange] = []
        try forEachNetChange(request, includingValues: includingValues) { (change) in
            changes.append(change)
            return true
        }
        return changes
    }
}

/// Makes a folded change into a value.
private struct NetChangeReader {
    let change: FoldedChange
    let view: View
    let layout: RowLayout?

    init(_ change: FoldedChange, _ view: View) {
        self.change = change
        self.view = view
        layout = view.catalog.layout(version: change.schemaVersion, entity: change.object.entityNumber)
    }

    /// Nil without a net change, or if the request does not select it.
    func value(_ includingValues: Bool, _ choice: ChangeFilter?) throws(StoreError) -> NetChange? {
        if let kinds = choice?.kinds, !kinds.contains(change.kind) { return nil }
        if choice?.attributes != nil, change.kind != .update { return nil }
        let needsRows = includingValues || change.isReplacement
        let before = needsRows ? try row(change.before) : nil
        let after = needsRows ? try row(change.after) : nil
        var numbers = change.attributes
        if change.isReplacement {
            numbers = differences(before, after)
            if numbers.isEmpty { return nil }
        }
        if let chosen = choice?.attributes, chosen[change.object.entityNumber]?.isDisjoint(with: numbers) ?? true {
            return nil
        }
        let attributes = layout?.entity.attributes.filter { numbers.contains($0.number) } ?? []
        return NetChange(
            kind: HistoryChange.Kind(change.kind), object: change.object,
            entity: view.catalog.lastDefinition(ofEntity: change.object.entityNumber)?.name.text ?? "",
            attributes: attributes.map(\.name.text), before: includingValues ? before : nil,
            after: includingValues ? after : nil, preserved: try row(change.preserved, as: .preserved),
            firstTransaction: change.firstNumber, lastTransaction: change.lastNumber)
    }

    private func differences(_ before: Row?, _ after: Row?) -> Set<UInt16> {
        guard let before, let after, let layout else { return [] }
        let different = before.values.indices.filter { before.values[$0] != after.values[$0] }
        return Set(different.map { layout.entity.attributes[$0].number })
    }

    private func row(_ offset: UInt64?, as role: RowView.Role = .history) throws(StoreError) -> Row? {
        guard let offset else { return nil }
        var result: Row?
        _ = try view.withRow(at: offset, change.object.entityNumber) { (row) throws(StoreError) in
            result = try value(row, role)
        }
        return result
    }

    private func value(_ row: RowImage, _ role: RowView.Role) throws(StoreError) -> Row {
        let layout = layout ?? row.layout
        return try withUnsafePointer(to: row) { (place) throws(StoreError) in
            try RowView(change.object, place, view: view, layout: layout, as: role)
                .row(entity: layout.entity.name.text, names: layout.names)
        }
    }
}
