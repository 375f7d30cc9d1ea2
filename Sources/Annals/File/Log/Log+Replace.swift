// Replacement by a compacted file: how a handle notices it, and the removal of a dead compactor's file.

internal import Synchronization

extension Log {
    /// Throws `storeReplaced` if another file has taken this one's place. Looks only if the last frame announces a
    /// replacement, or once a second. If the name does not exist, readers continue with this file. With `follow`
    /// locked.
    @inline(__always)
    func requireNotReplaced() throws(StoreError) {
        let second = environment.coarseSeconds()
        if known.state.isReplacing || second != known.lookedAtPlace { try lookAtPlace(second) }
    }

    @inline(never)
    private func lookAtPlace(_ second: Int64) throws(StoreError) {
        do throws(StoreError) {
            _ = try identityInPlace()
        } catch  where error.code == .storeRemoved {
        } catch {
            throw error.at(path: path)
        }
        try requireLiveMapping()
        // Only without an error: otherwise the next call throws again.
        known.lookedAtPlace = second
    }

    /// Throws `storeReplaced` if the mapping differs from the file's bytes after the end.
    ///
    /// On an overlay file system, a file of the lower layer is copied up when a writer opens it. Since then a reader's
    /// descriptor reads the copy, which has the same inode number, and its mapping goes on showing the lower file. A
    /// writer's own mapping is of the copy. With `follow` locked.
    func requireLiveMapping() throws(StoreError) {
        let (place, count) = (known.state.end, FrameField.bytes)
        // The file has a page after the end. Above the size at opening, the mapping of a lower file has nothing.
        guard known.mayMapOtherFile, let mapping, place + UInt64(count) <= min(openedSize, UInt64(mapping.bytes.count))
        else { return }
        let window = ByteWindow(files, file, stepBytes: count)
        defer { withExtendedLifetime(window) {} }
        let read = Array(try window.bytes(at: place, count: count))
        if read.count < count || read.allSatisfy({ $0 == 0 }) { return }
        if mapping.bytes.slice(Int(place), count).elementsEqual(read) {
            known.mayMapOtherFile = false
            return
        }
        // A writer may have written between the two looks.
        window.forget()
        guard try window.bytes(at: place, count: count).elementsEqual(read) else { return }
        throw StoreError(
            .storeReplaced,
            "An overlay file system has copied the file to its upper layer, and this handle reads the lower layer: "
                + "open the store again.", path: path)
    }

    /// The error if another file's bytes were written over this one; nil if this is still the store.
    func overwritten() -> StoreError? {
        let window = ByteWindow(files, file, stepBytes: FormatLimits.pageBytes)
        if let found = try? Self.readHeader(window).0, found.checksum == header.checksum { return nil }
        return StoreError(
            .storeReplaced,
            "The store file was overwritten with another file: open the store again. To restore a copy, rename it to "
                + "the store's name; never write over an open file.", path: path)
    }

    /// Removes the temporary file of a dead compactor, unless one is at work. Call with the writer lock, so that the
    /// name keeps leading to this file. Failing to is no error: the next writer tries again.
    func removeLeftover() {
        // With that lock no compaction is under way: LF2.
        let range = WriterLock.compaction(processID: processID)
        guard case .acquired? = try? files.tryLock(file, range) else { return }
        try? leftover.removeOwn()
        // Released at once, because this handle may hold the writer lock for long: a compactor would take it for
        // another compactor, and give up.
        try? files.unlock(file, range)
    }

    /// The file that a killed compaction may have left.
    var leftover: CompactionLeftover { CompactionLeftover(of: place, header, files) }

    /// Retires a handle of a replaced file: it promises nothing for the file any more, and closes after its last
    /// reader.
    package func retire() {
        isRetired.store(true, ordering: .relaxed)
        background.stop()
    }

    /// Returns when no power failure can remove the file's name any more.
    func makeNameDurable() throws(StoreError) {
        try whileOpen { () throws(StoreError) in try files.synchronizeDirectory(directory) }
    }

    /// Closes a handle of a replaced file: its content need not become durable any more.
    package func closeReplaced() throws(StoreError) {
        if process.wasForked { return }
        stopThreads()
        if refuseCalls() { release() }
    }
}
