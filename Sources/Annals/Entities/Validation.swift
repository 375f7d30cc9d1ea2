// What a value must be to be saved, and what is said if it is not.

/// A value that is not as its schema asks for.
public struct ValidationFailure: Hashable, Sendable, Codable {
    /// The name of the entity.
    public let entity: String
    /// The name of the property.
    public let attribute: String
    /// The value as text.
    public let value: String
    /// What it must be.
    public let message: String
}

/// All failures of a transaction.
struct ValidationFacts: ErrorFacts {
    let failures: [ValidationFailure]
}

extension StoreError {
    /// What is not as its schema asks for, for `validationFailed`: all failures of the transaction. Otherwise empty.
    public var validationFailures: [ValidationFailure] { (facts as? ValidationFacts)?.failures ?? [] }

    static func validationFailed(_ failures: [ValidationFailure]) -> StoreError {
        // Without the values: a message may end in a log.
        let sentences = failures.prefix(10).map {
            StoreError.sentence("“\($0.attribute)” of “\($0.entity)” \($0.message)")
        }
        let more = failures.count > 10 ? " And \(failures.count - 10) more." : ""
        var error = StoreError(.validationFailed, sentences.joined(separator: " ") + more + " Nothing was saved.")
        error.facts = ValidationFacts(failures: failures)
        return error
    }
}
