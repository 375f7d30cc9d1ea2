// Processes that work on the same folders at once: no reference may ever lead to nothing.

import Annals
import Glibc

/// `folders STORE SEED OPERATIONS`: inserts clips into folders, moves them between folders, deletes folders and what
/// hangs on them, and tries to delete shelves that are in use. Prints what it did.
struct SharedFolders {
    static let entities = [
        EntityDescription("Shelf", attributes: [AttributeDescription("name", .string)]),
        EntityDescription(
            "Folder",
            attributes: [
                AttributeDescription("shelf", .object, isOptional: false, target: "Shelf", deleteRule: .deny),
                AttributeDescription("parent", .object, target: "Folder", deleteRule: .cascade),
            ]),
        EntityDescription(
            "Clip",
            attributes: [
                AttributeDescription("folder", .object, isOptional: false, target: "Folder", deleteRule: .cascade),
                AttributeDescription("related", .objects, target: "Clip", deleteRule: .nullify),
                AttributeDescription("after", .object, target: "Clip", deleteRule: .nullify),
            ]),
    ]

    private let store: Store
    private var random: Random
    private var counts = (commits: 0, deleted: 0, denied: 0, repeated: 0)

    static func run(_ path: String, seed: UInt64, operations: Int) throws {
        var options = Store.Options()
        options.durability = .relaxed
        options.reading = seed % 2 == 0 ? .mapped : .copied
        options.lockTimeout = .seconds(60)
        let store = try Store(at: path, entities: entities, options: options)
        var folders = SharedFolders(store: store, random: Random(state: seed))
        for operation in 1...operations {
            try folders.step()
            if operation % 10_000 == 0 { try folders.requireNothingMissing() }
        }
        let counts = folders.counts
        Lines.write(
            "\(counts.commits) commits, \(counts.deleted) deletions, \(counts.denied) denied, "
                + "\(counts.repeated) bodies repeated\n", to: 1)
        try store.close()
    }

    /// One operation, which is one transaction.
    private mutating func step() throws {
        let start = random
        let kind = random.next(below: 100)
        var runs = 0
        var random = random
        do {
            try store.commit { transaction in
                runs += 1
                // The body may run again, on a newer state.
                random = start
                _ = random.next(below: 100)
                try Self.fill(transaction, kind, &random)
            }
            counts.commits += 1
            if kind < 12 { counts.deleted += 1 }
        } catch let error as StoreError where error.code == .deleteDenied {
            guard kind < 4 else { throw error }
            counts.denied += 1
        }
        counts.repeated += runs - 1
        self.random = random
    }

    private static func fill(_ transaction: Transaction, _ kind: UInt64, _ random: inout Random) throws {
        let snapshot = transaction.snapshot
        func any(_ entity: String) throws -> ObjectID? {
            let handle = try snapshot.entity(entity)
            var found: ObjectID?
            try snapshot.forEachRow(of: handle, reversed: true) { (row) throws(StoreError) in
                found = row.id
                return false
            }
            guard let newest = found else { return nil }
            // The first one from a place among the newest on: older ones are mostly deleted.
            let start = newest.number - random.next(below: min(newest.number, 300))
            try snapshot.forEachRow(of: handle, numbers: start...newest.number) {
                (row) throws(StoreError) in
                found = row.id
                return false
            }
            return found
        }
        switch kind {
        case 0..<4: if let shelf = try any("Shelf") { try transaction.delete(shelf) }
        case 4..<8: if let folder = try any("Folder") { try transaction.delete(folder) }
        case 8..<12: if let clip = try any("Clip") { try transaction.delete(clip) }
        case 12..<16: try transaction.insert("Shelf", [:])
        case 16..<30:
            let shelf = try any("Shelf") ?? transaction.insert("Shelf", [:])
            let parent = random.next(below: 2) == 0 ? try any("Folder") : nil
            try transaction.insert("Folder", ["shelf": .object(shelf), "parent": parent.map { .object($0) } ?? .null])
        case 30..<65:
            guard let folder = try any("Folder") else { return }
            let other = try any("Clip")
            try transaction.insert(
                "Clip",
                [
                    "folder": .object(folder), "after": other.map { .object($0) } ?? .null,
                    "related": .objects(other.map { [$0] } ?? []),
                ])
        default:
            guard let clip = try any("Clip"), let folder = try any("Folder") else { return }
            let others = [try any("Clip"), try any("Clip")].compactMap(\.self)
            try transaction.update(clip, ["folder": .object(folder), "related": .objects(others)])
        }
    }

    /// A snapshot shows no clip without its folder.
    private func requireNothingMissing() throws {
        let snapshot = try store.snapshot()
        for (entity, attribute) in [("Folder", "shelf"), ("Clip", "folder")] {
            let handle = try snapshot.entity(entity)
            guard let position = handle.position(of: attribute) else { throw Wrong("no \(attribute)") }
            try snapshot.forEachRow(of: handle) { (row) throws(StoreError) in
                guard try row.object(at: position) != nil else {
                    throw StoreError(.invalidArgument, "“\(attribute)” of \(row.id) leads to nothing.")
                }
                return true
            }
        }
    }
}
