// The store of an interleaving, what transactions make of its rows, and what was promised about them.

import Annals
import SimulatedDisk

/// Something that must not be, said in a sentence.
struct InterleavingFailure: Error, CustomStringConvertible {
    var description: String
    init(_ description: String) { self.description = description }
}

/// The store that every scenario begins with, and what each transaction does to its rows.
///
/// A transaction is known by its author: it inserts a note with that title, deletes the note “old” of that author, and
/// adds one to the counter, which it reads. So the rows tell which transactions are in them, and whether one was
/// overlooked.
struct InterleavedStore: Sendable {
    /// What the file is like before anybody begins.
    enum Beginning: Sendable {
        /// Closed, with all of it durable.
        case sealed
        /// After the sealed part: a relaxed commit of “D1”, and the beginning of another one, whose writer has died.
        /// None of it is durable.
        case torn
    }

    static let authors = ["A1", "A2", "B1", "B2", "C1", "D1", "D2"]

    /// The last transaction of the sealed part, and the first that history returns.
    let number: UInt64
    let firstNumber: UInt64
    /// Of every transaction of the sealed part that history returns.
    let tags: [UInt64: UInt64]
    private let bytes: [UInt8]
    private let objects: [String: ObjectID]
    let rows: [String: Int64]

    static func options(isMapped: Bool = true, keepsLock: Bool = false) -> EngineOptions {
        var options = EngineOptions.lowered
        options.log.synchronizesInBackground = false
        // Nobody gives up waiting for a writer.
        options.log.lockTimeoutMicroseconds = 1 << 45
        options.log.releasesLockByHand = keepsLock
        options.log.limits.lockKeeping = .always
        options.log.limits.windowBytes = 64 << 10
        options.log.limits.mappingReserveBytes = isMapped ? 1 << 20 : 0
        return options
    }

    init() throws {
        let disk = SimulatedDisk()
        let environment = SimulatedEnvironment(seed: 7, name: "tests")
        let engine = try Engine.create(
            Machine.path, options: Self.options(), files: disk.process(1), environment: environment)
        _ = try engine.commit { try $0.changeSchema([EngineNote.definition]) }
        var rows = ["counter": Int64(0), "large": 7]
        for (index, author) in Self.authors.enumerated() { rows["old \(author)"] = Int64(index * 3 % 5) }
        let titles = rows.keys.sorted()
        let (ids, _) = try engine.commit(author: "base") { [rows] transaction in
            try titles.map { title in
                var row = EngineNote.row(title, rows[title])
                // Longer than a row may be: it stands in frames of its own.
                if title == "large" { row[EngineNote.body] = .data([UInt8](repeating: 9, count: 1500)) }
                return try transaction.insert(entity: EngineNote.entity, row)
            }
        }
        objects = Dictionary(uniqueKeysWithValues: zip(titles, ids))
        for rank in 1...3 {
            guard let large = objects["large"] else { break }
            _ = try engine.commit(author: "base") { try $0.update(large, [(EngineNote.rank, .int(Int64(rank)))]) }
        }
        rows["large"] = 3
        self.rows = rows
        _ = try engine.deleteHistory(before: 3)
        let view = try engine.view()
        number = view.number
        firstNumber = engine.tracking.horizon + 1
        var tags: [UInt64: UInt64] = [:]
        try engine.tracked(view).forEachTransaction(after: firstNumber - 1) { (transaction) in
            tags[transaction.number] = transaction.tag
            return true
        }
        self.tags = tags
        try engine.close()
        bytes = disk.contents(of: Machine.path) ?? []
    }

    /// A machine with the store on it.
    func makeDisk(_ beginning: Beginning, _ journal: Journal) throws -> SimulatedDisk {
        var configuration = SimulatedDiskConfiguration()
        configuration.regionBytes = 1 << 20
        let disk = SimulatedDisk(configuration)
        disk.install(bytes, at: Machine.path)
        guard case .torn = beginning else { return disk }
        let store = StoreHandle(
            try Engine.open(
                Machine.path, options: Self.options(), files: disk.process(9),
                environment: SimulatedEnvironment(seed: 9, process: 9, name: "dead")))
        try commit("D1", .relaxed, store, journal)
        disk.addFault(Fault(.death(afterBytes: 200), on: .write, process: 9))
        try? commit("D2", .relaxed, store, journal)
        disk.removeAllFaults()
        disk.kill(9)
        return disk
    }

    // MARK: Transactions

    private func object(_ title: String) throws -> ObjectID {
        guard let object = objects[title] else { throw InterleavingFailure("there is no object “\(title)”") }
        return object
    }

    private func rank(of author: String) -> Int64 { Int64(100 + (Self.authors.firstIndex(of: author) ?? 0)) }

    func commit(_ author: String, _ durability: Durability, _ store: StoreHandle, _ journal: Journal) throws {
        let (counter, old) = (try object("counter"), try object("old \(author)"))
        journal.attempted.insert(author)
        let (_, appended) = try store.commit(author: author, durability: durability) { transaction in
            var count: Int64 = -1
            _ = try transaction.withRow(counter) { (row) in count = row.int(at: EngineNote.rank) ?? -1 }
            _ = try transaction.update(counter, [(EngineNote.rank, .int(count + 1))])
            try transaction.delete(old)
            _ = try transaction.insert(entity: EngineNote.entity, EngineNote.row(author, rank(of: author)))
        }
        guard let appended else { throw InterleavingFailure("\(author) was not appended") }
        try journal.acknowledge(author, appended, durability)
    }

    /// The rows after these transactions, in whatever order.
    func rows(after authors: [String]) -> [String: Int64] {
        var rows = rows
        for author in authors {
            rows["old \(author)"] = nil
            rows[author] = rank(of: author)
            rows["counter", default: 0] += 1
        }
        return rows
    }

    // MARK: Looking at it

    /// Throws if a view is not a state that can be: whole transactions, one after the other, with the rows, indexes
    /// and tags that they make, and among them all that were acknowledged up to `known`. Returns whose they are.
    @discardableResult
    func check(_ view: View, _ engine: Engine, _ journal: Journal, known: UInt64) throws -> [String] {
        var authors: [String] = []
        var next = number
        var tag = tags[number]
        var areTagsKept = true
        try engine.tracked(view).forEachTransaction(after: number) { (transaction) in
            next += 1
            tag = transaction.tag
            if let known = journal.tags[next], known != transaction.tag { areTagsKept = false }
            authors.append(transaction.author ?? "nobody")
            return transaction.number == next
        }
        guard view.number == number + UInt64(authors.count), tag == view.tag, areTagsKept else {
            throw InterleavingFailure("the transactions of \(view.number) are not one behind the other: \(authors)")
        }
        guard Set(authors).count == authors.count, journal.attempted.isSuperset(of: authors) else {
            throw InterleavingFailure("there are transactions twice, or that nobody made: \(authors)")
        }
        try check(authors, journal, known: known)
        try check(view, rows: rows(after: authors))
        return authors
    }

    /// Throws if one that was acknowledged up to `known` is not there, or another one in the place of one that was.
    func check(_ authors: [String], _ journal: Journal, known: UInt64) throws {
        for (number, author) in journal.acknowledged {
            let index = Int(number - self.number) - 1
            if index >= authors.count, number > known { continue }
            guard index < authors.count, authors[index] == author else {
                throw InterleavingFailure("\(author) was acknowledged as \(number), and there is \(authors)")
            }
        }
    }

    private func check(_ view: View, rows: [String: Int64]) throws {
        var found: [String: Int64] = [:]
        var titles: [UInt64: String] = [:]
        try view.scan(entity: EngineNote.entity) { (object, row) throws(StoreError) in
            if case .string(let title) = try row.value(at: EngineNote.title) {
                found[title] = row.int(at: EngineNote.rank)
                titles[object.number] = title
            }
            return true
        }
        guard found == rows else {
            throw InterleavingFailure("the rows of \(view.number) are \(found), and not \(rows)")
        }
        let byRank = try view.byRank()
        let ranks = byRank.map { rows[titles[$0.number] ?? ""] ?? -1 }
        guard Set(byRank).count == rows.count, ranks.count == rows.count, ranks == ranks.sorted(),
            try view.count(entity: EngineNote.entity) == UInt64(rows.count)
        else { throw InterleavingFailure("the index of \(view.number) is not that of its rows") }
        for (number, title) in titles {
            var key = ByteWriter(capacity: 32)
            try IndexKey.append(values: [.string(title)], types: [.string], to: &key)
            guard try view.first(EngineNote.titleIndex, key: Array(key.bytes))?.number == number else {
                throw InterleavingFailure("“\(title)” is not found by its title")
            }
        }
    }

    /// Throws if the file breaks a rule of the format, or something is left beside it. A hint is never synchronised:
    /// a power cut may tear it.
    static func checkFile(_ disk: SimulatedDisk) throws {
        let report = try AnnalsFileTests.check(disk)
        guard report.isIntact || !report.findings.contains(where: { $0.isDamage && $0.rule != "F3" }),
            report.stoppedAt == nil
        else { throw InterleavingFailure("the checker found \(report.findings)") }
        guard disk.names(in: "/data") == ["s.annals"] else {
            throw InterleavingFailure("beside the store there is \(disk.names(in: "/data"))")
        }
    }
}

/// What was attempted and what was promised. Sound although it is shared: only who has the baton touches it, and a test
/// only when both have ended.
final class Journal: @unchecked Sendable {
    var attempted: Set<String> = []
    /// Whether a process dies by the schedule: then others may wait for it in vain.
    var hasDeath = false
    private(set) var acknowledged: [UInt64: String] = [:]
    private(set) var tags: [UInt64: UInt64] = [:]
    /// Up to here it survives the loss of power.
    private(set) var durable: UInt64 = 0

    /// For who goes on in a world of its own.
    func copy() -> Journal {
        let copy = Journal()
        (copy.attempted, copy.acknowledged, copy.tags, copy.durable) = (attempted, acknowledged, tags, durable)
        return copy
    }

    var last: UInt64 { acknowledged.keys.max() ?? 0 }

    func acknowledge(_ author: String, _ appended: AppendedTransaction, _ durability: Durability) throws {
        guard acknowledged.updateValue(author, forKey: appended.number) == nil else {
            throw InterleavingFailure("two transactions have the number \(appended.number)")
        }
        tags[appended.number] = appended.tag
        if durability == .full { isDurable(through: appended.number) }
    }

    func isDurable(through number: UInt64) { durable = max(durable, number) }
}
