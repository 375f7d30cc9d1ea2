// The file system as one simulated process sees it: its descriptors and locks die with it.

package import Annals
internal import Glibc

/// One life of one process of a simulated machine.
package struct SimulatedProcess: Sendable {
    package let disk: SimulatedDisk
    let life: Int
    package let id: UInt32

    /// Counts the call, asks the faults and the hook. What is returned is left for the call to act on.
    func begin(_ kind: CallKind) throws(StoreError) -> Fault.Effect? {
        let (call, effect): (Call?, Fault.Effect?) = disk.withMachine { machine in
            guard !machine.lives[life].isOver else { return (nil, nil) }
            machine.callCount += 1
            machine.callCounts[kind, default: 0] += 1
            let effect = machine.faults.isEmpty ? nil : machine.faults.effect(on: kind, of: id)
            return (Call(kind: kind, index: machine.callCount, process: id), effect)
        }
        guard let call else { throw .simulatedProcessDeath }
        if let hook = disk.currentHooks().onCall { try hook(call) }
        switch effect {
        case .failure(let number): throw failure(kind, number)
        case .death where kind != .write:
            disk.withMachine { $0.endLife(life) }
            throw .simulatedProcessDeath
        default: return effect
        }
    }

    /// Runs the effect of a call under the lock; then, without it, the hook if anything changed, also when it threw.
    func finish<StoredValue: Sendable>(
        _ body: (inout Machine) throws(StoreError) -> StoredValue
    ) throws(StoreError) -> StoredValue {
        let (result, hasChanged): (Result<StoredValue, StoreError>, Bool) = disk.withMachine { machine in
            guard !machine.lives[life].isOver else { return (.failure(.simulatedProcessDeath), false) }
            let before = machine.changeCount
            let result = Result<StoredValue, StoreError> { () throws(StoreError) -> StoredValue in try body(&machine) }
            return (result, machine.changeCount != before)
        }
        if hasChanged { disk.currentHooks().onChange?(disk) }
        return try result.get()
    }

    func perform<StoredValue: Sendable>(
        _ kind: CallKind, _ body: (inout Machine) throws(StoreError) -> StoredValue
    ) throws(StoreError) -> StoredValue {
        _ = try begin(kind)
        return try finish(body)
    }
}

// MARK: Names

extension SimulatedProcess: FileSystem {
    package func resolve(_ path: String) throws(StoreError) -> (directory: String, name: String) {
        let resolved: [String] = try perform(.resolve) { machine throws(StoreError) in
            var path = path
            for _ in 0..<40 {
                if !path.contains("/"), let first = machine.directories.first { path = first.path + "/" + path }
                guard let (directory, name) = Machine.split(path), name != ".", name != "..",
                    machine.directories.contains(where: { $0.path == directory })
                else { throw failure(.resolve, ENOENT, path: path) }
                guard let inode = machine.inode(atPath: path),
                    case .symbolicLink(let target) = machine.inodes[inode].kind
                else { return [directory, name] }
                path = target.hasPrefix("/") ? target : directory + "/" + target
            }
            throw failure(.resolve, ELOOP, path: path)
        }
        return (resolved[0], resolved[1])
    }

    package func openDirectory(_ path: String) throws(StoreError) -> Descriptor {
        try perform(.openDirectory) { machine throws(StoreError) in
            guard let index = machine.directories.firstIndex(where: { $0.path == path }) else {
                throw failure(.openDirectory, ENOENT, path: path)
            }
            return try machine.addOpenFile(.directory(index), access: .readOnly, life: life, .openDirectory)
        }
    }

    package func duplicate(_ directory: Descriptor) throws(StoreError) -> Descriptor {
        try perform(.duplicate) { machine throws(StoreError) in
            let index = try machine.directoryIndex(directory, life: life, .duplicate)
            return try machine.addOpenFile(.directory(index), access: .readOnly, life: life, .duplicate)
        }
    }

    package func open(_ name: String, in directory: Descriptor, access: FileAccess) throws(StoreError) -> Descriptor {
        try perform(.open) { machine throws(StoreError) in
            let inode = try find(name, in: directory, .open, machine)
            switch machine.inodes[inode].kind {
            case .symbolicLink: throw failure(.open, ELOOP, path: name)
            case .regular, .other: break
            }
            let mode = machine.inodes[inode].mode
            let wanted: UInt32 = access == .readOnly ? 0o400 : 0o600
            guard mode & wanted == wanted else { throw failure(.open, EACCES, path: name) }
            if access == .readWrite, machine.isReadOnly { throw failure(.open, EROFS, path: name) }
            return try machine.addOpenFile(.inode(inode), access: access, life: life, .open)
        }
    }

    package func createUnnamed(in directory: Descriptor, mode: UInt32) throws(StoreError) -> Descriptor {
        try perform(.createUnnamed) { machine throws(StoreError) in
            _ = try directoryToChange(directory, .createUnnamed, machine)
            return try create(mode, .createUnnamed, &machine).descriptor
        }
    }

    package func publish(_ file: Descriptor, as name: String, in directory: Descriptor) throws(StoreError) {
        try perform(.publish) { machine throws(StoreError) in
            let inode = try machine.inodeIndex(file, life: life, .publish)
            let index = try directoryToChange(directory, .publish, machine)
            guard machine.inodes[inode].links == 0 else { throw failure(.publish, ENOENT, path: name) }
            guard machine.directories[index].cached[name] == nil else { throw failure(.publish, EEXIST, path: name) }
            machine.changeNames(in: index, NameOperation(kind: .add, name: name, inode: inode))
        }
    }

    package func createExclusively(
        _ name: String, in directory: Descriptor, mode: UInt32
    ) throws(StoreError) -> Descriptor {
        try perform(.createExclusively) { machine throws(StoreError) in
            let index = try directoryToChange(directory, .createExclusively, machine)
            guard machine.directories[index].cached[name] == nil else {
                throw failure(.createExclusively, EEXIST, path: name)
            }
            let (descriptor, inode) = try create(mode, .createExclusively, &machine)
            machine.changeNames(in: index, NameOperation(kind: .add, name: name, inode: inode))
            return descriptor
        }
    }

    package func rename(_ name: String, to newName: String, in directory: Descriptor) throws(StoreError) {
        try perform(.rename) { machine throws(StoreError) in
            let index = try directoryToChange(directory, .rename, machine)
            let inode = try find(name, in: directory, .rename, machine)
            // Two names of one file: the system does nothing, and says that it did.
            guard machine.directories[index].cached[newName] != inode else { return }
            machine.changeNames(
                in: index, NameOperation(kind: .rename, name: name, newName: newName, inode: inode))
        }
    }

    package func renameExclusively(
        _ name: String, to newName: String, in directory: Descriptor
    ) throws(StoreError) {
        try perform(.rename) { machine throws(StoreError) in
            let index = try directoryToChange(directory, .rename, machine)
            let inode = try find(name, in: directory, .rename, machine)
            guard machine.directories[index].cached[newName] == nil else {
                throw failure(.rename, EEXIST, path: newName)
            }
            machine.changeNames(
                in: index, NameOperation(kind: .rename, name: name, newName: newName, inode: inode))
        }
    }

    package func unlink(_ name: String, in directory: Descriptor) throws(StoreError) {
        try perform(.unlink) { machine throws(StoreError) in
            let index = try directoryToChange(directory, .unlink, machine)
            let inode = try find(name, in: directory, .unlink, machine)
            machine.changeNames(in: index, NameOperation(kind: .remove, name: name, inode: inode))
        }
    }

    package func close(_ file: Descriptor) {
        // A close that fails has closed all the same.
        _ = try? begin(.close)
        try? finish { machine throws(StoreError) in
            let index = try machine.openFileIndex(file, life: life, .close)
            machine.openFiles.remove(at: index)
            machine.releaseUnreachable()
        }
    }

    package func identity(of name: String, in directory: Descriptor) throws(StoreError) -> FileIdentity {
        try perform(.identity) { machine throws(StoreError) in
            machine.identity(ofInode: try find(name, in: directory, .identity, machine))
        }
    }

    private func find(
        _ name: String, in directory: Descriptor, _ call: CallKind, _ machine: Machine
    ) throws(StoreError) -> Int {
        let index = try machine.directoryIndex(directory, life: life, call)
        guard let inode = machine.directories[index].cached[name] else { throw failure(call, ENOENT, path: name) }
        return inode
    }

    private func directoryToChange(
        _ directory: Descriptor, _ call: CallKind, _ machine: Machine
    ) throws(StoreError) -> Int {
        let index = try machine.directoryIndex(directory, life: life, call)
        guard !machine.isReadOnly else { throw failure(call, EROFS) }
        return index
    }

    private func create(
        _ mode: UInt32, _ call: CallKind, _ machine: inout Machine
    ) throws(StoreError) -> (descriptor: Descriptor, inode: Int) {
        var inode = Inode()
        inode.mode = mode & 0o7777
        let index = machine.addInode(inode)
        do {
            return (try machine.addOpenFile(.inode(index), access: .readWrite, life: life, call), index)
        } catch {
            machine.releaseUnreachable()
            throw error
        }
    }
}

// MARK: Bytes

extension SimulatedProcess {
    package func read(
        _ file: Descriptor, at offset: UInt64, into buffer: UnsafeMutableRawBufferPointer
    ) throws(StoreError) -> Int {
        var limit = buffer.count
        if case .short(let count) = try begin(.read) { limit = min(limit, max(1, count)) }
        return try finish { machine throws(StoreError) in
            let inode = try machine.inodeIndex(file, life: life, .read)
            let cached = machine.inodes[inode].cached
            guard let start = Int(exactly: offset), start < cached.count else { return 0 }
            let count = min(limit, cached.count - start)
            machine.readBytes += count
            cached.withBytes { bytes in
                UnsafeMutableRawBufferPointer(rebasing: buffer[..<count])
                    .copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[start..<start + count]))
            }
            return count
        }
    }

    package func write(
        _ file: Descriptor, at offset: UInt64, from bytes: UnsafeRawBufferPointer
    ) throws(StoreError) -> Int {
        var limit = bytes.count
        var isFatal = false
        switch try begin(.write) {
        case .short(let count): limit = min(limit, max(1, count))
        case .death(let count):
            limit = min(limit, max(0, count))
            isFatal = true
        default: break
        }
        return try finish { machine throws(StoreError) in
            let inode = try machine.inodeIndex(file, life: life, .write, toWrite: true)
            if limit > 0 {
                try reserve(inode, offset: offset, count: limit, .write, machine)
                machine.inodes[inode].write(UnsafeRawBufferPointer(rebasing: bytes[..<limit]), at: Int(offset))
                machine.changeCount += 1
            }
            guard !isFatal else {
                machine.endLife(life)
                throw .simulatedProcessDeath
            }
            return limit
        }
    }

    package func allocate(_ file: Descriptor, offset: UInt64, count: UInt64) throws(StoreError) {
        try perform(.allocate) { machine throws(StoreError) in
            let inode = try machine.inodeIndex(file, life: life, .allocate, toWrite: true)
            guard count > 0, let count = Int(exactly: count) else { throw failure(.allocate, EINVAL) }
            let end = try reserve(inode, offset: offset, count: count, .allocate, machine)
            if end > machine.inodes[inode].cached.count { resize(inode, to: end, &machine) }
        }
    }

    package func setSize(_ file: Descriptor, to size: UInt64) throws(StoreError) {
        try perform(.setSize) { machine throws(StoreError) in
            let inode = try machine.inodeIndex(file, life: life, .setSize, toWrite: true)
            let end = try reserve(inode, offset: size, count: 0, .setSize, machine)
            if end != machine.inodes[inode].cached.count { resize(inode, to: end, &machine) }
        }
    }

    package func size(_ file: Descriptor) throws(StoreError) -> UInt64 {
        try perform(.size) { machine throws(StoreError) in
            UInt64(machine.inodes[try machine.inodeIndex(file, life: life, .size)].cached.count)
        }
    }

    /// By pages, as systems tell it.
    package func content(_ file: Descriptor, from offset: UInt64) throws(StoreError) -> UInt64? {
        try perform(.content) { machine throws(StoreError) in
            let cached = machine.inodes[try machine.inodeIndex(file, life: life, .content)].cached
            guard let start = Int(exactly: offset), start < cached.count else { return nil }
            return cached.withBytes { bytes in
                for page in stride(from: start & ~4095, to: bytes.count, by: 4096) {
                    let rest = UnsafeRawBufferPointer(rebasing: bytes[max(start, page)..<min(page + 4096, bytes.count)])
                    if !rest.allZero { return UInt64(max(start, page)) }
                }
                return nil
            }
        }
    }

    package func status(_ file: Descriptor) throws(StoreError) -> FileStatus {
        try perform(.status) { machine throws(StoreError) in
            let index = try machine.inodeIndex(file, life: life, .status)
            let inode = machine.inodes[index]
            return FileStatus(
                identity: machine.identity(ofInode: index), isRegularFile: inode.kind == .regular,
                size: UInt64(inode.cached.count), mode: inode.mode, owner: inode.owner, group: inode.group)
        }
    }

    package func fileSystemType(_ file: Descriptor) throws(StoreError) -> UInt32 { disk.fileSystemType }

    package func setPermissions(
        _ file: Descriptor, mode: UInt32, owner: UInt32, group: UInt32
    ) throws(StoreError) {
        try perform(.setPermissions) { machine throws(StoreError) in
            let inode = try machine.inodeIndex(file, life: life, .setPermissions)
            machine.inodes[inode].mode = mode
            machine.inodes[inode].owner = owner
            machine.inodes[inode].group = group
        }
    }

    package func map(_ file: Descriptor, reservedBytes: Int) -> Mapping? {
        let address: MappedAddress? = try? perform(.map) { machine throws(StoreError) in
            let inode = try machine.inodeIndex(file, life: life, .map)
            let most = machine.configuration.maximumMappingBytes
            guard reservedBytes > 0, reservedBytes <= most,
                machine.inodes[inode].moveCacheToRegion(of: max(reservedBytes, machine.configuration.regionBytes)),
                let region = machine.inodes[inode].cached.region
            else { throw failure(.map, ENOMEM) }
            let address = MappedAddress(region.base)
            machine.mappings.append((address, region))
            return address
        }
        guard let address else { return nil }
        return Mapping(
            bytes: UnsafeRawBufferPointer(start: UnsafeRawPointer(bitPattern: address.bits), count: reservedBytes))
    }

    package func unmap(_ mapping: Mapping) {
        _ = try? begin(.unmap)
        disk.withMachine { machine in
            let address = MappedAddress(mapping.bytes.baseAddress)
            guard let index = machine.mappings.firstIndex(where: { $0.address == address }) else { return }
            machine.mappings.remove(at: index)
        }
    }

    /// Checks that the file can hold `count` bytes at `offset`; gives their end.
    @discardableResult private func reserve(
        _ inode: Int, offset: UInt64, count: Int, _ call: CallKind, _ machine: Machine
    ) throws(StoreError) -> Int {
        let most = min(machine.configuration.maximumFileBytes, machine.inodes[inode].cached.maximumCount)
        let (end, overflow) = offset.addingReportingOverflow(UInt64(count))
        guard !overflow, end <= UInt64(most) else { throw failure(call, EFBIG) }
        return Int(end)
    }

    private func resize(_ inode: Int, to size: Int, _ machine: inout Machine) {
        machine.inodes[inode].setSize(size)
        machine.changeCount += 1
    }
}
