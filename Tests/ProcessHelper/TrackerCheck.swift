// What observers in several processes must have got of what all of them committed.

import Annals
import FoundationEssentials

/// `trackers check STORE FOLDER`: compares the plans, what plain observers have written to their logs, what writing
/// observers have counted in the store, and what the contexts have shown in the end. Prints how much that was.
struct TrackerCheck {
    private let store: Store
    private let folder: String
    /// By change: its plan.
    private var plans: [TrackedPlan] = []
    private var planOfChange: [String: Int] = [:]
    private var transactions: [UInt64: Int] = [:]
    private var figures = (changes: 0, got: 0, repeated: 0, counted: 0, lost: 0, lostPlain: 0, lostTallies: 0)

    /// What one process has observed.
    private struct Seen {
        var counts: [String: Int] = [:]
        var kills = 0
        /// The transactions that its plain and its writing observer may have missed, because they were told so.
        var lost: [ClosedRange<UInt64>] = []
        var lostTallies: [ClosedRange<UInt64>] = []
    }

    init(_ path: String, folder: String) throws {
        store = try Tracked.open(path)
        self.folder = folder
    }

    mutating func run() throws {
        for process in Tracked.processes {
            for plan in try TrackedPlan.read(TrackedFiles(folder: folder, number: process)) {
                guard let isCommitted = plan.isCommitted else { throw Wrong("nobody knows of \(plan.line)") }
                guard isCommitted else { continue }
                plans.append(plan)
                for change in plan.changes {
                    guard planOfChange.updateValue(plans.count - 1, forKey: change) == nil else {
                        throw Wrong("\(change) was planned twice")
                    }
                }
                figures.changes += plan.changes.count
                if let number = plan.transaction { try note(number, of: plans.count - 1) }
            }
        }
        let seen = try Tracked.processes.map { try read(TrackedFiles(folder: folder, number: $0)) }
        let tallies = try tallies()
        for process in Tracked.processes { try compare(process, seen[process], tallies[process]) }
        try compareContexts()
        try store.close()
        let figures = figures
        Lines.write(
            "\(plans.count) transactions, \(figures.changes) changes, observed \(figures.got) times, of these "
                + "\(figures.repeated) again after a kill, counted \(figures.counted); history lost \(figures.lost) "
                + "times, with \(figures.lostPlain) and \(figures.lostTallies) changes\n", to: 1)
    }

    /// A plan was committed as this transaction.
    private mutating func note(_ number: UInt64, of plan: Int) throws {
        if let known = transactions.updateValue(plan, forKey: number), known != plan {
            throw Wrong("transaction \(number) is \(plans[known].line) and \(plans[plan].line)")
        }
        if let known = plans[plan].transaction, known != number {
            throw Wrong("\(plans[plan].line) is transaction \(known) and \(number)")
        }
        plans[plan].transaction = number
    }

    /// Which plan an observed change is of.
    private mutating func found(_ change: String, in number: UInt64, by process: Int) throws {
        guard let plan = planOfChange[change] else {
            throw Wrong("process \(process) got \(change) of transaction \(number), which nobody has committed")
        }
        guard plans[plan].author != Tracked.author(process) else {
            throw Wrong("process \(process) got its own \(change)")
        }
        try note(number, of: plan)
    }

    // MARK: What observers got

    /// In order, and once each between two kills.
    private mutating func read(_ files: TrackedFiles) throws -> Seen {
        var seen = Seen()
        var (last, sinceKill, wasEnded) = (UInt64(0), Set<String>(), true)
        for line in Lines.words(in: files.seen) {
            func number(_ place: Int) -> UInt64 { UInt64(line[place]) ?? 0 }
            switch line[0] {
            case "s":
                if !wasEnded { (seen.kills, last, sinceKill) = (seen.kills + 1, 0, []) }
                wasEnded = false
            case "e": wasEnded = true
            case "c":
                guard number(1) >= last else {
                    throw Wrong("process \(files.number) got \(line.joined(separator: " ")) after \(last)")
                }
                last = number(1)
                for change in line[2...].map(String.init) {
                    try found(change, in: last, by: files.number)
                    guard sinceKill.insert(change).inserted else {
                        throw Wrong("process \(files.number) got \(change) twice without a kill, at \(last)")
                    }
                    seen.counts[change, default: 0] += 1
                }
            case "r", "w":
                let (cursor, tally, end, horizon) = (number(1), number(2), number(3), number(4))
                guard min(cursor, tally) < horizon else {
                    throw Wrong("process \(files.number) lost nothing: \(line.joined(separator: " "))")
                }
                if line[0] == "r" {
                    seen.lost.append(cursor...max(cursor, end))
                    figures.lost += 1
                    last = max(last, end)
                } else {
                    seen.lostTallies.append(tally...max(tally, end))
                }
            default: throw Wrong("\(files.seen) has a line \(line)")
            }
        }
        guard wasEnded else { throw Wrong("process \(files.number) was killed at last") }
        return seen
    }

    /// By process and change: how often it was counted.
    private mutating func tallies() throws -> [[String: Int]] {
        var counts = Tracked.processes.map { _ in [String: Int]() }
        for tally in try store.snapshot().fetch(Tracked.Tally.self) {
            try found(tally.change, in: UInt64(tally.number), by: tally.owner)
            counts[tally.owner][tally.change, default: 0] += 1
        }
        return counts
    }

    // MARK: Comparing

    private mutating func compare(_ process: Int, _ seen: Seen, _ tallies: [String: Int]) throws {
        for (place, plan) in plans.enumerated() where plan.author != Tracked.author(process) {
            let (isLost, isTallyLost) = (mayBe(place, seen.lost), mayBe(place, seen.lostTallies))
            func at(_ change: String) -> String {
                "process \(process), transaction \(plan.transaction.map { "\($0)" } ?? "unknown"), \(change): "
            }
            for change in plan.changes {
                let (count, counted) = (seen.counts[change] ?? 0, tallies[change] ?? 0)
                if count == 0, !isLost { throw Wrong(at(change) + "the observer has not got it") }
                if count > 1 + seen.kills { throw Wrong(at(change) + "got \(count) times, kills: \(seen.kills)") }
                if counted == 0, !isTallyLost { throw Wrong(at(change) + "not counted") }
                if counted > 1 { throw Wrong(at(change) + "counted \(counted) times") }
                figures.got += count
                figures.repeated += max(count, 1) - 1
                figures.counted += counted
                if count == 0 { figures.lostPlain += 1 }
                if counted == 0 { figures.lostTallies += 1 }
            }
        }
    }

    /// Whether a plan's transaction is in one of the ranges; the number that each begins with is not lost. A process
    /// that was killed could not say the number. Then it is between those before and after it.
    private func mayBe(_ place: Int, _ ranges: [ClosedRange<UInt64>]) -> Bool {
        let plan = plans[place]
        if let number = plan.transaction { return ranges.contains { $0.lowerBound < number && $0.contains(number) } }
        let ofProcess = { (other: TrackedPlan) in other.process == plan.process && other.transaction != nil }
        let before = plans[..<place].last(where: ofProcess)?.transaction ?? 0
        let after = plans[(place + 1)...].first(where: ofProcess)?.transaction ?? .max
        return ranges.contains { $0.lowerBound < after && $0.upperBound > before }
    }

    private func compareContexts() throws {
        let stored = try store.snapshot().fetch(Tracked.Note.self).map(Tracked.line).sorted()
        for process in Tracked.processes {
            let path = TrackedFiles(folder: folder, number: process).state
            let shown = Lines.words(in: path).map { $0.joined(separator: " ") }.sorted()
            guard shown == stored else {
                let (lacks, has) = (Set(stored).subtracting(shown), Set(shown).subtracting(stored))
                throw Wrong("the context of process \(process) lacks \(lacks) and shows \(has)")
            }
        }
    }
}
