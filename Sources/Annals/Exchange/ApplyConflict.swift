// What to do, and what was done, where an exported transaction contradicts a store.

/// What becomes of a transaction that contradicts what was changed here.
public enum ConflictPolicy: String, CaseIterable, Hashable, Sendable, Codable {
    /// Nothing is written, and `applyConflict` is thrown.
    case refuse
    /// The exported values are written over those that are here.
    case theirs
    /// What is here stays; the rest of the transaction is applied.
    case ours
}

/// Where an exported transaction contradicts the store that it is applied to.
///
/// What a policy can settle is written (`theirs`) or left out (`ours`). What no policy can settle is left out by both:
/// an update or deletion of an object that is not here, a reference to one that is unknown, values of a unique key that
/// another object has.
public struct ApplyConflict: Hashable, Sendable {
    /// What is in the way.
    public enum Reason: Hashable, Sendable {
        /// The attributes have other values here than the transaction found and than it wrote.
        case changedHere
        /// The object was deleted here.
        case deletedHere
        /// The object that it inserts is here already.
        case insertedHere
        /// The object is unknown: it was left out when it should have been inserted.
        case unknownObject
        /// That object has the values of the unique attribute or key here. For an insertion it takes the place of the
        /// exported one, if it has no other name in other stores yet.
        case keyTaken(by: ObjectID)
        /// The attributes refer to an object that is unknown, or have no value and must have one here.
        case unknownReference
    }

    /// The object as the transaction names it.
    public let object: ExportedObject
    /// The object here; nil if there is none.
    public let local: ObjectID?
    /// The name of the object's entity.
    public let entity: String
    /// What the transaction does to the object.
    public let kind: HistoryChange.Kind
    /// What is in the way.
    public let reason: Reason
    /// The names of the attributes concerned. Empty if it is the object.
    public let attributes: [String]
}

extension ApplyConflict: CustomStringConvertible {
    /// A sentence, without any value.
    public var description: String {
        let names = attributes.isEmpty ? "" : " of \(attributes.joined(separator: ", "))"
        let what =
            switch reason {
            case .changedHere: "the value\(names) was changed here"
            case .deletedHere: "it was deleted here"
            case .insertedHere: "it is here already"
            case .unknownObject: "there is no such object here"
            case .keyTaken(let other): "object \(other) has the value\(names) here, which must be unique"
            case .unknownReference: "the value\(names) refers to an object that is unknown here, or is missing"
            }
        return "\(kind.rawValue) \(entity) \(object)\(local.map { " (here \($0))" } ?? ""): \(what)."
    }
}

/// What came of applying a transaction.
public struct ApplyResult: Hashable, Sendable {
    /// What became of the transaction.
    public enum Outcome: String, Hashable, Sendable, Codable {
        /// Its changes were applied, but for conflicts.
        case applied
        /// It was applied before. Nothing was written.
        case alreadyApplied
        /// Its changes are here already: it was first made here, or came another way. At most a note of that was
        /// written.
        case alreadyHere
    }

    /// What became of the transaction.
    public let outcome: Outcome
    /// The place after the new transaction; nil if nothing was written.
    public let token: HistoryToken?
    /// What the policy settled.
    public let conflicts: [ApplyConflict]
}

private struct ApplyFacts: ErrorFacts {
    var conflicts: [ApplyConflict]
}

extension StoreError {
    /// Of `applyConflict`: where the exported transaction contradicts the store. Empty for other errors.
    public var applyConflicts: [ApplyConflict] { (facts as? ApplyFacts)?.conflicts ?? [] }

    init(_ code: Code, _ message: String, applyConflicts: [ApplyConflict]) {
        self.init(code, message)
        facts = ApplyFacts(conflicts: applyConflicts)
    }
}
