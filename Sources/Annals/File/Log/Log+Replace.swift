// Being replaced by a compacted file: how a handle notices, and what a compactor that died has left behind.

internal import Synchronization

extension Log {
    /// The name of the file that compaction makes beside a store: one for each store, so that whoever comes next finds what was left.
    package static func temporaryName(of name: String) -> String { name + ".compacting" }

    /// While the last frame says that another file is about to take this one's place: throws `storeReplaced` once it has. Where the name
    /// stands for nothing, readers go on with what they have.
    func requireNotReplaced() throws(StoreError) {
        let found: FileIdentity
        do throws(StoreError) {
            found = try files.identity(of: name, in: directory)
        } catch  where error.code == .notFound {
            return
        }
        guard found.inode == identity.inode, found.device == identity.device else {
            throw StoreError(
                .storeReplaced, "Another file has taken the store's place: open the store again.", path: path)
        }
    }

    /// Removes what a compactor that died has left, unless one is at work. With the writer lock, which keeps the name where it was found to be: this
    /// file's. That it may not be removed is no error: the next one tries again.
    func removeLeftover() {
        let range = WriterLock.compaction(processID: processID)
        guard case .acquired? = try? files.tryLock(file, range) else { return }
        try? files.unlink(Self.temporaryName(of: name), in: directory)
        // What is done with the writer lock may take long: who compacts would take this one for a compactor, and give up.
        try? files.unlock(file, range)
    }

    /// This handle is of a file that was replaced: it promises nothing for it any more, and closes when its last reader has gone.
    package func retire() {
        isRetired.store(true, ordering: .relaxed)
        background.stop()
    }

    /// Returns when no loss of power takes the file's name from it any more.
    func makeNameDurable() throws(StoreError) {
        try whileOpen { () throws(StoreError) in try files.synchronizeDirectory(directory) }
    }

    /// Closes a handle of a file that was replaced: nothing in it needs to be made durable any more.
    package func closeReplaced() throws(StoreError) {
        if process.wasForked { return }
        stopThreads()
        if refuseCalls() { release() }
    }
}
