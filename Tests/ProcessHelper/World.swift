// What the processes of Tests/run processes write, and what must be there afterwards.
//
// Tally: a row for each consumer says how many transactions of writers it has read.
// Accounts: transactions move amounts between them, so their sum stays. One counter, which `store.write` increments.
// Notes: each belongs to one writer, which logs what it is about to do to its notes and afterwards that it was done; so
// the log says what the notes must be.

import Annals

enum World {
    static let accounts: UInt64 = 40
    static let consumers: UInt64 = 2
    static let balance: Int64 = 1000

    static let entities = [
        EntityDescription("Account", attributes: [AttributeDescription("balance", .int, isOptional: false)]),
        EntityDescription("Counter", attributes: [AttributeDescription("value", .int, isOptional: false)]),
        EntityDescription("Tally", attributes: [AttributeDescription("read", .int, isOptional: false)]),
        EntityDescription(
            "Note",
            attributes: [
                AttributeDescription("writer", .int, isOptional: false, isIndexed: true),
                AttributeDescription("sequence", .int, isOptional: false),
                AttributeDescription("text", .string, isOptional: false),
            ], keys: [IndexDescription(["writer", "sequence"], isUnique: true)]),
    ]

    static func make(_ path: String) throws {
        let store = try Store(at: path, entities: entities)
        try store.writeOptimistically(author: "make") { transaction in
            for _ in 0..<accounts { try transaction.insert("Account", ["balance": .int(balance)]) }
            try transaction.insert("Counter", ["value": .int(0)])
            for _ in 0..<consumers { try transaction.insert("Tally", ["read": .int(0)]) }
        }
        for number in 1...consumers { try store.registerConsumer("consumer \(number)") }
        try store.close()
    }

    /// The text of a note of this writer that transaction `version` of that writer has set. Some are long, and stand
    /// outside their rows.
    static func text(_ writer: Int, _ sequence: Int, _ version: Int) -> String {
        let length = version % 50 == 0 ? 20_000 + version % 977 : version &* 37 % 300
        return "\(writer).\(sequence).\(version)." + String(repeating: "x", count: length)
    }

    static func open(
        _ path: String, access: Store.Access = .readWrite, reading: Store.Reading = .mapped
    ) throws -> Store {
        var options = Store.Options()
        options.reading = reading
        options.createsIfMissing = false
        options.access = access
        return try Store(at: path, options: options)
    }

    /// The notes of a writer: sequence to object and text.
    static func notes(of writer: Int, in snapshot: Snapshot) throws -> [Int: (object: ObjectID, text: String)] {
        let notes = try snapshot.entity("Note")
        var found: [Int: (object: ObjectID, text: String)] = [:]
        try snapshot.forEachRow(of: notes) { (row) throws(StoreError) in
            if row.int(at: 0) == Int64(writer), let sequence = row.int(at: 1), let text = try row.string(at: 2) {
                found[Int(sequence)] = (row.id, text)
            }
            return true
        }
        return found
    }

    static func counter(in snapshot: Snapshot) throws -> Int64 {
        guard case .int(let value)? = try snapshot.rows(of: "Counter").first?["value"] else {
            throw Wrong("there is no counter")
        }
        return value
    }
}

/// What a writer's log says.
struct WriterLog {
    /// A transaction as it is announced: it inserts the note of its own number.
    struct Plan {
        var sequence: Int
        var updates: Int?
        var deletes: Int?
        var counts = false

        var line: String {
            "b \(sequence)" + (updates.map { " u\($0)" } ?? "") + (deletes.map { " d\($0)" } ?? "")
                + (counts ? " c" : "")
        }

        init(_ sequence: Int) { self.sequence = sequence }

        init?(_ words: [Substring]) {
            guard words.count > 1, words[0] == "b", let sequence = Int(words[1]) else { return nil }
            self.sequence = sequence
            for word in words.dropFirst(2) {
                switch word.first {
                case "u": updates = Int(word.dropFirst())
                case "d": deletes = Int(word.dropFirst())
                default: counts = true
                }
            }
        }
    }

    private(set) var lastSequence = 0
    /// Sequence to the transaction that has set the text.
    private(set) var notes: [Int: Int] = [:]
    private(set) var counted: Int64 = 0
    private(set) var acknowledged = 0
    /// Announced, and not known whether it was done.
    private(set) var open: Plan?

    init(_ path: String) throws {
        for words in Lines.words(in: path) {
            if let plan = Plan(words) {
                guard open == nil else { throw Wrong("\(path): transaction \(plan.sequence) follows one that is open") }
                open = plan
                lastSequence = plan.sequence
            } else if let plan = open, words.count > 1, Int(words[1]) == plan.sequence {
                close(plan, isDone: words[0] == "a" || (words[0] == "r" && words.last == "in"))
            }
        }
    }

    mutating func begin(_ plan: Plan) {
        open = plan
        lastSequence = plan.sequence
    }

    mutating func close(_ plan: Plan, isDone: Bool) {
        open = nil
        guard isDone else { return }
        acknowledged += 1
        notes[plan.sequence] = plan.sequence
        if let updated = plan.updates { notes[updated] = plan.sequence }
        if let deleted = plan.deletes { notes[deleted] = nil }
        if plan.counts { counted += 1 }
    }

    /// Throws if the notes are not those that the log tells. The transaction that is open may be there, but only
    /// whole.
    func compare(_ found: [Int: (object: ObjectID, text: String)], writer: Int) throws {
        for (sequence, version) in notes {
            guard let note = found[sequence] else {
                throw Wrong("writer \(writer): note \(sequence) of transaction \(version) is not there")
            }
            guard note.text == World.text(writer, sequence, version) else {
                throw Wrong(
                    "writer \(writer): note \(sequence) is not as transaction \(version) has left it: "
                        + "\(note.text.prefix(40))"
                )
            }
        }
        guard found.count == notes.count else {
            let more = found.keys.filter { notes[$0] == nil }.sorted()
            throw Wrong("writer \(writer): notes \(more) are there that must not be")
        }
    }

    /// Closes what is open by what is there, and compares. Returns the sequence and whether it is in.
    mutating func resolve(
        _ found: [Int: (object: ObjectID, text: String)], writer: Int
    ) throws -> (sequence: Int, isIn: Bool)? {
        var resolved: (sequence: Int, isIn: Bool)?
        if let plan = open {
            resolved = (plan.sequence, found[plan.sequence] != nil)
            close(plan, isDone: found[plan.sequence] != nil)
        }
        try compare(found, writer: writer)
        return resolved
    }
}

/// `check STORE WRITERLOG...`: the rows are what the logs of all writers say; the last name of a log is its writer's
/// number.
struct WorldCheck {
    private let path: String
    private let logs: [String]

    init(_ path: String, logs: [String]) {
        self.path = path
        self.logs = logs
    }

    func run() throws {
        let store = try World.open(path, access: .readOnly)
        let snapshot = try store.snapshot()
        var counted: Int64 = 0
        var acknowledged = 0
        for path in logs {
            guard let writer = path.split(separator: ".").last.flatMap({ Int($0) }) else {
                throw Wrong("\(path) does not end in a writer's number")
            }
            var log = try WriterLog(path)
            if let (sequence, isIn) = try log.resolve(try World.notes(of: writer, in: snapshot), writer: writer) {
                try Lines(appendingTo: path).add("r \(sequence) \(isIn ? "in" : "out")")
            }
            counted += log.counted
            acknowledged += log.acknowledged
        }
        let value = try World.counter(in: snapshot)
        guard value == counted else { throw Wrong("the counter says \(value), and was incremented \(counted) times") }
        try WorldReader.checkSum(snapshot)
        let consumers = try (1...World.consumers).map { number in
            guard let cursor = try store.consumer("consumer \(number)")?.cursor,
                case .int(let read)? = try snapshot.rows(of: "Tally").first(where: { $0.id.number == number })?["read"]
            else { throw Wrong("consumer \(number) is not there") }
            return "[\(cursor.number),\(read)]"
        }
        Lines.write(
            "{\"acknowledged\":\(acknowledged),\"counter\":\(value),\"number\":\(snapshot.token.number),"
                + "\"consumers\":[\(consumers.joined(separator: ","))]}\n", to: 1)
    }
}
