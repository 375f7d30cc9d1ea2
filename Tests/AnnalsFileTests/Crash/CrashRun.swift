// A workload under the eyes of an oracle: what was attempted, what was acknowledged, and what every power cut must
// leave of it.

import Annals
import SimulatedDisk
import Synchronization

/// What the oracle knows at a moment.
struct Expectation: Sendable {
    /// One transaction that was begun: its first object and how many changes it has.
    struct Attempt: Equatable, Sendable {
        var firstObject: UInt64
        var changes: UInt64
    }

    var attempts: [Attempt] = []
    /// How many of them were acknowledged as durable, or are otherwise known to survive a power cut.
    var durable = 0
    /// How many of them were acknowledged: they survive the death of a process.
    var visible = 0
    var storeIsDurable = false
}

/// What a store was found to hold.
struct Recovered: Equatable {
    var attempts: [Expectation.Attempt] = []
    var tags: [UInt64] = []
}

struct CrashFailure: Error, CustomStringConvertible {
    var description: String
}

/// Runs one workload. Sound as Sendable: a run is used by one thread; its hooks run on that thread.
final class CrashRun: @unchecked Sendable {
    let name: String
    let machine: Machine
    var expectation = Expectation()
    private(set) var checked: [UInt64: Int] = [:]
    private(set) var repeated = 0
    let tally = Tally()
    private(set) var failure: CrashFailure?
    private let imageOptions: CrashOptions
    private let replay: (point: Int, image: Int)?
    private var nextObject = 1
    private var isSuspended = false

    init(name: String, limits: LogLimits, seed: UInt64, imageOptions: CrashOptions, replay: (Int, Int)? = nil) {
        self.name = name
        self.imageOptions = imageOptions
        self.replay = replay
        machine = Machine(seed: seed, limits: limits)
        machine.disk.setOnChange { [unowned self] disk in self.lookAtEveryImage(of: disk) }
    }

    // MARK: What workloads do

    func create(_ process: UInt32 = 1) throws -> Log {
        let log = try machine.create(process)
        expectation.storeIsDurable = true
        return log
    }

    /// Opens the store in another process, as it stands in the cache, and takes from it what became of unknown
    /// transactions.
    func open(_ process: UInt32) throws -> Log {
        let log = try machine.open(process)
        let found = try Self.read(log)
        guard found.attempts.count >= expectation.visible, expectation.attempts.starts(with: found.attempts) else {
            throw CrashFailure(
                description:
                    "a new process sees \(found.attempts.count) transactions of \(expectation.attempts.count), "
                    + "\(expectation.visible) were acknowledged")
        }
        expectation.attempts = found.attempts
        expectation.visible = found.attempts.count
        return log
    }

    /// Another handle on the same machine, while the others go on: everything acknowledged is there.
    func openAnother(_ process: UInt32) throws -> Log { try open(process) }

    func define(_ log: Log, _ durability: Durability = .full) throws {
        try attempt(Expectation.Attempt(firstObject: 0, changes: 0), durability) { try log.defineNotes(durability) }
    }

    /// Inserts `count` notes in one transaction, each with a body of so many bytes.
    func insert(_ log: Log, count: Int = 1, bodyBytes: Int = 0, _ durability: Durability) throws {
        let transaction = try makeFrames(log, count, bodyBytes)
        let attempted = Expectation.Attempt(firstObject: UInt64(nextObject - count), changes: UInt64(count))
        try attempt(attempted, durability) { try log.commit(transaction, durability: durability) }
    }

    /// The first half of a commit; returns where it ends.
    func append(_ log: Log, count: Int = 1, bodyBytes: Int = 0, _ durability: Durability) throws -> UInt64 {
        let transaction = try makeFrames(log, count, bodyBytes)
        let attempted = Expectation.Attempt(firstObject: UInt64(nextObject - count), changes: UInt64(count))
        var end: UInt64 = 0
        try attempt(attempted, .relaxed) { end = try log.append(transaction, durability: durability).end }
        return end
    }

    func makeDurable(_ log: Log, through end: UInt64, attempts: Int) throws {
        try log.makeDurable(through: end)
        expectation.durable = max(expectation.durable, attempts)
    }

    /// Everything acknowledged so far is durable.
    func everythingIsDurable() { expectation.durable = expectation.visible }

    private func makeFrames(_ log: Log, _ count: Int, _ bodyBytes: Int) throws -> DraftFrames {
        let transaction = log.makeFrames(expectedChanges: count)
        transaction.prepared.author = "crash"
        for _ in 0..<count {
            try transaction.insert(Note.object(nextObject), Self.row(nextObject, bodyBytes))
            nextObject += 1
        }
        return transaction
    }

    static func row(_ number: Int, _ bodyBytes: Int) -> [StoredValue] {
        let body = bodyBytes == 0 ? nil : (0..<bodyBytes).map { UInt8(truncatingIfNeeded: number &* 31 &+ $0) }
        return Note.row("t\(number)", Int64(number), body)
    }

    private func attempt(
        _ attempted: Expectation.Attempt, _ durability: Durability, _ commit: () throws -> Void
    ) throws {
        expectation.attempts.append(attempted)
        let position = expectation.attempts.count
        do {
            try commit()
        } catch let error as StoreError {
            // Only these leave it open whether the transaction is there.
            let isUnknown =
                error.code == .durabilityUnknown || error.message == StoreError.simulatedProcessDeath.message
            if !isUnknown { expectation.attempts.remove(at: position - 1) }
            throw error
        }
        expectation.visible = max(expectation.visible, position)
        if durability == .full {
            expectation.durable = max(expectation.durable, position)
            expectation.storeIsDurable = true
        }
    }

    // MARK: Looking at every image

    /// The last acknowledgement changes nothing on the disk, so it is looked at once more when the workload is over.
    func lookOnceMore() { lookAtEveryImage(of: machine.disk) }

    private func lookAtEveryImage(of disk: SimulatedDisk) {
        guard failure == nil, !isSuspended else { return }
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
        let count: Int
        if let known = checked[image.hash] {
            repeated += 1
            count = known
        } else {
            do {
                let check = ImageCheck(expectation: expectation, machine: machine, hash: image.hash, tally: tally)
                count = try check.run(image.makeDisk())
            } catch {
                throw failure(image, "\(error)")
            }
            checked[image.hash] = count
        }
        if count < 0 {
            if expectation.storeIsDurable { throw failure(image, "the store is gone") }
        } else if count < expectation.durable {
            throw failure(image, "\(count) transactions are left, \(expectation.durable) were acknowledged as durable")
        }
    }

    private func failure(_ image: CrashImage, _ what: String) -> CrashFailure {
        CrashFailure(
            description:
                "\(name), \(image): \(what)\n  replay: \(CrashTests.replayVariables(name, image)) "
                + "swift test -c release --filter CrashTests")
    }

    // MARK: Reading a store

    static func read(_ log: Log) throws -> Recovered {
        var found = Recovered()
        var first: UInt64?
        try log.forEachFrame { (frame, state) throws(StoreError) in
            guard frame.header.kind == .transaction || frame.header.kind == .part else { return }
            let record = try TransactionRecord.decode(frame.table)
            var cursor = ChangeCursor(frame)
            while let change = try cursor.next() {
                if first == nil { first = change.object.number }
                try compare(change, frame, state)
            }
            guard frame.header.kind == .transaction else { return }
            found.attempts.append(.init(firstObject: first ?? 0, changes: record.totalChanges))
            found.tags.append(record.tag)
            first = nil
        }
        return found
    }

    /// The row's title tells which object it is.
    private static func compare(_ change: ChangeView, _ frame: FrameView, _ state: LogState) throws(StoreError) {
        guard let bytes = frame.row(of: change) else { return }
        let header = try RowHeader(bytes)
        guard let layout = state.rowCatalog.layout(version: header.schemaVersion, entity: change.object.entityNumber),
            case .string(let title) = try RowImage(bytes, layout: layout).value(at: 0),
            title == "t\(change.object.number)"
        else { throw StoreError(.damaged, "A row is not that of its object.", offset: frame.offset) }
    }
}
