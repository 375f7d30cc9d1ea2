// The file that compaction writes. It is made beside the store under a fixed name, and renamed to the store's when
// complete.
//
// Invariants:
// P1  Only the holder of the store's compaction lock makes, removes or renames the temporary file. The lock counts
//     while the store's name refers to the locked file. Once that was replaced, the temporary file belongs to the
//     compactor of the new one.
// P2  The lock is held on its own descriptor, because unlocking a commit unlocks everything that the descriptor holds.

/// Holds the compaction lock of a store, and the temporary file if there is one.
struct CompactionFile {
    private let log: Log
    private let lock: Descriptor
    private let temporary: String

    /// Takes the lock. Throws `busy` if another process compacts the store, `storeReplaced` if one just has.
    init(_ log: Log) throws(StoreError) {
        self.log = log
        temporary = Log.temporaryName(of: log.name)
        lock = try log.files.open(log.name, in: log.directory, access: .readWrite)
        do throws(StoreError) {
            try lockFile()
            // By name, and after locking: from here on nobody else gives the name to another file.
            _ = try log.identityInPlace()
            try removeTemporary()
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
        if !isReplaced { try? removeTemporary() }
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

    private func removeTemporary() throws(StoreError) {
        do throws(StoreError) {
            try log.files.unlink(temporary, in: log.directory)
        } catch  where error.code == .notFound {
        } catch  where error.code == .notARegularFile {
            throw .nameTaken(temporary, by: "Compaction")
        }
    }

    /// Makes the file with the store's mode and owner, and opens it.
    func make(_ header: FileHeader, _ options: EngineOptions) throws(StoreError) -> Engine {
        let files = log.files
        let status = try files.status(lock)
        let file = try files.createExclusively(temporary, in: log.directory, mode: 0o600)
        defer { files.close(file) }
        let made = try files.status(file)
        if made.mode != status.mode || made.owner != status.owner || made.group != status.group {
            try files.setPermissions(file, mode: status.mode, owner: status.owner, group: status.group)
        }
        try files.write(header, to: file)
        let directory = log.path.dropLast(log.name.utf8.count + 1)
        return try Engine.open(
            (directory.isEmpty ? "" : String(directory)) + "/" + temporary, options: options, files: files,
            environment: log.environment)
    }

    /// Gives the file the store's name.
    func rename() throws(StoreError) { try log.files.rename(temporary, to: log.name, in: log.directory) }

    /// Makes the name durable.
    func synchronizeDirectory() throws(StoreError) { try log.files.synchronizeDirectory(log.directory) }
}
