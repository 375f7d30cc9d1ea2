// Records which transactions of a store this process has made, through any handle.
//
// The process ID and program name in a transaction do not identify the process: in two containers of one image both are
// equal. So a process remembers its own transactions. A child of `fork` starts with none.
//
// Invariants:
// OW1  A transaction is noted before it is in the file, so no thread can read it before.
// OW2  Runs are ascending and do not touch each other. The last number of a run counts only with its tag, because a
//      write that failed, or a restored backup, assigns the number to another transaction.

/// The transactions of one store that this process has made. Any thread may call it.
///
/// Sound although it is shared: `monitor` guards the runs.
package final class OwnTransactions: @unchecked Sendable {
    private struct Run {
        var first: UInt64
        var last: UInt64
        var tag: UInt64
    }

    private static let registry = PerProcess { Registry() }
    /// Older runs are forgotten: then their transactions count as another process's.
    private static let maximumRuns = 4096
    private let store: UUIDBytes
    /// Another store's, in the same chain of the registry.
    private let next: OwnTransactions?
    private let monitor = Monitor()
    /// The monitor keeps threads apart, so accesses are not checked for overlaps: every commit has some.
    @exclusivity(unchecked) private var runs: [Run] = []

    private init(_ store: UUIDBytes, before next: OwnTransactions?) { (self.store, self.next) = (store, next) }

    /// The transactions of the store with that identifier.
    package static func of(_ store: UUIDBytes) -> OwnTransactions { registry.value.transactions(of: store) }

    /// Notes a transaction that is about to be written.
    package func note(_ number: UInt64, tag: UInt64) {
        monitor.withLock {
            let end = runs.count - 1
            if end >= 0, runs[end].last == number - 1 {
                (runs[end].last, runs[end].tag) = (number, tag)
                return
            }
            while let last = runs.last, last.last >= number {
                if last.first >= number {
                    runs.removeLast()
                } else {
                    runs[runs.count - 1].last = number - 1
                    break
                }
            }
            if let last = runs.last, last.last == number - 1 {
                (runs[runs.count - 1].last, runs[runs.count - 1].tag) = (number, tag)
                return
            }
            if runs.count == Self.maximumRuns { runs.removeFirst(Self.maximumRuns / 2) }
            runs.append(Run(first: number, last: number, tag: tag))
            assert(runs.count < 2 || runs[runs.count - 2].last < number - 1, "OW2: two runs touch each other.")
        }
    }

    /// Whether this process has made a transaction. Logarithmic in the runs of numbers.
    package func contains(_ number: UInt64, tag: UInt64) -> Bool {
        monitor.withLock {
            let index = runs.partitioningIndex { $0.last >= number }
            guard index < runs.count, runs[index].first <= number else { return false }
            return number < runs[index].last || runs[index].tag == tag
        }
    }

    /// A hash table: its chains are never shortened. Not a dictionary, because the first use of its type would take a
    /// fifth of the time of opening a store.
    ///
    /// Sound although it is shared: `monitor` guards the chains. Their memory is never freed.
    private final class Registry: @unchecked Sendable {
        private static let chainCount = 1024
        private let monitor = Monitor()
        private let chains = UnsafeMutablePointer<OwnTransactions?>.allocate(capacity: chainCount)

        init() { chains.initialize(repeating: nil, count: Self.chainCount) }

        func transactions(of store: UUIDBytes) -> OwnTransactions {
            monitor.withLock {
                let chain = chains + Int(store.low % UInt64(Self.chainCount))
                var known = chain.pointee
                while let made = known {
                    if made.store == store { return made }
                    known = made.next
                }
                let made = OwnTransactions(store, before: chain.pointee)
                chain.pointee = made
                return made
            }
        }
    }
}
