// The tables of consumer, cleaning and replacing frames (FileFormat.md, "Consumers, cleaning, replacing").

package enum ConsumerField {
    package static let cursor = 0
    package static let tag = 8
    package static let lastSeen = 16
    package static let registered = 24
    package static let processID = 32
    package static let kind = 36
    package static let nameBytes = 38
    package static let bytes = 40
}

/// The way in which a consumer uses the store.
public struct ConsumerKind: OptionSet, Hashable, Sendable, Codable {
    public let rawValue: Int
    public init(rawValue: Int) { self.rawValue = rawValue }

    /// It reads history: cleaning waits until it has.
    public static let reads = ConsumerKind(rawValue: 1)
    /// It writes. This is for information only; nothing waits for it.
    public static let writes = ConsumerKind(rawValue: 2)
    /// It holds history: nothing removes transactions after its cursor, however old or large history is.
    public static let holds = ConsumerKind(rawValue: 4)
    static let all: ConsumerKind = [.reads, .writes, .holds]
}

/// A reader of history, and its place.
package struct ConsumerRecord: Hashable, Sendable {
    package var name: String
    /// Empty if the consumer was removed: then everything but the name is 0.
    package var kind: ConsumerKind
    /// The last transaction that it has seen, and its tag.
    package var cursor: UInt64
    package var tag: UInt64
    /// Microseconds since 1970.
    package var lastSeen: Int64
    package var registered: Int64
    package var processID: UInt32

    package init(
        name: String, kind: ConsumerKind, cursor: UInt64, tag: UInt64, lastSeen: Int64, registered: Int64,
        processID: UInt32
    ) {
        (self.name, self.kind, self.cursor, self.tag) = (name, kind, cursor, tag)
        (self.lastSeen, self.registered, self.processID) = (lastSeen, registered, processID)
    }

    /// A frame of one has at most this size.
    static let maximumFrameBytes = FrameField.bytes + (ConsumerField.bytes + FormatLimits.maximumNameBytes).paddedTo8

    /// The record that removes a consumer.
    package static func removal(of name: String) -> ConsumerRecord {
        ConsumerRecord(name: name, kind: [], cursor: 0, tag: 0, lastSeen: 0, registered: 0, processID: 0)
    }

    package func encoded() -> [UInt8] {
        var table: [UInt8] = []
        table.append(integer: cursor)
        table.append(integer: tag)
        table.append(integer: lastSeen)
        table.append(integer: registered)
        table.append(integer: processID)
        table.append(integer: UInt16(kind.rawValue))
        table.append(integer: UInt16(name.utf8.count))
        table.append(contentsOf: name.utf8)
        table.append(contentsOf: repeatElement(0, count: table.count.paddedTo8 - table.count))
        assert(table.count == (ConsumerField.bytes + name.utf8.count).paddedTo8, "A consumer's table has another size.")
        return table
    }

    package static func decode(_ frame: FrameView) throws(StoreError) -> ConsumerRecord {
        do throws(StoreError) {
            if frame.body.isEmpty, let record = try decode(frame.table) { return record }
        } catch {
            throw error.at(offset: frame.offset)
        }
        throw StoreError(.damaged, "F26: a consumer frame has the wrong form.", offset: frame.offset)
    }

    /// Nil for another form. Throws `unsupportedVersion` for a kind of a later format.
    static func decode(_ table: UnsafeRawBufferPointer) throws(StoreError) -> ConsumerRecord? {
        guard table.count > ConsumerField.bytes else { return nil }
        let bytes = Int(table.integer(at: ConsumerField.nameBytes, as: UInt16.self))
        let kind = ConsumerKind(rawValue: Int(table.integer(at: ConsumerField.kind, as: UInt16.self)))
        guard ConsumerKind.all.isSuperset(of: kind) else {
            throw .newer("F26", "a consumer is of kind \(kind.rawValue)")
        }
        guard bytes > 0, bytes <= FormatLimits.maximumNameBytes,
            table.count == (ConsumerField.bytes + bytes).paddedTo8,
            table[(ConsumerField.bytes + bytes)...].allSatisfy({ $0 == 0 }),
            let name = table.slice(ConsumerField.bytes, bytes).text
        else { return nil }
        let record = ConsumerRecord(
            name: name, kind: kind, cursor: table.integer(at: ConsumerField.cursor, as: UInt64.self),
            tag: table.integer(at: ConsumerField.tag, as: UInt64.self),
            lastSeen: table.integer(at: ConsumerField.lastSeen, as: Int64.self),
            registered: table.integer(at: ConsumerField.registered, as: Int64.self),
            processID: table.integer(at: ConsumerField.processID, as: UInt32.self))
        return kind.isEmpty && record != .removal(of: name) ? nil : record
    }
}

package enum CleaningField {
    package static let before = 0
    package static let time = 8
    package static let authors = 16
    package static let zero = 20
    package static let bytes = 24
}

package enum HiddenField {
    package static let author = 0
    package static let zero = 4
    package static let before = 8
    package static let bytes = 16
}

/// The transactions that history no longer returns.
package struct CleaningRecord: Hashable, Sendable {
    /// The hidden transactions of one author.
    package struct Hidden: Hashable, Sendable {
        /// Name number, 0 for transactions without an author.
        package var author: UInt32
        /// Transactions with smaller numbers are hidden.
        package var before: UInt64

        package init(author: UInt32, before: UInt64) { (self.author, self.before) = (author, before) }
    }

    /// All transactions with smaller numbers are gone; 0 for none.
    package var before: UInt64
    /// Microseconds since 1970.
    package var time: Int64
    /// By ascending author, each at most once.
    package var hidden: [Hidden]

    package init(before: UInt64, time: Int64, hidden: [Hidden] = []) {
        (self.before, self.time, self.hidden) = (before, time, hidden)
    }

    package func encoded() -> [UInt8] {
        var table: [UInt8] = []
        table.append(integer: before)
        table.append(integer: time)
        table.append(integer: UInt32(hidden.count))
        table.append(integer: UInt32(0))
        for entry in hidden {
            table.append(integer: entry.author)
            table.append(integer: UInt32(0))
            table.append(integer: entry.before)
        }
        assert(
            table.count == CleaningField.bytes + hidden.count * HiddenField.bytes,
            "A cleaning's table has another size.")
        return table
    }

    package static func decode(_ frame: FrameView) throws(StoreError) -> CleaningRecord {
        let table = frame.table
        let malformed = StoreError(.damaged, "F26: a cleaning frame has the wrong form.", offset: frame.offset)
        let newer = StoreError.newer("F26", "a reserved field of a cleaning frame is in use", offset: frame.offset)
        guard frame.body.isEmpty, table.count >= CleaningField.bytes else { throw malformed }
        guard table.integer(at: CleaningField.zero, as: UInt32.self) == 0 else { throw newer }
        let count = Int(table.integer(at: CleaningField.authors, as: UInt32.self))
        guard table.count == CleaningField.bytes + count * HiddenField.bytes else { throw malformed }
        var record = CleaningRecord(
            before: table.integer(at: CleaningField.before, as: UInt64.self),
            time: table.integer(at: CleaningField.time, as: Int64.self))
        for index in 0..<count {
            let start = CleaningField.bytes + index * HiddenField.bytes
            let author = table.integer(at: start + HiddenField.author, as: UInt32.self)
            guard table.integer(at: start + HiddenField.zero, as: UInt32.self) == 0 else { throw newer }
            guard record.hidden.last.map({ author > $0.author }) ?? true else { throw malformed }
            let before = table.integer(at: start + HiddenField.before, as: UInt64.self)
            record.hidden.append(Hidden(author: author, before: before))
        }
        return record
    }
}

/// History beyond these limits is removed automatically, even if consumers have not read it.
package struct RetentionLimits: Hashable, Sendable {
    /// The largest number for no limit.
    package var microseconds: UInt64
    /// The bytes that compaction would free; the largest number for no limit.
    package var bytes: UInt64

    package init(microseconds: UInt64, bytes: UInt64) { (self.microseconds, self.bytes) = (microseconds, bytes) }

    /// The default: 7 days, 1 GiB.
    package static let standard = RetentionLimits(microseconds: 7 * 24 * 3600 * 1_000_000, bytes: 1 << 30)
}

package enum ReplacingField {
    package static let generation = 0
    package static let salt = 8
    package static let time = 16
    package static let bytes = 24
}

/// The file that is about to take this one's place.
package struct ReplacingRecord: Hashable, Sendable {
    package var generation: UInt64
    package var salt: UInt64
    /// Microseconds since 1970.
    package var time: Int64

    package init(generation: UInt64, salt: UInt64, time: Int64) {
        (self.generation, self.salt, self.time) = (generation, salt, time)
    }

    package func encoded() -> [UInt8] {
        var table: [UInt8] = []
        table.append(integer: generation)
        table.append(integer: salt)
        table.append(integer: time)
        assert(table.count == ReplacingField.bytes, "The table of a replacing frame has another size.")
        return table
    }

    package static func decode(_ frame: FrameView) throws(StoreError) -> ReplacingRecord {
        guard frame.table.count == ReplacingField.bytes, frame.body.isEmpty else {
            throw StoreError(.damaged, "F26: a replacing frame has the wrong form.", offset: frame.offset)
        }
        return ReplacingRecord(
            generation: frame.table.integer(at: ReplacingField.generation, as: UInt64.self),
            salt: frame.table.integer(at: ReplacingField.salt, as: UInt64.self),
            time: frame.table.integer(at: ReplacingField.time, as: Int64.self))
    }
}
