// A machine with a disk of which every byte, fault and power cut is the test's choice.

package import Annals

/// A simulated machine: directories and files with a durable and a cached state, processes, locks and faults.
///
/// It is itself a file system, for process 1; `process(_:)` gives the view of another one. Every method may be called
/// from any thread. One lock guards all state, and no hook runs under it, so hooks may call the disk.
package final class SimulatedDisk: Sendable {
    private let machine: Guarded<Machine>
    private let hooks = Guarded(Hooks())

    struct Hooks: Sendable {
        var onCall: CallHook?
        var duringSynchronize: ChangeHook?
        var onChange: ChangeHook?
        var fileSystemType: UInt32 = 0xEF53
    }

    package typealias CallHook = @Sendable (Call) throws(StoreError) -> Void
    package typealias ChangeHook = @Sendable (SimulatedDisk) -> Void

    package init(_ configuration: SimulatedDiskConfiguration = SimulatedDiskConfiguration()) {
        machine = Guarded(Machine(configuration))
    }

    init(machine: Machine) { self.machine = Guarded(machine) }

    /// Runs `body` under the lock.
    func withMachine<Result: Sendable>(_ body: (inout Machine) -> Result) -> Result {
        machine.withLock { machine in body(&machine) }
    }

    func currentHooks() -> Hooks { hooks.withLock { $0 } }

    // MARK: Hooks and faults

    /// Runs before every call has any effect; what it throws is thrown by the call. It may block: a scheduler's place.
    package func setOnCall(_ hook: CallHook?) { hooks.withLock { $0.onCall = hook } }

    /// Runs inside every synchronize of a file or a directory, after it was decided which operations are covered and
    /// before any becomes durable.
    package func setDuringSynchronize(_ hook: ChangeHook?) { hooks.withLock { $0.duringSynchronize = hook } }

    /// Runs after every call that changed bytes, sizes, names, or what of them is durable: the place to enumerate crash
    /// images.
    package func setOnChange(_ hook: ChangeHook?) { hooks.withLock { $0.onChange = hook } }

    /// What kind of file system it says to be, by the kernel's number; ext4 if it is not set.
    package var fileSystemType: UInt32 {
        get { hooks.withLock { $0.fileSystemType } }
        set { hooks.withLock { $0.fileSystemType = newValue } }
    }

    package func addFault(_ fault: Fault) { withMachine { $0.faults.add(fault) } }

    /// A write that stores `count` bytes, and an error of the next one.
    package func addShortWrite(occurrence: Int, bytes count: Int, thenError number: Int32) {
        addFault(Fault(.short(count), on: .write, occurrence: occurrence))
        addFault(Fault(.failure(number), on: .write, occurrence: occurrence + 1))
    }

    package func removeAllFaults() { withMachine { $0.faults.removeAll() } }

    /// How many bytes were read, by all processes. Mapped reads are not counted.
    package var readBytes: Int { withMachine { $0.readBytes } }

    /// How many calls there were, of one kind or of all, those that failed included.
    package func callCount(of kind: CallKind? = nil) -> Int {
        withMachine { machine in kind.map { machine.callCounts[$0] ?? 0 } ?? machine.callCount }
    }

    /// How often bytes, sizes, names, or what of them is durable have changed: names the crash point.
    package var changeCount: Int { withMachine { $0.changeCount } }

    // MARK: Processes and power

    /// The file system as a new process with this number sees it. Several may live under one number.
    package func process(_ id: UInt32) -> SimulatedProcess {
        SimulatedProcess(disk: self, life: withMachine { $0.beginLife(of: id) }, id: id)
    }

    /// The process that stands after the disk's own methods.
    var ownProcess: SimulatedProcess {
        withMachine { SimulatedProcess(disk: self, life: $0.ownLife, id: $0.lives[$0.ownLife].process) }
    }

    /// Kills what lives under the number: descriptors are closed, locks freed, the cache stays. Later calls throw.
    package func kill(_ id: UInt32) {
        withMachine { machine in
            for life in machine.lives.indices where machine.lives[life].process == id && !machine.lives[life].isOver {
                machine.endLife(life)
            }
        }
    }

    /// Ends all processes and starts again with everything written back. The disk's own process is a new one.
    package func reboot() { restart(losingPending: false) }

    /// Cuts the power: everything pending is lost. The other outcomes of a power cut are the crash images.
    package func cutPower() { restart(losingPending: true) }

    private func restart(losingPending losing: Bool) {
        withMachine { $0.restart(losingPending: losing) }
        currentHooks().onChange?(self)
    }

    /// The write-back of a file fails without anybody waiting for it, as in `SynchronizeOutcome.cleanAndLost` (or
    /// `.cacheReverted`): each descriptor open now learns of it by its next synchronize.
    package func failWriteBack(of path: String, revertingCache: Bool = false) {
        withMachine { machine in
            guard let index = machine.inode(atPath: path) else { return }
            machine.inodes[index].lose(through: machine.inodes[index].lastSequence, revertingCache: revertingCache)
            machine.changeCount += 1
        }
        currentHooks().onChange?(self)
    }
}

// MARK: Looking at it and preparing it, from outside the simulated processes

extension SimulatedDisk {
    /// The bytes that processes see; nil if there is no such name.
    package func contents(of path: String) -> [UInt8]? {
        withMachine { machine in machine.inode(atPath: path).map { machine.inodes[$0].cached.bytes() } }
    }

    /// The bytes that are durable in the file that has this name now.
    package func durableContents(of path: String) -> [UInt8]? {
        withMachine { machine in machine.inode(atPath: path).map { machine.inodes[$0].durable } }
    }

    /// The names in a directory, sorted: those that processes see, or the durable ones.
    package func names(in directory: String, durable: Bool = false) -> [String] {
        withMachine { machine in
            guard let found = machine.directories.first(where: { $0.path == directory }) else { return [] }
            return (durable ? found.durable : found.cached).entries.map(\.name).sorted()
        }
    }

    /// Puts a file there, durably, as if it always had been. What had the name is replaced.
    package func install(_ bytes: [UInt8], at path: String, mode: UInt32 = 0o600) {
        var inode = Inode(durable: bytes)
        inode.mode = mode
        install(inode, at: path)
    }

    /// Puts something there that is not a regular file: a symbolic link, or with nil a FIFO.
    package func installSpecial(linkTo target: String?, at path: String) {
        var inode = Inode()
        inode.kind = target.map { .symbolicLink(target: $0) } ?? .other
        install(inode, at: path)
    }

    /// Gives a file a second, durable name.
    package func installLink(from path: String, to newPath: String) {
        withMachine { machine in
            guard let index = machine.inode(atPath: path) else { return }
            SimulatedDisk.install(index, at: newPath, in: &machine)
        }
    }

    private func install(_ inode: Inode, at path: String) {
        withMachine { machine in
            let index = machine.addInode(inode)
            SimulatedDisk.install(index, at: path, in: &machine)
        }
    }

    private static func install(_ inode: Int, at path: String, in machine: inout Machine) {
        guard let (directory, name) = Machine.split(path),
            let index = machine.directories.firstIndex(where: { $0.path == directory })
        else { preconditionFailure("\(path) is not in a directory of the simulated disk.") }
        machine.directories[index].install(name, inode: inode)
        machine.settleNames()
    }

    /// Changes one byte in the cache and on the disk, as rot or a stranger would.
    package func corrupt(_ path: String, at offset: Int, to byte: UInt8) {
        withMachine { machine in
            guard let index = machine.inode(atPath: path) else { return }
            machine.inodes[index].corrupt(at: offset, to: byte)
        }
    }

    package func setMode(_ mode: UInt32, of path: String) {
        withMachine { machine in
            if let index = machine.inode(atPath: path) { machine.inodes[index].mode = mode }
        }
    }

    /// Makes the whole disk refuse changes of names and opening for writing, as one mounted read-only does.
    package func setReadOnly(_ isReadOnly: Bool) { withMachine { $0.isReadOnly = isReadOnly } }

    /// How many descriptors are open, of one process or of all: to find leaks.
    package func openDescriptorCount(of process: UInt32? = nil) -> Int {
        withMachine { machine in
            machine.openFiles.count { process == nil || machine.lives[$0.life].process == process }
        }
    }

    /// How many mappings were made and not given back yet.
    package var mappingCount: Int { withMachine { $0.mappings.count } }

    /// How many files take up space, those without a name included.
    package var fileCount: Int { withMachine { $0.inodes.count { $0.isInUse } } }

    /// The ranges of a file that are locked now, by anybody.
    package func lockedRanges(of path: String) -> [LockRange] {
        withMachine { machine in
            guard let index = machine.inode(atPath: path) else { return [] }
            return machine.openFiles.filter { $0.target == .inode(index) }.flatMap(\.locks.ranges)
        }
    }
}
