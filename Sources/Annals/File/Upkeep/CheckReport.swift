// The result of checking a whole store file.

package struct CheckOptions: Sendable {
    /// The directory for sorting the records of a large file: on a disk with space, not the store's own.
    package var spillDirectory = "/tmp"
    /// Memory for sorting, for all sorters together.
    package var sortingBytes = 96 << 20
    /// The file is read in steps of this.
    package var windowBytes = 1 << 20
    /// The number of findings that are kept; further ones are only counted.
    package var maximumFindings = 100

    package init() {}
}

/// A place in a file that breaks a rule of FileFormat.md.
package struct Finding: Equatable, Sendable {
    /// The invariant that it breaks, "F1" to "F37".
    package var rule: String
    package var offset: UInt64
    /// A sentence without content of rows.
    package var sentence: String
    /// Otherwise it is a notice: something that a crash may leave in the file.
    package var isDamage: Bool
}

/// The numbers of items that count in a file.
package struct CheckCounts: Equatable, Sendable {
    package var frames: UInt64 = 0
    package var transactions: UInt64 = 0
    package var changes: UInt64 = 0
    package var rows: UInt64 = 0
    /// Values that are present in rows.
    package var values: UInt64 = 0
    package var largeValues: UInt64 = 0
    /// Bytes of frames, by the number of their kind.
    package var frameBytes = [UInt64](repeating: 0, count: FrameKind.allCases.count + 1)

    package init() {}

    package func bytes(of kind: FrameKind) -> UInt64 { frameBytes[Int(kind.rawValue)] }

    mutating func add(_ other: CheckCounts) {
        frames += other.frames
        transactions += other.transactions
        changes += other.changes
        rows += other.rows
        values += other.values
        largeValues += other.largeValues
        for index in frameBytes.indices { frameBytes[index] += other.frameBytes[index] }
    }
}

package struct CheckReport: Equatable, Sendable {
    package struct TornTail: Equatable, Sendable {
        package var offset: UInt64
        /// The number of bytes from there to the file's end.
        package var bytes: UInt64

        package init(offset: UInt64, bytes: UInt64) {
            self.offset = offset
            self.bytes = bytes
        }
    }

    /// Nil if the header page is not one.
    package var header: FileHeader?
    /// The end of the groups that count, as far as the file could be read.
    package var end: UInt64 = 0
    package var fileBytes: UInt64 = 0
    package var lastNumber: UInt64 = 0
    package var schemaVersion: UInt16 = 0
    package var isSealed = false
    /// An unfinished write: a normal outcome of a crash.
    package var tornTail: TornTail?
    package var counts = CheckCounts()
    package var findings: [Finding] = []
    /// The number of findings beyond those that are kept.
    package var omittedFindings = 0
    /// The offset at which the chain of frames is broken, or continues in a way that this program does not know:
    /// nothing above was checked.
    package var stoppedAt: UInt64?
    package var hasDamage = false

    /// Whether everything was read and nothing is damaged. A torn tail is not damage.
    package var isIntact: Bool { !hasDamage && stoppedAt == nil }

    package init() {}
}

/// Findings up to a limit, and the number of further ones.
struct FindingList {
    private(set) var kept: [Finding] = []
    private(set) var omitted = 0
    private(set) var hasDamage = false
    let maximum: Int

    init(maximum: Int) { self.maximum = maximum }

    mutating func add(_ rule: String, at offset: UInt64, _ sentence: String, isDamage: Bool = true) {
        hasDamage = hasDamage || isDamage
        if kept.count < maximum {
            kept.append(Finding(rule: rule, offset: offset, sentence: sentence, isDamage: isDamage))
        } else {
            omitted += 1
        }
    }

    /// Notes an error in the content. Its rule is the one at the beginning of its message, or `rule` if that has none.
    mutating func add(_ error: StoreError, rule: String, isDamage: Bool = true) {
        let name = error.rule ?? rule
        let sentence = error.rule.map { error.message.dropFirst($0.utf8.count + 2) } ?? error.message[...]
        add(name, at: error.offset ?? 0, sentence.prefix(1).uppercased() + sentence.dropFirst(), isDamage: isDamage)
    }
}
