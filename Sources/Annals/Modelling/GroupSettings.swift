// Small values that the programs of a group share, by keys: the metadata of a store of the group's own.
//
// Invariants:
// GS1  A process has one handle for the settings of a folder, as long as they are held.
// GS2  A follower of a key gets the value at the beginning, and then the newest one after each change of it. Waiting
//      begins before the first value is read, so no change is missed.

internal import Synchronization

extension AppGroup {
    /// The settings of the programs of the group: small values by keys, for which a program needs no entities.
    ///
    /// ```swift
    /// let settings = try group.settings
    /// try settings.set(12, for: "fontSize")
    /// for try await size in settings.values(for: "fontSize", as: Int.self) { show(size ?? 10) }
    /// ```
    ///
    /// They are in the store `settings` of the group's folder, which is created at their first use. All settings
    /// objects of one process share one handle, which stays open as long as one of them is held.
    ///
    /// Throws `StoreError`: as opening a store.
    public var settings: GroupSettings {
        get throws { try GroupSettings.opened(storePath(named: "settings"), sharing) }
    }
}

/// Settings that the programs of a group share. Get them from ``AppGroup/settings``. Any thread may use them.
public final class GroupSettings: Sendable {
    private struct Held {
        weak var settings: GroupSettings?
    }

    private static let known = Mutex<[String: Held]>([:])
    private let store: Store

    private init(_ store: Store) { self.store = store }

    /// The settings of a folder, with the one handle of this process: GS1.
    fileprivate static func opened(_ path: String, _ sharing: Store.Sharing) throws -> GroupSettings {
        try known.withLock { known in
            if let settings = known[path]?.settings { return settings }
            var options = Store.Options()
            options.sharing = sharing
            let none: [any Entity.Type] = []
            let settings = GroupSettings(try Store(at: path, entities: none, options: options))
            known = known.filter { $0.value.settings != nil }
            known[path] = Held(settings: settings)
            return settings
        }
    }

    /// The value of a key; nil if it is not set.
    ///
    /// Throws `StoreError`: `typeMismatch` if the stored value is no such value; `damaged`, and other errors of
    /// reading.
    public func value<T: Decodable>(for key: String, as type: T.Type = T.self) throws -> T? {
        try store.metadata(key, as: type)
    }

    /// The keys that are set, sorted. Throws `StoreError`: `damaged`, and other errors of reading.
    public var keys: [String] { get throws { try store.snapshot().metadataKeys } }

    /// Sets the value of a key for all programs of the group, or removes it if the value is nil. It is durable when
    /// this returns.
    ///
    /// Throws `StoreError`: `invalidArgument` if the key is empty or begins with “_annals.”, or the value cannot be
    /// encoded; errors of `Store.write`.
    public func set<T: Encodable>(_ value: T?, for key: String) throws {
        try update { changes in try changes.set(value, for: key) }
    }

    /// Changes several keys at once: other programs see all changes or none. No other program changes settings while
    /// the body runs, so values that it reads stay valid. If it throws, nothing is changed.
    ///
    /// Throws `StoreError`: errors of `Store.write`; and errors of the body.
    public func update<Result>(_ body: (borrowing Changes) throws -> Result) throws -> Result {
        try store.write { transaction in try body(Changes(transaction: transaction)) }.result
    }

    /// Changes that are made together.
    public struct Changes: ~Copyable {
        fileprivate let transaction: Transaction

        /// The value of a key with these changes. Throws as `GroupSettings.value`.
        public func value<T: Decodable>(for key: String, as type: T.Type = T.self) throws -> T? {
            try transaction.metadata(key, as: type)
        }

        /// Sets the value of a key, or removes it. Throws as `GroupSettings.set`.
        public func set<T: Encodable>(_ value: T?, for key: String) throws {
            try transaction.setMetadata(value, for: key)
        }
    }

    // MARK: Following

    /// The value of a key now, and then the newest one after each change of it by any program; nil while it is not set.
    /// A reader that is slow misses values between. While it waits, it occupies no thread. It ends when its task is
    /// cancelled.
    ///
    /// Iterating throws as `value`, and `storeRemoved`, `storeReplaced`.
    public func values<T: Decodable & Equatable & Sendable>(
        for key: String, as type: T.Type = T.self
    ) -> GroupSettingValues<T> { GroupSettingValues(store: store, key: key) }
}

/// The values of one setting, one after the other. Create it with `GroupSettings.values`.
public struct GroupSettingValues<Value: Decodable & Equatable & Sendable>: AsyncSequence, Sendable {
    public typealias Element = Value?
    public typealias Failure = any Error

    fileprivate let store: Store
    fileprivate let key: String

    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(values: self) }

    /// One iteration. Use it in one task.
    public struct AsyncIterator: AsyncIteratorProtocol {
        fileprivate let values: GroupSettingValues
        private var last: (watcher: SnapshotWatcher, token: HistoryToken, value: Value?)?
        private var hasEnded = false

        fileprivate init(values: GroupSettingValues) { self.values = values }

        public mutating func next() async throws -> Value?? { try await next(isolation: nil) }

        public mutating func next(isolation actor: isolated (any Actor)?) async throws -> Value?? {
            if hasEnded { return nil }
            // Whatever ends this has ended it for good.
            hasEnded = true
            guard let (watcher, token, value) = last else {
                // The watcher first, then the value: GS2.
                let watcher = try values.store.snapshotWatcher()
                return try show(values.store.newestSnapshot(), watcher)
            }
            var known = token
            while let newer = try await watcher.next(after: known, isolation: actor) {
                if try newer.metadata(values.key, as: Value.self) != value { return try show(newer, watcher) }
                known = newer.token
            }
            return nil
        }

        private mutating func show(_ snapshot: Snapshot, _ watcher: SnapshotWatcher) throws -> Value?? {
            let value = try snapshot.metadata(values.key, as: Value.self)
            last = (watcher, snapshot.token, value)
            hasEnded = false
            return .some(value)
        }
    }
}
