// The values of an error in terms of the model: a place in history, and a text for Foundation.

public import FoundationEssentials

private struct TokenFacts: ErrorFacts {
    var oldestToken: HistoryToken?
}

extension StoreError {
    /// The oldest place to continue from. For `tokenExpired` and `consumerLost`, the oldest place in history. For
    /// `historyGap`, the place where the entity's history begins; nil if its history is off.
    public var oldestToken: HistoryToken? {
        get { (facts as? TokenFacts)?.oldestToken }
        set { facts = newValue.map { TokenFacts(oldestToken: $0) } }
    }

    init(_ code: Code, _ message: String, path: String? = nil, oldestToken: HistoryToken?) {
        self.init(code, message, path: path)
        self.oldestToken = oldestToken
    }
}

extension StoreError: LocalizedError {
    /// The message.
    public var errorDescription: String? { message }
}
