// Undoing a transaction by a new one.

/// What to do where a part of a transaction cannot be undone.
public enum RevertPolicy: Hashable, Sendable {
    /// Nothing is written.
    case refuse
    /// What is here stays; the rest is undone: the other objects, and the other attributes of an update.
    case ours
}

/// A part of a transaction that cannot be undone.
public struct RevertConflict: Hashable, Sendable {
    /// Why a part of a transaction cannot be undone.
    public enum Reason: Hashable, Sendable {
        /// The attributes have other values now than the transaction gave them.
        case changedSince
        /// The transaction changed the object, and it was deleted later; or deleted it, and it was inserted and deleted
        /// again with other values.
        case deletedSince
        /// The transaction deleted the object, and it is there again, with other values.
        case insertedSince
        /// That object has the values of the unique attribute or key now.
        case keyTaken(by: ObjectID)
        /// The attributes had no value, and must have one now.
        case requiredMissing
        /// The entity is not in the schema any more.
        case entityRemoved
        /// The attributes were replaced by others of the same names (`SchemaChange.replaceAttribute`), which the values
        /// before are not of.
        case attributeReplaced
        /// History does not have the values before any more.
        case valuesLost
    }

    /// The object that the transaction changed.
    public let object: ObjectID
    /// The name of the object's entity; the last one that it had if it is removed.
    public let entity: String
    /// What the transaction did to the object.
    public let kind: HistoryChange.Kind
    /// Why it cannot be undone.
    public let reason: Reason
    /// The names of the attributes concerned, in the schema's order. Empty if it is the object.
    public let attributes: [String]
}

/// What came of undoing a transaction.
public struct RevertOutcome: Hashable, Sendable {
    /// The place after the new transaction; nil if nothing was written, because of conflicts or because nothing was
    /// left to be undone.
    public let token: HistoryToken?
    /// What could not be undone.
    public let conflicts: [RevertConflict]
}

extension Store {
    /// Undoes a transaction by a new one: what it inserted is deleted, attributes that it changed get the values
    /// before, what it deleted is inserted again under the same ID. What came later stays.
    ///
    /// A value is set back only if it is still the one that the transaction gave; where it has the value before
    /// already there is nothing to do. Conflicts are listed in the outcome; then nothing is written, unless the policy
    /// says otherwise. References of others to objects that are deleted stay as they are.
    ///
    /// Runs under the writer lock, and takes memory for the changes and old values of the transaction, long values
    /// apart. Throws `StoreError`: `tokenUnknown`,
    /// `tokenExpired` if history does not hold the transaction, `historyGap` where it has changed what no history is
    /// kept of, `notRevertible` where it changes the schema, and what committing throws.
    ///
    /// - Parameters:
    ///   - number: The transaction's number.
    ///   - author: Who undoes it, as history says it.
    ///   - contextName: What they were doing, or where.
    ///   - policy: What to do with the parts that cannot be undone.
    ///   - durability: What the call waits for; nil for the store's own choice.
    @discardableResult
    public func revert(
        _ number: UInt64, author: String? = nil, contextName: String? = nil,
        conflicts policy: RevertPolicy = .refuse, durability: Durability? = nil
    ) throws -> RevertOutcome {
        try requireRevertible(number)
        do {
            let (conflicts, token) = try writePending(author, contextName, durability) { pending, engine in
                let plan = try self.plan(number, pending.base, engine)
                if plan.obstacles.isEmpty || policy == .ours { try plan.carryOut(with: pending) }
                return plan.obstacles.map { RevertConflict($0, pending.catalog) }
            }
            return RevertOutcome(token: token, conflicts: conflicts)
        } catch {
            guard let error = error as? StoreError else { preconditionFailure("Nobody else's error can be met here.") }
            throw error
        }
    }

    /// The same for the transaction of a token. Throws `StoreError`: `tokenForeign` and `tokenDiverged` besides.
    @discardableResult
    public func revert(
        _ token: HistoryToken, author: String? = nil, contextName: String? = nil,
        conflicts policy: RevertPolicy = .refuse, durability: Durability? = nil
    ) throws -> RevertOutcome {
        try validate(token)
        return try revert(
            token.number, author: author, contextName: contextName, conflicts: policy, durability: durability)
    }

    private func requireRevertible(_ number: UInt64) throws(StoreError) {
        let engine = engine
        let view = try engine.viewOfThisFile()
        try require(number, engine, view)
        let coverage = engine.tracked(view).coverage
        guard number > coverage.horizon else { throw expired("History does not hold transaction \(number)", engine) }
        var (changesSchema, isCleaned) = (false, false)
        try engine.tracked(view).forEachTransaction(after: number - 1) { (transaction) in
            changesSchema = transaction.changesSchema
            isCleaned = coverage.isCleaned(number, author: transaction.authorNumber)
            return false
        }
        guard !isCleaned else {
            throw StoreError(
                .tokenExpired,
                "Transaction \(number) was cleaned with others of its author: undo what can be undone by a "
                    + "transaction of your own.",
                path: path, oldestToken: try oldestToken(engine))
        }
        guard !changesSchema else {
            throw StoreError(
                .notRevertible,
                "Transaction \(number) changes the schema, which cannot be undone: make the opposite schema change "
                    + "instead.",
                path: path)
        }
    }

    private func plan(_ number: UInt64, _ base: View, _ engine: Engine) throws -> RevertPlan {
        try requireHistory(of: number, base, engine)
        // It was there before the lock, and may have been cleaned since.
        guard let plan = try engine.revertPlan(of: number, in: base) else {
            throw expired("History does not hold transaction \(number)", engine)
        }
        return plan
    }

    /// Throws if the transaction has changed what no history is kept of: undoing the rest would not undo it.
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
            "Transaction \(number) has changed objects \(name.map { "of “\($0)”, " } ?? "")of which no history was "
                + "kept then, and undoing the rest would not "
                + "undo it: undo what can be undone by a transaction of your own.", path: path)
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
        reason =
            switch obstacle.reason {
            case .changedSince: .changedSince
            case .deletedSince: .deletedSince
            case .insertedSince: .insertedSince
            case .keyTaken(let other): .keyTaken(by: other)
            case .requiredMissing: .requiredMissing
            case .entityRemoved: .entityRemoved
            case .attributeReplaced: .attributeReplaced
            case .valuesLost: .valuesLost
            }
    }
}
