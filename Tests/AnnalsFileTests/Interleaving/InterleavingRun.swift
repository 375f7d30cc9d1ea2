// One schedule of one scenario: the race, and what must hold after it and of every power cut in it.

import Annals
import SimulatedDisk

/// What the schedules of a scenario have come to. Sound although it is shared: only who has the baton touches it, and a
/// test while nobody runs.
final class InterleavingTally: @unchecked Sendable {
    var seen: Set<String> = []
    /// The most that a schedule had, and the most calls.
    var steps = 0
    var calls = 0
    var kills = 0
    var cuts = 0
    /// Whose transactions were recovered from an image.
    var images: [UInt64: [String]] = [:]
    /// Of the last schedule.
    var lastSteps: [Baton.Step] = []
    /// What was found in an image first.
    var failure: String?
}

struct InterleavingRun: Sendable {
    let scenario: InterleavingScenario
    let model: InterleavedStore
    let tally: InterleavingTally
    var sabotage: Sabotage?

    struct Outcome {
        var steps: [Baton.Step]
        var bytes: [UInt8]
    }

    /// Throws what must not be, with the command that shows it again.
    @discardableResult
    func run(_ schedule: Schedule) throws -> Outcome {
        do {
            return try race(schedule)
        } catch {
            throw InterleavingFailure(
                "\(scenario.name), \(schedule): \(error)\n  replay: ANNALS_INTERLEAVING='\(scenario.name):\(schedule)' "
                    + "swift test -c release --filter InterleavingTests")
        }
    }

    private func race(_ schedule: Schedule) throws -> Outcome {
        let journal = Journal()
        journal.hasDeath = schedule.kill != nil
        let disk = try model.makeDisk(scenario.beginning, journal)
        let baton = Baton(schedule) { _ in lookAtImages(of: disk, journal) }
        let players = (0...1).map { Player($0, disk, baton, self, journal) }
        try scenario.prepare(players[0], players[1])
        tally.failure = nil
        try baton.run([{ players[0].run(scenario.first) }, { players[1].run(scenario.second) }])
        disk.removeAllFaults()
        let steps = baton.steps
        tally.lastSteps = steps
        // After the last step too: that is when everything was promised.
        if !schedule.cuts.isEmpty { lookAtImages(of: disk, journal) }
        if let failure = tally.failure ?? baton.failure { throw InterleavingFailure(failure) }
        tally.steps = max(tally.steps, steps.count)
        tally.calls = max(tally.calls, baton.callCount)
        tally.cuts += schedule.cuts.count
        try check(players, hasStalled: baton.hasStalled)
        let bytes = disk.contents(of: Machine.path) ?? []
        try agree(players, disk, journal)
        return Outcome(steps: steps, bytes: bytes)
    }

    /// Who was not killed has done what it was to do, or, where it had to wait for too long, has met an error that may
    /// be.
    private func check(_ players: [Player], hasStalled: Bool) throws {
        for player in players {
            tally.seen.formUnion(player.seen)
            if player.files.isDead {
                tally.kills += 1
            } else if let violation = player.violation {
                throw InterleavingFailure("process \(player.index): \(violation)")
            } else if let failure = player.failure {
                guard hasStalled, scenario.allowed.contains(failure.code) else {
                    throw InterleavingFailure("process \(player.index) met \(failure.code): \(failure)")
                }
                tally.seen.insert(failure.code.rawValue)
            }
        }
    }

    /// Both handles, and one that is opened now, see the same; the next commit works and leaves nothing beside the
    /// store.
    private func agree(_ players: [Player], _ disk: SimulatedDisk, _ journal: Journal) throws {
        let fresh = StoreHandle(try open(disk, 13))
        let (engine, view) = try fresh.newest()
        let authors = try model.check(view, engine, journal, known: journal.last)
        if !players.contains(where: \.files.isDead), !scenario.authors.isSubset(of: authors) {
            throw InterleavingFailure("of \(scenario.authors.sorted()) there are only \(authors)")
        }
        for player in players { try player.agree(with: authors) }
        try model.commit("C1", .full, fresh, journal)
        for player in players {
            try player.agree(with: authors + ["C1"])
            try player.closeIfOpen()
        }
        let last = try fresh.newest()
        try model.check(last.view, last.engine, journal, known: journal.last)
        try fresh.close()
        guard disk.openDescriptorCount() == 0 else {
            throw InterleavingFailure("\(disk.openDescriptorCount()) descriptors are left open")
        }
        try InterleavedStore.checkFile(disk)
    }

    private func open(_ disk: SimulatedDisk, _ process: UInt32, isMapped: Bool = false) throws -> Engine {
        try Engine.open(
            Machine.path, options: InterleavedStore.options(isMapped: isMapped), files: disk.process(process),
            environment: SimulatedEnvironment(seed: UInt64(process), process: process, name: "fresh"))
    }

    // MARK: The loss of power

    /// A few of the disks that a power cut may leave at a moment.
    private func lookAtImages(of disk: SimulatedDisk, _ journal: Journal) {
        guard tally.failure == nil else { return }
        var options = CrashOptions(seed: 1)
        options.exhaustiveBits = 2
        options.randomChoices = 2
        options.maximumOfEachList = 1
        options.maximumSizes = 2
        do {
            try disk.forEachCrashImage(options) { image in
                do {
                    if let known = tally.images[image.hash] {
                        try model.check(known, journal, known: journal.durable)
                    } else {
                        tally.images[image.hash] = try recover(image.makeDisk(), journal)
                    }
                } catch {
                    throw InterleavingFailure("\(image): \(error)")
                }
            }
        } catch {
            tally.failure = "\(error)"
        }
    }

    /// What is left is the old store or the new one, with all that was promised, and takes another commit.
    private func recover(_ disk: SimulatedDisk, _ journal: Journal) throws -> [String] {
        let journal = journal.copy()
        let store = StoreHandle(try open(disk, 50))
        let (engine, view) = try store.newest()
        let authors = try model.check(view, engine, journal, known: journal.durable)
        // What is lost was never durable, and its number is given again.
        let survivor = Journal()
        survivor.attempted = Set(authors)
        try model.commit("C1", .full, store, survivor)
        disk.cutPower()
        let again = StoreHandle(try open(disk, 51))
        let last = try again.newest()
        guard try model.check(last.view, last.engine, survivor, known: survivor.durable) == authors + ["C1"] else {
            throw InterleavingFailure("a commit on top of \(authors) was lost")
        }
        try again.close()
        try InterleavedStore.checkFile(disk)
        return authors
    }
}
