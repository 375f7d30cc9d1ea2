// A folder of files in this process's memory, for stores that leave nothing on any disk.
//
// Invariants:
// MF1  A file lives as long as it has a name here or a descriptor anywhere. Then the system frees it, also
//      after a kill.
// MF2  `files` holds an open file for each name, which is used only for opening the file again: each handle has an open
//      file of its own, and so locks of its own.

/// Files without a name in any file system (`memfd_create`). The names are kept here, so nothing is left when the
/// process ends in any way.
///
/// The system does all work on an open file: reading, writing, mapping, locks between handles. Nothing is ever durable,
/// so nothing is synchronized.
package final class MemoryFolder: FileSystem {
    private struct Entry {
        var file: Descriptor
        var identity: FileIdentity
    }

    /// The path that errors and handles show. No file of the system has it.
    package let path: String
    private let process = OwnProcess()
    private let system = RealFileSystem()
    private let files = Guarded<[String: Entry]>([:])

    package init(path: String) { self.path = path }

    /// The beginning of each folder's path.
    package static let scheme = "memory:/"

    /// Whether a path names a file in memory. To name a real file with such a path, put "./" before it.
    package static func isPath(_ path: String) -> Bool { path.hasPrefix(scheme) }

    /// The path of the folder's store.
    package var storePath: String { StorePlace.path(of: "store", in: path) }

    /// The folder's own path, from that of a file in it.
    package static func folderPath(of path: String) -> String {
        String(path[..<(path.utf8.lastIndex(of: UInt8(ascii: "/")) ?? path.endIndex)])
    }

    deinit {
        // Closed in a child, where another thread may have held the lock when the process forked.
        if process.wasForked { return }
        files.withLock { for entry in $0.values { system.close(entry.file) } }
    }

    // MARK: Names

    package func resolve(_ path: String) throws(StoreError) -> (directory: String, name: String) {
        let name = path.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).last
        return (self.path, try RealFileSystem.validated(name.flatMap { String($0) } ?? "", in: path))
    }

    /// The folder has no descriptor, and needs none.
    package func openDirectory(_ path: String) throws(StoreError) -> Descriptor { Descriptor(-1) }

    package func duplicate(_ directory: Descriptor) throws(StoreError) -> Descriptor { directory }

    package func open(_ name: String, in directory: Descriptor, access: FileAccess) throws(StoreError) -> Descriptor {
        assert(directory.number < 0, "A folder in memory has no descriptor.")
        return try files.withLock { (files) throws(StoreError) in
            guard let entry = files[name] else { throw missing(name) }
            // With locks of its own: MF2.
            return try system.openAgain(entry.file, access: access)
        }
    }

    package func createUnnamed(in directory: Descriptor, mode: UInt32) throws(StoreError) -> Descriptor {
        try system.createInMemory(path)
    }

    package func publish(_ file: Descriptor, as name: String, in directory: Descriptor) throws(StoreError) {
        try RealFileSystem.validated(name, in: name)
        try files.withLock { (files) throws(StoreError) in
            try requireFree(name, files)
            let own = try system.openAgain(file, access: .readWrite)
            do throws(StoreError) {
                files[name] = Entry(file: own, identity: Self.named(try system.status(own).identity))
            } catch {
                system.close(own)
                throw error
            }
        }
    }

    package func createExclusively(
        _ name: String, in directory: Descriptor, mode: UInt32
    ) throws(StoreError) -> Descriptor {
        let file = try system.createInMemory(path)
        do throws(StoreError) {
            try publish(file, as: name, in: directory)
            return file
        } catch {
            system.close(file)
            throw error
        }
    }

    package func rename(_ name: String, to newName: String, in directory: Descriptor) throws(StoreError) {
        try move(name, to: newName, replaces: true)
    }

    package func renameExclusively(_ name: String, to newName: String, in directory: Descriptor) throws(StoreError) {
        try move(name, to: newName, replaces: false)
    }

    private func move(_ name: String, to newName: String, replaces: Bool) throws(StoreError) {
        try RealFileSystem.validated(newName, in: newName)
        try files.withLock { (files) throws(StoreError) in
            guard let entry = files[name] else { throw missing(name) }
            if name == newName { return }
            if !replaces { try requireFree(newName, files) }
            if let replaced = files.updateValue(entry, forKey: newName) { system.close(replaced.file) }
            files[name] = nil
        }
    }

    package func unlink(_ name: String, in directory: Descriptor) throws(StoreError) {
        try files.withLock { (files) throws(StoreError) in
            // MF1: other descriptors keep the file alive.
            guard let entry = files.removeValue(forKey: name) else { throw missing(name) }
            system.close(entry.file)
        }
    }

    package func identity(of name: String, in directory: Descriptor) throws(StoreError) -> FileIdentity {
        try files.withLock { (files) throws(StoreError) in
            guard let entry = files[name] else { throw missing(name) }
            return entry.identity
        }
    }

    private func requireFree(_ name: String, _ files: [String: Entry]) throws(StoreError) {
        if files[name] != nil {
            throw StoreError(
                .alreadyExists, "A file of this name exists already.", path: StorePlace.path(of: name, in: path))
        }
    }

    private func missing(_ name: String) -> StoreError {
        StoreError(.notFound, "There is no file of this name in memory.", path: StorePlace.path(of: name, in: path))
    }

    /// For the system these files have no name at all.
    private static func named(_ identity: FileIdentity) -> FileIdentity {
        FileIdentity(device: identity.device, inode: identity.inode, links: 1)
    }

    // MARK: Open files

    package func close(_ file: Descriptor) { if file.number >= 0 { system.close(file) } }

    package func read(
        _ file: Descriptor, at offset: UInt64, into buffer: UnsafeMutableRawBufferPointer
    ) throws(StoreError) -> Int { try system.read(file, at: offset, into: buffer) }

    package func write(
        _ file: Descriptor, at offset: UInt64, from bytes: UnsafeRawBufferPointer
    ) throws(StoreError) -> Int { try system.write(file, at: offset, from: bytes) }

    package func allocate(_ file: Descriptor, offset: UInt64, count: UInt64) throws(StoreError) {
        try system.allocate(file, offset: offset, count: count)
    }

    package func setSize(_ file: Descriptor, to size: UInt64) throws(StoreError) { try system.setSize(file, to: size) }

    package func size(_ file: Descriptor) throws(StoreError) -> UInt64 { try system.size(file) }

    package func content(_ file: Descriptor, from offset: UInt64) throws(StoreError) -> UInt64? {
        try system.content(file, from: offset)
    }

    package func synchronize(_ file: Descriptor) throws(StoreError) {}

    package func startWriting(_ file: Descriptor, offset: UInt64, count: UInt64) {}

    package func finishWriting(_ file: Descriptor, offset: UInt64, count: UInt64) throws(StoreError) {}

    package func synchronizeDirectory(_ directory: Descriptor) throws(StoreError) {}

    package func fileSystemType(_ file: Descriptor) throws(StoreError) -> UInt32 { 0 }

    package func status(_ file: Descriptor) throws(StoreError) -> FileStatus {
        var status = try system.status(file)
        let identity = status.identity
        if files.withLock({ $0.values.contains { $0.identity.isSameFile(as: identity) } }) {
            status.identity = Self.named(identity)
        }
        return status
    }

    package func setPermissions(
        _ file: Descriptor, mode: UInt32, owner: UInt32, group: UInt32
    ) throws(StoreError) { try system.setPermissions(file, mode: mode, owner: owner, group: group) }

    package func tryLock(_ file: Descriptor, _ range: LockRange) throws(StoreError) -> LockAttempt {
        try system.tryLock(file, range)
    }

    package func unlock(_ file: Descriptor, _ range: LockRange) throws(StoreError) { try system.unlock(file, range) }

    package func map(_ file: Descriptor, reservedBytes: Int) -> Mapping? {
        system.map(file, reservedBytes: reservedBytes)
    }

    package func unmap(_ mapping: Mapping) { system.unmap(mapping) }
}
