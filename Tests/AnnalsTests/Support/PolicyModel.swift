// A store with an entity whose history is turned off and on, and beside it what the rule says of every question: worked
// out from what was done, not from the store.

import Annals
import Foundation
import TestSupport
import Testing

/// What an answer came to.
enum PolicyAnswer: Equatable {
    /// Numbers of transactions, and the changes in each as text.
    case transactions([UInt64], [[String]])
    /// `historyGap`, and the number of the place to go on from.
    case gap(UInt64?)
    case rows([String])
}

/// “Clip” keeps its history; “Log” as its policy says.
struct PolicyModel {
    static let clip = EntityDescription(
        "Clip", attributes: [AttributeDescription("rank", .int), AttributeDescription("name", .string)])
    static let log = EntityDescription(
        "Log",
        attributes: [
            AttributeDescription("line", .string, isIndexed: true, isPreservedOnDeletion: true),
            AttributeDescription("text", .string), AttributeDescription("clip", .object),
        ])

    struct Done {
        var changes: [String] = []
        var rows: [String: [String]] = [:]
    }

    /// By number, from 0: nothing.
    private(set) var done = [Done(rows: ["Clip": [], "Log": []])]
    private(set) var policy = HistoryPolicy.full
    /// The transaction that added “Log”, and the one that turned its history on last; nil if it was never off.
    private var added: UInt64 = 0
    private var begin: UInt64?
    private(set) var horizon: UInt64 = 0
    private var values: [String: [ObjectID: String]] = ["Clip": [:], "Log": [:]]
    private(set) var gone: [ObjectID] = []
    private var random: SeededRandom

    init(seed: UInt64) { random = SeededRandom(seed) }

    var last: UInt64 { UInt64(done.count - 1) }
    var objects: [ObjectID] { (Array(values["Clip"]!.keys) + Array(values["Log"]!.keys)).sorted() + gone }

    mutating func pick(_ count: Int) -> Int { Int.random(in: 0..<count, using: &random) }

    // MARK: What is done

    private mutating func finish(_ changes: [String]) {
        done.append(
            Done(changes: changes, rows: values.mapValues { rows in rows.map { "\($0.key) \($0.value)" }.sorted() }))
    }

    mutating func addEntities(_ store: Store, logs: HistoryPolicy) throws {
        var log = Self.log
        log.history = logs
        try store.changeSchema([.addEntity(Self.clip), .addEntity(log)])
        finish([])
        (policy, added) = (logs, last)
    }

    mutating func turn(_ store: Store, _ history: HistoryPolicy) throws {
        let token = try store.changeSchema([.changeEntity("Log", history: history)])
        #expect((token == nil) == (history == policy))
        guard history != policy else { return }
        finish([])
        policy = history
        begin = history == .full ? last : nil
    }

    /// Some changes of both entities, or of one.
    mutating func commit(_ store: Store) throws {
        let entities = [["Clip"], ["Log"], ["Log", "Clip"], ["Clip", "Log", "Log"]][pick(4)]
        var changes: [String] = []
        var touched: Set<ObjectID> = []
        let stamp = "v\(done.count)"
        var plan: [(entity: String, object: ObjectID?, kind: Int)] = []
        for entity in entities {
            let here = values[entity]!.keys.filter { !touched.contains($0) }.sorted()
            let kind = here.isEmpty ? 0 : pick(5)
            let object = kind < 2 ? nil : here[pick(here.count)]
            if let object { touched.insert(object) }
            plan.append((entity, object, kind))
        }
        try store.writeOptimistically(author: "app") { transaction in
            changes = []
            for (entity, object, kind) in plan {
                let attribute = entity == "Clip" ? "name" : "text"
                // Some values are long ones, which stand in frames of their own.
                let value = pick(8) == 0 ? stamp + String(repeating: "x", count: 70_000) : stamp
                if let object, kind == 4 {
                    try transaction.delete(object)
                    values[entity]![object] = nil
                    gone.append(object)
                    changes.append("delete \(object)")
                } else if let object {
                    try transaction.update(object, [attribute: .string(value)])
                    values[entity]![object] = value
                    changes.append("update \(object) \(attribute)")
                } else {
                    var row: [String: Value] = [attribute: .string(value)]
                    if entity == "Log" { row["line"] = .string(stamp) }
                    let object = try transaction.insert(entity, row)
                    values[entity]![object] = value
                    changes.append("insert \(object)")
                }
            }
        }
        finish(changes)
    }

    mutating func clean(_ store: Store) throws {
        let before = horizon + 1 + UInt64(pick(Int(last - horizon) / 3 + 1))
        try store.deleteHistory(before: before)
        horizon = max(horizon, before - 1)
    }

    // MARK: What the rule says

    /// The first transaction that the history of “Log” has; nil while it is off.
    var first: UInt64? { policy == .off ? nil : begin ?? added }

    private func isShown(_ change: String, _ number: UInt64) -> Bool {
        guard change.split(separator: " ")[1].hasPrefix("2:") else { return true }
        return first.map { number >= $0 } ?? false
    }

    /// Whether changes of “Log” are left out of the transactions after `after`, up to `last`, although they are asked
    /// for.
    private func lacks(_ after: UInt64, _ last: UInt64, named: Bool) -> Bool {
        guard let first else { return named }
        return after + 1 <= last && max(after + 1, added) < first && last >= added && begin != nil
    }

    private var gap: PolicyAnswer { .gap(first.map { max($0 - 1, horizon) }) }

    func answer(_ request: HistoryRequest, after: UInt64, last: UInt64) -> PolicyAnswer {
        var named: Bool?
        if let entities = request.entities { named = entities.contains("Log") }
        if let objects = request.objects { named = (named ?? true) && objects.contains { $0.entityNumber == 2 } }
        if lacks(after, last, named: named ?? false), named ?? true { return gap }
        let isFiltered = request.entities != nil || request.objects != nil
        var numbers: [UInt64] = []
        var changes: [[String]] = []
        for number in (after + 1)..<(max(last, after) + 1) {
            let shown = done[Int(number)].changes.filter { change in
                let object = String(change.split(separator: " ")[1])
                let entity = object.hasPrefix("1:") ? "Clip" : "Log"
                return isShown(change, number) && (request.entities?.contains(entity) ?? true)
                    && (request.objects?.contains { $0.description == object } ?? true)
            }
            if isFiltered, shown.isEmpty { continue }
            numbers.append(number)
            changes.append(shown)
        }
        return .transactions(numbers, changes)
    }

    func rows(_ entity: String, asOf number: UInt64) -> PolicyAnswer {
        if entity == "Log", number < last, number >= added, begin != nil || policy == .off,
            first.map({ number + 1 < $0 }) ?? true
        {
            return gap
        }
        return .rows(done[Int(number)].rows[entity]!)
    }

    /// The numbers of the transactions that changed the object, newest first, and whether it was there before that.
    func versions(_ object: ObjectID) -> (numbers: [UInt64], isCut: Bool) {
        let numbers = done.indices.reversed().filter { number in
            done[number].changes.contains { $0.split(separator: " ")[1] == object.description }
        }.map(UInt64.init)
        guard object.entityNumber == 2, policy == .off || begin != nil else { return (numbers, false) }
        guard let first else { return ([], true) }
        let shown = numbers.filter { $0 >= first }
        return (shown, shown.count < numbers.count && first - 1 > horizon)
    }
}

// MARK: What the store says

extension Store {
    func policyAnswer(_ request: HistoryRequest) throws -> PolicyAnswer {
        try Self.policyAnswer {
            let transactions = try history(request)
            return .transactions(
                transactions.map(\.number),
                transactions.map { transaction in
                    transaction.changes.map {
                        (["\($0.kind.rawValue) \($0.object)"] + $0.attributes).joined(separator: " ")
                    }
                })
        }
    }

    func policyRows(_ entity: String, asOf number: UInt64) throws -> PolicyAnswer {
        let snapshot = try snapshot(asOf: number)
        let attribute = entity == "Clip" ? "name" : "text"
        return try Self.policyAnswer {
            let handle: EntityHandle
            do { handle = try snapshot.entity(entity) } catch { return .rows([]) }
            #expect(try snapshot.count(of: entity) == UInt64(snapshot.rows(of: entity).count))
            return .rows(
                try snapshot.rows(of: handle.name).map { "\($0.id) \($0[attribute]?.string ?? "?")" }.sorted())
        }
    }

    static func policyAnswer(_ body: () throws -> PolicyAnswer) throws -> PolicyAnswer {
        do {
            return try body()
        } catch let error as StoreError where error.code == .historyGap {
            #expect(error.message.contains("“Log”") && error.message.hasSuffix("."), "\(error)")
            return .gap(error.oldestToken?.number)
        }
    }
}
