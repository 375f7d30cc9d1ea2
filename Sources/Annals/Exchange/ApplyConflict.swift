// Conflicts between an exported transaction and a store, and how to resolve them.

/// How to apply a transaction that conflicts with changes made here.
public enum ConflictPolicy: String, CaseIterable, Hashable, Sendable, Codable {
    /// Write nothing, and throw `applyConflict`.
    case error
    /// Keep the present values, and apply the rest of the transaction.
    case storeWins
    /// Write the exported values over the present ones.
    case exportWins
}

/// A conflict between an exported transaction and the store that it is applied to.
///
/// A policy can resolve some conflicts: then the change is left out (`storeWins`) or written (`exportWins`). Both
/// policies leave out changes that no policy can resolve: an update or deletion of an unknown object, a deletion that a
/// delete rule denies here, a reference to an unknown object, values of a unique key that another object has, and
/// values that would give a derived value that cannot be written here.
public struct ApplyConflict: Hashable, Sendable {
    /// The reason for a conflict.
    public enum Reason: Hashable, Sendable {
        /// The attributes have values here that the transaction neither found nor wrote.
        case changedHere
        /// The object was deleted here.
        case deletedHere
        /// The transaction inserts an object that exists here already.
        case insertedHere
        /// The object is unknown here: its insertion was left out.
        case unknownObject
        /// Another object has the values of the unique attribute or key here. If the transaction inserts the object,
        /// that object takes its place, unless it corresponds to another foreign object already. The key may be derived
        /// from values that the transaction writes.
        case keyTaken(by: ObjectID)
        /// The object cannot be deleted: another object here refers to it, by a property that denies the deletion or
        /// must refer to an object.
        case stillReferred(by: ObjectID)
        /// The attributes refer to an unknown object, or are null but required here.
        case unknownReference
        /// A derived attribute of that object would get a value that its type does not have, such as too large a sum.
        case derivedOutOfRange(of: ObjectID)
    }

    /// The object, as the transaction names it.
    public let object: ExportedObject
    /// The corresponding object here; nil without one.
    public let local: ObjectID?
    /// The name of the object's entity.
    public let entity: String
    /// The kind of the transaction's change of the object.
    public let kind: HistoryChange.Kind
    /// The reason for the conflict.
    public let reason: Reason
    /// The names of the attributes concerned. Empty if the conflict concerns the whole object.
    public let attributes: [String]
}

extension ApplyConflict: CustomStringConvertible {
    /// The conflict as a sentence, without any values.
    public var description: String {
        let names = attributes.isEmpty ? "" : " of \(attributes.joined(separator: ", "))"
        let what =
            switch reason {
            case .changedHere: "the value\(names) was changed here"
            case .deletedHere: "it was deleted here"
            case .insertedHere: "it exists here already"
            case .unknownObject: "the object does not exist here"
            case .keyTaken(let other): "object \(other) has the value\(names) here, which must be unique"
            case .stillReferred(let other): "object \(other) refers to it here, and must not lose that reference"
            case .derivedOutOfRange(let other):
                "a derived value of object \(other) would be outside the range of its type here"
            case .unknownReference: "the value\(names) refers to an object that is unknown here, or is missing"
            }
        return "\(kind.rawValue) \(entity) \(object)\(local.map { " (here \($0))" } ?? ""): \(what)."
    }
}

/// The result of applying a transaction.
public struct ApplyResult: Hashable, Sendable {
    /// The treatment of a transaction.
    public enum Outcome: String, Hashable, Sendable, Codable {
        /// Its changes were applied, except for conflicts.
        case applied
        /// It had been applied before. Nothing was written.
        case alreadyApplied
        /// Its changes were here already, because it was made here or came another way. At most a note of it was
        /// written.
        case alreadyHere
    }

    /// The treatment of the transaction.
    public let outcome: Outcome
    /// The place after the new transaction; nil if nothing was written.
    public let token: HistoryToken?
    /// The conflicts that the policy resolved.
    public let conflicts: [ApplyConflict]
}

private struct ApplyFacts: ErrorFacts {
    var conflicts: [ApplyConflict]
}

extension StoreError {
    /// For `applyConflict`: the conflicts of the exported transaction with the store. Empty for other errors.
    public var applyConflicts: [ApplyConflict] { (facts as? ApplyFacts)?.conflicts ?? [] }

    init(_ code: Code, _ message: String, applyConflicts: [ApplyConflict]) {
        self.init(code, message)
        facts = ApplyFacts(conflicts: applyConflicts)
    }
}
