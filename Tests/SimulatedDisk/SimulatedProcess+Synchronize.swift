// Making things durable, and locks: the calls of a simulated process that others take part in.

package import Annals
internal import Glibc

extension SimulatedProcess {
    package func synchronize(_ file: Descriptor) throws(StoreError) {
        let effect = try begin(.synchronize)
        // What is covered is decided here; what comes later, as from the hook, is not.
        let (inode, covered) = try finish { machine throws(StoreError) in
            let inode = try machine.inodeIndex(file, life: life, .synchronize)
            return (inode, machine.inodes[inode].lastSequence)
        }
        disk.currentHooks().duringSynchronize?(disk)
        try finish { machine throws(StoreError) in
            let index = try machine.openFileIndex(file, life: life, .synchronize)
            machine.changeCount += 1
            switch SimulatedProcess.outcome(of: effect) {
            case .honest: machine.inodes[inode].makeDurable(through: covered)
            case .cleanAndLost: machine.inodes[inode].lose(through: covered, revertingCache: false)
            case .cacheReverted: machine.inodes[inode].lose(through: covered, revertingCache: true)
            case .lie: break
            case .error(let number): throw failure(.synchronize, number)
            }
            if machine.inodes[inode].reportError(toOneThatSaw: machine.openFiles[index].errorsSeen) {
                machine.openFiles[index].errorsSeen = machine.inodes[inode].errorCount
                throw failure(.synchronize, EIO)
            }
        }
    }

    /// What was written and not synchronised may be on the disk or not anyhow.
    package func startWriting(_ file: Descriptor, offset: UInt64, count: UInt64) {}

    package func finishWriting(_ file: Descriptor, offset: UInt64, count: UInt64) throws(StoreError) {}

    /// An error of a directory is reported to this call only.
    package func synchronizeDirectory(_ directory: Descriptor) throws(StoreError) {
        let effect = try begin(.synchronizeDirectory)
        let (index, covered) = try finish { machine throws(StoreError) in
            let index = try machine.directoryIndex(directory, life: life, .synchronizeDirectory)
            return (index, machine.directories[index].lastSequence)
        }
        disk.currentHooks().duringSynchronize?(disk)
        try finish { machine throws(StoreError) in
            machine.changeCount += 1
            defer { machine.settleNames() }
            switch SimulatedProcess.outcome(of: effect) {
            case .honest: machine.directories[index].makeDurable(through: covered)
            case .cleanAndLost:
                machine.directories[index].lose(through: covered, revertingCache: false)
                throw failure(.synchronizeDirectory, EIO)
            case .cacheReverted:
                machine.directories[index].lose(through: covered, revertingCache: true)
                throw failure(.synchronizeDirectory, EIO)
            case .lie: break
            case .error(let number): throw failure(.synchronizeDirectory, number)
            }
        }
    }

    private static func outcome(of effect: Fault.Effect?) -> SynchronizeOutcome {
        if case .synchronize(let outcome) = effect { outcome } else { .honest }
    }

    package func tryLock(_ file: Descriptor, _ range: LockRange) throws(StoreError) -> LockAttempt {
        try perform(.tryLock) { machine throws(StoreError) in
            let index = try lockable(file, range, .tryLock, machine)
            let target = machine.openFiles[index].target
            let conflicts = machine.openFiles.indices.compactMap { other -> LockRange? in
                guard other != index, machine.openFiles[other].target == target else { return nil }
                return machine.openFiles[other].locks.firstOverlap(with: range)
            }
            if let first = conflicts.min(by: { $0.start < $1.start }) { return .held(by: first) }
            machine.openFiles[index].locks.insert(range)
            return .acquired
        }
    }

    package func unlock(_ file: Descriptor, _ range: LockRange) throws(StoreError) {
        try perform(.unlock) { machine throws(StoreError) in
            let index = try lockable(file, range, .unlock, machine)
            machine.openFiles[index].locks.remove(range)
        }
    }

    private func lockable(
        _ file: Descriptor, _ range: LockRange, _ call: CallKind, _ machine: Machine
    ) throws(StoreError) -> Int {
        let index = try machine.openFileIndex(file, life: life, call)
        guard machine.openFiles[index].access == .readWrite else { throw failure(call, EBADF) }
        // The system's offsets are signed.
        guard range.start < range.end, range.end <= UInt64(Int64.max) else { throw failure(call, EINVAL) }
        return index
    }
}
