// One open store file: its state, following other handles' appends, and appending.
//
// Invariants:
// G1  `state` is a fold over a prefix of the file's groups; it only moves forward.
// G2  While `isAppending`, this handle holds the writer lock and has adopted everything: no other handle can have
//     appended.
// G3  Nothing is written below `state.end` except the unproven part, with unchanged bytes.
// G4  A file is made shorter only with the writer lock, after something was written after the end: a recovery frame, a
//     seal, or the frames of a failed transaction.
// G5  A call that has appended is not refused as `closed`: it holds the handle open until the appended frames are as
//     durable as was asked. Closing waits for it.

internal import Synchronization

/// A handle on a store file. Any thread may call it.
///
/// Sound although it is shared: `writer` guards `writing`, `follow` guards `known`; `uses` keeps the descriptors and
/// the mapping alive while a call uses them; the other fields are constant or guard themselves. The locks keep threads
/// apart, so accesses are not checked for overlaps: every commit has many.
package final class Log: @unchecked Sendable {
    package let header: FileHeader
    /// The path of the file when this handle was opened: for messages.
    package let path: String
    /// The path of its directory at that time.
    package let directoryPath: String
    package let access: FileAccess
    package let limits: LogLimits
    /// The findings of opening at the end of the file.
    package let openingReport: OpeningReport
    let files: any FileSystem
    let environment: any Environment
    let options: LogOptions
    let directory: Descriptor
    let file: Descriptor
    package let name: String
    let identity: FileIdentity
    let process = OwnProcess()
    /// The writing process: read once, because that costs system calls.
    package let processID: UInt32
    /// The transactions of this process in the store.
    package let ownTransactions: OwnTransactions
    /// The environment reads it once.
    package var processName: String { environment.processName() }
    let mapping: SharedMapping?
    let ledger: DurabilityLedger

    /// Guards `writing`, and is held for the whole of an append.
    let writer = Monitor()
    @exclusivity(unchecked) var writing: WriterFields
    /// Guards `known`.
    let follow = Monitor()
    @exclusivity(unchecked) var known: KnownFields
    /// The size that the file had when it was opened.
    let openedSize: UInt64
    /// Whether the file is locked for this handle between two commits (`LockKeeping`).
    let isLockKept = Atomic<Bool>(false)
    let background = BackgroundWork()
    let lockWatch = BackgroundWork()
    let follower: (any LogFollower)?
    /// The number of calls that use the descriptors, and `closingBit` once new ones are refused.
    let uses = Atomic<UInt64>(0)
    static let closingBit: UInt64 = 1 << 63
    /// Whether another file has taken this one's place.
    let isRetired = Atomic<Bool>(false)
    /// Closing waits here for `uses` to sink.
    let lifetime = Monitor()
    /// The checksum at the end that opening read.
    let openedChecksum: UInt64

    init(_ opened: OpenedFile, options: LogOptions) {
        header = opened.state.header
        path = opened.place.path
        directoryPath = opened.place.directoryPath
        access = opened.access
        limits = options.limits
        writing = WriterFields(
            keeping: LockKeeping(options.limits.lockKeeping), hintedCheckpoint: opened.hintedCheckpoint)
        openingReport = opened.report
        files = opened.files
        environment = opened.environment
        self.options = options
        directory = opened.place.directory
        file = opened.file
        name = opened.place.name
        identity = opened.identity
        mapping = opened.mapping
        follower = opened.follower
        known = KnownFields(
            state: opened.state, size: opened.size,
            mayMapOtherFile: opened.access == .readOnly && opened.mapping != nil,
            lookedAtPlace: opened.environment.coarseSeconds())
        openedChecksum = opened.state.endChecksum
        openedSize = opened.size
        processID = opened.environment.processID()
        ownTransactions = .of(opened.state.header.storeID)
        ledger = DurabilityLedger(
            opened.files, opened.environment, file: opened.file, directory: opened.place.directory,
            end: opened.state.end,
            durableMark: opened.state.durableMark, syncLagBytes: options.limits.syncLagBytes)
    }

    deinit {
        // The child must not take its locks, which may never be released there; its descriptors are closed.
        if process.wasForked { return }
        stopThreads()
        if uses.load(ordering: .acquiring) & Log.closingBit != 0 { return }
        // Dropped without `close`: the promise for the last second still holds, except in a file that was replaced.
        if access == .readWrite, writing.hasAppended, !isRetired.load(ordering: .relaxed), ledger.hasUnproven {
            try? files.synchronize(file)
        }
        release()
    }

    /// Returns when no thread of this handle runs any more.
    func stopThreads() {
        background.stop()
        lockWatch.stop()
        background.join()
        lockWatch.join()
    }

    /// Closes the descriptors. Called once, when no thread uses them.
    func release() {
        assert(
            uses.load(ordering: .acquiring) & ~Log.closingBit == 0, "The descriptors are closed while a call uses them."
        )
        follower?.close()
        files.close(file)
        files.close(directory)
    }

    /// Runs `body` with the descriptors held open: closing waits for it. Throws `closed` once closing has begun.
    @inline(__always)
    package func whileOpen<Result>(_ body: () throws(StoreError) -> Result) throws(StoreError) -> Result {
        try enter()
        defer { leave() }
        return try body()
    }

    func enter() throws(StoreError) {
        if process.wasForked { throw process.refusal(path: path) }
        if uses.wrappingAdd(1, ordering: .acquiring).newValue & Log.closingBit == 0 { return }
        leave()
        throw StoreError(.closed, "The store was closed: open it again.", path: path)
    }

    func leave() {
        guard uses.wrappingSubtract(1, ordering: .releasing).newValue & Log.closingBit != 0 else { return }
        // With the lock, so that closing either waits already or has yet to check.
        lifetime.withLock { lifetime.signalAll() }
    }

    /// Refuses new calls and waits for those under way. False if another call has done so.
    func refuseCalls() -> Bool {
        lifetime.withLock {
            let before = uses.bitwiseOr(Log.closingBit, ordering: .acquiringAndReleasing).oldValue
            guard before & Log.closingBit == 0 else { return false }
            while uses.load(ordering: .acquiring) != Log.closingBit { lifetime.wait() }
            return true
        }
    }

    // MARK: The known state

    /// The state when this handle last looked at the file.
    package var current: LogState { follow.withLock { known.state } }

    /// Runs `body` while no thread can change the known state. Throws `closed`, `forked`.
    func whatIsKnown<Result>(_ body: () -> Result) throws(StoreError) -> Result {
        try whileOpen { follow.withLock { body() } }
    }

    /// Everything below this offset is proved durable, as far as this handle knows.
    package var durableEnd: UInt64 { ledger.mark }
}

/// The findings at the end of a file when it was opened or checked.
package struct OpeningReport: Equatable, Sendable {
    /// The end of the groups that count.
    package var end: UInt64
    package var fileBytes: UInt64
    package var isSealed: Bool
    /// The offset of an unfinished write; nil without one.
    package var tornTail: UInt64?
    /// The reason why reading stopped there.
    package var reason: String
}

/// A store file that was opened and read, before it becomes a handle.
struct OpenedFile {
    var files: any FileSystem
    var environment: any Environment
    var place: StorePlace
    var access: FileAccess
    var file: Descriptor
    var identity: FileIdentity
    var size: UInt64
    var mapping: SharedMapping?
    var follower: (any LogFollower)?
    var hintedCheckpoint: UInt64
    var state: LogState
    var report: OpeningReport
}
