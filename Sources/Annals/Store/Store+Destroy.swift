// Removing a store permanently.

internal import FoundationEssentials

extension Store {
    /// Removes the file of a store and everything in it. Also removes the files beside it: that of its mirror, and
    /// those that were left by killed compactions of the store, and by killed backups and salvages to its name.
    ///
    /// Open handles, in any process, can still read their data. Writing throws `storeRemoved`. A store that is damaged
    /// after its header can be removed, too.
    ///
    /// Throws `StoreError`: `notFound`; `notAStore` for another kind of file; `busy` while another process writes to
    /// the store or compacts it; and errors of the system. If a leftover cannot be removed, the error names it, and the
    /// store stays.
    public static func destroy(at path: String) throws {
        _ = try destroy(path) { (_, _, _) in true }
    }

    /// Closes the store. Also removes it if this handle created it and no other handle has written to it. For callers
    /// whose purpose for creating the store has failed.
    ///
    /// Throws errors of `close` and `destroy`. The store is closed in any case.
    ///
    /// - Parameter ownTransactions: The number of transactions that the caller has committed. If the store has more,
    ///   other handles have committed too, and the store stays.
    /// - Returns: Whether the store was removed.
    @discardableResult
    package func abandon(ownTransactions: UInt64 = 0) throws -> Bool {
        try close()
        guard wasMade else { return false }
        do throws(StoreError) {
            return try removeUnlessUsed(ownTransactions)
        } catch  where [.notFound, .notAStore, .notARegularFile, .truncated].contains(error.code) {
            // The name does not exist, or belongs to a file that is no store.
            return false
        }
    }

    private func removeUnlessUsed(_ ownTransactions: UInt64) throws(StoreError) -> Bool {
        try Self.destroy(path) { (header, place, files) throws(StoreError) in
            guard UUID(header.storeID) == identifier else { return false }
            // Under the writer lock, so the number cannot change before the file is removed.
            let engine = try Engine.open(
                at: files.reopen(place), access: .readOnly, files: files, environment: RealEnvironment())
            defer { try? engine.close() }
            let tracking = engine.tracking
            return try engine.view().number == ownTransactions && tracking.consumers.isEmpty
                && tracking.retention == .standard
        }
    }

    /// Removes the store at a path if `condition` is true. The condition is evaluated under the writer lock.
    private static func destroy(
        _ path: String, if condition: (FileHeader, StorePlace, any FileSystem) throws(StoreError) -> Bool
    ) throws(StoreError) -> Bool {
        let files = try files(for: path)
        do throws(StoreError) {
            let place = try files.openPlace(path)
            defer { files.close(place.directory) }
            let file = try files.openStoreFile(in: place, access: .readWrite)
            defer { files.close(file) }
            return try destroy(file, place, files, condition)
        } catch {
            throw error.at(path: path)
        }
    }

    private static func destroy(
        _ file: Descriptor, _ place: StorePlace, _ files: any FileSystem,
        _ condition: (FileHeader, StorePlace, any FileSystem) throws(StoreError) -> Bool
    ) throws(StoreError) -> Bool {
        let (header, _) = try Log.readHeader(ByteWindow(files, file, stepBytes: FormatLimits.pageBytes))
        let environment = RealEnvironment()
        // A compaction that is killed later would leave its file.
        try WriterLock.acquireForCompaction(files, environment, file, processID: environment.processID())
        // Longer than any handle holds the lock without writing.
        _ = try WriterLock.acquire(
            files, environment, file, processID: environment.processID(), timeoutMicroseconds: 100_000,
            longestPause: WriterLock.eagerPause)
        // The locks end with the descriptor. The name may lead to another file now.
        guard try files.identity(of: place.name, in: place.directory).isSameFile(as: files.status(file).identity) else {
            throw StoreError(.storeReplaced, "Another file has just replaced the store's file: try again.")
        }
        guard try condition(header, place, files) else { return false }
        // The store is removed last: without it, another attempt would not find the leftovers.
        try CompactionLeftover(of: place, header, files).removeOwn()
        try UnfinishedStore.removeLeftovers(of: place, files, processID: environment.processID())
        try MirrorFile.remove(besideStore: place, files)
        try files.unlink(place.name, in: place.directory)
        try files.synchronizeDirectory(place.directory)
        return true
    }
}
