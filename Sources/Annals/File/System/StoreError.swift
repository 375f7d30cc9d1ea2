// The library's only error: a code, a message, the location and the cause.

/// Further facts about an error. Each folder declares the facts that it knows, and public properties to read them.
package protocol ErrorFacts: Hashable, Sendable {}

/// An error met while working with a store.
///
/// Programs decide by `code`. `message` is a whole sentence for people with the failure and its cure. It may contain
/// names of entities and attributes, never values of objects.
///
/// Functions of a store are declared as plain `throws`. They throw only this error, the errors of their closures, and
/// `CancellationError` if they are called with `await`. Around them every form of `catch` works, such as `catch let
/// error as StoreError where error.code == .busy`.
///
/// Closures that borrow rows or changes in place are `throws(StoreError)`, and so are the methods of the borrowed
/// values. Swift 6.3 crashes on `catch let error as StoreError where …` and on `catch where …` around nothing but such
/// calls. Inside such a closure write `do throws(StoreError) { … } catch where error.code == .damaged { … }`, or `catch
/// { … }` after the same `do`: there `error` is a `StoreError`. Around the function that lends, every form works again.
public struct StoreError: Error, Hashable, Sendable {
    /// Why. New codes may be added, so a `switch` over them needs a `default`.
    public struct Code: RawRepresentable, Hashable, Sendable, Codable, CustomStringConvertible {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }
        public var description: String { rawValue }
    }

    private struct Content {
        var code: Code
        var message: String
        var call: String?
        var systemError: Int32?
        var path: String?
        var offset: UInt64?
        var facts: (any ErrorFacts)?
        var failures: [StoreError] = []
        var elements: [Int] = []
    }

    /// All fields in one object: a typed error occupies registers even in functions that hardly ever throw.
    private final class Storage: Sendable {
        let content: Content
        init(_ content: Content) { self.content = content }
    }

    private var storage: Storage

    private var content: Content {
        get { storage.content }
        set { storage = Storage(newValue) }
    }

    /// The kind of failure, for programs to decide by.
    public var code: Code {
        get { content.code }
        set { content.code = newValue }
    }

    /// A whole sentence, or several.
    public var message: String {
        get { content.message }
        set { content.message = newValue }
    }

    /// The system call that failed, without parentheses; nil if none did.
    public var call: String? {
        get { content.call }
        set { content.call = newValue }
    }

    /// The system's error number, if it exists.
    public var systemError: Int32? {
        get { content.systemError }
        set { content.systemError = newValue }
    }

    /// The file that the error is about.
    public var path: String? {
        get { content.path }
        set { content.path = newValue }
    }

    /// The byte of the file that the error is about.
    public var offset: UInt64? {
        get { content.offset }
        set { content.offset = newValue }
    }

    /// Further facts about the error, from the folder that throws it.
    package var facts: (any ErrorFacts)? {
        get { content.facts }
        set { content.facts = newValue }
    }

    /// Each reason for which something is refused, as an error of its own. A save of a context finds all of them, and
    /// this error has the code and the facts of the first. Otherwise it is this error alone.
    public internal(set) var failures: [StoreError] {
        get { content.failures.isEmpty ? [self] : content.failures }
        set { content.failures = newValue }
    }

    /// The elements of a batch that the error is about, by their place in its sequence, from 0. Empty if it is not
    /// known, or no batch was written.
    public internal(set) var elements: [Int] {
        get { content.elements }
        set { content.elements = newValue }
    }

    /// An error with a code and a sentence for people. Programs make one to end a closure that is lent rows.
    @inline(never)
    public init(
        _ code: Code, _ message: String, call: String? = nil, systemError: Int32? = nil, path: String? = nil,
        offset: UInt64? = nil
    ) {
        storage = Storage(
            Content(
                code: code, message: message, call: call, systemError: systemError, path: path, offset: offset,
                facts: nil))
    }

    public static func == (left: StoreError, right: StoreError) -> Bool {
        left.code == right.code && left.message == right.message && left.call == right.call
            && left.systemError == right.systemError && left.path == right.path && left.offset == right.offset
            && left.facts.map { AnyHashable($0) } == right.facts.map { AnyHashable($0) }
            && left.content.failures == right.content.failures && left.elements == right.elements
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(code)
        hasher.combine(message)
    }
}

extension StoreError {
    /// The message of `storeRemoved`.
    static let wasRemoved =
        "The store file was removed or renamed, so nothing more is written to it: close the store, and open it again "
        + "when the file is back."
}

extension StoreError: CustomStringConvertible {
    /// The message, and where.
    public var description: String {
        switch (path, offset) {
        case (let path?, let offset?): "\(message) [\(path), offset \(offset)]"
        case (let path?, nil): "\(message) [\(path)]"
        case (nil, let offset?): "\(message) [offset \(offset)]"
        case (nil, nil): message
        }
    }
}

// MARK: The path

extension StoreError.Code {
    /// There is no such file or directory.
    public static let notFound = Self(rawValue: "notFound")
    /// The name is taken.
    public static let alreadyExists = Self(rawValue: "alreadyExists")
    /// A store is a regular file, but this is something else.
    public static let notARegularFile = Self(rawValue: "notARegularFile")
    /// A store that is written must be on a local file system.
    public static let networkFileSystem = Self(rawValue: "networkFileSystem")
    /// The system does not allow it: look at the owner and the mode of the file and its directory.
    public static let permissionDenied = Self(rawValue: "permissionDenied")
    /// The store was opened for reading, or lies on a file system that is.
    public static let readOnly = Self(rawValue: "readOnly")
    /// The file was removed while it was open.
    public static let storeRemoved = Self(rawValue: "storeRemoved")
    /// Another file has replaced the open one.
    public static let storeReplaced = Self(rawValue: "storeReplaced")
    /// The file has a second name, and is not written to.
    public static let hardLinked = Self(rawValue: "hardLinked")
}

// MARK: The content

extension StoreError.Code {
    /// The file is not a store.
    public static let notAStore = Self(rawValue: "notAStore")
    /// The file was written by a newer version of Annals.
    public static let unsupportedVersion = Self(rawValue: "unsupportedVersion")
    /// Bytes of the file differ from the written ones; `offset` is their location.
    public static let damaged = Self(rawValue: "damaged")
    /// The file ends before its last commit does.
    public static let truncated = Self(rawValue: "truncated")
    /// The file has lost data that this handle has read, through a power failure.
    public static let diverged = Self(rawValue: "diverged")
}

// MARK: The schema

extension StoreError.Code {
    /// The schema has changed since: look up entities again and repeat.
    public static let schemaChanged = Self(rawValue: "schemaChanged")
    /// The entities that a program declares contradict those of the store.
    public static let schemaMismatch = Self(rawValue: "schemaMismatch")
    /// The types that a program declares as entities have mistakes; the message names all of them.
    public static let modelInvalid = Self(rawValue: "modelInvalid")
    /// A migration has thrown an error, which the message repeats. The migration has changed nothing.
    public static let migrationFailed = Self(rawValue: "migrationFailed")
    /// A schema change that is not allowed; the message explains why and names the alternatives.
    public static let schemaRefused = Self(rawValue: "schemaRefused")
    /// The schema has no entity of that name.
    public static let unknownEntity = Self(rawValue: "unknownEntity")
    /// The entity has no attribute of that name.
    public static let unknownAttribute = Self(rawValue: "unknownAttribute")
}

// MARK: Objects and values

extension StoreError.Code {
    /// The object does not exist, or no longer.
    public static let objectNotFound = Self(rawValue: "objectNotFound")
    /// Another object already has the value of a unique attribute or key.
    public static let uniqueViolation = Self(rawValue: "uniqueViolation")
    /// A reference names an object that does not exist, or one of another entity.
    public static let referenceMissing = Self(rawValue: "referenceMissing")
    /// A URI or a reference names an object of another store.
    public static let referenceForeign = Self(rawValue: "referenceForeign")
    /// Objects refer to a deleted one under the rule `deny`; `objects` names them. Nothing has changed.
    public static let deleteDenied = Self(rawValue: "deleteDenied")
    /// A value breaks a rule of the schema; `validationFailures` has all of the transaction. Nothing has changed.
    public static let validationFailed = Self(rawValue: "validationFailed")
    /// An object was changed both in a context and in the store; `mergeConflicts` lists the conflicts.
    public static let mergeConflict = Self(rawValue: "mergeConflict")
    /// Another writer has changed the same data since; `mergeConflicts` lists the conflicts.
    public static let undoConflict = Self(rawValue: "undoConflict")
    /// An object or a temporary reference belongs to another context, or is no longer inserted in this one.
    public static let wrongContext = Self(rawValue: "wrongContext")
    /// An object was changed that is deleted.
    public static let objectGone = Self(rawValue: "objectGone")
    /// The context was closed, or its store is gone.
    public static let contextClosed = Self(rawValue: "contextClosed")
    /// A required attribute has no value.
    public static let requiredMissing = Self(rawValue: "requiredMissing")
    /// A value is not of its attribute's type.
    public static let typeMismatch = Self(rawValue: "typeMismatch")
    /// A value cannot be stored, or returned, unchanged.
    public static let valueOutOfRange = Self(rawValue: "valueOutOfRange")
    /// A row or value is over a limit of the format.
    public static let tooLarge = Self(rawValue: "tooLarge")
}

// MARK: Tokens

extension StoreError.Code {
    /// The text is no token.
    public static let tokenMalformed = Self(rawValue: "tokenMalformed")
    /// The token belongs to another store.
    public static let tokenForeign = Self(rawValue: "tokenForeign")
    /// History no longer reaches back to the token: read everything from a snapshot, and continue from its `token`.
    /// `oldestToken` is the oldest place that it reaches.
    public static let tokenExpired = Self(rawValue: "tokenExpired")
    /// The store has no transaction of that number (yet).
    public static let tokenUnknown = Self(rawValue: "tokenUnknown")
    /// The store has a different transaction of that number: the token's was lost in a power failure. Read everything
    /// again.
    public static let tokenDiverged = Self(rawValue: "tokenDiverged")
    /// An entity in the request has no history, or none from so early on: leave it out, continue from `oldestToken`, or
    /// read everything. The message names the entity.
    public static let historyGap = Self(rawValue: "historyGap")
    /// The transaction changes the schema, and so cannot be undone.
    public static let notRevertible = Self(rawValue: "notRevertible")
}

// MARK: Consumers

extension StoreError.Code {
    /// No consumer of that name is registered.
    public static let consumerUnknown = Self(rawValue: "consumerUnknown")
    /// The consumer's cursor is not at the expected place: another process has moved it. Read it again.
    public static let consumerConflict = Self(rawValue: "consumerConflict")
    /// Cleaning has passed the consumer: read everything from a snapshot, then `resetConsumer` to its `token`. History
    /// begins at `oldestToken`.
    public static let consumerLost = Self(rawValue: "consumerLost")
}

// MARK: Export and apply

extension StoreError.Code {
    /// The text is no exported transaction, or not a whole one.
    public static let exportMalformed = Self(rawValue: "exportMalformed")
    /// An exported transaction contradicts changes in this store; `applyConflicts` lists them. Nothing was written.
    public static let applyConflict = Self(rawValue: "applyConflict")
    /// Transactions between the last one that was applied and this one are missing; the message names the next one.
    public static let applyGap = Self(rawValue: "applyGap")
    /// The exporting store lost a transaction that this store has already applied.
    public static let originDiverged = Self(rawValue: "originDiverged")
}

// MARK: Resources and use

extension StoreError.Code {
    /// The disk or the quota is full. Nothing has changed.
    public static let noSpace = Self(rawValue: "noSpace")
    /// The process or the system has too many open files.
    public static let tooManyFiles = Self(rawValue: "tooManyFiles")
    /// The system has no memory, address space or thread left.
    public static let outOfMemory = Self(rawValue: "outOfMemory")
    /// The device failed to read or write.
    public static let inputOutput = Self(rawValue: "inputOutput")
    /// Another process, named in the message, did not finish writing in time.
    public static let busy = Self(rawValue: "busy")
    /// The expected event did not come in time: wait longer, or find the cause.
    public static let timeout = Self(rawValue: "timeout")
    /// The waiting task was cancelled.
    public static let cancelled = Self(rawValue: "cancelled")
    /// An argument, or the call at this point, breaks a rule. The message names the rule.
    public static let invalidArgument = Self(rawValue: "invalidArgument")
    /// The store was closed.
    public static let closed = Self(rawValue: "closed")
    /// The store was opened before this process was forked off, and is its parent's: open it again.
    public static let forked = Self(rawValue: "forked")
    /// It is unknown whether the last transactions would survive a power failure: open the store again.
    public static let durabilityUnknown = Self(rawValue: "durabilityUnknown")
    /// The system refused a call for another reason.
    public static let systemCall = Self(rawValue: "systemCall")
}

// MARK: Codes that never leave the library

extension StoreError.Code {
    /// Another writer has changed data that the transaction was based on.
    package static let conflict = Self(rawValue: "conflict")
    /// An update changes nothing.
    package static let unchanged = Self(rawValue: "unchanged")
}

extension StoreError {
    /// The same error with a path or an offset if it had none.
    package func at(path: String? = nil, offset: UInt64? = nil) -> StoreError {
        var error = self
        error.path = error.path ?? path
        error.offset = error.offset ?? offset
        return error
    }

    /// The same error in other words.
    package func saying(_ message: String) -> StoreError {
        var error = self
        error.message = message
        return error
    }
}

// MARK: Quoting

extension StoreError {
    /// The text of an error as a sentence for another message. A program's own errors may end without a full stop.
    package static func sentence(_ error: any Error) -> String { sentence("\(error)") }

    /// The text with one full stop at its end, unless it ends a sentence already.
    package static func sentence(_ text: String) -> String {
        let end = text.lastIndex { !$0.isWhitespace }
        guard let end else { return "The reason is unknown." }
        let text = text[...end]
        // After the last sentence, `description` adds the location.
        let isEnded = ".!?…".contains(text[end]) || (text.hasSuffix("]") && text.contains(". ["))
        return isEnded ? String(text) : text + "."
    }
}
