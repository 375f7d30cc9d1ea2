// The file that compaction writes. It is created beside the store under a fixed name, and renamed to the store's when
// complete.
//
// Invariants:
// P1  Only the holder of the store's compaction lock creates, removes or renames the temporary file. The lock counts
//     while the store's name refers to the locked file. After a replacement, the temporary file belongs to the
//     compactor of the new file.
// P2  The lock is held on its own descriptor, because unlocking a commit unlocks everything that the descriptor holds.
// P3  A file of the temporary name is removed only if a compaction has left it (`CompactionLeftover`).

/// Holds the compaction lock of a store, and the temporary file if it exists.
struct CompactionFile {
    private let log: Log
    private let lock: Descriptor
    private let temporary: String
    private var made: FileIdentity?

    /// Takes the lock. Throws `busy` if another process compacts the store, `storeReplaced` if one just has, and
    /// `alreadyExists` if a foreign file has the temporary name.
    init(_ log: Log) throws(StoreError) {
        self.log = log
        temporary = TemporaryName.compaction.of(log.name)
        // Not the descriptor of the log: P2.
        lock = try log.files.open(log.name, in: log.directory, access: .readWrite)
        do throws(StoreError) {
            try WriterLock.acquireForCompaction(log.files, log.environment, lock, processID: log.processID)
            // Checks the name after locking: from now on no compactor gives the name to another file.
            _ = try log.identityInPlace()
            try log.leftover.makeRoom()
        } catch {
            log.files.close(lock)
            throw error.at(path: log.path)
        }
    }

    /// Releases the lock and removes a temporary file that was not renamed.
    func close() {
        if isReplaced { removeBesideAnother() } else { try? log.leftover.removeOwn() }
        log.files.close(lock)
    }

    /// Removes the temporary file if another file has the store's name. If that is another store, its compactor would
    /// not know the file as its own. (P1)
    private func removeBesideAnother() {
        let (files, directory) = (log.files, log.directory)
        guard let made, Self.isName(temporary, of: made, files, directory),
            let other = try? files.open(log.name, in: directory, access: .readWrite)
        else { return }
        defer { files.close(other) }
        let range = WriterLock.compaction(processID: log.processID)
        guard case .acquired? = try? files.tryLock(other, range), let locked = try? files.status(other).identity,
            Self.isName(log.name, of: locked, files, directory), Self.isName(temporary, of: made, files, directory)
        else { return }
        try? files.unlink(temporary, in: directory)
    }

    private static func isName(
        _ name: String, of file: FileIdentity, _ files: any FileSystem, _ directory: Descriptor
    ) -> Bool {
        guard let found = try? files.identity(of: name, in: directory) else { return false }
        return found.isSameFile(as: file)
    }

    /// Whether the store's name now leads to another file.
    private var isReplaced: Bool {
        do throws(StoreError) {
            _ = try log.identityInPlace()
            return false
        } catch {
            return error.code == .storeReplaced
        }
    }

    /// Creates the file with the store's mode and owner, and opens it. It gets its name when its header is durable, so
    /// that a crash leaves a recognizable file. (P3)
    mutating func make(_ header: FileHeader, _ options: EngineOptions) throws(StoreError) -> Engine {
        let files = log.files
        let status = try files.status(lock)
        let place = try files.reopen(log.place, name: temporary)
        let file: Descriptor
        do throws(StoreError) {
            file = try files.createUnnamed(in: place.directory, mode: 0o600)
        } catch {
            files.close(place.directory)
            throw error
        }
        do throws(StoreError) {
            let own = try files.status(file)
            made = own.identity
            if own.mode != status.mode || own.owner != status.owner || own.group != status.group {
                do throws(StoreError) {
                    try files.setPermissions(file, mode: status.mode, owner: status.owner, group: status.group)
                } catch  where error.code == .permissionDenied {
                    throw error.saying(
                        "The store belongs to user \(status.owner) and group \(status.group), and this process (user "
                            + "\(own.owner)) may not give the compacted file that owner and group. Only that user or "
                            + "root can compact the store: run `annals compact` as one of them, and turn "
                            + "`automaticCompaction` off in the programs of other users.")
                }
            }
            try files.write(header, to: file)
            try files.synchronize(file)
            try files.publish(file, as: temporary, in: place.directory)
        } catch {
            files.close(file)
            files.close(place.directory)
            throw error
        }
        return try Engine.open(at: place, file: file, options: options, files: files, environment: log.environment)
    }

    /// Gives the complete file the store's name, after a proof (WS1). `state` is the store's newest. Requires that no
    /// process writes at the same time.
    func rename(_ target: Engine, _ state: View) throws(StoreError) {
        try WrittenStore(target, state).prove(temporary, in: log.place, of: target)
        try log.files.rename(temporary, to: log.name, in: log.directory)
    }

    /// Makes the name durable.
    func synchronizeDirectory() throws(StoreError) { try log.files.synchronizeDirectory(log.directory) }
}
