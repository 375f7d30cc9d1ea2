// A store that several processes track: its entities, and what the processes write to their logs.
//
// Every change has a name of its own. An object is inserted and deleted once in its life, so its key names these. Each
// update gives the object a stamp that nothing else gets. So what a process has planned, what observers have got and
// what they have counted can be compared, although nobody keeps history.

import Annals
import FoundationEssentials

enum Tracked {
    struct Note: Entity {
        var key = ""
        var stamp = ""
        /// The process that inserted it. Nobody else deletes it or does batch work on it.
        var owner = 0
        /// The plan number of the owner's last batch work on it.
        var mark = 0

        static let schema = Schema<Note> {
            Attribute(\.key, .preservedOnDeletion)
            Attribute(\.owner, .indexed)
        }
    }

    /// The number of the last plan that a process has carried out in one way. Saved with it.
    struct Ledger: Entity {
        var owner = 0
        var way = ""
        var plan = 0
    }

    /// One change that a process's writing observer has got.
    struct Tally: Entity {
        var owner = 0
        var number = 0
        var change = ""
    }

    static let processes = 0..<3
    static let batchAuthor = "batch"
    static func author(_ number: Int) -> String { "process \(number)" }
    static var authors: [String] { processes.map(author) + [batchAuthor] }
    static func tallyCursor(_ number: Int) -> String { author(number) + "/tally" }

    /// - Parameter process: One of them reads in another way. One is impatient: others may be stopped with the lock,
    ///   and for that one the store is busy then.
    static func open(_ path: String, process: Int? = nil) throws -> Store {
        var options = Store.Options()
        options.durability = .relaxed
        options.reading = process == 1 ? .copied : .mapped
        options.lockTimeout = process == 2 ? .milliseconds(100) : .seconds(60)
        return try Store(at: path, entities: [Note.self, Ledger.self, Tally.self], options: options)
    }

    /// `trackers make STORE`.
    static func make(_ path: String) throws {
        let store = try open(path)
        try store.setRetention(Store.Retention(age: .seconds(3600), bytes: 16 << 20))
        for way in [TrackedPlan.Way.save, .write] {
            try store.insert(contentsOf: processes.map { Ledger(owner: $0, way: way.rawValue) })
        }
        try store.close()
    }

    static func change(_ kind: HistoryChange.Kind, _ key: String, _ stamp: String?) -> String {
        switch kind {
        case .insert: "i:\(key)"
        case .update: "u:\(key):\(stamp ?? "")"
        case .delete: "d:\(key)"
        }
    }

    static func line(_ note: Note) -> String { "\(note.key) \(note.stamp) \(note.owner) \(note.mark)" }
}

/// The files beside the store that one process writes, and by which it is told what to do.
struct TrackedFiles {
    let folder: String
    let number: Int

    /// What it was about to commit, and what came of it.
    var plans: String { path("plans") }
    /// What its observers got.
    var seen: String { path("seen") }
    /// The tracker's messages.
    var messages: String { path("messages") }
    /// There when it has carried out all its plans.
    var done: String { path("done") }
    /// There if it is to end, and to be started again.
    var leave: String { path("leave") }
    /// There if everything is over.
    var stop: String { path("stop") }
    /// What its context shows in the end.
    var state: String { path("state") }

    private func path(_ name: String) -> String { "\(folder)/\(number).\(name)" }
}

/// What a process was about to do in one transaction.
struct TrackedPlan {
    enum Way: String {
        case save, write, batch
    }

    let process: Int
    let number: Int
    let way: Way
    let changes: [String]
    /// Nil while nobody knows, such as after a kill.
    var isCommitted: Bool?
    /// Nil if it is not committed, or was before the process could say as which transaction.
    var transaction: UInt64?

    var author: String { way == .batch ? Tracked.batchAuthor : Tracked.author(process) }

    var line: String { "b \(number) \(way.rawValue) " + changes.joined(separator: " ") }

    /// The plans of a process, in the order in which it tried them.
    static func read(_ files: TrackedFiles) throws -> [TrackedPlan] {
        var plans: [TrackedPlan] = []
        for line in Lines.words(in: files.plans) {
            guard let number = Int(line[1]) else { throw Wrong("\(files.plans): \(line)") }
            if line[0] == "b", let way = Way(rawValue: String(line[2])) {
                guard number == (plans.last?.number ?? 0) + 1, plans.last.map({ $0.isCommitted != nil }) ?? true else {
                    throw Wrong("\(files.plans): plan \(number) comes after \(plans.last?.line ?? "nothing")")
                }
                plans.append(
                    TrackedPlan(process: files.number, number: number, way: way, changes: line[3...].map(String.init)))
            } else if let last = plans.indices.last, plans[last].number == number {
                plans[last].isCommitted = line[0] == "a"
                plans[last].transaction = line.count > 2 ? UInt64(line[2]) : nil
            } else {
                throw Wrong("\(files.plans): \(line) is of no plan")
            }
        }
        return plans
    }
}
