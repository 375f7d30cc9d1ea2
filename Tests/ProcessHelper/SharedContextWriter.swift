// A process with a context that does this and that, until it has done enough or is killed.

import Annals
import FoundationEssentials
import Glibc
import TestSupport

/// `contexts work STORE LOG NUMBER SEED OPERATIONS`: goes on where its log ends. Both sides of all relationships agree
/// after each operation. When it has done its operations it says so, waits until there is the file LOG.stop, merges,
/// and writes what its context shows to LOG.state.
final class SharedContextWriter {
    typealias Folder = SharedContexts.Folder
    typealias Note = SharedContexts.Note
    typealias Tag = SharedContexts.Tag

    private let store: Store
    private let context: Context
    private let path: String
    private let log: Lines
    private let name: String
    private let total: Int
    private var operation: Int
    private var saves = 0
    private var random: SeededRandom
    /// Of all objects that this process has seen.
    private var keys: [ObjectID: String] = [:]
    private var (folders, notes, tags) = ([Object<Folder>](), [Object<Note>](), [Object<Tag>]())

    init(_ path: String, log: String, number: Int, seed: UInt64, operations: Int) throws {
        store = try SharedContexts.open(path)
        self.path = log
        // Also how often it was started.
        var plans: [String: SharedPlan] = [:]
        operation = try SharedPlan.read(log, into: &plans)
        let turns = Set(plans.keys.map { $0.split(separator: ".").prefix(2).joined(separator: ".") }).count
        name = "\(number).\(turns)"
        total = operations
        random = SeededRandom(seed &* 7919 &+ UInt64(number) &* 131 &+ UInt64(turns))
        self.log = try Lines(appendingTo: log)
        context = store.makeContext(author: "process \(number)")
        context.undoLevels = 20
    }

    func run() throws {
        try check()
        while operation < total {
            operation += 1
            do {
                try act()
                try check()
            } catch { throw Wrong("process \(name), operation \(operation): \(error)") }
        }
        log.add("n \(operation)")
        Lines.write("done\n", to: 1)
        while access(path + ".stop", F_OK) != 0 { usleep(2000) }
        try context.merge()
        try check()
        context.rollback()
        try context.merge()
        try check()
        guard !context.hasChanges else { throw Wrong("something is unsaved after a rollback") }
        let state = try Lines(appendingTo: path + ".state")
        for key in folders.map({ ($0.key, values($0)) }) + notes.map({ ($0.key, values($0)) })
            + tags.map({ ($0.key, values($0)) })
        {
            state.add("\(key.0) \(SharedPlan.text(try SharedReplay.words(key.0, keys) { key.1[$0] }))")
        }
        context.close()
        try store.close()
    }

    // MARK: Operations

    private func pick<E>(_ objects: [Object<E>]) -> Object<E>? {
        objects.isEmpty ? nil : objects[Int(random.next(below: UInt64(objects.count)))]
    }

    private func nextKey(_ letter: String) -> String { "\(letter)\(name).\(operation)" }

    private func act() throws {
        switch random.next(below: 100) {
        case 0..<5:
            if folders.count < 12 {
                context.insert(Folder(key: nextKey("F"), name: "f", parent: pick(folders)?.objectReference))
            }
        case 5..<19:
            guard notes.count < 60 else { return try removeSome() }
            context.insert(Note(key: nextKey("N"), title: "n", rank: rank, folder: pick(folders)?.objectReference))
        case 19..<22: if tags.count < 8 { context.insert(Tag(key: nextKey("T"), name: "t")) }
        case 22..<34: pick(notes)?.rank = rank
        case 34..<42: pick(notes)?.title = "t\(random.next(below: 20))"
        case 42..<46: pick(folders)?.name = "f\(random.next(below: 20))"
        case 46..<54: pick(notes)?.folder = pick(folders)
        case 54..<62:
            guard let note = pick(notes), let tag = pick(tags) else { return }
            note.objectUpdate { if $0.tags.remove(tag.objectReference) == nil { $0.tags.insert(tag.objectReference) } }
        case 62..<64: pick(folders)?.parent = pick(folders)
        case 64..<67: try removeSome()
        case 67..<69: if let folder = pick(folders) { context.delete(folder) }
        case 69..<70: if let tag = pick(tags) { context.delete(tag) }
        case 70..<82: try save()
        case 82..<87: try context.merge()
        case 87..<88: context.rollback()
        case 88..<89: if let note = pick(notes) { context.discard(note) }
        case 89..<93: try tolerating(.undoConflict) { try context.undo(skippingConflicts: random.next(below: 2) == 0) }
        case 93..<95: try tolerating(.undoConflict) { try context.redo(skippingConflicts: random.next(below: 2) == 0) }
        case 95..<97:
            guard let note = pick(notes) else { return }
            try tolerating(.objectGone) { try context.refresh(note, keepingEdits: random.next(below: 2) == 0) }
        case 97..<98: if let note = pick(notes) { try context.obtainPermanentReferences(for: [note]) }
        case 98..<99:
            let rank = rank
            try announced(.objectWins, ["raise \(rank)"]) { name in
                try store.update(Note.self, where: #Predicate { $0.rank == rank }, contextName: name) { $0.rank += 1 }
                    .token
            }
        default:
            let rank = rank
            try announced(.objectWins, ["deleteAll \(rank)"]) { name in
                try store.delete(Note.self, where: #Predicate { $0.rank == rank }, contextName: name).token
            }
        }
    }

    private var rank: Int { Int(random.next(below: 30)) }

    private func removeSome() throws { if let note = pick(notes) { context.delete(note) } }

    private func tolerating(_ code: StoreError.Code, _ body: () throws -> Void) throws {
        do { try body() } catch let error as StoreError {
            guard error.code == code else { throw error }
        }
    }

    /// Says what is about to be saved, and what has come of it. Returns false if it was refused.
    private func announced(
        _ policy: MergePolicy, _ lines: [String], _ save: (String) throws -> HistoryToken?
    ) throws {
        saves += 1
        let name = "\(self.name).\(saves)"
        let start = try store.currentToken.number
        log.add((["b \(name) \(policy.rawValue) \(operation) \(start)"] + lines).joined(separator: "\n"))
        do {
            let token = try save(name)
            log.add("a \(name) \(token?.number ?? 0)")
        } catch {
            log.add("a \(name) 0")
            throw error
        }
    }

    private func save() throws {
        guard context.hasChanges else { return }
        let policy = MergePolicy.allCases[Int(random.next(below: UInt64(MergePolicy.allCases.count)))]
        context.mergePolicy = policy
        let lines = try lines(Folder.self) + lines(Note.self) + lines(Tag.self)
        do {
            try announced(policy, lines) { name in
                context.name = name
                return try context.save()
            }
            guard !context.hasChanges else { throw Wrong("something is unsaved after saving") }
        } catch let error as StoreError {
            guard [.mergeConflict, .referenceMissing, .busy].contains(error.code) else { throw error }
            // What stays unsaved is saved with another policy, or comes to nothing.
            if error.code == .referenceMissing || random.next(below: 3) == 0 { context.rollback() }
        }
    }

    /// What is unsaved of an entity.
    private func lines<E: Entity>(_ type: E.Type) throws -> [String] {
        var lines: [String] = []
        for object in context.insertedObjects(type) {
            let key = try key(object)
            lines.append("i \(key) \(SharedPlan.text(try SharedReplay.words(key, keys) { values(object)[$0] }))")
        }
        for object in context.changedObjects(type) {
            let (key, changed, saved) = (
                try key(object), object.objectStatus.changedValues, object.objectStatus.savedValues
            )
            func text(_ values: [String: Value]) throws -> String {
                SharedPlan.text(try values.mapValues { try SharedContexts.word($0, keys) })
            }
            let shown = SharedPlan.text(try SharedReplay.words(key, keys) { values(object)[$0] })
            lines.append("u \(key) \(try text(saved)) | \(try text(changed)) | \(shown)")
        }
        for object in context.deletedObjects(type) { lines.append("d \(try key(object))") }
        return lines
    }

    /// A merge may have shown an object and deleted it at once, because what it refers to is deleted here.
    private func key<E: Entity>(_ object: Object<E>) throws -> String {
        guard case .string(let key)? = values(object)["key"] else {
            throw Wrong("\(object.objectReference) has no key")
        }
        keys[object.objectReference.id] = key
        return key
    }

    /// The properties as they are shown.
    private func values<E: Entity>(_ object: Object<E>) -> [String: Value] {
        func reference<T: Entity>(_ reference: Reference<T>?) -> Value { reference.map { .object($0.id) } ?? .null }
        switch object.objectStatus.snapshot {
        case let folder as Folder:
            return [
                "key": .string(folder.key), "name": .string(folder.name), "parent": reference(folder.parent),
            ]
        case let note as Note:
            return [
                "key": .string(note.key), "title": .string(note.title), "rank": .int(Int64(note.rank)),
                "folder": reference(note.folder), "tags": .objects(note.tags.map(\.id)),
            ]
        case let tag as Tag: return ["key": .string(tag.key), "name": .string(tag.name)]
        default: return [:]
        }
    }

    // MARK: What always holds

    private func check() throws {
        folders = try context.fetch(Folder.self)
        notes = try context.fetch(Note.self)
        tags = try context.fetch(Tag.self)
        for folder in folders { keys[folder.objectReference.id] = folder.key }
        for note in notes { keys[note.objectReference.id] = note.key }
        for tag in tags { keys[tag.objectReference.id] = tag.key }
        var inFolder: [ObjectIdentifier: Set<String>] = [:]
        var withTag: [ObjectIdentifier: Set<String>] = [:]
        var below: [ObjectIdentifier: Set<String>] = [:]
        for note in notes {
            if let folder = note.folder { inFolder[ObjectIdentifier(folder), default: []].insert(note.key) }
            for tag in note.tags { withTag[ObjectIdentifier(tag), default: []].insert(note.key) }
        }
        for folder in folders {
            if let parent = folder.parent { below[ObjectIdentifier(parent), default: []].insert(folder.key) }
        }
        for folder in folders {
            try require(folder.notes.map(\.key), inFolder[ObjectIdentifier(folder)], "the notes of \(folder.key)")
            try require(folder.folders.map(\.key), below[ObjectIdentifier(folder)], "the folders of \(folder.key)")
        }
        for tag in tags { try require(tag.notes.map(\.key), withTag[ObjectIdentifier(tag)], "the notes of \(tag.key)") }
    }

    private func require(_ listed: [String], _ refer: Set<String>?, _ what: String) throws {
        guard Set(listed) == refer ?? [], listed.count == refer?.count ?? 0 else {
            throw Wrong("\(what) are \(listed.sorted()), and \((refer ?? []).sorted()) refer to it")
        }
    }
}
