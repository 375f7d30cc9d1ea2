// What must hold of every disk that a power cut leaves.

import Annals
import SimulatedDisk

/// Recovers an image, twice; commits on top; cuts the power again; and, for some images, during all of that.
struct ImageCheck {
    var expectation: Expectation
    var machine: Machine
    var hash: UInt64
    /// The images of this run, at any depth.
    var tally: Tally
    var depth = 1

    /// How many transactions were recovered, or -1 if there is no store.
    func run(_ disk: SimulatedDisk) throws -> Int {
        tally.images.insert(hash)
        var machine = machine
        machine.disk = disk
        machine.environment = SimulatedEnvironment(seed: hash, process: 50, name: "recovery")
        // A mapping costs a region of memory: one image in eight is read through one.
        if hash & 7 != 0 { machine.options.limits.mappingReserveBytes = 0 }
        guard disk.names(in: "/data").contains("s.annals") else {
            let log = try machine.create()
            guard log.current.lastNumber == 0 else { throw CrashFailure(description: "a new store is not empty") }
            return -1
        }
        let log = try machine.open()
        let recovered = try CrashRun.read(log)
        guard expectation.attempts.starts(with: recovered.attempts) else {
            throw CrashFailure(description: "what was recovered is not a prefix of what was attempted")
        }
        let again = try CrashRun.read(machine.open(2, access: .readOnly))
        guard again == recovered else { throw CrashFailure(description: "recovered twice, and not the same") }
        try commitOnTop(log, machine, recovered)
        return recovered.attempts.count
    }

    private func commitOnTop(_ log: Log, _ machine: Machine, _ recovered: Recovered) throws {
        let failure = Box()
        if depth < 3, hash % 32 == UInt64(depth), tally.images.count < 12_000 {
            watchEveryStep(of: machine, recovered, failure)
        }
        if recovered.attempts.isEmpty {
            try log.defineNotes()
        } else {
            try log.insertNote(object, CrashRun.row(object, 10), author: "crash")
        }
        machine.disk.setOnChange(nil)
        if let found = failure.error { throw found }
        machine.disk.cutPower()
        let survived = try CrashRun.read(machine.open(3))
        guard survived.attempts.count == recovered.attempts.count + 1, survived.tags.starts(with: recovered.tags) else {
            throw CrashFailure(
                description: "a commit on top was acknowledged as durable, and after a power cut there are "
                    + "\(survived.attempts.count) transactions instead of \(recovered.attempts.count + 1)")
        }
        try requireIntact(machine)
    }

    /// The object that commits on top insert: at each depth another.
    private var object: Int { 1_000_000 + depth }

    /// Cuts the power at every step of the recovery and the commit, for a sample of outcomes.
    private func watchEveryStep(of machine: Machine, _ recovered: Recovered, _ failure: Box) {
        var inner = Expectation()
        inner.attempts = recovered.attempts
        inner.attempts.append(
            recovered.attempts.isEmpty
                ? .init(firstObject: 0, changes: 0) : .init(firstObject: UInt64(object), changes: 1))
        inner.storeIsDurable = true
        inner.durable = recovered.attempts.count
        var options = CrashOptions(seed: hash)
        options.exhaustiveBits = 4
        options.randomChoices = 4
        options.maximumOfEachList = 4
        options.maximumSizes = 3
        let check = (inner, options, depth)
        machine.disk.setOnChange { [self] disk in
            guard failure.error == nil else { return }
            do {
                try disk.forEachCrashImage(check.1) { image in
                    let nested = ImageCheck(
                        expectation: check.0, machine: self.machine, hash: image.hash, tally: tally,
                        depth: check.2 + 1)
                    if tally.images.contains(image.hash) { return }
                    let count = try nested.run(image.makeDisk())
                    if count < check.0.durable {
                        throw CrashFailure(
                            description: "depth \(check.2 + 1), \(image): \(count) of \(check.0.durable) are left")
                    }
                }
            } catch {
                failure.error = CrashFailure(description: "in recovery: \(error)")
            }
        }
    }

    private final class Box: @unchecked Sendable {
        // Sound: hooks run on the thread that runs the check.
        var error: CrashFailure?
    }
}

/// The hashes of the images that were checked. Sound: a run and its hooks are of one thread.
final class Tally: @unchecked Sendable {
    var images: Set<UInt64> = []
}

/// The store on this machine breaks no rule of the format. Throws, so that it serves in hooks and at every image.
func requireIntact(_ machine: Machine) throws {
    let report = try check(machine.disk)
    // A hint is written in place and never synchronised: a power cut may tear it, and nobody relies on it.
    let damage = report.findings.filter { $0.isDamage && $0.rule != "F3" }
    guard damage.isEmpty, report.stoppedAt == nil else {
        throw CrashFailure(description: "the checker found \(report.findings)")
    }
}

/// The same of a store on the real disk.
func requireIntact(_ path: String) throws {
    let report = try Checker.check(path, files: RealFileSystem())
    guard report.isIntact else { throw CrashFailure(description: "the checker found \(report.findings)") }
}
