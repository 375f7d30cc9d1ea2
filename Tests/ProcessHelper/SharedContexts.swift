// What processes with a context each do to one store, as lines in their logs, and what must come of it.
//
// A process says in its log what it is about to save, under a name that the transaction has in the history. So the
// history says in which order everything was saved, and the logs say what. The model is told both, and nothing else.

import Annals
import FoundationEssentials

enum SharedContexts {
    /// Objects are known by their keys, because a process does not know the IDs that it will get.
    struct Folder: Entity {
        var key = ""
        var name = ""
        var parent: Reference<Folder>?
        var folders = ToMany<Folder>()
        var notes = ToMany<Note>()

        static let schema = Schema<Folder> { Relationship(\.parent, inverse: \.folders) }
    }

    struct Note: Entity {
        var key = ""
        var title = ""
        var rank = 0
        var folder: Reference<Folder>?
        var tags: Set<Reference<Tag>> = []

        static let schema = Schema<Note> {
            Attribute(\.rank, .indexed)
            Relationship(\.folder, inverse: \.notes, whenTargetIsDeleted: .cascade)
            Relationship(\.tags, inverse: \.notes)
        }
    }

    struct Tag: Entity {
        var key = ""
        var name = ""
        var notes = ToMany<Note>()
    }

    /// The attributes that change, by the first letter of an object's key. Each is one word in a log.
    static let attributes: [Character: [String]] = [
        "F": ["name", "parent"], "N": ["title", "rank", "folder", "tags"], "T": ["name"],
    ]
    static let nothing = "-"

    static func open(_ path: String) throws -> Store {
        var options = Store.Options()
        options.durability = .relaxed
        return try Store(at: path, entities: [Folder.self, Note.self, Tag.self], options: options)
    }

    /// A value as one word: references as the keys of their objects. A process may not know the key of an object that
    /// others have inserted and deleted again. Then the word has its ID.
    static func word(_ value: Value?, _ keys: [ObjectID: String]) throws -> String {
        func key(_ object: ObjectID) throws -> String { keys[object] ?? "?\(object.rawValue)" }
        switch value {
        case .string(let text): return text.isEmpty ? nothing : text
        case .int(let number): return "\(number)"
        case .object(let object): return try key(object)
        case .objects(let objects): return word(of: Set(try objects.map(key)))
        default: return nothing
        }
    }

    /// A word with keys instead of IDs.
    static func resolved(_ word: String, _ keys: [ObjectID: String]) throws -> String {
        guard word.contains("?") else { return word }
        let known = try self.keys(in: word).map { part in
            guard part.hasPrefix("?") else { return part }
            guard let key = UInt64(part.dropFirst()).flatMap({ ObjectID(rawValue: $0) }).flatMap({ keys[$0] }) else {
                throw Wrong("nobody has inserted \(part)")
            }
            return key
        }
        return self.word(of: Set(known))
    }

    static func word(of keys: Set<String>) -> String {
        keys.isEmpty ? nothing : keys.sorted().joined(separator: ",")
    }

    static func keys(in word: String) -> Set<String> {
        word == nothing ? [] : Set(word.split(separator: ",").map(String.init))
    }
}

/// An object's attributes as words.
typealias Words = [String: String]

/// What a process was about to do in one transaction.
struct SharedPlan {
    enum Item {
        case insert(String, Words)
        /// The changed attributes before and now, and all as they are shown.
        case update(String, base: Words, mine: Words, shown: Words)
        case delete(String)
        /// A batch over the notes of this rank.
        case raise(Int)
        case deleteAll(Int)

        /// The object; nil for a batch.
        var key: String? {
            switch self {
            case .insert(let key, _), .update(let key, _, _, _), .delete(let key): key
            case .raise, .deleteAll: nil
            }
        }
    }

    let policy: MergePolicy
    /// The last transaction when the process said it. What is saved is decided on that state or a later one.
    let start: UInt64
    fileprivate(set) var items: [Item] = []
    /// The transaction, if the process got as far as saying so; 0 if saving threw.
    fileprivate(set) var number: UInt64?

    /// The same with keys for all objects.
    func resolved(_ keys: [ObjectID: String]) throws -> SharedPlan {
        func resolved(_ words: Words) throws -> Words { try words.mapValues { try SharedContexts.resolved($0, keys) } }
        var plan = self
        plan.items = try items.map { item in
            switch item {
            case .insert(let key, let words): .insert(key, try resolved(words))
            case .update(let key, let base, let mine, let shown):
                .update(key, base: try resolved(base), mine: try resolved(mine), shown: try resolved(shown))
            case .delete, .raise, .deleteAll: item
            }
        }
        return plan
    }

    /// Adds what a log says to the plans, which have names. Returns how many operations it tells of.
    static func read(_ path: String, into plans: inout [String: SharedPlan]) throws -> Int {
        var operations = 0
        var name = ""
        for line in Lines.words(in: path) {
            let words = line.map(String.init)
            switch words[0] {
            case "b":
                name = words[1]
                operations = Int(words[3]) ?? 0
                plans[name] = SharedPlan(
                    policy: MergePolicy(rawValue: words[2]) ?? .error, start: UInt64(words[4]) ?? 0)
            case "i": plans[name]?.items.append(.insert(words[1], pairs(words[2...])))
            case "u":
                let parts = words[2...].split(separator: "|", omittingEmptySubsequences: false).map { pairs($0) }
                plans[name]?.items.append(.update(words[1], base: parts[0], mine: parts[1], shown: parts[2]))
            case "d": plans[name]?.items.append(.delete(words[1]))
            case "raise": plans[name]?.items.append(.raise(Int(words[1]) ?? 0))
            case "deleteAll": plans[name]?.items.append(.deleteAll(Int(words[1]) ?? 0))
            case "a": plans[words[1]]?.number = UInt64(words[2])
            case "n": operations = Int(words[1]) ?? 0
            default: throw Wrong("\(path): a line begins with \(words[0])")
            }
        }
        return operations
    }

    private static func pairs(_ words: some Sequence<String>) -> Words {
        var pairs: Words = [:]
        for word in words {
            let parts = word.split(separator: "=", maxSplits: 1)
            if parts.count == 2 { pairs[String(parts[0])] = String(parts[1]) }
        }
        return pairs
    }

    static func text(_ words: Words) -> String {
        words.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }.joined(separator: " ")
    }
}

/// What the store must have.
struct SharedModel {
    private(set) var objects: [String: Words] = [:]
    /// By object: the transactions that have changed it, and what it was then; nil if it was deleted.
    private var versions: [String: [(number: UInt64, words: Words?)]] = [:]

    var lines: [String] { objects.map { "\($0.key) \(SharedPlan.text($0.value))" }.sorted() }

    /// What an object was at the end of a transaction and has been since.
    func versions(of key: String, since start: UInt64) -> [(number: UInt64, words: Words?)] {
        let all = versions[key] ?? []
        return Array(all[(all.lastIndex { $0.number <= start } ?? 0)...])
    }

    /// Does what a plan says. `found` is what the transaction has really changed. It decides what a log cannot tell:
    /// whether a deletion is a conflict depends on what the process had seen; and an object may be left out because of
    /// what it was when saving began, if others have changed it until the transaction was committed. Returns the
    /// objects that differ.
    mutating func apply(
        _ plan: SharedPlan, number: UInt64, found: [String: Words?]
    ) throws -> [String: Words?] {
        let before = objects
        func mayBeLeft(_ key: String) -> Bool {
            versions[key]?.last?.number ?? 0 > plan.start && found[key] == nil
        }
        func wasNothingNew(_ key: String, _ mine: Words) -> Bool {
            mayBeLeft(key)
                && versions(of: key, since: plan.start).contains { version in
                    version.words.map { words in mine.allSatisfy { words[$0.key] == $0.value } } ?? false
                }
        }
        var gone: [String] = []
        let yields = plan.policy == .storeWins || plan.policy == .rollback
        let wins = plan.policy == .objectWins || plan.policy == .overwrite
        var inserted: Set<String> = []
        for item in plan.items {
            if case .insert(let key, _) = item { inserted.insert(key) }
            if wins, case .update(let key, _, _, _) = item { inserted.insert(key) }
        }
        for item in plan.items {
            switch item {
            case .insert(let key, _) where yields && mayBeLeft(key): continue
            case .update(let key, _, _, _) where yields && mayBeLeft(key): continue
            case .update(let key, _, let mine, _) where wasNothingNew(key, mine): continue
            case .delete(let key) where mayBeLeft(key): continue
            case .insert(let key, let words):
                let theirs = objects[key]
                let words = settled(plan.policy, words, theirs, inserted) ?? words
                guard let theirs, theirs != words else {
                    objects[key] = words
                    continue
                }
                // Undo shows a deleted object again, and somebody else has inserted it again, too.
                if plan.policy == .error { throw Wrong("\(key) was inserted although it is there") }
                if wins { objects[key] = words }
            case .update(let key, let base, let mine, let shown):
                guard let theirs = objects[key] else {
                    if plan.policy == .error { throw Wrong("\(key) was changed although it is deleted") }
                    if wins { objects[key] = settled(plan.policy, shown, nil, inserted) }
                    continue
                }
                let merged = try Self.merged(plan.policy, base, mine, shown, theirs)
                objects[key] = settled(plan.policy, merged, theirs, inserted) ?? theirs
            case .delete(let key):
                guard objects[key] != nil else { continue }
                if wins || plan.policy == .error || found[key] == .some(nil) { gone.append(key) }
            case .raise(let rank):
                for (key, words) in before where words["rank"] == "\(rank)" && !mayBeLeft(key) {
                    objects[key]?["rank"] = "\(rank + 1)"
                }
            case .deleteAll(let rank):
                gone += before.filter { $0.value["rank"] == "\(rank)" && !mayBeLeft($0.key) }.map(\.key)
            }
        }
        delete(gone)
        var changed: [String: Words?] = [:]
        for (key, words) in objects where before[key] != words { changed[key] = .some(words) }
        for key in before.keys where objects[key] == nil { changed[key] = .some(nil) }
        for (key, words) in changed { versions[key, default: []].append((number, words)) }
        for (key, words) in objects {
            let single = [words["folder"], words["parent"]].compactMap { $0 }
            for target in single + SharedContexts.keys(in: words["tags"] ?? SharedContexts.nothing)
            where target != SharedContexts.nothing && objects[target] == nil {
                throw Wrong("\(key) refers to \(target), which is deleted")
            }
        }
        return changed
    }

    /// What is saved of an object that was made to refer to what others have deleted; nil if the policy drops its
    /// edits. `theirs` is the store's version, and `inserted` is about to be there.
    private func settled(
        _ policy: MergePolicy, _ words: Words, _ theirs: Words?, _ inserted: Set<String>
    ) -> Words? {
        func isMissing(_ key: String) -> Bool {
            key != SharedContexts.nothing && objects[key] == nil && !inserted.contains(key)
        }
        var settled = words
        for name in ["folder", "parent"] {
            guard let target = words[name], target != theirs?[name], isMissing(target) else { continue }
            if policy == .rollback, theirs != nil { return nil }
            settled[name] = policy == .storeWins ? theirs?[name] ?? SharedContexts.nothing : SharedContexts.nothing
        }
        if let tags = words["tags"], tags != theirs?["tags"] {
            settled["tags"] = SharedContexts.word(of: SharedContexts.keys(in: tags).filter { !isMissing($0) })
        }
        return settled
    }

    private static func merged(
        _ policy: MergePolicy, _ base: Words, _ mine: Words, _ shown: Words, _ theirs: Words
    ) throws -> Words {
        var merged = theirs
        var isConflict = false
        for (name, value) in mine {
            guard let before = base[name], let there = theirs[name] else { throw Wrong("a log lacks \(name)") }
            if there == before || there == value {
                merged[name] = value
            } else if name == "tags" {
                let (old, here) = (SharedContexts.keys(in: before), SharedContexts.keys(in: value))
                let others = SharedContexts.keys(in: there)
                merged[name] = SharedContexts.word(
                    of: others.subtracting(old.subtracting(here)).union(here.subtracting(old)))
            } else {
                isConflict = true
                if policy != .storeWins { merged[name] = value }
            }
        }
        guard isConflict else { return merged }
        switch policy {
        case .error: throw Wrong("a conflict was saved")
        case .storeWins, .objectWins: return merged
        case .overwrite: return shown
        case .rollback: return theirs
        }
    }

    private mutating func delete(_ keys: [String]) {
        var waiting = keys
        while let gone = waiting.popLast() {
            guard objects.removeValue(forKey: gone) != nil else { continue }
            for (key, words) in objects {
                if words["folder"] == gone { waiting.append(key) }
                if words["parent"] == gone { objects[key]?["parent"] = SharedContexts.nothing }
                guard let tags = words["tags"], tags != SharedContexts.nothing else { continue }
                let left = SharedContexts.keys(in: tags).subtracting([gone])
                if gone.hasPrefix("T") { objects[key]?["tags"] = SharedContexts.word(of: left) }
            }
        }
    }
}

/// `contexts replay STORE LOG...`: the history is what the logs say, the store is what comes of it, and every process
/// has shown the same in the end (in LOG.state). Prints how much that was.
struct SharedReplay {
    private let store: Store
    private let logs: [String]
    private var keys: [ObjectID: String] = [:]

    init(_ path: String, logs: [String]) throws {
        store = try SharedContexts.open(path)
        self.logs = logs
    }

    mutating func run() throws {
        var plans: [String: SharedPlan] = [:]
        var operations = 0
        for log in logs { operations += try SharedPlan.read(log, into: &plans) }
        var model = SharedModel()
        var (last, transactions, saved) = (UInt64(0), 0, [String: UInt64]())
        while true {
            let some = try store.history(after: last, limit: 1000, includingValues: true)
            for transaction in some where !transaction.changesSchema {
                guard let name = transaction.contextName, let plan = plans[name],
                    saved.updateValue(transaction.number, forKey: name) == nil
                else {
                    throw Wrong("nobody has announced transaction \(transaction.number)")
                }
                guard plan.number == nil || plan.number == transaction.number else {
                    throw Wrong("\(name) was saved as \(transaction.number), not as \(plan.number ?? 0)")
                }
                do { try check(transaction, plan, &model) } catch {
                    throw Wrong("transaction \(transaction.number), \(name), \(plan.policy): \(error)")
                }
                transactions += 1
            }
            guard let end = some.last else { break }
            last = end.number
        }
        // Others may have inserted an object again that undo shows again, just the same: that is no transaction.
        let known = Set(keys.values)
        for (name, plan) in plans where saved[name] == nil && (plan.number ?? 0) > 0 && plan.policy == .error {
            let lost = plan.items.compactMap {
                if case .insert(let key, _) = $0, !known.contains(key) { key } else { nil }
            }
            guard !lost.isEmpty else { continue }
            let there = saved.first { $0.value == plan.number }?.key ?? "nobody's"
            throw Wrong(
                "\(lost) of \(name) are lost, saved after \(plan.start) as \(plan.number ?? 0), which is \(there)"
            )
        }
        try compare(model, try Self.lines(in: try store.snapshot(), keys), "the store")
        for log in logs {
            let state = try String(contentsOfFile: log + ".state", encoding: .utf8).split(separator: "\n")
            try compare(model, state.map(String.init), log)
        }
        try store.close()
        Lines.write("\(operations) operations, \(transactions) transactions\n", to: 1)
    }

    private mutating func check(
        _ transaction: HistoryTransaction, _ plan: SharedPlan, _ model: inout SharedModel
    ) throws {
        for change in transaction.changes where change.kind == .insert {
            guard case .string(let key)? = change.after?["key"] else { throw Wrong("an object has no key") }
            keys[change.object] = key
        }
        var found: [String: Words?] = [:]
        for change in transaction.changes {
            guard let key = keys[change.object] else { throw Wrong("nobody has inserted \(change.object)") }
            if change.kind == .delete {
                found[key] = .some(nil)
            } else if let row = change.after {
                let words = try Self.words(key, keys) { row[$0] }
                if model.objects[key] != words { found[key] = .some(words) }
            }
        }
        let expected = try model.apply(plan.resolved(keys), number: transaction.number, found: found)
        for key in Set(expected.keys).union(found.keys) where expected[key] != found[key] {
            func text(_ words: Words??) -> String { words.map { $0.map(SharedPlan.text) ?? "deleted" } ?? "as it was" }
            let planned = plan.items.filter { $0.key == key }
            let versions = model.versions(of: key, since: plan.start).map { "\($0.number): \(text($0.words))" }
            throw Wrong(
                "\(key) is \(text(found[key])) instead of \(text(expected[key])), planned after \(plan.start): "
                    + "\(planned). It was \(versions)")
        }
    }

    private func compare(_ model: SharedModel, _ lines: [String], _ place: String) throws {
        let wanted = model.lines
        if let line = wanted.first(where: { !lines.contains($0) }) { throw Wrong("\(place) lacks \(line)") }
        if let line = lines.first(where: { !wanted.contains($0) }) { throw Wrong("\(place) has \(line)") }
    }

    static func words(_ key: String, _ keys: [ObjectID: String], _ value: (String) -> Value?) throws -> Words {
        var words: Words = [:]
        for name in key.first.flatMap({ SharedContexts.attributes[$0] }) ?? [] {
            words[name] = try SharedContexts.word(value(name), keys)
        }
        return words
    }

    private static func lines(in snapshot: Snapshot, _ keys: [ObjectID: String]) throws -> [String] {
        try ["Folder", "Note", "Tag"].flatMap { entity in
            try snapshot.rows(of: entity).map { row in
                guard let key = keys[row.id] else { throw Wrong("nobody has inserted \(row.id)") }
                return "\(key) \(SharedPlan.text(try words(key, keys) { row[$0] }))"
            }
        }
    }
}
