// Runs the file target over mutations in this process, and names the seed should one end it.

import FuzzTargets
import Glibc
import Synchronization

/// The seed that is being run: a signal handler cannot be told in another way.
private let currentSeed = Atomic<UInt64>(0)

enum MutationRun {
    struct Counts {
        var runs = 0
        var opened = 0
        var committed = 0
    }

    /// Every seed from `first` on picks an input, changes it once or twice, and runs the target over it.
    static func run(_ inputs: [[UInt8]], first: UInt64, count: Int) -> Counts {
        currentSeed.store(first, ordering: .relaxed)
        let before = [SIGILL, SIGTRAP, SIGSEGV].map { ($0, signal($0, nameTheSeed)) }
        defer { for (number, handler) in before { signal(number, handler) } }
        var counts = Counts()
        for seed in first..<first + UInt64(count) {
            currentSeed.store(seed, ordering: .relaxed)
            counts.runs += 1
            guard case .opened(_, let isCommitted) = FuzzTargets.fileOutcome(mutated(inputs, seed)) else { continue }
            counts.opened += 1
            counts.committed += isCommitted ? 1 : 0
        }
        return counts
    }

    static func mutated(_ inputs: [[UInt8]], _ seed: UInt64) -> [UInt8] {
        let input = inputs[Int(seed % UInt64(inputs.count))]
        let once = FuzzMutator.mutated(input, maximumBytes: FuzzTargets.maximumStoreBytes, seed: seed)
        guard seed % 3 == 0 else { return once }
        return FuzzMutator.mutated(once, maximumBytes: FuzzTargets.maximumStoreBytes, seed: ~seed)
    }

    /// Says the seed and lets the process end as it would have: what trapped traps again without this handler.
    private static let nameTheSeed: @convention(c) (CInt) -> Void = { number in
        signal(number, SIG_DFL)
        var text = [UInt8]("The mutation with this seed ended the process (ANNALS_FUZZ_SEED repeats it): ".utf8)
        text += [UInt8](String(currentSeed.load(ordering: .relaxed)).utf8) + [10]
        _ = text.withUnsafeBytes { write(STDERR_FILENO, $0.baseAddress, $0.count) }
    }
}

extension FuzzTargets {
    static func fileOutcome(_ bytes: [UInt8], planted: Planted? = nil) -> Outcome {
        bytes.withUnsafeBytes { fileOutcome($0, planted: planted) }
    }

    static func records(_ bytes: [UInt8], planted: Planted? = nil) {
        bytes.withUnsafeBytes { records($0, planted: planted) }
    }
}
