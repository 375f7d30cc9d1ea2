// The engine of a store. A compacted file may replace the store's file while it is open in several handles.
//
// Invariants:
// SF1  `current` is of the newest generation that this handle has seen. Holders of an older engine keep reading with
//     it.
// SF2  A file replaces another one here only if it is of the same store, of a higher generation, and has the last known
//     transaction of the other one. Otherwise: `storeReplaced`. The handle looks for it in the directory that it holds
//     open, even if that was renamed.

internal import Synchronization

/// An open store, through all generations of its file. Any thread may call it.
///
/// Sound although it is shared: mutable state is only touched with `monitor` locked. In a child after `fork` only one
/// thread is left, and it changes nothing.
package final class StoreHandle: @unchecked Sendable {
    private final class Weak {
        weak var engine: Engine?
        init(_ engine: Engine) { self.engine = engine }
    }

    private let process = OwnProcess()
    private let monitor = Monitor()
    private var engine: Engine
    /// The older engines that may still be in use.
    private var older: [Weak] = []
    private var isClosed = false
    /// Whether `engine` is not this handle's first.
    private var hasMoved = false
    /// The conditions for automatic compaction; nil for never.
    let trigger: AutomaticCompaction?
    /// The time of opening, on the monotonic clock.
    let opened: UInt64
    let maintenance = BackgroundWork()
    /// The time at which maintenance is due, on the monotonic clock; nil for never.
    let nextMaintenance = Guarded<UInt64?>(nil)
    let isCompactionDue = Atomic<Bool>(false)
    /// Whether the rows must be measured to know whether compaction is due.
    let isMeasuringDue = Atomic<Bool>(false)
    /// The end of the file at opening, or when its rows were measured or compacted. They are measured when it has
    /// doubled.
    let measuredEnd: Atomic<UInt64>
    let isStopping = Atomic<Bool>(false)
    /// Held during an automatic compaction.
    let automaticCompaction = Monitor()
    /// The callers of `compact`: an automatic compaction ends for them.
    let compactingCallers = Atomic<Int>(0)
    /// The earliest time of an automatic compaction, on the monotonic clock.
    let notBefore = Atomic<UInt64>(0)
    /// The reason why the last automatic compaction has failed; nil if it has not. A compaction that was stopped, or
    /// preceded by another process's, has not failed.
    package let compactionFailure = Guarded<StoreError?>(nil)
    /// Called with each failure that differs from the last one.
    let reportFailure: @Sendable (StoreError) -> Void
    /// Called before an automatic compaction, with the answer to whether it shall go on.
    let prepareCompaction: @Sendable (StoreHandle, _ goesOn: () -> Bool) -> Void

    package init(
        _ engine: Engine, trigger: AutomaticCompaction? = nil,
        reportFailure: @escaping @Sendable (StoreError) -> Void = { _ in },
        prepareCompaction: @escaping @Sendable (StoreHandle, _ goesOn: () -> Bool) -> Void = { (_, _) in }
    ) {
        (self.engine, self.trigger) = (engine, trigger)
        (self.reportFailure, self.prepareCompaction) = (reportFailure, prepareCompaction)
        opened = engine.log.environment.monotonicMicroseconds()
        measuredEnd = Atomic(engine.log.current.end)
    }

    deinit {
        if process.wasForked { return }
        stopMaintenance()
    }

    private func stopMaintenance() {
        isStopping.store(true, ordering: .relaxed)
        maintenance.stop()
        maintenance.join()
    }

    package var current: Engine { whileUnchanged { engine } }

    /// In a child nothing changes any more, and a thread of the parent may hold the lock forever.
    private func whileUnchanged<Result>(_ body: () -> Result) -> Result {
        process.wasForked ? body() : monitor.withLock(body)
    }

    /// The engine of a view; nil if it was released.
    package func engine(of view: View) -> Engine? {
        whileUnchanged {
            if engine.indexes.core === view.core { return engine }
            return older.lazy.compactMap(\.engine).first { $0.indexes.core === view.core }
        }
    }

    /// Whether an engine belongs to this handle, in any generation.
    package func has(_ engine: Engine) -> Bool {
        whileUnchanged { self.engine === engine || older.contains { $0.engine === engine } }
    }

    // MARK: In any generation

    /// The newest state and its engine.
    package func newest() throws(StoreError) -> (engine: Engine, view: View) {
        var engine = current
        while true {
            do throws(StoreError) {
                return (engine, try engine.view())
            } catch  where error.code == .storeReplaced {
                engine = try successor(of: engine)
            }
        }
    }

    /// `Engine.commit` on the newest generation. If the file was replaced in between, the body runs again.
    ///
    /// Results are taken apart and put together: the type of a pair of which one part is generic would be looked up for
    /// each transaction.
    package func commit<Result>(
        author: String? = nil, context: String? = nil, durability: Durability = .full,
        _ body: (Draft) throws -> Result
    ) throws -> (result: Result, transaction: AppendedTransaction?) {
        var engine = current
        while true {
            do {
                let (result, transaction) = try engine.commit(
                    author: author, context: context, durability: durability, body)
                noteCommit(engine)
                return (result, transaction)
            } catch let error as StoreError where error.code == .storeReplaced {
                engine = try successor(of: engine)
            }
        }
    }

    /// `Engine.write` on the newest generation. The body runs once, since the lock's holder knows the generation.
    ///
    /// Not one loop with `commit`: a closure around the body would cost each transaction a hundred instructions.
    package func write<Result>(
        author: String? = nil, context: String? = nil, durability: Durability = .full,
        _ body: (Draft) throws -> Result
    ) throws -> (result: Result, transaction: AppendedTransaction?) {
        var engine = current
        while true {
            do {
                let (result, transaction) = try engine.write(
                    author: author, context: context, durability: durability, body)
                noteCommit(engine)
                return (result, transaction)
            } catch let error as StoreError where error.code == .storeReplaced {
                engine = try successor(of: engine)
            }
        }
    }

    /// Runs `body` with the engine of the newest generation, again if that was replaced in between.
    package func onNewest<Result>(_ body: (Engine) throws(StoreError) -> Result) throws(StoreError) -> Result {
        var engine = current
        while true {
            do throws(StoreError) {
                return try body(engine)
            } catch  where error.code == .storeReplaced {
                engine = try successor(of: engine)
            }
        }
    }

    /// Compacts the store for a caller, who does not wait for the pauses of an automatic compaction: that ends first.
    /// Throws the errors of `Compactor.compact`.
    package func compact(_ options: CompactionOptions = CompactionOptions()) throws(StoreError) -> CompactionResult {
        // In a child, a thread of the parent may hold the lock forever.
        if process.wasForked { return try compactNow(options) }
        // A caller that writes would wait for an automatic compaction that waits for its lock.
        try current.requireNotWriting()
        compactingCallers.wrappingAdd(1, ordering: .sequentiallyConsistent)
        defer { compactingCallers.wrappingSubtract(1, ordering: .sequentiallyConsistent) }
        automaticCompaction.withLock {}
        return try compactNow(options)
    }

    func compactNow(_ options: CompactionOptions) throws(StoreError) -> CompactionResult {
        let result = try onNewest { (engine) throws(StoreError) in
            try engine.requireNotWriting()
            return try Compactor.compact(engine, options)
        }
        compactionFailure.withLock { $0 = nil }
        _ = try newest()
        return result
    }

    /// Writes a copy of the store's present state; into the same file system if `files` is nil. Throws the errors of
    /// `Compactor.backUp`.
    package func backUp(
        to path: String, in files: (any FileSystem)? = nil, newIdentity: Bool,
        _ options: CompactionOptions = CompactionOptions()
    ) throws(StoreError) -> BackupResult {
        try newest().engine.requireNotWriting()
        return try onNewest { (engine) throws(StoreError) in
            // A reader checks only once a second which file has the store's name. A backup must be of that file.
            do throws(StoreError) { try engine.log.requirePlace() } catch  where error.code == .storeRemoved {}
            return try Compactor.backUp(
                engine, to: path, in: files ?? engine.log.files, newIdentity: newIdentity, options)
        }
    }

    /// Closes the newest generation and all older ones that are still in use.
    package func close() throws(StoreError) {
        if process.wasForked { return }
        try current.requireNotWriting()
        stopMaintenance()
        // If another handle has compacted the store, its file has the transactions committed here.
        _ = try? newest()
        let (engine, older, asksForName) = monitor.withLock {
            defer { isClosed = true }
            return (self.engine, self.older.compactMap(\.engine), hasMoved && !isClosed)
        }
        // Closing releases the directory.
        let place = try? engine.log.keepPlace()
        defer { if let place { engine.log.files.close(place.directory) } }
        for engine in older { try? engine.log.closeReplaced() }
        var failure: StoreError?
        if asksForName, engine.log.access == .readWrite {
            // In a compacted file, no commit is durable before the file's name is.
            do throws(StoreError) { try engine.log.makeNameDurable() } catch { failure = error }
        }
        do throws(StoreError) {
            try engine.close()
        } catch  where error.code == .storeReplaced {
            guard let place else { throw error }
            try closeAfterCompaction(of: engine, in: place, error)
        }
        if let failure { throw failure }
    }

    /// Another handle has compacted the store during the close. This handle could not prove by itself that its data is
    /// durable.
    private func closeAfterCompaction(
        of engine: Engine, in place: StorePlace, _ error: StoreError
    ) throws(StoreError) {
        let log = engine.log
        let next: Engine
        do throws(StoreError) {
            next = try Engine.open(
                at: log.files.reopen(place), access: .readOnly, options: engine.options, files: log.files,
                environment: log.environment)
        } catch let other where Self.isOfNoStore(other) { throw error }
        defer { try? next.close() }
        guard try Self.isCompacted(next, of: engine) else { throw error }
        try next.log.makeNameDurable()
    }

    // MARK: The next generation

    /// The engine of the file that has replaced an engine's. Throws `storeReplaced` unless it is its compacted form.
    private func successor(of old: Engine) throws(StoreError) -> Engine {
        try monitor.withLock { () throws(StoreError) -> Engine in
            guard engine === old, !isClosed else { return engine }
            let next: Engine
            do throws(StoreError) {
                next = try Engine.open(
                    at: old.log.keepPlace(), access: old.log.access, options: old.options, files: old.log.files,
                    environment: old.log.environment)
            } catch  where error.code == .notFound {
                throw StoreError(.storeRemoved, StoreError.wasRemoved, path: old.log.path)
            } catch  where Self.isOfNoStore(error) {
                throw StoreError(
                    .storeReplaced,
                    "A file that is not a store has replaced the store's file: put the store back, and open it again.",
                    path: old.log.path)
            } catch {
                throw error.at(path: old.log.path)
            }
            guard try Self.isCompacted(next, of: old) else {
                try? next.log.closeReplaced()
                if let error = old.log.overwritten() { throw error }
                throw StoreError(
                    .storeReplaced, "Another store has replaced the store's file: open the store again.",
                    path: old.log.path)
            }
            assert(
                next.log.header.generation >= old.log.header.generation, "SF1: a handle moves to an older generation.")
            assert(next.log.header.storeID == old.log.header.storeID, "SF2: a handle moves to another store.")
            old.log.retire()
            older.removeAll { $0.engine == nil }
            older.append(Weak(old))
            engine = next
            hasMoved = true
            ReplacedFile.begin(old)
            return next
        }
    }

    /// Whether opening has failed because the file of that name is not a store, not even a damaged one.
    private static func isOfNoStore(_ error: StoreError) -> Bool {
        [.notAStore, .notARegularFile, .truncated].contains(error.code)
    }

    private static func isCompacted(_ next: Engine, of old: Engine) throws(StoreError) -> Bool {
        // A reader also moves to another copy of its file: on an overlay file system, the one in the upper layer.
        let isCopy = old.log.access == .readOnly && next.log.header.checksum == old.log.header.checksum
        guard next.log.header.storeID == old.log.header.storeID,
            next.log.header.generation > old.log.header.generation || isCopy
        else { return false }
        let known = old.log.current
        // Folded transactions cannot be compared.
        if known.lastNumber < next.log.header.baseNumber { return true }
        guard known.lastNumber <= next.log.current.lastNumber else { return false }
        return try next.view(asOf: known.lastNumber).tag == known.lastTag
    }
}
