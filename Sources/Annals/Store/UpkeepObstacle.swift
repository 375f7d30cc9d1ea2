// Values that were worked out when the changes of a revert or of another store's transaction had been made, and that
// cannot be written.

/// A value that cannot be written, and the changes that it was worked out from.
struct UpkeepObstacle: Hashable, Sendable {
    let object: ObjectID
    let reason: WithheldChange.Reason
    /// The numbers of the attributes of `object` that cannot have their values.
    let attributes: Set<UInt16>
    /// By object that the transaction changes, the attributes that count; none for the whole change.
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
    /// Why derived values cannot be written; empty for any other error.
    var upkeepObstacles: [UpkeepObstacle] { (facts as? UpkeepFacts)?.obstacles ?? [] }

    init(_ code: Code, _ message: String, upkeepObstacles: [UpkeepObstacle]) {
        self.init(code, message)
        facts = UpkeepFacts(obstacles: upkeepObstacles)
    }
}
