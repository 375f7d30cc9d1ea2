// Which of two processes runs when: the schedules of a scenario, as values that can be printed and read back.

import SimulatedDisk
import TestSupport

/// A schedule of two processes. A step is a call that the other process can tell from none: steps are counted from 1,
/// over both.
///
/// Who runs goes on until a step that is named here, until it has to wait, or until it has ended.
struct Schedule: Hashable, Sendable, CustomStringConvertible {
    /// Which process begins: 0 or 1.
    var first: Int
    /// Before these steps the other process goes on instead; ascending.
    var preemptions: [Int] = []
    /// The process that makes this step dies in it.
    var kill: Int?
    /// Before these steps the disk is looked at as a power cut would leave it.
    var cuts: [Int] = []

    /// As `ANNALS_INTERLEAVING` takes it, after the scenario's name and a colon: `A`, `B:12,40`, `A:12:kill=30`,
    /// `A:12:cut=33`.
    var description: String {
        var text = first == 0 ? "A" : "B"
        if !preemptions.isEmpty { text += ":" + preemptions.map(String.init).joined(separator: ",") }
        if let kill { text += ":kill=\(kill)" }
        if !cuts.isEmpty { text += ":cut=" + cuts.map(String.init).joined(separator: ",") }
        return text
    }

    init(first: Int, preemptions: [Int] = [], kill: Int? = nil, cuts: [Int] = []) {
        (self.first, self.preemptions, self.kill, self.cuts) = (first, preemptions, kill, cuts)
    }

    /// Reads what `description` wrote.
    init?(_ text: String) {
        let parts = text.split(separator: ":")
        guard let start = parts.first, start == "A" || start == "B" else { return nil }
        first = start == "A" ? 0 : 1
        for part in parts.dropFirst() {
            let numbers = part.split(separator: "=").last?.split(separator: ",").compactMap { Int($0) } ?? []
            if part.hasPrefix("kill=") {
                kill = numbers.first
            } else if part.hasPrefix("cut=") {
                cuts = numbers
            } else {
                preemptions = numbers
            }
        }
    }

    /// The schedules with one preemption more, the new one being the last: each set of preemptions comes once.
    func children(_ steps: [Baton.Step]) -> [Schedule] {
        let last = preemptions.last ?? 0
        return steps.indices.filter { $0 >= last && steps[$0].canSwitch }.map { index in
            var child = self
            child.preemptions.append(index + 1)
            return child
        }
    }

    /// Every n-th of them, so that about `limit` are left, the first by chance.
    static func sample(_ all: [Schedule], limit: Int, seed: UInt64) -> [Schedule] {
        guard all.count > limit, limit > 0 else { return limit > 0 ? all : [] }
        let step = (all.count + limit - 1) / limit
        var random = SeededRandom(seed)
        return stride(from: random.next(below: step), to: all.count, by: step).map { all[$0] }
    }
}
