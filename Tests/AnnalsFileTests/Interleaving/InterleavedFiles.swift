// The file system of a simulated process that takes turns with another one: a turn may end before every call.

import Annals
import SimulatedDisk

/// What a system does not do that it promises: to see that the schedules find what comes of it.
enum Sabotage: Sendable {
    /// Everybody gets every lock.
    case noLocks
    /// A name always seems to stand for the file that the process has open.
    case oldNames
    case noSynchronize
    case noSynchronizeDirectory
}

/// Hands every call on, once the process has the baton.
///
/// Calls that no other process can tell from none are no steps: what is read and written in a file that only this
/// process has open and that has another name than the store (what compaction writes), looking for a directory, and
/// mapping. Whether the other process goes on before such a call or before the next one makes no difference.
final class InterleavedFiles: FileSystem {
    let process: SimulatedProcess
    private let baton: Baton
    private let index: Int
    private let sabotage: Sabotage?
    private let own = Guarded<Set<Descriptor>>([])
    private let firstStore = Guarded<FileIdentity?>(nil)
    private let hasDied = Guarded(false)

    init(_ disk: SimulatedDisk, _ id: UInt32, _ baton: Baton, _ index: Int, sabotage: Sabotage? = nil) {
        process = disk.process(id)
        self.sabotage = sabotage
        (self.baton, self.index) = (baton, index)
    }

    var isDead: Bool { hasDied.withLock { $0 } }

    private func isOwn(_ file: Descriptor) -> Bool { own.withLock { $0.contains(file) } }

    private func keep(_ file: Descriptor) -> Descriptor {
        own.withLock { _ = $0.insert(file) }
        return file
    }

    private func step(_ call: CallKind, _ file: Descriptor? = nil) throws(StoreError) {
        // Without a baton nobody would see to it that only one of them runs.
        if isDead || baton.isStuck { throw .simulatedProcessDeath }
        if let file, isOwn(file) { return baton.countCall() }
        guard baton.step(index, call) else { return }
        hasDied.withLock { $0 = true }
        if call == .write {
            // In the middle of it.
            let bytes = [0, 8, 64, 512, 1000][baton.steps.count % 5]
            process.disk.addFault(Fault(.death(afterBytes: bytes), on: .write, process: process.id))
        } else {
            process.disk.kill(process.id)
        }
        baton.released(by: index)
        baton.changed(by: index)
    }

    // MARK: Names

    func resolve(_ path: String) throws(StoreError) -> (directory: String, name: String) {
        baton.countCall()
        return try process.resolve(path)
    }

    func openDirectory(_ path: String) throws(StoreError) -> Descriptor {
        baton.countCall()
        return keep(try process.openDirectory(path))
    }

    func duplicate(_ directory: Descriptor) throws(StoreError) -> Descriptor {
        baton.countCall()
        return keep(try process.duplicate(directory))
    }

    func open(_ name: String, in directory: Descriptor, access: FileAccess) throws(StoreError) -> Descriptor {
        let isStore = Machine.path.hasSuffix("/" + name)
        if isStore { try step(.open) } else { baton.countCall() }
        let file = try process.open(name, in: directory, access: access)
        guard isStore else { return keep(file) }
        if sabotage == .oldNames, firstStore.withLock({ $0 }) == nil {
            let identity = try process.status(file).identity
            firstStore.withLock { $0 = identity }
        }
        return file
    }

    func createUnnamed(in directory: Descriptor, mode: UInt32) throws(StoreError) -> Descriptor {
        baton.countCall()
        return keep(try process.createUnnamed(in: directory, mode: mode))
    }

    func publish(_ file: Descriptor, as name: String, in directory: Descriptor) throws(StoreError) {
        try step(.publish)
        try process.publish(file, as: name, in: directory)
        own.withLock { _ = $0.remove(file) }
    }

    func createExclusively(_ name: String, in directory: Descriptor, mode: UInt32) throws(StoreError) -> Descriptor {
        try step(.createExclusively)
        return keep(try process.createExclusively(name, in: directory, mode: mode))
    }

    func rename(_ name: String, to newName: String, in directory: Descriptor) throws(StoreError) {
        try step(.rename)
        try process.rename(name, to: newName, in: directory)
        baton.changed(by: index)
    }

    func renameExclusively(_ name: String, to newName: String, in directory: Descriptor) throws(StoreError) {
        try step(.rename)
        try process.renameExclusively(name, to: newName, in: directory)
        baton.changed(by: index)
    }

    func unlink(_ name: String, in directory: Descriptor) throws(StoreError) {
        try step(.unlink)
        try process.unlink(name, in: directory)
    }

    func close(_ file: Descriptor) {
        // Closing is not refused to the dead either: it does nothing then.
        try? step(.close, file)
        own.withLock { _ = $0.remove(file) }
        process.close(file)
        baton.released(by: index)
    }

    func identity(of name: String, in directory: Descriptor) throws(StoreError) -> FileIdentity {
        try step(.identity)
        if let identity = firstStore.withLock({ $0 }) { return identity }
        return try process.identity(of: name, in: directory)
    }

    /// What was written and not synchronised may be on the disk or not anyhow.
    func startWriting(_ file: Descriptor, offset: UInt64, count: UInt64) {}
    func finishWriting(_ file: Descriptor, offset: UInt64, count: UInt64) throws(StoreError) {}

    func synchronizeDirectory(_ directory: Descriptor) throws(StoreError) {
        try step(.synchronizeDirectory)
        if sabotage == .noSynchronizeDirectory { return }
        try process.synchronizeDirectory(directory)
    }

    // MARK: Bytes

    func read(
        _ file: Descriptor, at offset: UInt64, into buffer: UnsafeMutableRawBufferPointer
    ) throws(StoreError) -> Int {
        try step(.read, file)
        return try process.read(file, at: offset, into: buffer)
    }

    func write(_ file: Descriptor, at offset: UInt64, from bytes: UnsafeRawBufferPointer) throws(StoreError) -> Int {
        try step(.write, file)
        let count = try process.write(file, at: offset, from: bytes)
        if !isOwn(file) { baton.changed(by: index) }
        return count
    }

    func allocate(_ file: Descriptor, offset: UInt64, count: UInt64) throws(StoreError) {
        try step(.allocate, file)
        try process.allocate(file, offset: offset, count: count)
    }

    func setSize(_ file: Descriptor, to size: UInt64) throws(StoreError) {
        try step(.setSize, file)
        try process.setSize(file, to: size)
    }

    func size(_ file: Descriptor) throws(StoreError) -> UInt64 {
        try step(.size, file)
        return try process.size(file)
    }

    func content(_ file: Descriptor, from offset: UInt64) throws(StoreError) -> UInt64? {
        try step(.content, file)
        return try process.content(file, from: offset)
    }

    func synchronize(_ file: Descriptor) throws(StoreError) {
        try step(.synchronize, file)
        if sabotage == .noSynchronize { return }
        try process.synchronize(file)
    }

    func status(_ file: Descriptor) throws(StoreError) -> FileStatus {
        try step(.status, file)
        return try process.status(file)
    }

    func fileSystemType(_ file: Descriptor) throws(StoreError) -> UInt32 { try process.fileSystemType(file) }

    func setPermissions(_ file: Descriptor, mode: UInt32, owner: UInt32, group: UInt32) throws(StoreError) {
        try step(.setPermissions, file)
        try process.setPermissions(file, mode: mode, owner: owner, group: group)
    }

    // MARK: Locks and mappings

    func tryLock(_ file: Descriptor, _ range: LockRange) throws(StoreError) -> LockAttempt {
        try step(.tryLock, file)
        if sabotage == .noLocks { return .acquired }
        let attempt = try process.tryLock(file, range)
        // The range of writers begins elsewhere.
        let isCompaction = range.start == WriterLock.compaction(processID: 0).start
        baton.waitsForCompaction(index, isCompaction && attempt != .acquired)
        return attempt
    }

    func unlock(_ file: Descriptor, _ range: LockRange) throws(StoreError) {
        try step(.unlock, file)
        try process.unlock(file, range)
        baton.released(by: index)
    }

    func map(_ file: Descriptor, reservedBytes: Int) -> Mapping? {
        baton.countCall()
        return process.map(file, reservedBytes: reservedBytes)
    }

    func unmap(_ mapping: Mapping) {
        baton.countCall()
        process.unmap(mapping)
    }
}
