// The validation of values before saving, and its failures.

/// A value that breaks a rule of its schema.
public struct ValidationFailure: Hashable, Sendable, Codable {
    /// The name of the entity.
    public let entity: String
    /// The name of the property.
    public let attribute: String
    /// The value as text.
    public let value: String
    /// The rule that the value must satisfy.
    public let message: String
    /// The object; a temporary ID if it was never saved. Nil if it was not inserted yet when this was found.
    public private(set) var object: ObjectID?
    /// For an error of a batch, the element of its sequence, counted from 0. Otherwise nil.
    public private(set) var element: Int?

    init(entity: String, attribute: String, value: String, message: String, object: ObjectID?) {
        (self.entity, self.attribute, self.value, self.message) = (entity, attribute, value, message)
        self.object = object
    }

    /// The same, of an object.
    func of(_ object: ObjectID) -> ValidationFailure {
        var failure = self
        failure.object = object
        return failure
    }

    /// The same, of an element of a batch.
    func of(element: Int?) -> ValidationFailure {
        var failure = self
        failure.element = element
        return failure
    }
}

/// All failures of a transaction.
struct ValidationFacts: ErrorFacts {
    let failures: [ValidationFailure]
}

extension StoreError {
    /// The values that break their schema's rules, for `validationFailed`: all failures of the transaction. Otherwise
    /// empty.
    public var validationFailures: [ValidationFailure] { (facts as? ValidationFacts)?.failures ?? [] }

    /// Several reasons that prevent saving, as one error: its message begins with the first reason.
    static func refused(_ reasons: [StoreError]) -> StoreError? {
        guard var error = reasons.first else { return nil }
        if reasons.count == 1 { return error }
        let more = reasons.count > 5 ? " And \(reasons.count - 5) more." : ""
        let messages = reasons.map(\.message)
        let sentences = messages.prefix(5).map {
            $0.hasSuffix(nothingWasSaved) ? String($0.dropLast(nothingWasSaved.count)) : $0
        }
        error.message = sentences.joined(separator: " ") + more + nothingWasSaved
        error.failures = reasons
        return error
    }

    private static let nothingWasSaved = " Nothing was saved."

    static func validationFailed(_ failures: [ValidationFailure]) -> StoreError {
        // Without the values: a message may end in a log.
        let sentences = failures.prefix(10).map {
            StoreError.sentence("“\($0.attribute)” of “\($0.entity)” \($0.message)")
        }
        let more = failures.count > 10 ? " And \(failures.count - 10) more." : ""
        var error = StoreError(.validationFailed, sentences.joined(separator: " ") + more + nothingWasSaved)
        error.facts = ValidationFacts(failures: failures)
        return error
    }
}
