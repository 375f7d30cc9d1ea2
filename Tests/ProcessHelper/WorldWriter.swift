// A process that commits until it is killed, and logs before and after.

import Annals
import Glibc
import TestSupport

/// `writer STORE LOG NUMBER SEED`: first compares what is there with what its log says, then commits.
final class WorldWriter {
    private let path: String
    private let number: Int
    private let lines: Lines
    private var log: WriterLog
    private var random: SeededRandom
    private var objects: [Int: ObjectID] = [:]
    private static let maximumNotes = 150

    init(_ path: String, log: String, number: Int, seed: UInt64) throws {
        self.path = path
        self.number = number
        random = SeededRandom(seed)
        self.log = try WriterLog(log)
        lines = try Lines(appendingTo: log)
    }

    func run() throws {
        // What stands after the last whole line was not said.
        if log.open == nil { lines.add("") }
        let store = try World.open(path)
        let snapshot = try store.snapshot()
        let found = try World.notes(of: number, in: snapshot)
        if let (sequence, isIn) = try log.resolve(found, writer: number) {
            lines.add("")
            lines.add("r \(sequence) \(isIn ? "in" : "out")")
        }
        objects = found.mapValues(\.object)
        while true {
            try commit(store)
            usleep(UInt32(random.next(below: 1500)))
        }
    }

    private func commit(_ store: Store) throws {
        let plan = makePlan()
        log.begin(plan)
        lines.add(plan.line)
        let durability: Durability = random.next(below: 4) == 0 ? .full : .relaxed
        let accounts = (1 + random.next(below: World.accounts), 1 + random.next(below: World.accounts))
        let amount = Int64(1 + random.next(below: 9))
        var inserted: ObjectID?
        let body = { [self] (transaction: Transaction) in inserted = try write(plan, accounts, amount, transaction) }
        let file = fileNumber
        let began = Clock.microseconds
        do {
            let author = "writer \(number)"
            let token =
                plan.counts
                ? try store.write(author: author, contextName: "\(plan.sequence)", durability: durability, body).token
                : try store.writeOptimistically(
                    author: author, contextName: "\(plan.sequence)", durability: durability, body
                ).token
            guard let token else { throw Wrong("a transaction was not written") }
            let took = Clock.microseconds - began
            lines.add("a \(plan.sequence) \(token.number) \(began) \(took) \(durability) \(moved(from: file))")
            log.close(plan, isDone: true)
            objects[plan.sequence] = inserted
            if let deleted = plan.deletes { objects[deleted] = nil }
        } catch let error as StoreError where error.code == .busy {
            let took = Clock.microseconds - began
            lines.add("n \(plan.sequence) busy \(began) \(took) \(durability) \(moved(from: file))")
            log.close(plan, isDone: false)
        }
    }

    /// Which file has the store's name.
    private var fileNumber: UInt64 {
        var status = stat()
        return stat(path, &status) == 0 ? UInt64(status.st_ino) : 0
    }

    /// Whether a compaction has ended since the store's file was that one.
    private func moved(from file: UInt64) -> String { fileNumber == file ? "same" : "compacted" }

    private func makePlan() -> WriterLog.Plan {
        var plan = WriterLog.Plan(log.lastSequence + 1)
        plan.counts = random.next(below: 4) == 0
        let notes = log.notes.keys.sorted()
        guard notes.count > 4 else { return plan }
        if random.next(below: 2) == 0 { plan.updates = notes[Int(random.next(below: UInt64(notes.count)))] }
        if notes.count > Self.maximumNotes || random.next(below: 4) == 0 {
            let deleted = notes[Int(random.next(below: UInt64(notes.count)))]
            if deleted != plan.updates { plan.deletes = deleted }
        }
        return plan
    }

    private func write(
        _ plan: WriterLog.Plan, _ accounts: (UInt64, UInt64), _ amount: Int64, _ transaction: Transaction
    ) throws -> ObjectID {
        let inserted = try transaction.insert(
            "Note",
            [
                "writer": .int(Int64(number)), "sequence": .int(Int64(plan.sequence)),
                "text": .string(World.text(number, plan.sequence, plan.sequence)),
            ])
        if let updated = plan.updates, let object = objects[updated] {
            try transaction.update(object, ["text": .string(World.text(number, updated, plan.sequence))])
        }
        if let deleted = plan.deletes, let object = objects[deleted] { try transaction.delete(object) }
        if accounts.0 != accounts.1 {
            let entity = try transaction.entity("Account").number
            try add(-amount, to: ObjectID(entityNumber: entity, number: accounts.0), "balance", transaction)
            try add(amount, to: ObjectID(entityNumber: entity, number: accounts.1), "balance", transaction)
        }
        if plan.counts {
            let entity = try transaction.entity("Counter").number
            try add(1, to: ObjectID(entityNumber: entity, number: 1), "value", transaction)
        }
        return inserted
    }

    private func add(_ amount: Int64, to object: ObjectID?, _ attribute: String, _ transaction: Transaction) throws {
        guard let object, case .int(let value)? = try transaction.row(object)?[attribute] else {
            throw Wrong("an object is not there")
        }
        try transaction.update(object, [attribute: .int(value + amount)])
    }
}
