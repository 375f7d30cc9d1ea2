// One load: it reads lines in batches and commits each batch as a whole.
//
// Invariants:
// TL1  A batch is committed by one transaction, or not at all. The transaction contains only the schema changes that
//      its lines need.
// TL2  A regular file is read twice: the types of new attributes are known before the first row is written. They fit
//      the batches before the first line that cannot be read. For other files, each batch determines its own types.
// TL3  Nothing is created or changed before the first whole batch was read. A store that was created for the load is
//      removed if no line was loaded.
// TL4  An attribute that existed before the load gets another type only on request.

internal import Annals

struct LoadedLine {
    var number: UInt64
    var members: [JSONMember]
}

extension [LoadedLine] {
    /// The values of an attribute, with the numbers of their lines.
    func values(of name: String) -> [(line: UInt64, value: JSONValue)] {
        flatMap { line in line.members.filter { $0.name.hasSameBytes(as: name) }.map { (line.number, $0.value) } }
    }
}

final class LoadRun {
    let options: LoadOptions
    private let reader: LineReader
    private var counts = LoadCounts()
    private let progress = Progress("rows")
    /// The numbers of the objects that lines have named. Kept only for pruning.
    private var seen = Set<UInt64>()
    /// The types in the whole file, if it can be read twice.
    private(set) var known = TypeGuesses()
    private var untyped: [String] = []
    /// The attributes that this load has added. Only it knows them, so it may widen them.
    private(set) var own = Set<IdentifierName>()
    /// Of CSV: the names in the first line.
    private var columns: [String] = []

    init(_ options: LoadOptions, _ reader: LineReader) {
        self.options = options
        self.reader = reader
    }

    func load(into path: String) throws -> LoadCounts {
        if reader.isRegularFile { known = try readTypes() }
        let named = Set(known.names.map(IdentifierName.init))
        if let unknown = options.types.keys.first(where: { !named.contains($0) }), !named.isEmpty {
            throw LoadCommand.command.refusal(
                "--type names “\(unknown.text)”, which is in no line of \(reader.name): check the name.")
        }
        var batch = try readBatch()
        // Without a line, no store is created (TL3).
        let present = batch.isEmpty ? try StoreAccess.existing(path, .readWrite) : nil
        if batch.isEmpty, present == nil { return counts }
        let store = try present ?? StoreAccess.open(path, .readWrite, creates: true)
        try StoreAccess.change(store) {
            if batch.isEmpty, options.prunes, !options.allowsEmpty { try refusePruningAll(store) }
            repeat {
                try load(batch, into: store)
                batch = try readBatch()
            } while !batch.isEmpty
            if !untyped.isEmpty { try addUntyped(store) }
            if options.prunes { try prune(store) }
            counts.token = try store.currentToken
        }
        return counts
    }

    /// The types in the batches before the first line that cannot be read. That line is read (TL2) again, and reported,
    /// in its batch.
    private func readTypes() throws -> TypeGuesses {
        var (guesses, whole, count) = (TypeGuesses(), TypeGuesses(), 0)
        defer {
            reader.rewind()
            columns = []
        }
        while true {
            let next: [JSONMember]?
            do { next = try nextObject() } catch { return whole }
            guard let members = next else { return guesses }
            guesses.add(members)
            try requireCount(guesses, at: reader.number)
            count += 1
            if count == options.batch { (whole, count) = (guesses, 0) }
        }
    }

    private func readBatch() throws -> [LoadedLine] {
        var batch: [LoadedLine] = []
        while batch.count < options.batch, let members = try nextObject() {
            batch.append(LoadedLine(number: reader.number, members: members))
        }
        return batch
    }

    private func nextObject() throws -> [JSONMember]? {
        if options.isCSV { return try nextRecord() }
        return try reader.nextObject { wrong(reader.number, $0) }.map(named)
    }

    private func nextRecord() throws -> [JSONMember]? {
        while let fields = try CSV.record(reader) {
            // An empty line.
            if fields == [nil], columns.count != 1 { continue }
            if columns.isEmpty {
                columns = fields.map { $0 ?? "" }
                for name in columns where columns.count(where: { IdentifierName($0) == IdentifierName(name) }) > 1 {
                    throw wrong(reader.number, "the name “\(name)” is there twice")
                }
                continue
            }
            guard fields.count == columns.count else {
                throw wrong(reader.number, "it has \(fields.count) fields, and the first line has \(columns.count)")
            }
            return try named(zip(columns, fields).map { JSONMember(name: $0, value: $1.map { .field($0) } ?? .null) })
        }
        return nil
    }

    /// The members with the names of attributes.
    private func named(_ members: [JSONMember]) throws -> [JSONMember] {
        try members.map { member in
            let name = try MemberNames.loaded(member.name).orThrow(
                wrong(
                    reader.number,
                    "dumps use the name “\(member.name)” themselves: dump with “--bare”, or rename the attribute"))
            guard (1...255).contains(name.utf8.count) else {
                throw wrong(reader.number, "an attribute's name must have 1 to 255 bytes, unlike “\(name.prefix(40))”")
            }
            return JSONMember(name: name, value: member.value)
        }
    }

    /// An entity has a limited number of attributes. Throws with the number of the line that exceeds it.
    private func requireCount(_ guesses: TypeGuesses, at line: UInt64) throws {
        let (count, most) = (guesses.names.count, FormatLimits.maximumAttributes)
        guard count > most else { return }
        throw wrong(line, "with this line the entity has \(count) attributes, but it may have at most \(most)")
    }

    private func wrong(_ number: UInt64, _ reason: String, hint: String? = nil) -> ToolFailure {
        ToolFailure(
            "Line \(number) of \(reader.name) is wrong: \(reason). In the batches before it, \(counts.inserted) "
                + "objects were inserted and \(counts.updated) updated; nothing of its own batch was written.",
            hint: hint)
    }

    /// Writes a batch in one transaction: TL1.
    private func load(_ batch: [LoadedLine], into store: Store) throws {
        var guesses = TypeGuesses()
        for line in batch {
            guesses.add(line.members)
            try requireCount(guesses, at: line.number)
        }
        let (added, rows): ([String], LoadBatch)
        do {
            (added, rows) = try transact(store) { transaction in
                let plan = try plan(batch, guesses, transaction.snapshot)
                var rows = try LoadBatch(transaction, plan, batch, options)
                for line in batch { try rows.add(line) }
                return (plan.added, rows)
            }
        } catch let error as StoreError {
            // It shows only when the batch is committed, and belongs to one of its lines, or to none.
            var failure = ToolFailure(error)
            if let first = batch.first?.number {
                failure.message =
                    "Nothing of lines \(first) to \(reader.number) of \(reader.name) was written: "
                    + "\(error.description) In the batches before them, \(counts.inserted) objects were inserted and "
                    + "\(counts.updated) updated."
            }
            throw failure
        } catch let error as LineError {
            throw wrong(error.line, error.reason, hint: error.hint)
        }
        untyped += guesses.names.filter { guesses[$0].type == nil && known[$0].type == nil && !untyped.contains($0) }
        own.formUnion(added.map { IdentifierName($0) })
        counts.add(rows.counts)
        if options.prunes { seen.formUnion(rows.named) }
        progress.show(counts.inserted + counts.updated + counts.unchanged, part: reader.part)
    }

    /// Adds the attributes that had no value in any line, after the last one.
    private func addUntyped(_ store: Store) throws {
        try transact(store) { transaction in
            let present = try transaction.entity(options.entity).attributes
            let missing = untyped.filter { name in !present.contains { $0.hasSameBytes(as: name) } }
            try transaction.changeSchema(
                missing.map { .addAttribute(options.attribute($0, .json), to: options.entity) })
        }
    }

    /// Runs a transaction, and counts it if it has changed something.
    private func transact<Result>(_ store: Store, _ body: (Transaction) throws -> Result) throws -> Result {
        let (result, token) = try store.write(author: options.author, contextName: options.context, body)
        if token != nil { counts.transactions += 1 }
        return result
    }

    /// An empty file is more often a failed download than a store without objects.
    private func refusePruningAll(_ store: Store) throws {
        let count = try store.snapshot().count(of: options.entity)
        guard count > 0 else { return }
        throw ToolFailure(
            "\(reader.name) contains no objects, and “--prune” would delete all \(count) of “\(options.entity)”. "
                + "Nothing was changed. To delete them, add “--allow-empty”.")
    }

    private func prune(_ store: Store) throws {
        let snapshot = try store.snapshot()
        let entity = try snapshot.entity(options.entity)
        var gone: [ObjectID] = []
        try snapshot.forEachRow(of: entity) { row in
            if !seen.contains(row.id.number) { gone.append(row.id) }
            return true
        }
        for start in stride(from: 0, to: gone.count, by: options.batch) {
            counts.deleted += try transact(store) { transaction in
                var deleted: UInt64 = 0
                for object in gone[start...].prefix(options.batch) {
                    // Another process may have deleted it already.
                    guard try transaction.snapshot.withRow(object, in: entity, { _ in }) else { continue }
                    try transaction.delete(object)
                    deleted += 1
                }
                return deleted
            }
        }
    }
}
