// The program of Tests/run ext4cut that uses a `Store`: it commits, cleans, compacts and makes backups until the power
// is cut, and later checks what is left.

import Annals
import Glibc
import TestSupport

/// `cut create STORE ACKFILE SEED`, `cut run STORE ACKFILE SEED`, `cut check STORE ACKFILE`.
///
/// Step N inserts entry N, removes entry N - 60, and sets the counter to N, in one transaction. So the counter says
/// which entries there are. What has succeeded is noted in the ackfile: `acked N` for a step, `cleaned NUMBER` for
/// history before that transaction, `backup NAME N` for a copy beside the store that has step N.
struct PowerCut {
    private let path: String
    private let acks: String
    private static let kept: Int64 = 60
    private static let entities = [
        EntityDescription("Counter", attributes: [AttributeDescription("value", .int, isOptional: false)]),
        EntityDescription(
            "Entry",
            attributes: [
                AttributeDescription("step", .int, isOptional: false, isIndexed: true),
                AttributeDescription("text", .string, isOptional: false),
            ]),
    ]

    init(_ path: String, acks: String) {
        self.path = path
        self.acks = acks
    }

    private static func open(_ path: String, creates: Bool = false) throws -> Store {
        var options = Store.Options()
        options.createsIfMissing = creates
        return try Store(at: path, entities: entities, options: options)
    }

    /// Some texts are long, and stand outside their rows.
    private static func text(_ step: Int64) -> String {
        "\(step)." + String(repeating: "x", count: step % 12 == 0 ? 70_000 + Int(step) % 977 : Int(step * 37 % 300))
    }

    // MARK: Writing

    func create() throws {
        let store = try Self.open(path, creates: true)
        try Lines(appendingTo: acks).add("acked 0")
        try store.close()
    }

    func run(seed: UInt64) throws {
        var random = SeededRandom(seed)
        let lines = try Lines(appendingTo: acks)
        let store = try Self.open(path)
        var step = try Self.step(of: try store.snapshot())
        var backups = 0
        while true {
            do {
                switch random.next(below: 40) {
                case 0:
                    let number = try store.snapshot().token.number
                    let first = number - min(number, random.next(below: 30))
                    try store.deleteHistory(before: first)
                    lines.add("cleaned \(first)")
                case 1: try store.compact()
                case 2:
                    // The copy before the last one makes room; the last one stays until the next is there.
                    let name = "backup\(backups % 2)"
                    unlink(Self.path(name, beside: path))
                    try store.backup(to: Self.path(name, beside: path))
                    lines.add("backup \(name) \(step)")
                    backups += 1
                default:
                    let durability: Durability = random.next(below: 3) == 0 ? .relaxed : .full
                    try Self.write(step + 1, store, durability)
                    step += 1
                    if durability == .full { lines.add("acked \(step)") }
                }
            } catch let error as StoreError where error.code == .noSpace {
                // A full disk is as good a moment for a power cut as any.
            }
        }
    }

    private static func path(_ name: String, beside store: String) -> String { "\(store).\(name)" }

    private static func write(_ step: Int64, _ store: Store, _ durability: Durability) throws {
        try store.writeOptimistically(author: "cut", durability: durability) { transaction in
            try transaction.insert("Entry", ["step": .int(step), "text": .string(text(step))])
            let snapshot = transaction.snapshot
            if let counter = try snapshot.rows(of: "Counter").first {
                try transaction.update(counter.id, ["value": .int(step)])
            } else {
                try transaction.insert("Counter", ["value": .int(step)])
            }
            for entry in try snapshot.rows(of: "Entry") where entry["step"] == .int(step - kept) {
                try transaction.delete(entry.id)
            }
        }
    }

    // MARK: Checking

    private static func step(of snapshot: Snapshot) throws -> Int64 {
        guard let counter = try snapshot.rows(of: "Counter").first else { return 0 }
        guard case .int(let value)? = counter["value"] else { throw Wrong("the counter has no value") }
        return value
    }

    /// Compares all entries with what the counter says. Returns it.
    private static func check(_ store: Store) throws -> Int64 {
        let snapshot = try store.snapshot()
        let last = try step(of: snapshot)
        var expected = Set(max(1, last - kept + 1)..<last + 1)
        for entry in try snapshot.rows(of: "Entry") {
            guard case .int(let step)? = entry["step"], expected.remove(step) != nil else {
                throw Wrong("an entry is there twice, or should not be: \(entry.id) beside counter \(last)")
            }
            guard entry["text"] == .string(text(step)) else { throw Wrong("entry \(step) has another text") }
        }
        guard expected.isEmpty else { throw Wrong("entries \(expected.sorted()) are missing beside counter \(last)") }
        return last
    }

    func check() throws {
        let lines = Lines.words(in: acks)
        let acknowledged = lines.compactMap { $0.first == "acked" ? Int64($0[1]) : nil }.max()
        let store: Store
        do {
            store = try Self.open(path)
        } catch let error as StoreError where error.code == .notFound {
            if acknowledged != nil { throw Wrong("the store is gone, and was acknowledged") }
            return
        }
        let found = try Self.check(store)
        if let acknowledged, found < acknowledged {
            throw Wrong("step \(found) is left, \(acknowledged) was acknowledged")
        }
        if let cleaned = lines.compactMap({ $0.first == "cleaned" ? UInt64($0[1]) : nil }).max() {
            let oldest = try store.oldestToken.number
            guard oldest + 1 >= cleaned else {
                throw Wrong("history begins after \(oldest), and was cleaned before \(cleaned)")
            }
        }
        if let backup = lines.last(where: { $0.first == "backup" }), let step = Int64(backup[2]) {
            let copy = try Self.open(Self.path(String(backup[1]), beside: path))
            guard try Self.check(copy) == step else { throw Wrong("the backup is not of step \(step)") }
            try copy.close()
        }
        // A store that was cut goes on.
        try Self.write(found + 1, store, .full)
        try store.compact()
        guard try Self.check(store) == found + 1 else { throw Wrong("a commit on top is not right") }
        try store.close()
    }
}
