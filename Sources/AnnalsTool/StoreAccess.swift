// Opens a store for commands, and finds a place or an object in it.

package import Annals

extension ToolFailure {
    package init(_ error: StoreError) {
        let status: ExitStatus =
            switch error.code {
            case .damaged, .truncated, .diverged, .notAStore: .damaged
            case .busy: .busy
            case .invalidArgument: .usage
            default: .failed
            }
        self.init(status, error.description, hint: Self.advice(error.code))
        self.error = error
    }

    /// The tool's way to do what the library's message advises.
    private static func advice(_ code: StoreError.Code) -> String? {
        switch code {
        case .tokenExpired, .tokenDiverged, .consumerLost:
            "“annals info STORE” shows where history begins, and the newest token. To follow the store again, read "
                + "everything with “annals dump STORE --as-of TOKEN”, and continue after that token."
        case .historyGap:
            "“annals history --not-entity NAME” leaves an entity out, and “annals dump --entity NAME” prints another "
                + "entity. “annals retention STORE” prints the entities whose history is off."
        case .damaged, .truncated:
            "“annals verify STORE” prints the damage, and “annals salvage STORE NEW” saves the readable part."
        default: nil
        }
    }

    /// For an untyped `catch` around calls that throw only these errors.
    init(_ error: any Error) {
        switch error {
        case let failure as ToolFailure: self = failure
        case let error as StoreError: self.init(error)
        default: self.init(.failed, "\(error)")
        }
    }
}

/// Runs calls into the library and turns their errors into the tool's own failure.
func storing<Value>(_ body: () throws -> Value) throws(ToolFailure) -> Value {
    do { return try body() } catch { throw ToolFailure(error) }
}

enum StoreAccess {
    /// Opens a store by copies, so that truncating it cannot end the tool.
    static func open(_ path: String, _ access: Store.Access, creates: Bool = false) throws(ToolFailure) -> Store {
        try storing { try store(path, access, creates: creates) }
    }

    /// The same, for callers that examine the error.
    static func store(_ path: String, _ access: Store.Access, creates: Bool) throws -> Store {
        var options = Store.Options()
        options.access = access
        options.reading = .copied
        options.createsIfMissing = creates
        // The tool compacts only on command.
        options.automaticCompaction = nil
        return try Store(at: path, options: options)
    }

    /// Runs `body` with a store and closes it. If both fail, throws the failure of `body`.
    static func with<Result>(
        _ path: String, _ access: Store.Access, _ body: (Store) throws(ToolFailure) -> Result
    ) throws(ToolFailure) -> Result {
        let store = try open(path, access)
        let result: Result
        do throws(ToolFailure) {
            result = try body(store)
        } catch {
            try? store.close()
            throw error
        }
        try storing { try store.close() }
        return result
    }
}

extension Store {
    /// The named place, as a token. Throws the token errors.
    func token(of place: HistoryPlace) throws -> HistoryToken {
        if case .token(let token) = place { return token }
        return try snapshot(at: place).token
    }

    /// The state at the place. Throws the token errors.
    func snapshot(at place: HistoryPlace) throws -> Snapshot {
        switch place {
        case .token(let token): try snapshot(asOf: token)
        case .number(let number): try snapshot(asOf: number)
        case .moment(let microseconds):
            // Transactions that were committed at exactly that moment are included.
            try snapshot(asOf: try number(before: Timestamp.date(microseconds + 1)) - 1)
        }
    }
}

/// A place in history, as given on the command line.
package enum HistoryPlace: Equatable, Sendable {
    case number(UInt64)
    case token(HistoryToken)
    /// After the last transaction that was committed at that moment or before. In microseconds since 1970.
    case moment(Int64)

    package init(_ text: String, option: String, for command: Command) throws(ToolFailure) {
        try self.init(text, named: "The option “--\(option)”", for: command)
    }

    package init(_ text: String, operand: String, for command: Command) throws(ToolFailure) {
        try self.init(text, named: operand, for: command)
    }

    private init(_ text: String, named name: String, for command: Command) throws(ToolFailure) {
        if !text.isEmpty, text.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) {
            guard let number = UInt64(text) else {
                throw ToolFailure(
                    .usage, "\(name) has the number “\(text)”, which is too large for a transaction.",
                    hint: "Try: annals help \(command.name)")
            }
            self = .number(number)
            return
        }
        if let microseconds = Timestamp.moment(text) {
            self = .moment(microseconds)
            return
        }
        do {
            self = .token(try HistoryToken(text))
        } catch {
            let isDate = text.prefixMatch(of: /\d{4}-/) != nil
            throw ToolFailure(
                .usage,
                "\(name) takes a transaction number, a token, or a moment, such as 2026-01-02 or 2026-01-02T03:04:05Z. "
                    + (isDate ? "“\(text)” is not a date or time that exists." : ToolFailure(error).message),
                hint: "Try: annals help \(command.name)")
        }
    }

    var inRequest: HistoryRequest.Place {
        switch self {
        case .number(let number): .number(number)
        case .token(let token): .token(token)
        case .moment(let microseconds): .date(Timestamp.date(microseconds))
        }
    }
}

extension Arguments {
    /// The author of a change. Without a name, a tracker that lists authors would never see the changes of the tool.
    /// Empty for no author.
    var author: String { value(of: "author") ?? "annals" }

    func place(of option: String, for command: Command) throws(ToolFailure) -> HistoryPlace? {
        guard let text = value(of: option) else { return nil }
        return try HistoryPlace(text, option: option, for: command)
    }
}

/// Parses the text form of an ID, of any entity.
func objectID(_ text: String) throws(ToolFailure) -> ObjectID {
    guard let object = ObjectID(text) else {
        throw ToolFailure(.usage, "“\(text)” is not an object ID: an ID looks like “1:42”.")
    }
    return object
}

/// Parses “ENTITY ID” of the command line: the ID's text form, or only the object's number.
func objectID(_ text: String, of entity: EntityHandle) throws(ToolFailure) -> ObjectID {
    if let object = ObjectID(text) {
        guard object.entityNumber == entity.number else {
            throw ToolFailure(
                .usage,
                "The object \(object) is not an object of “\(entity.name)”, whose IDs begin with \(entity.number).")
        }
        return object
    }
    if text.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }), let number = UInt64(text),
        let object = ObjectID(entityNumber: entity.number, number: number)
    {
        return object
    }
    throw ToolFailure(
        .usage, "“\(text)” is not an object ID: an ID looks like “\(entity.number):42”, or “42” for short.")
}
