// Who makes changes of Ways.swift in every way.

package import Annals
internal import FoundationEssentials
internal import Glibc

/// Has a store open, two contexts, and another store with the same parts.
package actor WaysWriter {
    package private(set) var path: String
    private let length: Int
    private let options: Store.Options
    private let store: Store
    private let context: Context
    private let other: Store?
    private var migrations: [Migration] = []

    /// - Parameters:
    ///   - path: The store. A new one gets its boxes.
    ///   - otherPath: Another store, which has the same objects whenever it makes a change. Nil for none: then the
    ///     history of visits is off, and everything but `apply` can be done.
    ///   - length: How long texts are.
    ///   - options: How the store is opened. The other one can always be written.
    package init(_ path: String, other otherPath: String?, length: Int, options: Store.Options) throws {
        self.path = path
        self.length = length
        self.options = options
        store = try Self.open(path, keepsVisits: otherPath != nil, options)
        var otherOptions = options
        otherOptions.access = .readWrite
        other = try otherPath.map { try Self.open($0, keepsVisits: true, otherOptions) }
        context = store.makeContext(author: "context")
        context.undoLevels = 10
        if options.access == .readWrite, try store.snapshot().count(Ways.Box.self) == 0 {
            try store.write { transaction in
                for number in 0..<3 { try transaction.insert(Ways.Box(number: number)) }
                var part = Ways.Part()
                part.text = String(repeating: "t", count: length)
                try transaction.insert(part)
                try transaction.insert(Ways.Visit())
            }
        }
    }

    private static func open(_ path: String, keepsVisits: Bool, _ options: Store.Options) throws -> Store {
        // What is declared when the entity is added counts.
        guard keepsVisits else { return try Store(at: path, entities: Ways.entities, options: options) }
        if options.access == .readWrite {
            try Store(at: path, entities: Ways.keepingVisits, options: options).close()
        }
        return try Store(at: path, entities: Ways.entities, options: options)
    }

    package func close() throws {
        context.close()
        try store.close()
        try other?.close()
    }

    /// The directory of the store has another name.
    package func move(to path: String) { self.path = path }

    /// What keys there are.
    package func keys() throws -> (parts: [Int], visits: [Int]) {
        let snapshot = try store.snapshot()
        return (try snapshot.fetch(Ways.Part.self).map(\.key), try snapshot.fetch(Ways.Visit.self).map(\.key))
    }

    package func run(_ way: Way, _ change: WaysChange) async throws {
        guard way == .background else { return try runNow(way, change) }
        try edit(change)
        _ = try await context.saveInBackground()
    }

    private func runNow(_ way: Way, _ change: WaysChange) throws {
        switch way {
        case .transaction: try store.write(author: "writer") { try Self.make(change, $0) }
        case .untyped: try store.write(author: "writer") { try Self.makeUntyped(change, $0) }
        case .batch:
            try batch(change.parts, Ways.Part.self)
            try batch(change.visits, Ways.Visit.self)
        case .upsert:
            try upsert(change.parts, Ways.Part.self)
            try upsert(change.visits, Ways.Visit.self)
        case .context, .background:
            try edit(change)
            try context.save()
        case .undo:
            try edit(change)
            try context.save()
            try context.undo()
            try context.save()
            try context.redo()
            try context.save()
        case .apply: try apply(change)
        case .revert: try revert(change)
        case .migration: try migrate(change)
        case .older: try older(change)
        case .long:
            try store.write(author: "writer") { transaction in
                let text = String(repeating: "long ", count: 200)
                for _ in 0..<700 { try transaction.insert(Ways.Filler(text: text)) }
                try Self.make(change, transaction)
                for _ in 0..<700 { try transaction.insert(Ways.Filler(text: text)) }
            }
            try store.delete(Ways.Filler.self, author: "writer")
        case .compact: try store.compact()
        case .clean:
            // Changes that the other store does not have yet must stay. Steps of an index may come meanwhile.
            let token = try store.currentToken
            try updateOther()
            try store.deleteHistory(before: token)
        case .restore: try restore()
        case .index:
            if change.number % 4 == 0 { try store.rebuildSearchIndex(of: "Part") { _ in false } }
            try store.updateSearchIndexes()
        }
    }

    /// Whether the contexts have something unsaved. Gives it up.
    package func giveUpEdits() -> Bool {
        defer { context.rollback() }
        return context.hasChanges
    }

    // MARK: Transactions

    private static func boxes(_ fetch: () throws -> [Reference<Ways.Box>]) throws -> [Reference<Ways.Box>] {
        let found = try fetch()
        guard found.count == 3 else { throw StoreError(.notFound, "There are no boxes.") }
        return found
    }

    private static func make(_ change: WaysChange, _ transaction: Transaction) throws {
        try make(change.parts, Ways.Part.self, transaction)
        try make(change.visits, Ways.Visit.self, transaction)
    }

    private static func make<E: WaysItem>(
        _ change: WaysChange.Items, _ type: E.Type, _ transaction: Transaction
    ) throws {
        let boxes = try boxes { try transaction.references(to: Ways.Box.self) }
        try transaction.insert(new(change, E.self, boxes))
        if let key = change.updated {
            for reference in try transaction.references(to: E.self, where: E.with(key: key)) {
                try transaction.update(reference) { item in
                    item.rank = change.updatedRank
                    item.words = Ways.words(change.updatedRank)
                    item.words = Ways.words(change.updatedRank)
                    item.box = boxes[change.otherBox]
                }
            }
        }
        if let key = change.deleted {
            for reference in try transaction.references(to: E.self, where: E.with(key: key)) {
                try transaction.delete(reference)
            }
        }
    }

    private static func new<E: WaysItem>(
        _ change: WaysChange.Items, _ type: E.Type, _ boxes: [Reference<Ways.Box>]
    ) -> E {
        var item = E()
        item.key = change.inserted
        item.rank = change.insertedRank
        item.words = Ways.words(change.insertedRank)
        item.text = String(repeating: "t", count: change.length)
        item.box = boxes[change.box]
        return item
    }

    private static func makeUntyped(_ change: WaysChange, _ transaction: Transaction) throws {
        let boxes = try boxes { try transaction.references(to: Ways.Box.self) }
        for (name, change, references) in [
            ("Part", change.parts, try references(change.parts, Ways.Part.self, transaction)),
            ("Visit", change.visits, try references(change.visits, Ways.Visit.self, transaction)),
        ] {
            try transaction.insert(
                name,
                [
                    "key": .int(Int64(change.inserted)), "rank": .int(Int64(change.insertedRank)),
                    "text": .string(String(repeating: "t", count: change.length)),
                    "words": .string(Ways.words(change.insertedRank)),
                    "box": .object(boxes[change.box].id),
                ])
            for object in references.updated {
                try transaction.update(
                    object,
                    [
                        "rank": .int(Int64(change.updatedRank)), "words": .string(Ways.words(change.updatedRank)),
                        "box": .object(boxes[change.otherBox].id),
                    ])
            }
            for object in references.deleted { try transaction.delete(object) }
        }
    }

    private static func references<E: WaysItem>(
        _ change: WaysChange.Items, _ type: E.Type, _ transaction: Transaction
    ) throws -> (updated: [ObjectID], deleted: [ObjectID]) {
        func references(_ key: Int?) throws -> [ObjectID] {
            guard let key else { return [] }
            return try transaction.references(to: E.self, where: E.with(key: key)).map(\.id)
        }
        return (try references(change.updated), try references(change.deleted))
    }

    // MARK: Batches

    private func batch<E: WaysItem>(_ change: WaysChange.Items, _ type: E.Type) throws {
        let boxes = try Self.boxes { try store.snapshot().references(to: Ways.Box.self) }
        try store.insert(contentsOf: [Self.new(change, E.self, boxes)], author: "writer")
        if let key = change.updated {
            try store.update(E.self, where: E.with(key: key), author: "writer") { item in
                item.rank = change.updatedRank
                item.words = Ways.words(change.updatedRank)
                item.box = boxes[change.otherBox]
            }
        }
        if let key = change.deleted { try store.delete(E.self, where: E.with(key: key), author: "writer") }
    }

    private func upsert<E: WaysItem>(_ change: WaysChange.Items, _ type: E.Type) throws {
        let boxes = try Self.boxes { try store.snapshot().references(to: Ways.Box.self) }
        var items = [Self.new(change, E.self, boxes)]
        if let key = change.updated {
            var item = E()
            item.key = key
            item.rank = change.updatedRank
            item.words = Ways.words(change.updatedRank)
            item.box = boxes[change.otherBox]
            items.append(item)
        }
        try store.upsert(contentsOf: items, updating: E.changed, author: "writer")
        if let key = change.deleted { try store.delete(E.self, where: E.with(key: key), author: "writer") }
    }

    // MARK: Contexts

    private func edit(_ change: WaysChange) throws {
        try context.merge()
        try context.undoGroup {
            try edit(change.parts, Ways.Part.self)
            try edit(change.visits, Ways.Visit.self)
        }
    }

    private func edit<E: WaysItem>(_ change: WaysChange.Items, _ type: E.Type) throws {
        let boxes = try Self.boxes { try context.references(to: Ways.Box.self) }
        context.insert(Self.new(change, E.self, boxes))
        if let key = change.updated {
            for object in try context.fetch(E.self, where: E.with(key: key)) {
                object.objectUpdate { item in
                    item.rank = change.updatedRank
                    item.words = Ways.words(change.updatedRank)
                    item.words = Ways.words(change.updatedRank)
                    item.box = boxes[change.otherBox]
                }
            }
        }
        if let key = change.deleted {
            for object in try context.fetch(E.self, where: E.with(key: key)) { context.delete(object) }
        }
    }

    // MARK: Other stores and other programs

    /// Gives the other store what it has not got yet.
    package func updateOther() throws {
        if let other { try Self.relay(from: store, to: other) }
    }

    private static func relay(from source: Store, to target: Store) throws {
        let place = try target.lastApplied(from: source.identifier)
        for exported in try source.export(after: place.map { .number($0.number) }, to: target.identifier) {
            let result = try target.apply(ExportedTransaction(jsonLine: exported.jsonLine))
            guard result.conflicts.isEmpty else {
                throw StoreError(.applyConflict, "Nothing here is in conflict, and it says: \(result.conflicts).")
            }
        }
    }

    private func apply(_ change: WaysChange) throws {
        guard let other else { throw StoreError(.notFound, "There is no other store.") }
        try Self.relay(from: store, to: other)
        try other.write(author: "other") { try Self.make(change, $0) }
        try Self.relay(from: other, to: store)
    }

    private func revert(_ change: WaysChange) throws {
        // What has changed objects whose history is off cannot be reverted.
        if other == nil { try store.write(author: "writer") { try Self.make(change.visits, Ways.Visit.self, $0) } }
        var token = try store.write(author: "writer") { transaction in
            try Self.make(change.parts, Ways.Part.self, transaction)
            if other != nil { try Self.make(change.visits, Ways.Visit.self, transaction) }
        }.token
        for turn in 0..<2 {
            guard let last = token else { throw StoreError(.notFound, "Nothing was written.") }
            let outcome = try store.revert(last, author: "writer")
            guard outcome.conflicts.isEmpty else {
                throw StoreError(.applyConflict, "Nothing here is in conflict, and it says: \(outcome.conflicts).")
            }
            token = outcome.token
            let keys = Set(try store.snapshot().fetch(Ways.Part.self).map(\.key))
            let isThere = (keys.contains(change.parts.inserted), change.parts.deleted.map(keys.contains) ?? true)
            guard isThere == (turn == 1, turn == 0 || change.parts.deleted == nil) else {
                throw StoreError(.notFound, "Turn \(turn) of reverting leaves the parts \(keys.sorted()).")
            }
        }
    }

    private func migrate(_ change: WaysChange) throws {
        let length = length
        migrations.append(
            Migration("change \(change.number)") { migration in
                let transaction = migration.transaction
                let boxes = try transaction.references(to: Ways.Newer.Box.self)
                let (parts, visits) = (change.parts, change.visits)
                let text = String(repeating: "t", count: length)
                try transaction.insert(
                    Ways.Newer.Part(
                        key: parts.inserted, rank: parts.insertedRank, text: text,
                        words: Ways.words(parts.insertedRank), box: boxes[parts.box]))
                try transaction.insert(
                    Ways.Newer.Visit(
                        key: visits.inserted, rank: visits.insertedRank, text: text,
                        words: Ways.words(visits.insertedRank), box: boxes[visits.box]))
                try migration.update(Ways.Newer.Part.self) { _, part in
                    guard part.key == parts.updated else { return }
                    (part.rank, part.words) = (parts.updatedRank, Ways.words(parts.updatedRank))
                    part.box = boxes[parts.otherBox]
                }
                try migration.update(Ways.Newer.Visit.self) { _, visit in
                    guard visit.key == visits.updated else { return }
                    (visit.rank, visit.words) = (visits.updatedRank, Ways.words(visits.updatedRank))
                    visit.box = boxes[visits.otherBox]
                }
                for row in try migration.before.rows(of: "Part")
                where row["key"]?.int == parts.deleted.map(Int64.init) { try transaction.delete(row.id) }
                for row in try migration.before.rows(of: "Visit")
                where row["key"]?.int == visits.deleted.map(Int64.init) { try transaction.delete(row.id) }
            })
        // A process of its own knows only its own migration, and has all others behind it.
        try Store(at: path, entities: Ways.Newer.entities, migrations: migrations, options: options).close()
    }

    private func older(_ change: WaysChange) throws {
        let older = try Store(at: path, entities: Ways.Older.entities, options: options)
        try older.write(author: "older") { transaction in
            try Self.make(change.parts, Ways.Older.Part.self, transaction)
            try Self.make(change.visits, Ways.Older.Visit.self, transaction)
        }
        try older.close()
        // It does not know of the boxes, whose totals and whose parts are made what the change says.
        try store.write(author: "writer") { transaction in
            let boxes = try Self.boxes { try transaction.references(to: Ways.Box.self) }
            try Self.complete(change.parts, Ways.Part.self, boxes, transaction)
            try Self.complete(change.visits, Ways.Visit.self, boxes, transaction)
        }
        try store.refreshDerived(of: Ways.Box.self, author: "writer")
    }

    private static func make<E: WaysOlderItem>(
        _ change: WaysChange.Items, _ type: E.Type, _ transaction: Transaction
    ) throws {
        try transaction.insert(E(key: change.inserted, rank: change.insertedRank))
        if let key = change.updated {
            for reference in try transaction.references(to: E.self, where: E.with(key: key)) {
                try transaction.update(reference) { $0.rank = change.updatedRank }
            }
        }
        if let key = change.deleted {
            for reference in try transaction.references(to: E.self, where: E.with(key: key)) {
                try transaction.delete(reference)
            }
        }
    }

    private static func complete<E: WaysItem>(
        _ change: WaysChange.Items, _ type: E.Type, _ boxes: [Reference<Ways.Box>], _ transaction: Transaction
    ) throws {
        for reference in try transaction.references(to: E.self, where: E.with(key: change.inserted)) {
            try transaction.update(reference) { item in
                item.text = String(repeating: "t", count: change.length)
                item.words = Ways.words(change.insertedRank)
                item.box = boxes[change.box]
            }
        }
        guard let key = change.updated else { return }
        for reference in try transaction.references(to: E.self, where: E.with(key: key)) {
            try transaction.update(reference) { item in
                item.words = Ways.words(change.updatedRank)
                item.box = boxes[change.otherBox]
            }
        }
    }

    // MARK: The file

    /// Puts a backup back that has all that the store has.
    private func restore() throws {
        let copy = path + ".copy"
        // Otherwise a thread of this handle may index after the backup: then the backup lacks a transaction.
        try store.updateSearchIndexes()
        try store.backup(to: copy)
        // Nothing in memory can be renamed.
        if store.isInMemory { return try Store.destroy(at: copy) }
        guard rename(copy, path) == 0 else {
            throw StoreError(.systemCall, "The backup cannot be renamed.", path: copy)
        }
    }
}
