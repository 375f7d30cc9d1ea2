// Undoing a transaction with a new one.

/// The reaction if a part of a transaction cannot be undone.
public enum RevertPolicy: Hashable, Sendable {
    /// Write nothing. This is no error: the result lists the conflicts.
    case refuse
    /// Keep the store's present values in conflicts, and undo the rest: the other objects, and the other attributes of
    /// an update.
    case storeWins
}

/// A part of a transaction that cannot be undone.
public struct RevertConflict: Hashable, Sendable {
    /// The reason why a part of a transaction cannot be undone.
    public typealias Reason = RevertConflictReason

    /// The object that the transaction changed.
    public let object: ObjectID
    /// The name of the object's entity; the last name if the entity was removed.
    public let entity: String
    /// The transaction's change of the object.
    public let kind: HistoryChange.Kind
    /// The reason why it cannot be undone.
    public let reason: Reason
    /// The names of the attributes concerned, in the schema's order. Empty if the conflict concerns the whole object.
    public let attributes: [String]
}

/// The result of undoing a transaction.
public struct RevertResult: Hashable, Sendable {
    /// The place after the new transaction. Nil if nothing was written, because of conflicts or because nothing was
    /// left to undo.
    public let token: HistoryToken?
    /// The parts that could not be undone.
    public let conflicts: [RevertConflict]
}

extension Store {
    /// Undoes a transaction with a new one: objects that it inserted are deleted, attributes that it changed get their
    /// values back, and objects that it deleted are inserted again under the same ID. Later changes stay.
    ///
    /// A value is restored only if it is still the one that the transaction wrote. If the old value is there already,
    /// nothing is done. The result lists the conflicts. With conflicts, nothing is written, unless the policy allows
    /// it. References to objects that this deletes follow their delete rules.
    ///
    /// Runs under the writer lock. Takes memory for the changes and old values of the transaction, except for long
    /// values.
    ///
    /// - Parameters:
    ///   - number: The transaction's number.
    ///   - author: The author of the new transaction, for the history.
    ///   - contextName: The author's activity, or the part of the program.
    ///   - policy: The reaction to parts that cannot be undone.
    ///   - durability: The condition to wait for; nil for the store's setting.
    ///
    /// Throws `StoreError`: `tokenUnknown`; `tokenExpired` if history no longer has the transaction; `historyGap` if it
    /// changed objects without history; `notRevertible` if it changed the schema, or only a search index; and errors of
    /// `write`.
    @discardableResult
    public func revert(
        _ number: UInt64, author: String? = nil, contextName: String? = nil,
        conflicts policy: RevertPolicy = .refuse, durability: Durability? = nil
    ) throws -> RevertResult {
        try requireRevertible(number)
        var withheld: [ObjectID: [WithheldChange]] = [:]
        while true {
            var changed: Set<ObjectID> = []
            do {
                return try revert(number, author, contextName, policy, durability, withheld, &changed)
            } catch {
                guard let error = error as? StoreError else {
                    preconditionFailure("This body throws StoreError only.")
                }
                // Derived values are known only now. Nothing was written: the next attempt leaves out the values that
                // they are derived from.
                guard Self.withhold(error.upkeepObstacles, of: changed, in: &withheld) else { throw error }
            }
        }
    }

    private func revert(
        _ number: UInt64, _ author: String?, _ contextName: String?, _ policy: RevertPolicy, _ durability: Durability?,
        _ withheld: [ObjectID: [WithheldChange]], _ changed: inout Set<ObjectID>
    ) throws -> RevertResult {
        let (conflicts, token) = try writeDraft(author, contextName, durability, validates: true) {
            draft, engine in
            let upkeep = extensions.upkeep
            let derived = RevertDerivation(
                isDerived: { upkeep?.isDerived($0, of: $1, draft) ?? false },
                isWorkedOut: { upkeep?.isWorkedOut($0, of: $1, draft) ?? false }, withheld: withheld)
            let plan = try self.plan(number, draft.base, engine, derived)
            if upkeep != nil { changed = Set(plan.steps.keys) }
            if plan.obstacles.isEmpty || policy == .storeWins { try plan.carryOut(with: draft) }
            return plan.obstacles.map { RevertConflict($0, draft.catalog) }
        }
        return RevertResult(token: token, conflicts: conflicts)
    }

    /// Undoes the transaction of a token. Also throws `StoreError`: `tokenForeign` and `tokenDiverged`.
    @discardableResult
    public func revert(
        _ token: HistoryToken, author: String? = nil, contextName: String? = nil,
        conflicts policy: RevertPolicy = .refuse, durability: Durability? = nil
    ) throws -> RevertResult {
        try validate(token)
        return try revert(
            token.number, author: author, contextName: contextName, conflicts: policy, durability: durability)
    }

    /// Adds changes to leave out, of objects that the plan changes, because of derived values. Each trial leaves out
    /// more. Returns false if the plan changes nothing any more.
    private static func withhold(
        _ obstacles: [UpkeepObstacle], of changed: Set<ObjectID>, in withheld: inout [ObjectID: [WithheldChange]]
    ) -> Bool {
        guard !obstacles.isEmpty, !changed.isEmpty else { return false }
        for obstacle in obstacles {
            var causes = obstacle.causes.filter { changed.contains($0.key) }
            // No cause is known: everything is left out.
            if causes.isEmpty { causes = Dictionary(uniqueKeysWithValues: changed.map { ($0, []) }) }
            for (object, attributes) in causes.inOrder(by: { $0.key < $1.key }) {
                // If leaving out these attributes did not help, the whole change is left out.
                let known = withheld[object, default: []].reduce(into: Set<UInt16>()) { $0.formUnion($1.attributes) }
                withheld[object, default: []].append(
                    obstacle.withheld(object, attributes.isSubset(of: known) ? [] : attributes))
            }
        }
        return true
    }

    private func requireRevertible(_ number: UInt64) throws(StoreError) {
        let engine = engine
        let view = try engine.viewOfThisFile()
        try require(number, engine, view)
        let coverage = engine.tracked(view).coverage
        guard number > coverage.horizon else { throw expired("History does not contain transaction \(number)", engine) }
        var (changesSchema, isCleaned, isStep) = (false, false, false)
        let indexAuthor = engine.number(ofName: ReservedEntity.indexAuthor)
        try engine.tracked(view).forEachTransaction(after: number - 1) { (transaction) throws(StoreError) in
            changesSchema = transaction.changesSchema
            isStep = try transaction.isIndexStep(by: indexAuthor, view.reservedEntities)
            isCleaned = coverage.isCleaned(number, author: transaction.authorNumber)
            return false
        }
        guard !isCleaned else {
            throw StoreError(
                .tokenExpired,
                "Transaction \(number) was cleaned with other transactions of its author, and cannot be undone as a "
                    + "whole: undo the remaining parts in a transaction of your own.",
                path: path, oldestToken: try oldestToken(engine))
        }
        guard !isStep else {
            throw StoreError(
                .notRevertible,
                "Transaction \(number) keeps a search index up to date, and changes no object: undo another "
                    + "transaction, by the token that its commit returned.",
                path: path)
        }
        guard !changesSchema else {
            throw StoreError(
                .notRevertible,
                "Transaction \(number) changes the schema, which cannot be undone: make the opposite schema change "
                    + "instead.",
                path: path)
        }
    }

    private func plan(
        _ number: UInt64, _ base: View, _ engine: Engine, _ derived: RevertDerivation
    ) throws -> RevertPlan {
        try requireHistory(of: number, base, engine)
        // The transaction existed before the lock was taken, but may have been cleaned since.
        guard let plan = try engine.revertPlan(of: number, in: base, derived) else {
            throw expired("History does not contain transaction \(number)", engine)
        }
        return plan
    }

    /// Throws if some changes have no history: undoing only the other changes would not undo the transaction.
    private func requireHistory(of number: UInt64, _ base: View, _ engine: Engine) throws(StoreError) {
        let coverage = engine.tracked(base).coverage
        guard !coverage.gaps.isEmpty else { return }
        var found: HistoryGap?
        var lacksChanges = false
        try engine.tracked(base).forEachTransaction(after: number - 1) { (transaction) throws(StoreError) in
            guard transaction.number == number else { return false }
            let version = transaction.schemaVersion
            lacksChanges = transaction.lacksChanges
            try transaction.forEachChange { (change) in
                let entity = change.object.entityNumber
                found = coverage.gap(of: entity).flatMap { $0.hides(version: version) ? $0 : nil }
                return found == nil
            }
            return false
        }
        guard found != nil || lacksChanges else { return }
        let name = found.map { base.catalog.lastDefinition(ofEntity: $0.entity)?.name.text ?? "entity \($0.entity)" }
        throw StoreError(
            .historyGap,
            "Transaction \(number) has changed objects \(name.map { "of “\($0)”, " } ?? "")whose history was not kept "
                + "at that time, so it cannot be undone as a whole: undo the remaining parts in a transaction of your "
                + "own.", path: path)
    }
}

extension RevertConflict {
    fileprivate init(_ obstacle: RevertObstacle, _ catalog: SchemaCatalog) {
        object = obstacle.object
        kind = HistoryChange.Kind(obstacle.kind)
        let definition = catalog.lastDefinition(ofEntity: obstacle.object.entityNumber)
        entity = definition?.name.text ?? ""
        attributes =
            definition?.attributes.filter { obstacle.attributes.contains($0.number) }.map(\.name.text) ?? []
        reason = obstacle.reason
    }
}
