// What fuzzing holds the engine to. A target is given bytes, returns nothing, and traps only if an invariant is
// broken.
//
// Invariants that the targets check:
// Z1  No bytes make the engine trap, loop, or take memory or time beyond a bound.
// Z2  What a decoder accepts, its encoder writes again byte for byte: there is one form of everything.
// Z3  A file that opens for reading opens for writing, and its transactions are still there after another commit.
// Z4  Opening for reading changes nothing; writing changes nothing below the end but the hint slots.
// Z5  Errors about bytes are of a code that speaks of bytes.
// Z6  A closed store is sealed, has one spare page of zeros (F27), and no torn tail.
// Z7  The whole-file checker comes as far as opening does, or to something deeper that only a newer program knows. It
//     finds something where a store does not open.
// Z8  Where the checker finds nothing, the engine opens, and answers what a fold of the log says; what it writes then
//     is intact as well.
// Z9  Compaction of such a store changes nothing of what it holds above the horizon, and what it writes is intact.
// Z10 Salvage changes nothing in what it reads, makes an intact store or none, and loses no object of an intact one.
// Z11 Values of a program's types can be read from any rows, or the error says which value there is no type for. In an
//     intact store, every way of finding objects finds the same ones.
// Z12 A file that only newer programs may write to cannot be written to, and stays as it is.

internal import Annals
internal import Glibc

/// The entry points, the same for the fuzzers, the stored corpus and the tests.
package enum FuzzTargets {
    /// A target that is told to go wrong, so that a test can prove that going wrong is noticed.
    package enum Planted: String, Sendable {
        /// The file target forgets the last transaction that it read at first.
        case forgottenTransaction
        /// The record target sees an encoder that changes the last byte.
        case changedByte
        /// The file target takes longer than it may.
        case slowness
    }

    /// An invariant is broken: says which, and ends the process.
    static func violation(_ invariant: String, _ what: @autoclosure () -> String) -> Never {
        // An optimised build traps without a word, so the sentence is written before.
        let sentence = "\(invariant) is broken: \(what())\n"
        _ = Array(sentence.utf8).withUnsafeBytes { write(STDERR_FILENO, $0.baseAddress, $0.count) }
        preconditionFailure(sentence)
    }

    static func require(_ holds: Bool, _ invariant: String, _ what: @autoclosure () -> String) {
        if !holds { violation(invariant, what()) }
    }

    /// An error that bytes may lead to.
    static func requireByteError(_ error: StoreError, _ during: @autoclosure () -> String) {
        switch error.code {
        case .damaged, .unsupportedVersion, .notAStore, .truncated: return
        default: violation("Z5", "\(during()) threw \(error.code): \(error)")
        }
    }

    /// Processor time of this thread, which other processes' load does not change.
    static func threadMicroseconds() -> Int {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return time.tv_sec * 1_000_000 + time.tv_nsec / 1000
    }

    /// Debug builds and the address sanitizer are some ten times slower, and the bound is not about them.
    static let maximumMicroseconds: Int = {
        #if DEBUG
            return 2_000_000
        #else
            return dlsym(nil, "__asan_init") == nil ? 100_000 : 1_000_000
        #endif
    }()

    /// A file is opened and read some ten times; where entities have the highest numbers, each of hundreds of schema
    /// versions costs the engine a table of that size.
    static var maximumFileMicroseconds: Int { 20 * maximumMicroseconds }

    /// Runs a target and holds it to its time (Z1).
    static func timed<Result>(_ name: String, _ limit: Int = maximumMicroseconds, _ body: () -> Result) -> Result {
        let start = threadMicroseconds()
        let result = body()
        let spent = threadMicroseconds() - start
        require(spent <= limit, "Z1", "\(name) took \(spent) microseconds")
        return result
    }
}

/// Takes an input apart from its front; what is not there reads as zero.
struct InputReader {
    private(set) var rest: UnsafeRawBufferPointer

    init(_ bytes: UnsafeRawBufferPointer) { rest = bytes }

    mutating func byte() -> UInt8 {
        guard let first = rest.first else { return 0 }
        rest = UnsafeRawBufferPointer(rebasing: rest[1...])
        return first
    }

    /// Up to `count` bytes.
    mutating func bytes(_ count: Int) -> UnsafeRawBufferPointer {
        let taken = UnsafeRawBufferPointer(rebasing: rest.prefix(count))
        rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(count))
        return taken
    }
}

extension [UInt8] {
    /// A little-endian integer; the caller has checked that its bytes are there, and the array checks again.
    func integer<Integer: FixedWidthInteger>(_ offset: Int, as type: Integer.Type) -> Integer {
        var value: Integer = 0
        for index in (0..<MemoryLayout<Integer>.size).reversed() {
            value = value << 8 | Integer(truncatingIfNeeded: self[offset + index])
        }
        return value
    }

    mutating func store<Integer: FixedWidthInteger>(_ value: Integer, at offset: Int) {
        for index in 0..<MemoryLayout<Integer>.size {
            self[offset + index] = UInt8(truncatingIfNeeded: value >> Integer(index * 8))
        }
    }

    /// The checksum of a stretch.
    func hash(_ range: Range<Int>, seed: UInt64) -> UInt64 {
        withUnsafeBytes { Checksum.hash(UnsafeRawBufferPointer(rebasing: $0[range]), seed: seed) }
    }

    /// `withUnsafeBytes` for a body that throws the file layer's errors.
    func withBytes<StoredValue>(_ body: (UnsafeRawBufferPointer) throws(StoreError) -> StoredValue) throws(StoreError)
        -> StoredValue
    {
        let result = withUnsafeBytes { bytes in
            Result<StoredValue, StoreError> { () throws(StoreError) -> StoredValue in try body(bytes) }
        }
        return try result.get()
    }
}
