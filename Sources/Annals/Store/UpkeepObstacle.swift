// Values that were computed after the changes of a revert or of another store's transaction, and that cannot be
// written.

/// A value that cannot be written, and the changes from which it was computed.
struct UpkeepObstacle: Hashable, Sendable {
    let object: ObjectID
    let reason: WithheldChange.Reason
    /// The numbers of the attributes of `object` whose values cannot be written.
    let attributes: Set<UInt16>
    /// By changed object: the attributes that matter; none for the whole change.
    let causes: [ObjectID: Set<UInt16>]
}

extension UpkeepObstacle {
    /// The part of a cause's change to leave out.
    func withheld(_ cause: ObjectID, _ attributes: Set<UInt16>) -> WithheldChange {
        WithheldChange(reason, attributes, named: cause == object ? self.attributes : attributes)
    }
}

struct UpkeepFacts: ErrorFacts {
    var obstacles: [UpkeepObstacle]
}

extension StoreError {
    /// The reasons why derived values cannot be written; empty for any other error.
    var upkeepObstacles: [UpkeepObstacle] { (facts as? UpkeepFacts)?.obstacles ?? [] }

    init(_ code: Code, _ message: String, upkeepObstacles: [UpkeepObstacle]) {
        self.init(code, message)
        facts = UpkeepFacts(obstacles: upkeepObstacles)
    }
}
