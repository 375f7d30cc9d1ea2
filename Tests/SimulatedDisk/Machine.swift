// Everything that a simulated machine remembers, without locking: the disk guards it.

internal import Annals
internal import Glibc

/// What a simulated machine is like.
package struct SimulatedDiskConfiguration: Sendable {
    /// The directories that exist, durably, from the beginning.
    package var directories = ["/data"]
    /// How much memory a file gets when it is first mapped, at least; it cannot grow beyond what it got while it is
    /// mapped.
    package var regionBytes = 64 << 20
    /// `map` gives nil for more than this.
    package var maximumMappingBytes = 64 << 30
    package var maximumFileBytes = 1 << 30
    package var maximumDescriptors = 1024
    /// Whether the number of a file that is gone for good may be given to a new one, as ext4 does at once.
    package var reusesInodeNumbers = true

    package init() {}
}

/// Invariants:
/// - an inode is in use if and only if a descriptor is open on it, a name leads to it, or some power cut would bring
///   back a name that does;
/// - every open file belongs to a life that is not over.
struct Machine: Sendable {
    struct Life: Sendable {
        var process: UInt32
        var isOver = false
    }

    static let device: UInt64 = 0x5d
    /// The first inode number, given to the inode at index 0.
    static let firstInodeNumber: UInt64 = 11

    var configuration: SimulatedDiskConfiguration
    var inodes: [Inode] = []
    var directories: [Directory]
    var openFiles: [OpenFile] = []
    var lives: [Life] = [Life(process: 1)]
    /// The life that the disk itself speaks for when it is used as a file system.
    var ownLife = 0
    var isReadOnly = false
    var faults = FaultTable()
    var callCount = 0
    var callCounts: [CallKind: Int] = [:]
    var readBytes = 0
    /// Counts what changed bytes, sizes, names, or what of them is durable: the crash point.
    var changeCount = 0
    /// The regions that somebody has mapped, with one entry per mapping.
    var mappings: [(address: MappedAddress, region: Region)] = []
    private var nextDescriptor: Int32 = 3

    init(_ configuration: SimulatedDiskConfiguration) {
        self.configuration = configuration
        directories = configuration.directories.map { Directory(path: $0) }
    }

    // MARK: Descriptors

    func openFileIndex(_ descriptor: Descriptor, life: Int, _ call: CallKind) throws(StoreError) -> Int {
        guard let index = openFiles.firstIndex(where: { $0.number == descriptor.number && $0.life == life }) else {
            throw failure(call, EBADF)
        }
        return index
    }

    func inodeIndex(
        _ descriptor: Descriptor, life: Int, _ call: CallKind, toWrite: Bool = false
    ) throws(StoreError) -> Int {
        let file = openFiles[try openFileIndex(descriptor, life: life, call)]
        guard case .inode(let inode) = file.target else { throw failure(call, EISDIR) }
        guard !toWrite || file.access == .readWrite else { throw failure(call, EBADF) }
        return inode
    }

    func directoryIndex(_ descriptor: Descriptor, life: Int, _ call: CallKind) throws(StoreError) -> Int {
        guard case .directory(let index) = openFiles[try openFileIndex(descriptor, life: life, call)].target else {
            throw failure(call, ENOTDIR)
        }
        return index
    }

    mutating func addOpenFile(
        _ target: OpenFile.Target, access: FileAccess, life: Int, _ call: CallKind
    ) throws(StoreError) -> Descriptor {
        guard openFiles.count < configuration.maximumDescriptors else { throw failure(call, EMFILE) }
        var file = OpenFile(number: nextDescriptor, life: life, target: target, access: access)
        if case .inode(let inode) = target { file.errorsSeen = inodes[inode].errorCountAtOpening }
        nextDescriptor += 1
        openFiles.append(file)
        return Descriptor(file.number)
    }

    // MARK: Inodes

    mutating func addInode(_ inode: Inode) -> Int {
        if configuration.reusesInodeNumbers, let free = inodes.firstIndex(where: { !$0.isInUse }) {
            inodes[free] = inode
            return free
        }
        inodes.append(inode)
        return inodes.count - 1
    }

    /// Frees what nothing can lead to any more.
    mutating func releaseUnreachable() {
        for index in inodes.indices where inodes[index].isInUse {
            let isOpen = openFiles.contains { $0.target == .inode(index) }
            if !isOpen, !directories.contains(where: { $0.mentions(inode: index) }) { inodes[index].release() }
        }
    }

    func identity(ofInode index: Int) -> FileIdentity {
        FileIdentity(
            device: Machine.device, inode: Machine.firstInodeNumber + UInt64(index), links: inodes[index].links)
    }

    func countLinks(to inode: Int) -> UInt64 {
        directories.reduce(0) { count, directory in
            count + UInt64(directory.cached.entries.count { $0.inode == inode })
        }
    }

    mutating func changeNames(in directory: Int, _ operation: NameOperation) {
        directories[directory].change(operation)
        changeCount += 1
        settleNames()
    }

    /// Brings the link counts and the freeing of files in line with the names.
    mutating func settleNames() {
        for index in inodes.indices where inodes[index].isInUse { inodes[index].links = countLinks(to: index) }
        releaseUnreachable()
    }

    func inode(atPath path: String) -> Int? {
        guard let (directory, name) = Machine.split(path),
            let index = directories.firstIndex(where: { $0.path == directory })
        else { return nil }
        return directories[index].cached[name]
    }

    /// The directory part (without a slash at its end) and the last component.
    static func split(_ path: String) -> (directory: String, name: String)? {
        guard let slash = path.lastIndex(of: "/") else { return nil }
        let name = path[path.index(after: slash)...]
        return name.isEmpty ? nil : (String(path[..<slash]), String(name))
    }

    // MARK: Processes and power

    mutating func beginLife(of process: UInt32) -> Int {
        lives.append(Life(process: process))
        return lives.count - 1
    }

    /// Closes the descriptors of a life and frees its locks. The cache stays as it is.
    mutating func endLife(_ life: Int) {
        lives[life].isOver = true
        openFiles.removeAll { $0.life == life }
        releaseUnreachable()
    }

    mutating func restart(losingPending losing: Bool) {
        for life in lives.indices { lives[life].isOver = true }
        ownLife = beginLife(of: lives[ownLife].process)
        openFiles = []
        for index in directories.indices { directories[index].restart(losingPending: losing) }
        for index in inodes.indices where inodes[index].isInUse { inodes[index].restart(losingPending: losing) }
        settleNames()
        changeCount += 1
    }
}

/// The address of a mapping, kept only to be compared.
struct MappedAddress: Sendable, Equatable {
    let bits: UInt
    init(_ pointer: UnsafeRawPointer?) { bits = UInt(bitPattern: pointer) }
}
