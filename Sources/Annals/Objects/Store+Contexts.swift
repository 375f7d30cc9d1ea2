// Makes contexts: for a program, for the main actor, or for a piece of work.

internal import FoundationEssentials

extension Store {
    /// Makes a context at the newest state. It belongs to the isolation that calls this: an actor, or a thread.
    ///
    /// - Parameters:
    ///   - author: The author of the changes, for the history.
    ///   - name: The name of the context, for the history.
    ///
    /// If the store is closed or cannot be read, every call of the context that can throw throws the error.
    public func makeContext(author: String? = nil, name: String? = nil) -> sending Context {
        Context(self, author: author, name: name)
    }

    /// Makes a context whose author is a case of an enumeration.
    public func makeContext(author: some RawRepresentable<String>, name: String? = nil) -> sending Context {
        makeContext(author: author.rawValue, name: name)
    }

    /// Calls `body` with a new context, and ends the context when `body` has ended. Unsaved changes are lost.
    ///
    /// In async code, call it in a task that may wait, because saving waits for the writer lock. Throws the errors of
    /// `body`.
    public func perform<Result>(
        author: String? = nil, name: String? = nil, _ body: (Context) throws -> Result
    ) rethrows -> Result {
        let context = Context(self, author: author, name: name)
        defer { context.close() }
        return try body(context)
    }
}

extension Store {
    /// Reserves object IDs for a context: the first of `count` consecutive ones.
    func reserveObjects(of entity: UInt16, count: Int) throws(StoreError) -> ObjectID {
        try handle.onNewest { (engine) throws(StoreError) in
            try engine.reserveObjects(of: entity, count: count, durability: options.durability)
        }
    }
}

/// Keeps the context of the main actor.
@MainActor private final class MainContext: StoreContextKeeper {
    let context: Context
    init(_ context: Context) { self.context = context }
}

extension Store {
    /// The context of the main actor. The store makes it at the first access, and keeps it. It does not keep the store:
    /// when nothing else does, all its functions throw `contextClosed`. Set its author and its name.
    @MainActor public var mainContext: Context {
        if let kept = mainContextKeeper as? MainContext { return kept.context }
        let made = MainContext(Context(self, author: nil, name: nil, isOwned: true))
        mainContextKeeper = made
        return made.context
    }
}
