// What two processes do at once.

import Annals
import SimulatedDisk
import Testing

struct InterleavingScenario: Sendable, CustomTestStringConvertible {
    var name: String
    var beginning = InterleavedStore.Beginning.sealed
    var isMapped = true
    /// Whether handles keep the writer lock after every relaxed commit, look at each whether somebody waits, and give
    /// it back when told to.
    var keepsLock = false
    /// Both do the same: it makes no difference which one begins.
    var isSymmetric = false
    /// Before the race, one after the other.
    var prepare: @Sendable (Player, Player) throws -> Void
    var first: @Sendable (Player) throws -> Void
    var second: @Sendable (Player) throws -> Void
    /// The errors that may come of it where a process does not go on for longer than the other one waits.
    var allowed: Set<StoreError.Code> = []
    /// Whose transactions must be there in the end, if nobody was killed.
    var authors: Set<String>
    /// What must have been seen in at least one schedule: else the scenario does not test what it is for.
    var seen: Set<String> = []
    /// How many schedules with 2 and 3 preemptions the default suite runs at most.
    var limits = (two: 1500, three: 250)

    var testDescription: String { name }

    private static func bothOpen(_ first: Player, _ second: Player) throws {
        try first.open()
        try second.open()
    }

    static let all: [InterleavingScenario] = [
        InterleavingScenario(
            name: "commit-commit", isSymmetric: true, prepare: bothOpen,
            first: { try $0.commit("A1") },
            second: { try $0.commit("B1") }, authors: ["A1", "B1"]),
        InterleavingScenario(
            name: "commits-commits", prepare: bothOpen,
            first: {
                try $0.commit("A1", .relaxed)
                try $0.commit("A2")
            },
            second: {
                try $0.commit("B1")
                try $0.commit("B2", .relaxed)
            }, authors: ["A1", "A2", "B1", "B2"]),
        InterleavingScenario(
            name: "kept-lock", keepsLock: true, isSymmetric: true, prepare: bothOpen,
            first: { try commitTwiceAndGiveBack($0, "A1", "A2") },
            second: { try commitTwiceAndGiveBack($0, "B1", "B2") },
            authors: ["A1", "A2", "B1", "B2"], limits: (800, 250)),
        InterleavingScenario(
            name: "kept-lock-compact", keepsLock: true, prepare: bothOpen,
            first: { try commitTwiceAndGiveBack($0, "A1", "A2") },
            second: {
                try $0.commit("B1", .relaxed)
                try $0.compact()
                try $0.releaseLock()
            }, allowed: [.busy], authors: ["A1", "A2", "B1"], seen: ["compacted"], limits: (800, 250)),
        InterleavingScenario(
            name: "commit-compact",
            prepare: { first, second in
                try bothOpen(first, second)
                try first.keepSnapshot()
            },
            first: {
                try $0.commit("A1", .relaxed)
                try $0.commit("A2")
                try $0.checkSnapshot()
            },
            second: { try $0.compact() }, allowed: [.busy], authors: ["A1", "A2"], seen: ["compacted", "busy"],
            limits: (.max, 250)),
        InterleavingScenario(
            name: "compact-compact", isSymmetric: true, prepare: bothOpen,
            first: { try $0.compact() }, second: { try $0.compact() }, allowed: [.busy], authors: [],
            seen: ["compacted", "busy"]),
        InterleavingScenario(
            name: "open-compact", prepare: { try $1.open() },
            first: {
                try $0.open()
                try $0.commit("A1")
            },
            second: { try $0.compact() }, allowed: [.busy], authors: ["A1"], seen: ["compacted", "busy"],
            limits: (.max, 250)),
        InterleavingScenario(
            name: "history-compact", isMapped: false,
            prepare: { first, second in
                try bothOpen(first, second)
                try first.keepSnapshot()
            },
            first: { player in
                try player.readHistory(after: player.model.firstNumber, tag: token(player, player.model.firstNumber))
                try player.checkSnapshot()
            },
            second: {
                try $0.clean(before: $0.model.number)
                try $0.compact()
            }, authors: [], seen: ["complete", "expired"]),
        InterleavingScenario(
            name: "watch-commit", prepare: { try $1.open() },
            first: { try $0.watch(for: 2) },
            second: {
                try $0.commit("B1", .relaxed)
                try $0.commit("B2")
            }, authors: ["B1", "B2"]),
        InterleavingScenario(
            name: "watch-compact", prepare: bothOpen,
            first: { try $0.watch(for: 2) },
            second: {
                try $0.commit("B1", .relaxed)
                try $0.compact()
                try $0.commit("B2")
            }, authors: ["B1", "B2"], limits: (800, 250)),
        InterleavingScenario(
            name: "token-clean", isMapped: false, prepare: bothOpen,
            first: { player in
                let number = player.model.firstNumber
                try player.readHistory(after: number, tag: token(player, number))
                try player.readHistory(after: player.model.number, tag: token(player, player.model.number))
            },
            second: {
                try $0.clean(before: $0.model.firstNumber + 2)
                try $0.commit("B1")
            }, authors: ["B1"], seen: ["complete", "expired"]),
        InterleavingScenario(
            name: "recover-recover", beginning: .torn, isSymmetric: true, prepare: { _, _ in },
            first: { try openAndCommit($0, "A1") }, second: { try openAndCommit($0, "B1") },
            authors: ["D1", "A1", "B1"]),
        InterleavingScenario(
            name: "close-compact",
            prepare: { first, second in
                // What the first one finds is not durable yet.
                try second.open()
                try second.commit("B1", .relaxed)
                try first.open()
                try first.commit("A1", .relaxed)
            },
            first: { try $0.close() }, second: { try $0.compact() }, allowed: [.busy], authors: ["A1", "B1"],
            seen: ["compacted"]),
        InterleavingScenario(
            name: "close-open",
            prepare: { first, _ in
                try first.open()
                try first.commit("A1", .relaxed)
            },
            first: { try $0.close() },
            second: {
                try $0.open()
                try $0.commit("B1", .relaxed)
                try $0.close()
            }, authors: ["A1", "B1"]),
    ]

    @Sendable private static func commitTwiceAndGiveBack(
        _ player: Player, _ first: String, _ second: String
    ) throws {
        try player.commit(first, .relaxed)
        try player.commit(second, .relaxed)
        try player.releaseLock()
    }

    @Sendable private static func openAndCommit(_ player: Player, _ author: String) throws {
        try player.open()
        try player.commit(author)
    }

    @Sendable private static func token(_ player: Player, _ number: UInt64) throws -> UInt64 {
        guard let tag = player.model.tags[number] else { throw InterleavingFailure("there is no token of \(number)") }
        return tag
    }
}
