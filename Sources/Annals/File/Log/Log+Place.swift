// Checks whether the store's name still leads to this file: for writers, and for callers that wait for changes.

extension Log {
    /// The location of this handle's store, even after its directory was renamed (OD1). The descriptor is this
    /// handle's.
    var place: StorePlace { StorePlace(directory: directory, directoryPath: directoryPath, name: name) }

    /// The same, with a descriptor of its own for a caller that may outlive this handle.
    func keepPlace() throws(StoreError) -> StorePlace {
        try whileOpen { () throws(StoreError) in try files.reopen(place) }
    }

    /// Throws `storeRemoved` or `storeReplaced` if the name leads to no file or to another one. One system call.
    package func requirePlace() throws(StoreError) {
        try whileOpen { () throws(StoreError) in
            do throws(StoreError) { _ = try identityInPlace() } catch { throw error.at(path: path) }
        }
    }

    /// Waits until no append of this handle is under way, but not longer than a writer waits. An append that compacts
    /// continues for a while after the new file has the name, and this handle learns of that file only afterwards.
    /// Throws `closed`, `forked`.
    package func awaitAppend() throws(StoreError) {
        try whileOpen { if writer.lock(timeoutMicroseconds: options.lockTimeoutMicroseconds) { writer.unlock() } }
    }

    /// The identity of the file that has the store's name, which must be this file.
    func identityInPlace() throws(StoreError) -> FileIdentity {
        let found: FileIdentity
        do throws(StoreError) {
            found = try files.identity(of: name, in: directory)
        } catch  where error.code == .notFound {
            throw StoreError(.storeRemoved, StoreError.wasRemoved)
        }
        guard found.isSameFile(as: identity) else {
            throw StoreError(.storeReplaced, "Another file has replaced the store's file: open the store again.")
        }
        return found
    }

    /// Whether the path leads to this file: not if a directory above it was renamed. Only then a watch, which is set by
    /// path, is useful.
    package func isReachedByPath() -> Bool {
        guard let other = try? files.openDirectory(directoryPath) else { return false }
        defer { files.close(other) }
        guard let found = try? files.identity(of: name, in: other) else { return false }
        return found.isSameFile(as: identity)
    }
}
