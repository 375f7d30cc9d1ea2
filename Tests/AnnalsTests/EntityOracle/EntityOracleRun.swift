// Random work with the struct API, and what it must come to, by the model.

import Annals
import FoundationEssentials
import TestSupport
import Testing

/// What a run found to be wrong.
struct OracleDifference: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

/// One store, used through two handles that read differently.
final class EntityOracleRun {
    struct Counts {
        var operations = 0
        var transactions = 0
        var refusals = 0
        var predicates = 0
        var histories = 0
        var compactions = 0
        var openings = 0

        mutating func add(_ other: Counts) {
            operations += other.operations
            transactions += other.transactions
            refusals += other.refusals
            predicates += other.predicates
            histories += other.histories
            compactions += other.compactions
            openings += other.openings
        }
    }

    let folder: StoreFolder
    var random: TownRandom
    var model = TownModel()
    var counts = Counts()
    /// Whether values may be missing that the types always have.
    let isLoose: Bool
    private var stores: [Store] = []
    private var held: [(snapshot: Snapshot, model: TownModel)] = []
    /// Objects that had a value set to null that their type always has.
    var forgotten: Set<ObjectID> = []
    /// The last transactions, oldest first.
    var past: [PastTransaction] = []

    struct PastTransaction {
        /// The place before it.
        let before: HistoryToken
        let author: String?
        let from: TownModel
        let to: TownModel
        /// With the last values of deleted objects.
        let raw: TownModel
        /// How often each object was written.
        let writes: [ObjectID: Int]
    }

    init(seed: UInt64) throws {
        folder = try StoreFolder()
        random = TownRandom(seed: seed)
        isLoose = seed % 3 == 0
    }

    var store: Store { stores[random.below(stores.count)] }

    private func open(_ reading: Store.Reading) throws -> Store {
        var options = Store.Options()
        options.durability = .relaxed
        options.reading = reading
        options.lockTimeout = .seconds(600)
        options.automaticCompaction = nil
        counts.openings += 1
        return try Store(at: folder.path, entities: Town.entities, options: options)
    }

    func require(_ holds: Bool, _ what: @autoclosure () -> String) throws {
        if !holds { throw OracleDifference(what()) }
    }

    // MARK: The run

    func run(operations: Int) throws {
        if isLoose {
            let owners: [any Entity.Type] = [Town.LooseThing.self]
            try Store(at: folder.path, entities: owners).close()
        }
        stores = [try open(.mapped), try open(.copied)]
        if random.chance(1, in: 2) {
            // Values in indexes have a bound.
            random.mostText = 300
            try store.changeSchema([
                .changeAttribute("title", of: "Thing", isIndexed: true),
                .changeAttribute("slot", of: "Thing", isIndexed: true),
                .changeAttribute("ratio", of: "Thing", isIndexed: true),
                .changeAttribute("share", of: "Thing", isIndexed: true),
                .changeAttribute("made", of: "Thing", isIndexed: true),
                .changeAttribute("price", of: "Thing", isIndexed: true),
                .changeAttribute("color", of: "Thing", isIndexed: true),
                .addKey(IndexDescription(["tiny", "wide"]), to: "Thing"),
            ])
        }
        while counts.operations < operations { try step() }
        for (snapshot, model) in held { try compare(snapshot, model) }
        for store in stores { try store.close() }
        try folder.expectIntact()
    }

    private func step() throws {
        switch random.below(100) {
        case 0..<55: try transact()
        case 55..<63: try batch()
        case 63..<90: for _ in 0...random.below(4) { try find(try store.snapshot(), model) }
        case 90..<94: try hold()
        case 94..<97: try compareHistory()
        case 97: if random.chance(1, in: 4) { try reopen() }
        case 98: if random.chance(1, in: 12) { try compact() }
        default: if isLoose { try forget() }
        }
        // So that a run stays one of many small steps.
        if model.things.count > 140 { try deleteMany() }
        if random.chance(1, in: 3) { try compare(try store.snapshot(), model) }
    }

    private func reopen() throws {
        let place = random.below(2)
        try stores[place].close()
        // Snapshots of a closed store cannot be read.
        held = []
        stores[place] = try open(random.chance(1, in: 2) ? .mapped : .copied)
    }

    private func compact() throws {
        counts.compactions += 1
        _ = try store.compact()
    }

    private func hold() throws {
        if held.count > 3 || (random.chance(1, in: 2) && !held.isEmpty) {
            let (snapshot, model) = held.remove(at: random.below(held.count))
            try compare(snapshot, model)
            for _ in 0..<3 { try find(snapshot, model) }
        } else {
            held.append((try store.snapshot(), model))
        }
    }

    /// Sets values to null that the types always have.
    private func forget() throws {
        guard let reference = random.one(of: Town.Thing.self, model), let name = random.element(Town.loose) else {
            return
        }
        var after = model
        var value = after.things[reference]!
        let initial = Town.Thing()
        switch name {
        case "title": (value.title, value.sortTitle) = (initial.title, value.sortTitle)
        case "rank": value.rank = initial.rank
        case "tiny": value.tiny = initial.tiny
        case "ratio": value.ratio = initial.ratio
        case "isOn": value.isOn = initial.isOn
        case "made": value.made = initial.made
        case "price": value.price = initial.price
        case "color": value.color = initial.color
        case "data": value.data = initial.data
        default: value.words = initial.words
        }
        after.things[reference] = value
        _ = try store.writeOptimistically { try $0.update(reference.id, [name: .null]) }
        // What the store calls a change is none for the type.
        past = []
        forgotten.insert(reference.id)
        model = after
        counts.operations += 1
    }

    // MARK: Transactions

    private func deleteMany() throws {
        let references = model.things.keys.sorted().prefix(60)
        try commit { transaction, draft in
            for reference in references {
                try transaction.delete(reference)
                draft.delete(reference.id)
            }
        }
    }

    private func transact() throws {
        let start = random
        let changes = 1 + random.below(10)
        try commit { transaction, draft in
            // The body may run again.
            self.random = start
            _ = self.random.below(10)
            for _ in 0..<changes {
                try self.change(transaction, &draft)
                self.counts.operations += 1
                if self.random.chance(1, in: 6) { try self.read(transaction, draft) }
            }
        }
    }

    /// Commits, and compares what it came to with what the model says of it.
    func commit(_ body: (Transaction, inout TownDraft) throws -> Void) throws {
        let store = store
        let before = try store.snapshot().token
        let author = random.element([nil, "app", "import"])!
        var draft = TownDraft(model)
        counts.transactions += 1
        do {
            let run = { (transaction: Transaction) throws in
                draft = TownDraft(self.model)
                try body(transaction, &draft)
            }
            if random.chance(1, in: 2) {
                _ = try store.writeOptimistically(author: author, run)
            } else {
                _ = try store.write(author: author, run)
            }
        } catch let error as StoreError {
            counts.refusals += 1
            let allowed = draft.committed().refusals
            try require(allowed.contains(error.code), "refused with \(error.code), allowed were \(allowed): \(error)")
            return
        }
        let (after, refusals) = draft.committed()
        guard let after else { throw OracleDifference("not refused, although of \(refusals)") }
        try finish(after, draft, before, author)
    }

    func finish(
        _ after: TownModel, _ draft: TownDraft, _ before: HistoryToken, _ author: String?
    ) throws {
        for object in model.allObjects where !after.has(object) { random.dead.append(object) }
        if random.dead.count > 50 { random.dead.removeFirst(20) }
        // Who changes nothing makes no transaction.
        guard try store.snapshot().token.number > before.number else {
            return try require(after.isSame(as: model), "changes without a transaction")
        }
        past.append(
            PastTransaction(
                before: before, author: author, from: model, to: after, raw: draft.raw, writes: draft.writes))
        if past.count > 8 { past.removeFirst() }
        model = after
    }

    private func change(_ transaction: Transaction, _ draft: inout TownDraft) throws {
        let visible = draft.visible
        switch random.below(20) {
        case 0: try insert(random.owner(), transaction, &draft)
        case 1, 2: try insert(random.place(visible), transaction, &draft)
        case 3..<7: try insert(random.thing(visible), transaction, &draft)
        case 7:
            let reference = try transaction.reserve(Town.Thing.self)
            try require(try transaction[reference] == nil, "a reserved object is there")
            let value = random.thing(visible)
            try transaction.insert(value, as: reference)
            draft.write(value, reference)
        case 8: try upsert(random.owner(), transaction, &draft)
        case 9: try upsert(random.place(visible), transaction, &draft)
        case 10: try upsert(random.thing(visible), transaction, &draft)
        case 11:
            guard let reference = random.one(of: Town.Place.self, visible) else { return }
            let start = random
            try update(reference, transaction, &draft) { run, value in
                run.random = start
                run.random.change(&value, visible)
            }
        case 12..<16:
            guard let reference = random.one(of: Town.Thing.self, visible) else { return }
            let start = random
            try update(reference, transaction, &draft) { run, value in
                run.random = start
                for _ in 0..<1 + run.random.below(3) {
                    run.random.change(&value, run.random.below(TownRandom.properties), visible)
                }
            }
        case 16:
            guard let reference = random.one(of: Town.Thing.self, visible) else { return }
            let value = random.thing(visible)
            try transaction.update(reference, to: value)
            draft.write(value, reference)
        case 17:
            let dead = random.element(random.dead)
            guard let dead, !visible.has(dead) else { return }
            // Nobody has it, whatever its type is.
            for body in [
                { try transaction.delete(dead) },
                { _ = try transaction.update(Reference<Town.Thing>(dead)) { $0.rank = 1 } },
            ] {
                do {
                    try body()
                    throw OracleDifference("\(dead) is gone, and can be changed")
                } catch let error as StoreError { try require(error.code == .objectNotFound, "\(error)") }
            }
        default:
            let roll = random.below(8)
            let object =
                roll == 0
                ? random.one(of: Town.Owner.self, visible)?.id
                : roll < 3 ? random.one(of: Town.Place.self, visible)?.id : random.one(of: Town.Thing.self, visible)?.id
            guard let object else { return }
            try transaction.delete(object)
            draft.delete(object)
        }
    }

    private func insert<E: TownEntity>(_ value: E, _ transaction: Transaction, _ draft: inout TownDraft) throws {
        draft.write(value, try transaction.insert(value))
    }

    private func upsert<E: TownEntity>(_ value: E, _ transaction: Transaction, _ draft: inout TownDraft) throws {
        let twins = draft.twins(of: value)
        let reference = try transaction.upsert(value)
        try require(
            twins.isEmpty ? draft.read(reference) == nil : twins.contains(reference),
            "upsert of \(value) wrote to \(reference), and not to \(twins)")
        draft.write(value, reference)
    }

    private func update<E: TownEntity>(
        _ reference: Reference<E>, _ transaction: Transaction, _ draft: inout TownDraft,
        _ change: (EntityOracleRun, inout E) -> Void
    ) throws {
        guard let wanted = draft.toChange(reference) else { return }
        var difference: OracleDifference?
        let isDifferent = try transaction.update(reference) { value in
            if !value.isSame(as: wanted) {
                difference = OracleDifference("update reads \(value), and not \(wanted)")
            }
            change(self, &value)
        }
        if let difference { throw difference }
        let expected = draft.update(reference) { change(self, &$0) }
        let now = draft.raw[keyPath: E.objects][reference]
        try require(
            isDifferent == expected,
            "update of \(reference) from \(wanted) to \(String(describing: now)) says \(isDifferent)")
    }

    // MARK: Batches

    private func batch() throws {
        let store = store
        let before = try store.snapshot().token
        var draft = TownDraft(model)
        counts.operations += 1
        counts.transactions += 1
        let filter = EntityOraclePredicates.thing(model, &random)
        let kind = random.below(4)
        let values = (0..<random.below(12)).map { _ in random.thing(model) }
        do {
            switch kind {
            case 0:
                let start = random
                let wanted = model.things.filter { filter.meaning($0.key, $0.value, model) }.keys.sorted()
                guard wanted.count < 60 else { return }
                let result = try store.update(Town.Thing.self, where: filter.predicate, author: "batch") { value in
                    self.random = start
                    self.random.change(&value, self.random.below(TownRandom.properties), self.model)
                }
                var changed: [Reference<Town.Thing>] = []
                for reference in wanted {
                    random = start
                    let isDifferent = draft.update(reference) {
                        self.random.change(&$0, self.random.below(TownRandom.properties), self.model)
                    }
                    if isDifferent { changed.append(reference) }
                }
                let found = result.references.sorted()
                try require(
                    found == changed,
                    "a batch changed \(found) and not \(changed) of \(filter.name)")
                try require((result.token == nil) == found.isEmpty, "a batch has no token")
                if found.isEmpty { return }
            case 1:
                let wanted = model.things.filter { filter.meaning($0.key, $0.value, model) }.keys.sorted()
                guard wanted.count < 30 else { return }
                for reference in wanted { draft.delete(reference.id) }
                let result = try store.delete(Town.Thing.self, where: filter.predicate, author: "batch")
                try require(result.references.sorted() == wanted, "a batch deleted \(result.count) of \(filter.name)")
                if wanted.isEmpty { return }
            case 2:
                let result = try store.insert(contentsOf: values, author: "batch")
                for (value, reference) in zip(values, result.references) { draft.write(value, reference) }
                try require(result.count == values.count, "a batch inserted \(result.count)")
                if values.isEmpty { return }
            default:
                let result = try store.upsert(contentsOf: values.lazy.map { $0 }, author: "batch")
                for (value, reference) in zip(values, result.references) {
                    let twins = draft.twins(of: value)
                    try require(
                        twins.isEmpty ? draft.read(reference) == nil : twins.contains(reference),
                        "a batch upserted another")
                    draft.write(value, reference)
                }
                if values.isEmpty { return }
            }
        } catch let error as StoreError {
            counts.refusals += 1
            // Which objects a refused batch would have had, nobody says.
            if kind > 1 {
                for (number, value) in values.enumerated() {
                    let new = ObjectID(entityNumber: 60_000, number: UInt64(number + 1))!
                    draft.write(value, draft.twins(of: value).first.flatMap { kind == 3 ? $0 : nil } ?? Reference(new))
                }
            } else if kind == 0 {
                for reference in model.things.filter({ filter.meaning($0.key, $0.value, model) }).keys.sorted() {
                    _ = draft.update(reference) { $0.rank += 0 }
                }
                return try require(
                    [.validationFailed, .uniqueViolation, .referenceMissing].contains(error.code), "\(error)")
            }
            let allowed = draft.committed().refusals
            return try require(
                allowed.contains(error.code), "a batch was refused with \(error.code), allowed were \(allowed)")
        }
        let (after, refusals) = draft.committed()
        guard let after else { throw OracleDifference("a batch was not refused, although of \(refusals)") }
        try finish(after, draft, before, "batch")
    }
}

extension TownModel {
    func isSame(as other: TownModel) -> Bool {
        func same<E: TownEntity>(_ type: E.Type) -> Bool {
            let (mine, others) = (self[keyPath: E.objects], other[keyPath: E.objects])
            return mine.count == others.count
                && mine.allSatisfy { others[$0.key].map($0.value.isSame) ?? false }
        }
        return same(Town.Owner.self) && same(Town.Place.self) && same(Town.Thing.self)
    }

    var allObjects: [ObjectID] { (owners.keys.map(\.id) + places.keys.map(\.id) + things.keys.map(\.id)).sorted() }
}
