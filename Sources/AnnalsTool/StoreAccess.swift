// Opens a store for commands, turns errors of the library into failures of the tool, and failures into JSON.

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

    /// `{"error":{"code":…,"message":…}}` and more. The code is the library's, or the name of the exit status.
    var json: String {
        let line: JSONLine = [
            // Only “diff” fails with this status.
            "code": error?.code.rawValue ?? "\(status == .losses ? .failed : status)",
            "message": error?.message ?? message, "status": Int(status.rawValue),
        ]
        let details = JSONLine(present: [
            "hint": hint, "path": error?.path, "offset": error?.offset, "entity": error?.entity,
            "attributes": error.flatMap { $0.attributes.isEmpty ? nil : $0.attributes },
            "object": error?.object?.description, "oldestNumber": error?.oldestToken?.number,
            "oldestToken": error?.oldestToken?.description, "lockHolder": error?.lockHolder.map { Int($0.processID) },
            "lockedSince": error?.lockHolder.map { Timestamp.text($0.since) },
        ])
        return JSONLine([("error", line + details)]).json
    }

    /// Whether the command line requests JSON, so that failures are printed as JSON too.
    static func isJSONWanted(_ arguments: [String]) -> Bool {
        let options = arguments.prefix { $0 != "--" }
        for (option, next) in zip(options, options.dropFirst() + [""]) {
            let value = option == "--format" ? next : option.hasPrefix("--format=") ? String(option.dropFirst(9)) : ""
            if Arguments.isJSON(value) { return true }
        }
        return false
    }

    /// The same with labels for the objects that the library's error names by their IDs.
    func labelled(in store: Store) -> ToolFailure {
        guard let objects = error?.objects, !objects.isEmpty, let snapshot = try? store.snapshot(),
            let labels = try? Labels(snapshot)
        else { return self }
        var failure = self
        for object in Set(objects) {
            let id = object.description
            for range in failure.message.ranges(of: id).reversed() {
                // It may be a part of a longer ID.
                let (before, after) = (
                    failure.message[..<range.lowerBound].last, failure.message[range.upperBound...].first
                )
                if before?.isNumber == true || after?.isNumber == true { continue }
                failure.message.replaceSubrange(range, with: labels.text(object))
            }
        }
        return failure
    }
}

extension Snapshot {
    var handles: [EntityHandle] { get throws { try entities.map { try entity($0.name) } } }

    /// Calls `body` with each object of the entity. It may throw any error.
    func forEachObject(of entity: EntityHandle, _ body: (ObjectID) throws -> Void) throws {
        var failure: (any Error)?
        try forEachRow(of: entity) { (row) throws(StoreError) in
            do { try body(row.id) } catch { failure = error }
            return failure == nil
        }
        if let failure { throw failure }
    }
}

enum StoreAccess {
    /// Opens a store by copies, so that truncating it cannot end the tool.
    static func open(_ path: String, _ access: Store.Access, creates: Bool = false) throws -> Store {
        var options = Store.Options()
        options.access = access
        options.reading = .copied
        // A scan reads each byte once, and is as fast with less.
        options.copiedBytes = 16 << 20
        options.dirtyNodeBytes = 32 << 20
        options.createsIfMissing = creates
        // The tool compacts only on command.
        options.automaticCompaction = nil
        return try Store(at: path, options: options)
    }

    /// The store; nil if it does not exist.
    static func existing(_ path: String, _ access: Store.Access) throws -> Store? {
        do {
            return try open(path, access)
        } catch let error as StoreError where error.code == .notFound {
            return nil
        }
    }

    /// Runs `body` and closes the store. If `body` fails, removes a store that was created for it and has nothing yet.
    static func change(_ store: Store, _ body: () throws -> Void) throws {
        do {
            try body()
        } catch {
            _ = try? store.abandon()
            throw error
        }
        try store.close()
    }

    /// Runs `body` with a store and closes it. If both fail, throws the failure of `body`.
    static func with<Result>(
        _ path: String, _ access: Store.Access, _ body: (Store) throws -> Result
    ) throws -> Result {
        let store = try open(path, access)
        do {
            let result = try body(store)
            try store.close()
            return result
        } catch {
            let failure = ToolFailure(error).labelled(in: store)
            try? store.close()
            throw failure
        }
    }

    /// Runs `body` with the store; again, with a note on standard error, each time another file has replaced it. `body`
    /// notes the place that it has reached, and continues after it if there is one.
    static func follow(_ path: String, _ body: (Store, inout HistoryToken?) throws -> Void) throws {
        var reached: HistoryToken?
        var store = try open(path, .readOnly)
        while true {
            do {
                try body(store, &reached)
                return try store.close()
            } catch {
                try? store.close()
                // Only a body that follows notes a place.
                let code = ToolFailure(error).error?.code
                guard reached != nil, [.storeReplaced, .diverged].contains(code) else { throw error }
                store = try open(path, .readOnly)
                if reached.map({ (try? store.validate($0)) == nil }) ?? true { reached = try store.currentToken }
                let number = reached?.number ?? 0
                try Output.report("annals: \(path) was replaced: continuing after transaction \(number).")
            }
        }
    }
}
