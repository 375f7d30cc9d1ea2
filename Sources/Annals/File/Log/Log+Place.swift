// Whether the store's name still stands for this file: asked by writers, and by those who wait for others.

extension Log {
    /// Where this handle finds its store, whatever its directory is called now. The descriptor is this handle's.
    var place: StorePlace { StorePlace(directory: directory, directoryPath: directoryPath, name: name) }

    /// The same, with a descriptor of its own for a caller that may outlive this handle.
    func keepPlace() throws(StoreError) -> StorePlace {
        try whileOpen { () throws(StoreError) in try files.reopen(place) }
    }

    /// Throws `storeRemoved` or `storeReplaced` if the name stands for nothing or for another file. One system call.
    package func requirePlace() throws(StoreError) {
        try whileOpen { () throws(StoreError) in
            do throws(StoreError) { _ = try identityInPlace() } catch { throw error.at(path: path) }
        }
    }

    /// Waits until no append of this handle is under way, as long as a writer waits at most: one that compacts goes on
    /// for a while once another file has the name, and nobody here learns of that file before it is done. Throws
    /// `closed`, `forked`.
    package func awaitAppend() throws(StoreError) {
        try whileOpen { if writer.lock(timeoutMicroseconds: options.lockTimeoutMicroseconds) { writer.unlock() } }
    }

    /// What stands in the store's place, which is this file.
    func identityInPlace() throws(StoreError) -> FileIdentity {
        let found: FileIdentity
        do throws(StoreError) {
            found = try files.identity(of: name, in: directory)
        } catch  where error.code == .notFound {
            throw StoreError(.storeRemoved, StoreError.wasRemoved)
        }
        guard found.isSameFile(as: identity) else {
            throw StoreError(.storeReplaced, "Another file has taken the store's place: open the store again.")
        }
        return found
    }

    /// Whether the path leads to this file: not if a directory above it was renamed. A watch, which is set by
    /// path, is of use only then.
    package func isReachedByPath() -> Bool {
        guard let other = try? files.openDirectory(directoryPath) else { return false }
        defer { files.close(other) }
        guard let found = try? files.identity(of: name, in: other) else { return false }
        return found.isSameFile(as: identity)
    }
}
