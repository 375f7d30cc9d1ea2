// A workload of the engine under the eyes of an oracle: the rows after each transaction, and how many of them must
// survive.

import Annals
import SimulatedDisk

/// The rows after a transaction.
struct EngineRows: Equatable, Sendable {
    /// By object number.
    var ranks: [UInt64: Int64] = [:]
    /// The number of the next object.
    var next: UInt64 = 1

    /// What a transaction inserts, updates and deletes, always the same for the same rows.
    struct Changes: Sendable {
        var inserted: [UInt64] = []
        var updated: [UInt64] = []
        var deleted: [UInt64] = []
    }

    func changes(_ inserts: Int, _ updates: Int, _ deletes: Int) -> Changes {
        let old = ranks.keys.sorted()
        var changes = Changes()
        changes.inserted = (0..<UInt64(inserts)).map { next + $0 }
        changes.updated = stride(from: 0, to: old.count, by: max(1, old.count / max(updates, 1))).prefix(updates).map {
            old[$0]
        }
        changes.deleted = old.reversed().filter { !changes.updated.contains($0) }.prefix(deletes).map { $0 }
        return changes
    }

    func after(_ changes: Changes) -> EngineRows {
        var rows = self
        for number in changes.inserted { rows.ranks[number] = Int64(number * 7 % 40) }
        for number in changes.updated { rows.ranks[number] = (ranks[number] ?? 0) * 3 % 1009 + 1 }
        for number in changes.deleted { rows.ranks[number] = nil }
        rows.next += UInt64(changes.inserted.count)
        return rows
    }
}

extension Engine {
    /// Carries out the changes, and checks that objects get the numbers expected.
    func take(
        _ changes: EngineRows.Changes, _ after: EngineRows, bodyBytes: Int = 0, _ durability: Durability
    ) throws {
        _ = try commit(author: "crash", durability: durability) { transaction in
            for number in changes.updated {
                try transaction.update(
                    EngineCrashRun.object(number), [(EngineNote.rank, .int(after.ranks[number] ?? 0))])
            }
            for number in changes.deleted { try transaction.delete(EngineCrashRun.object(number)) }
            for number in changes.inserted {
                var row = EngineNote.row("t\(number)", after.ranks[number])
                if bodyBytes > 0 {
                    row[EngineNote.body] = .data([UInt8](repeating: UInt8(number % 251), count: bodyBytes))
                }
                let object = try transaction.insert(entity: EngineNote.entity, row)
                guard object.number == number else {
                    throw CrashFailure(description: "an object has the number \(object.number) instead of \(number)")
                }
            }
        }
    }

    func defineForCrash(_ durability: Durability, _ definition: EntityDefinition = EngineNote.definition) throws {
        _ = try commit(durability: durability) { try $0.changeSchema([definition]) }
    }
}

extension View {
    /// Throws if the view does not show exactly these rows, one by one, by scan and by index both ways.
    func expect(_ rows: EngineRows) throws {
        guard catalog.newestVersion > 0 else { return }
        var scanned: [UInt64: Int64] = [:]
        var areTitlesRight = true
        try scan(entity: EngineNote.entity) { (object, row) throws(StoreError) in
            scanned[object.number] = row.int(at: EngineNote.rank)
            if case .string("t\(object.number)") = try row.value(at: EngineNote.title) {
            } else {
                areTitlesRight = false
            }
            return true
        }
        guard scanned == rows.ranks, areTitlesRight else {
            throw CrashFailure(
                description: "transaction \(number) has other rows: \(scanned.count) of \(rows.ranks.count)")
        }
        // Before the schema change that asks for it.
        guard indexes(entity: EngineNote.entity).contains(EngineNote.rankIndex) else { return }
        let order = rows.ranks.keys.sorted {
            (rows.ranks[$0] ?? 0, $0) < (rows.ranks[$1] ?? 0, $1)
        }
        guard try byRank().map(\.number) == order, try byRank(reversed: true).map(\.number) == order.reversed(),
            try count(entity: EngineNote.entity) == UInt64(order.count)
        else { throw CrashFailure(description: "the index as of \(number) is not that of its rows") }
        guard let one = order.last else { return }
        var key = ByteWriter(capacity: 32)
        try IndexKey.append(values: [.string("t\(one)")], types: [.string], to: &key)
        guard try rank(EngineCrashRun.object(one)) == rows.ranks[one],
            try first(EngineNote.titleIndex, key: Array(key.bytes))?.number == one
        else { throw CrashFailure(description: "an object is not found as of \(number)") }
    }
}

/// What must be left of a store.
struct EngineExpectation: Sendable {
    /// After so many transactions; the first is the empty store.
    var states = [EngineRows()]
    var durable = 0
    var visible = 0
    var storeIsDurable = false
}

/// Runs one workload. Sound as Sendable: a run is used by one thread; its hooks run on that thread.
final class EngineCrashRun: @unchecked Sendable {
    let name: String
    let machine: Machine
    let options: EngineOptions
    var expectation = EngineExpectation()
    private(set) var failure: CrashFailure?
    private(set) var repeated = 0
    let tally = Tally()
    private var checked: [UInt64: Int] = [:]
    private let imageOptions: CrashOptions
    private let replay: (point: Int, image: Int)?

    init(name: String, options: EngineOptions, seed: UInt64, imageOptions: CrashOptions, replay: (Int, Int)? = nil) {
        self.name = name
        self.imageOptions = imageOptions
        self.replay = replay
        machine = Machine(seed: seed, limits: options.log.limits)
        var options = options
        options.log.synchronizesInBackground = false
        self.options = options
        looksAtImages()
    }

    private func looksAtImages() {
        machine.disk.setOnChange { [unowned self] disk in self.lookAtEveryImage(of: disk) }
    }

    /// For steps that other workloads look at.
    func withoutLooking<Result>(_ steps: () throws -> Result) rethrows -> Result {
        machine.disk.setOnChange(nil)
        defer { looksAtImages() }
        return try steps()
    }

    static func object(_ number: UInt64) -> ObjectID {
        guard let object = ObjectID(entityNumber: EngineNote.entity, number: number) else {
            preconditionFailure("Tests use object numbers from 1.")
        }
        return object
    }

    // MARK: What workloads do

    func create(_ process: UInt32 = 1) throws -> Engine {
        let engine = try Engine.create(
            Machine.path, options: options, files: machine.files(process), environment: machine.environment)
        expectation.storeIsDurable = true
        return engine
    }

    /// Opens the store in another process, as it stands in the cache.
    func open(_ process: UInt32) throws -> Engine {
        let engine = try Engine.open(
            Machine.path, options: options, files: machine.files(process), environment: machine.environment)
        let view = try engine.view()
        let found = Int(view.number)
        guard found >= expectation.visible, found < expectation.states.count else {
            throw CrashFailure(
                description: "a new process sees \(found) transactions of \(expectation.states.count - 1), "
                    + "\(expectation.visible) were acknowledged")
        }
        expectation.states.removeLast(expectation.states.count - 1 - found)
        expectation.visible = found
        try view.expect(expectation.states[found])
        return engine
    }

    func define(
        _ engine: Engine, _ definition: EntityDefinition = EngineNote.definition, _ durability: Durability = .full
    ) throws {
        try attempt(expectation.states[expectation.states.count - 1], durability) {
            try engine.defineForCrash(durability, definition)
        }
    }

    func change(
        _ engine: Engine, _ inserts: Int = 1, _ updates: Int = 0, _ deletes: Int = 0, bodyBytes: Int = 0,
        _ durability: Durability
    ) throws {
        let before = expectation.states[expectation.states.count - 1]
        let changes = before.changes(inserts, updates, deletes)
        let after = before.after(changes)
        try attempt(after, durability) { try engine.take(changes, after, bodyBytes: bodyBytes, durability) }
    }

    func everythingIsDurable() { expectation.durable = expectation.visible }

    private func attempt(_ state: EngineRows, _ durability: Durability, _ commit: () throws -> Void) throws {
        expectation.states.append(state)
        let number = expectation.states.count - 1
        do {
            try commit()
        } catch let error as StoreError {
            // Only these leave it open whether the transaction is there.
            let isUnknown =
                error.code == .durabilityUnknown || error.message.contains(StoreError.simulatedProcessDeath.message)
            if !isUnknown { expectation.states.removeLast() }
            throw error
        }
        expectation.visible = max(expectation.visible, number)
        if durability == .full { expectation.durable = max(expectation.durable, number) }
    }

    // MARK: Looking at every image

    func lookOnceMore() { lookAtEveryImage(of: machine.disk) }

    private func lookAtEveryImage(of disk: SimulatedDisk) {
        guard failure == nil else { return }
        if let replay, replay.point != disk.changeCount { return }
        do {
            try disk.forEachCrashImage(imageOptions) { image in
                if let replay, replay.image != image.number { return }
                try look(at: image)
            }
        } catch {
            failure = CrashFailure(description: "\(error)")
        }
    }

    private func look(at image: CrashImage) throws {
        do {
            let count: Int
            if let known = checked[image.hash] {
                repeated += 1
                count = known
            } else {
                let check = EngineImageCheck(
                    expectation: expectation, options: options, hash: image.hash, tally: tally)
                count = try check.run(image.makeDisk())
                checked[image.hash] = count
            }
            guard count >= expectation.durable || (count < 0 && !expectation.storeIsDurable) else {
                throw CrashFailure(description: "\(count) transactions are left of \(expectation.durable)")
            }
        } catch {
            throw CrashFailure(
                description:
                    "\(name), \(image): \(error)\n  replay: \(CrashTests.replayVariables(name, image)) "
                    + "swift test -c release --filter EngineCrashTests")
        }
    }
}

/// What must hold of every disk that a power cut leaves.
struct EngineImageCheck {
    var expectation: EngineExpectation
    var options: EngineOptions
    var hash: UInt64
    var tally: Tally
    var depth = 1

    /// How many transactions were recovered, or -1 if there is no store.
    func run(_ disk: SimulatedDisk) throws -> Int {
        tally.images.insert(hash)
        guard disk.names(in: "/data").contains("s.annals") else { return -1 }
        let engine = try open(disk, 50)
        let found = Int(try engine.view().number)
        let view = try engine.view()
        guard found < expectation.states.count else {
            throw CrashFailure(description: "\(found) transactions were recovered of \(expectation.states.count - 1)")
        }
        let rows = expectation.states[found]
        try view.expect(rows)
        if hash % 4 == 0 {
            let reader = try open(disk, 51, access: .readOnly)
            let again = try reader.view()
            guard again.number == view.number, again.tag == view.tag else {
                throw CrashFailure(description: "recovered twice, and not the same")
            }
            try again.expect(rows)
            try reader.close()
        }
        try commitOnTop(engine, disk, rows, found)
        return found
    }

    private func open(_ disk: SimulatedDisk, _ process: UInt32, access: FileAccess = .readWrite) throws -> Engine {
        var options = options
        // A mapping costs a region of memory: one image in eight is read through one.
        if hash & 7 != 0 { options.log.limits.mappingReserveBytes = 0 }
        return try Engine.open(
            Machine.path, access: access, options: options, files: disk.process(process),
            environment: SimulatedEnvironment(seed: hash, process: process, name: "recovery"))
    }

    private func commitOnTop(_ engine: Engine, _ disk: SimulatedDisk, _ rows: EngineRows, _ found: Int) throws {
        let changes = found == 0 ? EngineRows.Changes() : rows.changes(2, 1, 1)
        let after = rows.after(changes)
        let failure = Box()
        if depth < 2, hash % 48 == 1 { watchEveryStep(of: disk, after, found, failure) }
        if found == 0 { try engine.defineForCrash(.full) } else { try engine.take(changes, after, .full) }
        if hash % 3 == 0 {
            try engine.writeCheckpoint()
            try engine.makeDurable(through: try engine.view().end)
        }
        disk.setOnChange(nil)
        if let found = failure.error { throw found }
        disk.cutPower()
        let last = try open(disk, 52)
        let survived = try last.view()
        guard Int(survived.number) == found + 1 else {
            throw CrashFailure(description: "a commit on top was acknowledged as durable, and is gone")
        }
        try survived.expect(after)
        try last.close()
        let report = try check(disk)
        let damage = report.findings.filter { $0.isDamage && $0.rule != "F3" }
        guard damage.isEmpty, report.stoppedAt == nil else {
            throw CrashFailure(description: "the checker found \(report.findings)")
        }
    }

    /// Cuts the power at every step of the recovery and the commit on top, for a sample of outcomes.
    private func watchEveryStep(of disk: SimulatedDisk, _ after: EngineRows, _ found: Int, _ failure: Box) {
        var inner = EngineExpectation()
        inner.states = Array(expectation.states.prefix(found + 1)) + [after]
        var options = CrashOptions(seed: hash)
        options.exhaustiveBits = 2
        options.randomChoices = 2
        options.maximumOfEachList = 2
        options.maximumSizes = 2
        disk.setOnChange { [inner, options] disk in
            guard failure.error == nil else { return }
            do {
                try disk.forEachCrashImage(options) { image in
                    if tally.images.contains(image.hash) { return }
                    let nested = EngineImageCheck(
                        expectation: inner, options: self.options, hash: image.hash, tally: tally, depth: depth + 1)
                    let count = try nested.run(image.makeDisk())
                    if count < found { throw CrashFailure(description: "\(image): \(count) of \(found) are left") }
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
