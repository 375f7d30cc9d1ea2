// What many transactions come to: one change for each object.

/// What the changes of one object come to, from before the first one to after the last one.
///
/// | there before | there after | net |
/// |---|---|---|
/// | no | no | nothing: inserted and deleted |
/// | no | yes | an insert with the last values |
/// | yes | no | a deletion of the first values |
/// | yes | yes | an update; `attributes` are all that were written, even if they have their first values again |
///
/// An object that was deleted and inserted again is an update of the attributes in which its rows differ, and nothing
/// where they do not. Whether an object was there before is told by its first change, and after by its last one.
public struct NetChange: Hashable, Sendable, Codable {
    /// What the changes come to.
    public let kind: HistoryChange.Kind
    /// The object that was changed.
    public let object: ObjectID
    /// The name of the object's entity; the last one that it had if it is removed.
    public let entity: String
    /// Of an update: the names of the attributes that were changed, in the schema's order and as it called them after
    /// the last change; those that it does not have any more are left out. Empty for others.
    public let attributes: [String]
    /// The object before the first change. Nil for an insert, and if values were not requested.
    public let before: Row?
    /// The object after the last change. Nil for a deletion, and if values were not requested.
    public let after: Row?
    /// What is kept of a deleted object. Nil for nothing.
    public let preserved: Row?
    /// The numbers of the first and the last transaction that changed it.
    public let firstTransaction: UInt64
    /// The number of the last transaction that changed it.
    public let lastTransaction: UInt64
}

extension Store {
    /// Gives `body` what the changes that a request chooses come to, one net change for each object, until it returns
    /// false.
    ///
    /// The request's places, authors, contexts, entities and objects choose what is folded; transactions that it leaves
    /// out are gaps, and what they did shows only in the values. Its kinds and attributes choose among the net changes.
    /// They come by ascending object ID, or descending where the request asks for the newest first, and its limit
    /// counts them.
    ///
    /// Linear in the changes, which are sorted in 32 MiB of memory and, beyond some 600,000 of them, a temporary file
    /// without a name (56 bytes a change). Rows are read only if values are requested, and of objects that were
    /// deleted and inserted again. Throws as
    /// `forEachTransaction`, and `noSpace`.
    public func forEachNetChange(
        _ request: HistoryRequest, includingValues: Bool = false, in snapshot: Snapshot? = nil,
        _ body: (NetChange) throws -> Bool
    ) throws {
        var folded = request
        folded.kinds = nil
        folded.changedAttributes = nil
        // Looked up for what they throw and for the choice below.
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

    /// The net changes as values, all in memory: give the request a limit. Throws as `forEachNetChange`.
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

    /// Nil if it comes to nothing, or is not chosen.
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
            after: includingValues ? after : nil, preserved: try row(change.preserved),
            firstTransaction: change.firstNumber, lastTransaction: change.lastNumber)
    }

    private func differences(_ before: Row?, _ after: Row?) -> Set<UInt16> {
        guard let before, let after, let layout else { return [] }
        let different = before.values.indices.filter { before.values[$0] != after.values[$0] }
        return Set(different.map { layout.entity.attributes[$0].number })
    }

    private func row(_ offset: UInt64?) throws(StoreError) -> Row? {
        guard let offset else { return nil }
        var result: Row?
        _ = try view.withRow(at: offset, change.object.entityNumber) { (row) throws(StoreError) in
            result = try value(row)
        }
        return result
    }

    private func value(_ row: RowImage) throws(StoreError) -> Row {
        let layout = layout ?? row.layout
        let names = layout.entity.attributes.map(\.name.text)
        return try withUnsafePointer(to: row) { (place) throws(StoreError) in
            try RowView(change.object, place, view: view, layout: layout)
                .row(entity: layout.entity.name.text, names: names)
        }
    }
}
