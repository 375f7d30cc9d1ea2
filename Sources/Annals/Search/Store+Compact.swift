// Compaction: the new file has nothing that was deleted, not even words in a search index.

internal import FoundationEssentials

extension Store {
    /// Writes the store to a new file, without data that can no longer be read: cleaned history, the history of
    /// entities whose history is or was off, rows that only such history kept, and old indexes. Search indexes forget
    /// the words of deleted and changed objects. The new file then replaces the old one.
    ///
    /// Other handles can read and write at the same time. Writers wait for the last piece. If they are about as fast as
    /// compaction, they also wait for 10 of every 12 milliseconds until it has caught up, and longer if single
    /// transactions are very large. Snapshots and histories in use stay valid, and keep the old file's space until they
    /// end. This needs space for the new file next to the old one. Its name is the store's with `.compacting` at the
    /// end. If compaction is killed, cancelled or out of space, the store does not change.
    ///
    /// - Parameter progress: Called every few MiB, on this thread. Return false to cancel.
    ///
    /// Throws `StoreError`: `readOnly`, `busy` (another handle or process compacts, or keeps the writer lock),
    /// `noSpace`, `permissionDenied` if the file's owner cannot be kept, `alreadyExists` if a file that is not from a
    /// compaction has the name with `.compacting`, `storeRemoved`, `storeReplaced`, `hardLinked`, `damaged`,
    /// `cancelled`. Linear in the data that stays.
    @discardableResult
    public func compact(
        progress: (@Sendable (CompactionProgress) -> Bool)? = nil
    ) throws -> CompactionResult {
        if options.access == .readWrite { try searchUpdates.forgetDeadObjects() }
        var chosen = CompactionOptions()
        chosen.progress = progress
        return try handle.compact(chosen)
    }

    /// Before an automatic compaction: lets the search indexes forget the words of deleted and changed objects. The
    /// store is compacted even if this fails: then the words stay, and the next compaction tries again.
    static func forgetDeletedWords(_ handle: StoreHandle, _ goesOn: () -> Bool) {
        let identifier = UUID(handle.current.log.header.storeID)
        try? SearchUpdates(handle, identifier).forgetDeadObjects(goesOn: goesOn)
    }
}
