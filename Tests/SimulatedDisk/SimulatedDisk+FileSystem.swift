// The disk as a file system: every call is one of its own process.

package import Annals

extension SimulatedDisk: FileSystem {
    package func resolve(_ path: String) throws(StoreError) -> (directory: String, name: String) {
        try ownProcess.resolve(path)
    }

    package func openDirectory(_ path: String) throws(StoreError) -> Descriptor { try ownProcess.openDirectory(path) }

    package func duplicate(_ directory: Descriptor) throws(StoreError) -> Descriptor {
        try ownProcess.duplicate(directory)
    }

    package func open(_ name: String, in directory: Descriptor, access: FileAccess) throws(StoreError) -> Descriptor {
        try ownProcess.open(name, in: directory, access: access)
    }

    package func createUnnamed(in directory: Descriptor, mode: UInt32) throws(StoreError) -> Descriptor {
        try ownProcess.createUnnamed(in: directory, mode: mode)
    }

    package func publish(_ file: Descriptor, as name: String, in directory: Descriptor) throws(StoreError) {
        try ownProcess.publish(file, as: name, in: directory)
    }

    package func createExclusively(
        _ name: String, in directory: Descriptor, mode: UInt32
    ) throws(StoreError) -> Descriptor {
        try ownProcess.createExclusively(name, in: directory, mode: mode)
    }

    package func rename(_ name: String, to newName: String, in directory: Descriptor) throws(StoreError) {
        try ownProcess.rename(name, to: newName, in: directory)
    }

    package func renameExclusively(
        _ name: String, to newName: String, in directory: Descriptor
    ) throws(StoreError) {
        try ownProcess.renameExclusively(name, to: newName, in: directory)
    }

    package func unlink(_ name: String, in directory: Descriptor) throws(StoreError) {
        try ownProcess.unlink(name, in: directory)
    }

    package func close(_ file: Descriptor) { ownProcess.close(file) }

    package func read(
        _ file: Descriptor, at offset: UInt64, into buffer: UnsafeMutableRawBufferPointer
    ) throws(StoreError) -> Int {
        try ownProcess.read(file, at: offset, into: buffer)
    }

    package func write(
        _ file: Descriptor, at offset: UInt64, from bytes: UnsafeRawBufferPointer
    ) throws(StoreError) -> Int {
        try ownProcess.write(file, at: offset, from: bytes)
    }

    package func allocate(_ file: Descriptor, offset: UInt64, count: UInt64) throws(StoreError) {
        try ownProcess.allocate(file, offset: offset, count: count)
    }

    package func setSize(_ file: Descriptor, to size: UInt64) throws(StoreError) {
        try ownProcess.setSize(file, to: size)
    }

    package func size(_ file: Descriptor) throws(StoreError) -> UInt64 { try ownProcess.size(file) }

    package func content(_ file: Descriptor, from offset: UInt64) throws(StoreError) -> UInt64? {
        try ownProcess.content(file, from: offset)
    }

    package func synchronize(_ file: Descriptor) throws(StoreError) { try ownProcess.synchronize(file) }

    package func startWriting(_ file: Descriptor, offset: UInt64, count: UInt64) {
        ownProcess.startWriting(file, offset: offset, count: count)
    }

    package func finishWriting(_ file: Descriptor, offset: UInt64, count: UInt64) throws(StoreError) {
        try ownProcess.finishWriting(file, offset: offset, count: count)
    }

    package func synchronizeDirectory(_ directory: Descriptor) throws(StoreError) {
        try ownProcess.synchronizeDirectory(directory)
    }

    package func status(_ file: Descriptor) throws(StoreError) -> FileStatus { try ownProcess.status(file) }

    package func fileSystemType(_ file: Descriptor) throws(StoreError) -> UInt32 {
        try ownProcess.fileSystemType(file)
    }

    package func setPermissions(
        _ file: Descriptor, mode: UInt32, owner: UInt32, group: UInt32
    ) throws(StoreError) {
        try ownProcess.setPermissions(file, mode: mode, owner: owner, group: group)
    }

    package func identity(of name: String, in directory: Descriptor) throws(StoreError) -> FileIdentity {
        try ownProcess.identity(of: name, in: directory)
    }

    package func tryLock(_ file: Descriptor, _ range: LockRange) throws(StoreError) -> LockAttempt {
        try ownProcess.tryLock(file, range)
    }

    package func unlock(_ file: Descriptor, _ range: LockRange) throws(StoreError) {
        try ownProcess.unlock(file, range)
    }

    package func map(_ file: Descriptor, reservedBytes: Int) -> Mapping? {
        ownProcess.map(file, reservedBytes: reservedBytes)
    }

    package func unmap(_ mapping: Mapping) { ownProcess.unmap(mapping) }
}
