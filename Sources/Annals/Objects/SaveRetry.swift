// Decides when a save is computed once more: another writer was faster.

/// The attempts of one save.
struct SaveRetry {
    private let store: Store
    private let plan: SavePlan
    private let policy: MergePolicy
    private let upserts: Bool
    private let deadline: UInt64?
    /// The number of times another writer was faster.
    private var overtaken = 0
    /// The number of times that a save is computed again in any case: time may have passed because the actor was busy.
    private static let leastAttempts = 3
    /// Whether the store has refused a reference. Only then, references to objects that other writers have deleted are
    /// looked for.
    private var settlesTargets = false

    init(_ store: Store, _ plan: SavePlan, _ policy: MergePolicy, upserts: Bool) {
        (self.store, self.plan, self.policy, self.upserts) = (store, plan, policy, upserts)
        deadline = Duration.deadline(after: store.options.lockTimeout)
    }

    /// The plan for the newest state. Throws `mergeConflict` with all conflicts, or, if objects cannot be written as
    /// they are, all reasons why the store would refuse the plan.
    func newestPlan() throws(StoreError) -> SavePlan {
        while true {
            let newest: SavePlan
            do throws(StoreError) {
                newest = try rebased(settlesTargets: settlesTargets)
            } catch {
                if error.code == .mergeConflict { _ = try rebased(settlesTargets: true) }
                throw error
            }
            if newest.isValid { return newest }
            // Without a reason now, another writer has removed it.
            if let refusal = try refusal() { throw refusal }
        }
    }

    private func rebased(settlesTargets: Bool) throws(StoreError) -> SavePlan {
        try plan.rebased(on: try store.newestSnapshot(), policy, upserts: upserts, settlesTargets: settlesTargets)
    }

    /// The reasons for which the store would refuse the plan, as one error; nil if it would not. Throws
    /// `mergeConflict`.
    func refusal() throws(StoreError) -> StoreError? { try rebased(settlesTargets: true).refusal(store) }

    /// Throws the error, unless another attempt may succeed, and time is left. If the error concerns the content of
    /// objects, throws an error with all reasons.
    mutating func requireAnother(after error: StoreError, _ newest: SavePlan) throws(StoreError) {
        switch error.code {
        case .conflict: break
        case .referenceMissing where !settlesTargets:
            settlesTargets = true
            return
        case .uniqueViolation where upserts:
            // Another writer may have inserted the object since.
            guard try store.newestSnapshot().token.number > newest.base.token.number else {
                throw try refusal() ?? error
            }
        default: throw error.isRefusal ? try refusal() ?? error : error
        }
        overtaken += 1
        if overtaken < Self.leastAttempts { return }
        if let deadline, RealEnvironment().monotonicMicroseconds() >= deadline {
            throw StoreError(
                .busy, "Other writers have changed objects of this context in each attempt to save: save again.")
        }
    }
}

extension Snapshot {
    /// The references without those to objects that existed once and are deleted. References to objects that never
    /// existed stay: they are mistakes, not deletions.
    func withoutDeleted(_ targets: [ObjectID], except inserted: Set<ObjectID>) throws(StoreError) -> [ObjectID] {
        var left: [ObjectID] = []
        for target in targets {
            let isOwn = target.isTemporary || inserted.contains(target)
            let wasThere = target.number < view.nextNumber(of: target.entityNumber)
            if isOwn || !wasThere { left.append(target) } else if try view.contains(target) { left.append(target) }
        }
        return left
    }
}
