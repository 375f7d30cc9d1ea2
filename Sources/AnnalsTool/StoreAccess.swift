// Opens a store for commands, and turns errors of the library into failures of the tool.

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
    static func with<Result, Failure>(
        _ path: String, _ access: Store.Access, _ body: (Store) throws(Failure) -> Result
    ) throws(ToolFailure) -> Result {
        let store = try open(path, access)
        let result: Result
        do {
            result = try body(store)
        } catch {
            try? store.close()
            throw ToolFailure(error)
        }
        try storing { try store.close() }
        return result
    }
}
