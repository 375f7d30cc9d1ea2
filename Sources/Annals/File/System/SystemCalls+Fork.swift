// Invalidates a process's handles in a forked child: their descriptors are closed there, and each handle recognizes
// that it belongs to the parent.
//
// Invariants:
// FK1  The child's handler touches only memory that was made before, by atomic operations, and calls only `close`: a
//     child of a process with threads may do nothing else.
// FK2  A descriptor's bit is set from soon after it was opened until just before it is closed.

internal import Synchronization

#if canImport(Glibc)
    internal import Glibc
#else
    internal import Musl
#endif

extension SystemCalls {
    /// Descriptors that the library has opened, a bit for each, and the number of forks that led to this process.
    private struct ForkTable: @unchecked Sendable {
        // Sound: the memory is made once, never freed, and holds atomics only.
        let words: UnsafeMutablePointer<Atomic<UInt64>>
        let forks: UnsafeMutablePointer<Atomic<UInt64>>

        /// Higher ones stay open in a child until it ends or calls exec.
        static let descriptors: Int32 = 1 << 16

        init() {
            let count = Int(Self.descriptors) / 64
            words = .allocate(capacity: count)
            for index in 0..<count { (words + index).initialize(to: Atomic(0)) }
            forks = .allocate(capacity: 1)
            forks.initialize(to: Atomic(0))
        }
    }

    private static let forkTable = ForkTable()

    /// The same table, once forks are watched: it is complete before the handler, which looks at it, can run.
    private static let watchedTable: ForkTable = {
        let table = forkTable
        _ = pthread_atfork(nil, nil, { SystemCalls.becomeChild() })
        return table
    }()

    /// In the child, before `fork` returns there. (FK1)
    private nonisolated static func becomeChild() {
        let table = forkTable
        table.forks.pointee.add(1, ordering: .sequentiallyConsistent)
        for index in 0..<Int(ForkTable.descriptors) / 64 {
            var open = table.words[index].exchange(0, ordering: .relaxed)
            while open != 0 {
                _ = close(Int32(index * 64 + open.trailingZeroBitCount))
                open &= open - 1
            }
        }
    }

    static func remember(_ descriptor: Int32) {
        guard descriptor >= 0, descriptor < ForkTable.descriptors else { return }
        watchedTable.words[Int(descriptor >> 6)].bitwiseOr(1 << UInt64(descriptor & 63), ordering: .relaxed)
    }

    static func forget(_ descriptor: Int32) {
        guard descriptor >= 0, descriptor < ForkTable.descriptors else { return }
        watchedTable.words[Int(descriptor >> 6)].bitwiseAnd(~(1 << UInt64(descriptor & 63)), ordering: .relaxed)
    }

    /// The number of forks that led to this process.
    static var forks: UnsafeMutablePointer<Atomic<UInt64>> { watchedTable.forks }
}

/// Identifies the process that made something: a forked child must not use what it inherits.
package struct OwnProcess: Hashable, @unchecked Sendable {
    // Sound: an atomic that is never freed.
    private let forks: UnsafeMutablePointer<Atomic<UInt64>>
    private let atBirth: UInt64

    /// The calling process.
    package init() {
        forks = SystemCalls.forks
        atBirth = forks.pointee.load(ordering: .relaxed)
    }

    /// Whether the calling process is a forked child of it.
    @inline(__always)
    package var wasForked: Bool { forks.pointee.load(ordering: .relaxed) != atBirth }

    /// Throws `forked` in a child.
    @inline(__always)
    package func requireOwn(path: String) throws(StoreError) {
        if wasForked { throw refusal(path: path) }
    }

    @inline(never)
    package func refusal(path: String? = nil) -> StoreError {
        StoreError(
            .forked,
            "The parent process opened this store before the fork: open the store again in the child.",
            path: path)
    }
}
