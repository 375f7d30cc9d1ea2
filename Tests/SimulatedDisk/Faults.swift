// What can be made to go wrong with a call: the table of faults, and the errors they end in.

package import Annals
internal import Glibc

/// Which method of the seam was called.
package enum CallKind: String, Sendable, CaseIterable {
    case resolve, openDirectory, duplicate, open, createUnnamed, publish, createExclusively, rename, unlink, close
    case read, write, allocate, setSize, size, content, synchronize, synchronizeDirectory, status, identity
    case setPermissions
    case tryLock, unlock, map, unmap

    /// Whether a successful call can change bytes, sizes, names, or what of them is durable.
    package var changesState: Bool {
        switch self {
        case .createUnnamed, .publish, .createExclusively, .rename, .unlink, .write, .allocate, .setSize, .synchronize,
            .synchronizeDirectory:
            true
        default: false
        }
    }

    /// The system call that the method stands for.
    package var systemCall: String {
        switch self {
        case .resolve: "realpath"
        case .openDirectory, .open, .createUnnamed, .createExclusively: "open"
        case .duplicate: "fcntl"
        case .publish: "linkat"
        case .rename: "renameat"
        case .unlink: "unlinkat"
        case .close: "close"
        case .read: "pread"
        case .write: "pwrite"
        case .allocate: "fallocate"
        case .setSize: "ftruncate"
        case .content: "lseek"
        case .size, .status: "fstat"
        case .identity: "fstatat"
        case .setPermissions: "fchown"
        case .synchronize: "fdatasync"
        case .synchronizeDirectory: "fsync"
        case .tryLock, .unlock: "fcntl"
        case .map: "mmap"
        case .unmap: "munmap"
        }
    }
}

/// One call as a hook sees it, before it has any effect.
package struct Call: Equatable, Sendable {
    package var kind: CallKind
    /// Counts all calls of the machine, from 1.
    package var index: Int
    package var process: UInt32
}

/// What a synchronize does to the operations it covers.
package enum SynchronizeOutcome: Equatable, Sendable {
    /// They become durable.
    case honest
    /// They are dropped from the pending ones and never become durable, the cache goes on showing them, and an error
    /// goes once to each descriptor open at the time (ext4, XFS). Writing the bytes again makes them pending again.
    case cleanAndLost
    /// They are dropped, the cache goes back to what is durable, and the error is reported in the same way (Btrfs).
    case cacheReverted
    /// Success is reported, and they stay pending: a power cut may take them.
    case lie
    /// This call fails, and nothing else happens: they stay pending.
    case error(Int32)
}

/// A rule: the n-th call of a kind goes wrong in some way.
package struct Fault: Equatable, Sendable {
    package enum Effect: Equatable, Sendable {
        /// The call throws the error of this number without any effect (`map` gives nil; `close` and `unmap` ignore
        /// it).
        case failure(Int32)
        /// A read or write moves at most so many bytes and returns their count; other calls ignore it.
        case short(Int)
        /// The process dies in the call: of a write so many bytes are done, of other calls nothing.
        case death(afterBytes: Int)
        /// Of `synchronize` and `synchronizeDirectory`; other calls ignore it.
        case synchronize(SynchronizeOutcome)
    }

    /// Nil stands for every kind.
    package var call: CallKind?
    /// Nil stands for every process.
    package var process: UInt32?
    /// Which of the matching calls since the rule was added, from 1.
    package var occurrence: Int
    /// Whether every later matching call is hit too.
    package var isPermanent: Bool
    package var effect: Effect

    package init(
        _ effect: Effect, on call: CallKind?, occurrence: Int = 1, isPermanent: Bool = false, process: UInt32? = nil
    ) {
        self.effect = effect
        self.call = call
        self.occurrence = occurrence
        self.isPermanent = isPermanent
        self.process = process
    }
}

/// The rules in force, each with the number of calls it has matched.
struct FaultTable: Sendable {
    private var rules: [(fault: Fault, matched: Int)] = []

    var isEmpty: Bool { rules.isEmpty }

    mutating func add(_ fault: Fault) { rules.append((fault, 0)) }

    mutating func removeAll() { rules = [] }

    /// Counts the call in every rule it matches; the first rule that hits it decides.
    mutating func effect(on call: CallKind, of process: UInt32) -> Fault.Effect? {
        var decided: Fault.Effect?
        for index in rules.indices {
            let fault = rules[index].fault
            guard fault.call == nil || fault.call == call, fault.process == nil || fault.process == process else {
                continue
            }
            rules[index].matched += 1
            let matched = rules[index].matched
            if decided == nil, matched == fault.occurrence || (fault.isPermanent && matched > fault.occurrence) {
                decided = fault.effect
            }
        }
        return decided
    }
}

/// The error that a failed system call ends in.
func failure(_ kind: CallKind, _ number: Int32, path: String? = nil) -> StoreError {
    let code: StoreError.Code =
        switch number {
        case ENOENT: .notFound
        case EEXIST: .alreadyExists
        case EACCES, EPERM: .permissionDenied
        case EROFS: .readOnly
        case ENOSPC, EDQUOT: .noSpace
        case EMFILE, ENFILE: .tooManyFiles
        case ENOMEM: .outOfMemory
        case EIO: .inputOutput
        case EFBIG: .tooLarge
        case EAGAIN, EBUSY: .busy
        case EINVAL: .invalidArgument
        case ELOOP, EISDIR, ENXIO: .notARegularFile
        default: .systemCall
        }
    return StoreError(
        code, "The simulated call \(kind.systemCall) failed with the system's error number \(number).",
        call: kind.systemCall, systemError: number, path: path)
}

extension StoreError {
    /// What every call of a process that was killed throws.
    package static let simulatedProcessDeath = StoreError(.systemCall, "simulated process death")
}
