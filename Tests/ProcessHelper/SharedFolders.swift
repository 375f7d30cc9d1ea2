// Processes that work on the same folders at once: no reference may ever lead to nothing.

import Annals
import FoundationEssentials
import Glibc
import TestSupport

/// `folders STORE SEED OPERATIONS`: inserts clips into folders, moves them between folders, deletes folders and what
/// hangs on them, and tries to delete shelves that are in use. Every second operation, and batches, are done with
/// structs. Prints what it did.
struct SharedFolders {
    struct Shelf: Entity {
        var name: String?
    }

    struct Folder: Entity {
        var shelf: Reference<Shelf>?
        var parent: Reference<Folder>?
        var folders = ToMany<Folder>()
        var clips = ToMany<Clip>()

        static let schema = Schema<Folder> {
            Relationship(\.shelf, .required, whenTargetIsDeleted: .deny)
            Relationship(\.parent, inverse: \.folders, whenTargetIsDeleted: .cascade)
        }
    }

    struct Clip: Entity {
        var folder: Reference<Folder>?
        var related: Set<Reference<Clip>> = []
        var after: Reference<Clip>?
        var relatedBy = ToMany<Clip>()

        static let schema = Schema<Clip> {
            Relationship(\.folder, .required, inverse: \.clips, whenTargetIsDeleted: .cascade)
            Relationship(\.related, inverse: \.relatedBy)
        }
    }

    static let entities = [
        EntityDescription("Shelf", attributes: [AttributeDescription("name", .string)]),
        EntityDescription(
            "Folder",
            attributes: [
                AttributeDescription("shelf", .object, isOptional: false, target: "Shelf", whenTargetIsDeleted: .deny),
                AttributeDescription("parent", .object, target: "Folder", whenTargetIsDeleted: .cascade),
            ]),
        EntityDescription(
            "Clip",
            attributes: [
                AttributeDescription(
                    "folder", .object, isOptional: false, target: "Folder", whenTargetIsDeleted: .cascade),
                AttributeDescription("related", .objects, target: "Clip", whenTargetIsDeleted: .nullify),
                AttributeDescription("after", .object, target: "Clip", whenTargetIsDeleted: .nullify),
            ]),
    ]

    private let store: Store
    private var random: SeededRandom
    private var counts = (commits: 0, deleted: 0, denied: 0, repeated: 0, batches: 0)

    static func run(_ path: String, seed: UInt64, operations: Int) throws {
        var options = Store.Options()
        options.durability = .relaxed
        options.reading = seed % 2 == 0 ? .mapped : .copied
        options.lockTimeout = .seconds(60)
        // The types and the descriptions say the same.
        try Store(at: path, entities: entities, options: options).close()
        let store = try Store(at: path, entities: [Shelf.self, Folder.self, Clip.self], options: options)
        var folders = SharedFolders(store: store, random: SeededRandom(seed))
        for operation in 1...operations {
            try folders.step()
            if operation % 10_000 == 0 { try folders.requireNothingMissing() }
        }
        let counts = folders.counts
        Lines.write(
            "\(counts.commits) commits, \(counts.deleted) deletions, \(counts.denied) denied, "
                + "\(counts.repeated) bodies repeated, \(counts.batches) batches\n", to: 1)
        try store.close()
    }

    /// One operation, which is one transaction.
    private mutating func step() throws {
        let start = random
        let kind: UInt64 = random.next(below: 100)
        if kind == 99 { return try batch() }
        var runs = 0
        var random = random
        do {
            try store.writeOptimistically { transaction in
                runs += 1
                // The body may run again, on a newer state.
                random = start
                _ = random.next(below: 100)
                if random.next(below: 2) == 0 {
                    try Self.fill(transaction, kind, &random)
                } else {
                    try Self.fillWithStructs(transaction, kind, &random)
                }
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

    /// An object of the entity, mostly one of the newest.
    private static func any(_ entity: String, _ snapshot: Snapshot, _ random: inout SeededRandom) throws -> ObjectID? {
        let handle = try snapshot.entity(entity)
        var found: ObjectID?
        try snapshot.forEachRow(of: handle, reversed: true) { (row) throws(StoreError) in
            found = row.id
            return false
        }
        guard let newest = found else { return nil }
        // The first one from a place among the newest on: older ones are mostly deleted.
        let start = newest.number - random.next(below: min(newest.number, 300))
        try snapshot.forEachRow(of: handle, numbers: start...newest.number) { (row) throws(StoreError) in
            found = row.id
            return false
        }
        return found
    }

    private static func fillWithStructs(_ transaction: Transaction, _ kind: UInt64, _ random: inout SeededRandom) throws
    {
        let snapshot = transaction.snapshot
        let shelf = try any("Shelf", snapshot, &random).map { Reference<Shelf>($0) }
        let folder = try any("Folder", snapshot, &random).map { Reference<Folder>($0) }
        let clip = try any("Clip", snapshot, &random).map { Reference<Clip>($0) }
        switch kind {
        case 0..<4: if let shelf { try transaction.delete(shelf) }
        case 4..<8: if let folder { try transaction.delete(folder) }
        case 8..<12: if let clip { try transaction.delete(clip) }
        case 12..<16: try transaction.insert(Shelf(name: "shelf"))
        case 16..<30:
            let shelf = try shelf ?? transaction.insert(Shelf())
            try transaction.insert(Folder(shelf: shelf, parent: random.next(below: 2) == 0 ? folder : nil))
        case 30..<65:
            guard let folder else { return }
            try transaction.insert(Clip(folder: folder, related: Set([clip].compactMap(\.self)), after: clip))
        default:
            guard let clip, let folder else { return }
            let other = try any("Clip", snapshot, &random).map { Reference<Clip>($0) }
            try transaction.update(clip) { value in
                value.folder = folder
                value.related = Set([clip, other].compactMap(\.self))
            }
        }
    }

    /// Changes or deletes all clips of a folder.
    private mutating func batch() throws {
        guard let any = try Self.any("Folder", try store.snapshot(), &random) else { return }
        let folder = Reference<Folder>(any)
        counts.batches += 1
        if random.next(below: 2) == 0 {
            try store.update(Clip.self, where: #Predicate { $0.folder == folder }) { $0.after = nil }
        } else {
            try store.delete(Clip.self, where: #Predicate { $0.folder == folder && $0.after == nil })
        }
    }

    private static func fill(_ transaction: Transaction, _ kind: UInt64, _ random: inout SeededRandom) throws {
        let snapshot = transaction.snapshot
        func any(_ entity: String) throws -> ObjectID? { try Self.any(entity, snapshot, &random) }
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
    private mutating func requireNothingMissing() throws {
        let snapshot = try store.snapshot()
        // Both sides of a relationship say the same.
        if let any = try Self.any("Folder", snapshot, &random) {
            let folder = Reference<Folder>(any)
            let here = try snapshot.references(\Folder.clips, of: folder)
            let found = try snapshot.references(to: Clip.self, where: #Predicate { !($0.folder != folder) })
            guard here == found.sorted() else { throw Wrong("\(folder) has \(here.count) clips and \(found.count)") }
        }
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
