// The file that compaction writes. It is created beside the store under a fixed name, and renamed to the store's when
// complete.
//
// Invariants:
// P1  Only the holder of the store's compaction lock creates, removes or renames the temporary file. The lock counts
//     while the store's name refers to the locked file. Once that was replaced, the temporary file belongs to the
//     compactor of the new one.
// P2  The lock is held on its own descriptor, because unlocking a commit unlocks everything that the descriptor holds.
// P3  A file of the temporary name is removed only if it is what compaction of this store left there.

/// Holds the compaction lock of a store, and the temporary file if it exists.
struct CompactionFile {
    private let log: Log
    private let lock: Descriptor
    private let temporary: String

    /// Takes the lock. Throws `busy` if another process compacts the store, `storeReplaced` if one just has, and
    /// `alreadyExists` if a foreign file has the temporary name.
    init(_ log: Log) throws(StoreError) {
        self.log = log
        temporary = TemporaryName.compaction.of(log.name)
        lock = try log.files.open(log.name, in: log.directory, access: .readWrite)
        do throws(StoreError) {
            try lockFile()
            // By name, and after locking: from here on no compactor gives the name to another file.
            _ = try log.identityInPlace()
            try log.removeCompactionLeftover()
        } catch {
            log.files.close(lock)
            throw error.at(path: log.path)
        }
    }

    private func lockFile() throws(StoreError) {
        let range = WriterLock.compaction(processID: log.processID)
        var busy = WriterLock.foreign(nil)
        for _ in 0..<Self.attempts {
            guard case .held(let found, let process) = try log.files.tryLock(lock, range) else { return }
            busy = WriterLock.foreign(process)
            if let other = WriterLock.compactor(of: found) {
                busy = busy.saying(
                    "Process \(other) is compacting the store: there is nothing to do until it has ended.")
            }
            log.environment.sleep(microseconds: 1000)
        }
        throw busy
    }

    /// A writer looking for a compactor's leftover holds the lock while it looks.
    private static let attempts = 20

    /// Releases the lock and removes a temporary file that was not renamed.
    func close() {
        if !isReplaced { try? log.removeCompactionLeftover() }
        log.files.close(lock)
    }

    /// Whether the store's name refers to another file by now.
    private var isReplaced: Bool {
        do throws(StoreError) {
            _ = try log.identityInPlace()
            return false
        } catch {
            return error.code == .storeReplaced
        }
    }

    /// Creates the file with the store's mode and owner, and opens it. It gets its name when its header is durable, so
    /// what a crash leaves can be told from another file. (P3)
    func make(_ header: FileHeader, _ options: EngineOptions) throws(StoreError) -> Engine {
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
            let made = try files.status(file)
            if made.mode != status.mode || made.owner != status.owner || made.group != status.group {
                do throws(StoreError) {
                    try files.setPermissions(file, mode: status.mode, owner: status.owner, group: status.group)
                } catch  where error.code == .permissionDenied {
                    throw error.saying(
                        "The store is user \(status.owner)'s, of group \(status.group), and this process (user "
                            + "\(made.owner)) may not give the compacted file that owner and group. So only that user "
                            + "or root compacts the store: run `annals compact` as one of them, and turn "
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

    /// Gives the complete file the store's name. `state` is the store's newest. Nobody writes meanwhile.
    func rename(_ target: Engine, _ state: View) throws(StoreError) {
        try WrittenStore(target, state).prove(temporary, in: log.place, of: target)
        try log.files.rename(temporary, to: log.name, in: log.directory)
    }

    /// Makes the name durable.
    func synchronizeDirectory() throws(StoreError) { try log.files.synchronizeDirectory(log.directory) }
}
