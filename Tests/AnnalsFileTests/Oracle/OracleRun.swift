// Random operations on one store of a simulated machine, each compared with the oracle.

import Annals
import SimulatedDisk
import Synchronization

/// One open handle, in a process of its own.
final class OracleHandle {
    let generations: StoreHandle
    let process: UInt32
    let isReadOnly: Bool
    var hasAppended = false
    /// With the engine that keeps the view readable.
    var held: [(view: View, number: Int, engine: Engine)] = []

    /// Of the file as it is now.
    var engine: Engine { (try? generations.newest())?.engine ?? generations.current }

    init(_ engine: Engine, process: UInt32, isReadOnly: Bool) {
        generations = StoreHandle(engine)
        self.process = process
        self.isReadOnly = isReadOnly
    }
}

struct OracleCounts {
    var operations = 0
    var transactions = 0
    var comparisons = 0
    var crashes = 0
    var kills = 0
    var openings = 0
    var refusals = 0
    var conflicts = 0
    var compactions = 0

    mutating func add(_ other: OracleCounts) {
        operations += other.operations
        transactions += other.transactions
        comparisons += other.comparisons
        crashes += other.crashes
        kills += other.kills
        openings += other.openings
        refusals += other.refusals
        conflicts += other.conflicts
        compactions += other.compactions
    }
}

/// A store, its handles and its oracle.
final class OracleRun {
    let options: EngineOptions
    var random: OracleRandom
    var model = OracleModel()
    var disk: SimulatedDisk
    let environment: SimulatedEnvironment
    var handles: [OracleHandle] = []
    var counts = OracleCounts()
    private var nextProcess: UInt32 = 1
    private let maximumFileBytes: UInt64
    /// Whether the file is compared with what it was, operation by operation.
    var checksBytes = false
    private var bytesBefore: [UInt8] = []
    static let path = "/data/s.annals"
    static let consumer = "reader"
    static let maximumLive = 900

    struct Abandoned: Error {}

    init(seed: UInt64, options: EngineOptions) {
        var options = options
        options.log.synchronizesInBackground = false
        options.log.limits.mappingReserveBytes = 60 << 20
        self.options = options
        maximumFileBytes = 24 << 20
        random = OracleRandom(seed: seed, inlineBytes: options.log.limits.maximumInlineValueBytes)
        disk = SimulatedDisk()
        environment = SimulatedEnvironment(seed: seed, process: 1, name: "oracle")
    }

    // MARK: The run

    /// Does operations until there were so many, or the file is long enough.
    func run(operations: Int) throws {
        try create()
        while counts.operations < operations, try !isFull() {
            try step()
            if checksBytes { try checkBytes() }
        }
        try finish()
    }

    private func isFull() throws -> Bool {
        guard let handle = handles.first else { return false }
        return handle.engine.log.current.end > maximumFileBytes
    }

    private func step() throws {
        switch random.below(1000) {
        case 0..<620: try commit()
        case 620..<640: try changeSchema()
        case 640..<760: try compareSome()
        case 760..<800: try hold()
        case 800..<850: try lookAtHeld()
        case 850..<870: try compareHistory()
        case 870..<885: try compareAll(try anyHandle())
        case 885..<905: try comparePast()
        case 905..<930: try checkpoint()
        case 930..<950: try makeDurable()
        case 950..<975: try openAnother()
        case 975..<988: try closeOne()
        case 988..<994: try killOne()
        case 994..<996: try dropOne()
        case 996..<997: try stepClock()
        case 997..<998: try compact()
        default: try cutPower()
        }
    }

    private func finish() throws {
        for handle in handles { try compareAll(handle) }
        while let handle = handles.popLast() { try close(handle) }
        try check()
        try open(isReadOnly: true)
        try compareAll(try anyHandle())
        try comparePast()
        handles.removeAll()
    }

    // MARK: Handles

    func anyHandle() throws -> OracleHandle {
        if handles.isEmpty { try open() }
        return handles[random.below(handles.count)]
    }

    private func writer() throws -> OracleHandle {
        if let handle = random.element(handles.filter { !$0.isReadOnly }) { return handle }
        return try open()
    }

    private func create() throws {
        let engine = try Engine.create(
            Self.path, options: options, files: disk.process(0), environment: environment)
        handles.append(OracleHandle(engine, process: 0, isReadOnly: false))
        _ = try engine.register(Self.consumer, .reads, durability: .full)
        _ = try changeSchema()
    }

    @discardableResult
    func open(isReadOnly: Bool = false) throws -> OracleHandle {
        var options = options
        if random.chance(1, in: 5) { options.reading = .copied }
        let process = nextProcess
        nextProcess += 1
        counts.openings += 1
        counts.operations += 1
        let engine = try Engine.open(
            Self.path, access: isReadOnly ? .readOnly : .readWrite, options: options, files: disk.process(process),
            environment: environment)
        let handle = OracleHandle(engine, process: process, isReadOnly: isReadOnly)
        handles.append(handle)
        let view = try engine.view()
        guard view.number == UInt64(model.number) else {
            throw OracleFailure("a new handle sees \(view.number) transactions of \(model.number)")
        }
        return handle
    }

    private func openAnother() throws {
        guard handles.count < 3 else { return }
        let handle = try open(isReadOnly: random.chance(1, in: 6))
        if random.chance(1, in: 4) { try compareAll(handle) }
    }

    private func close(_ handle: OracleHandle) throws {
        try handle.generations.close()
        counts.operations += 1
        if handle.hasAppended { model.durable = model.number }
        for held in handle.held.prefix(1) {
            do {
                _ = try held.view.scan(entity: 1) { (_, _) in false }
                guard model.schema(asOf: held.number).entities[1] == nil else {
                    throw OracleFailure("a view of a closed store is read")
                }
            } catch let error as StoreError where error.code == .closed {}
        }
    }

    private func closeOne() throws {
        guard !handles.isEmpty else { return }
        let handle = handles.remove(at: random.below(handles.count))
        try close(handle)
        if handles.isEmpty {
            try check()
            try compareAll(try open())
        }
    }

    /// Forgets a handle without closing it.
    private func dropOne() throws {
        guard !handles.isEmpty else { return }
        handles.remove(at: random.below(handles.count)).held = []
        counts.operations += 1
    }

    private func killOne() throws {
        guard !handles.isEmpty else { return }
        let handle = handles.remove(at: random.below(handles.count))
        handle.held = []
        disk.kill(handle.process)
        counts.kills += 1
        counts.operations += 1
        if random.chance(1, in: 3) { try compareAll(try open()) }
    }

    /// A process dies in the middle of writing a transaction.
    func dieInCommit() throws {
        let handle = try writer()
        handle.held = []
        let bytes = random.chance(1, in: 3) ? 1 << 20 : random.below(600) * 8
        disk.addFault(
            Fault(.death(afterBytes: bytes), on: .write, occurrence: 1 + random.below(2), process: handle.process))
        let outcome = try commit(with: handle, mayDie: true)
        disk.removeAllFaults()
        // It may have died in a checkpoint, after the commit.
        disk.kill(handle.process)
        handles.removeAll { $0 === handle }
        counts.kills += 1
        try settle(atLeast: outcome == .died ? model.number - 1 : model.number)
    }

    // MARK: Power

    /// One of the disks that a power cut may leave now: all handles are gone, what was durable is there.
    private func cutPower() throws {
        let target = 1 + random.below(60)
        var image: SimulatedDisk?
        var options = CrashOptions(seed: random.generator.next())
        options.exhaustiveBits = 4
        options.randomChoices = 12
        options.maximumOfEachList = 6
        options.maximumSizes = 3
        do {
            try disk.forEachCrashImage(options) { found in
                guard found.number == target || found.number == 1 else { return }
                image = found.makeDisk()
                if found.number == target { throw Abandoned() }
            }
        } catch is Abandoned {}
        guard let image else { throw OracleFailure("a power cut leaves no disk") }
        for handle in handles { handle.held = [] }
        handles = []
        disk = image
        bytesBefore = []
        counts.crashes += 1
        counts.operations += 1
        try settle(atLeast: model.durable)
        try check()
    }

    /// Opens the store and takes from it what became of the last transactions.
    private func settle(atLeast: Int) throws {
        let process = nextProcess
        nextProcess += 1
        let engine = try Engine.open(
            Self.path, options: options, files: disk.process(process), environment: environment)
        let handle = OracleHandle(engine, process: process, isReadOnly: false)
        handles.append(handle)
        let view = try engine.view()
        let found = Int(view.number)
        guard found >= atLeast, found <= model.number else {
            throw OracleFailure("\(found) transactions are left, of \(model.number), \(atLeast) for certain")
        }
        model.truncate(to: found)
        model.durable = min(model.durable, found)
        for handle in handles { handle.held.removeAll { $0.number > found } }
        if found > 0, model.transactions[found - 1].tag == nil { model.setTag(view.tag, ofTransaction: found) }
        try compareAll(handle)
        try compareHistory(handle, after: max(model.horizon, found - 20))
    }

    // MARK: Single operations

    private func checkpoint() throws {
        let handle = try writer()
        try handle.engine.writeCheckpoint()
        handle.hasAppended = true
        counts.operations += 1
        if random.chance(1, in: 4) { try compareAll(handle) }
    }

    private func makeDurable() throws {
        let handle = try writer()
        counts.operations += 1
        if random.chance(1, in: 2) { return try handle.engine.log.synchronizeIfDue() }
        try handle.engine.makeDurable(through: try handle.engine.view().end)
        model.durable = model.number
    }

    /// Somebody sets the clock, back or forth.
    private func stepClock() throws {
        let now = environment.wallClockMicroseconds()
        environment.setWallClock(now + Int64(random.below(9) - 5) * 3_000_000_000)
        counts.operations += 1
    }

    private func hold() throws {
        let handle = try anyHandle()
        guard handle.held.count < 6 else { return handle.held.removeFirst(3) }
        let isPast = random.chance(1, in: 4)
        let number = isPast ? numberInHistory() : model.number
        let view = isPast ? try handle.engine.view(asOf: UInt64(number)) : try handle.engine.view()
        guard view.number == UInt64(number) else {
            throw OracleFailure("a view is of \(view.number) instead of \(number)")
        }
        handle.held.append((view, number, handle.engine))
        counts.operations += 1
    }

    private func lookAtHeld() throws {
        let handle = try anyHandle()
        guard let (view, number, _) = random.element(handle.held) else { return }
        try compare(view, number)
    }

    /// No byte below the end has changed but the hints'.
    private func checkBytes() throws {
        guard let bytes = disk.contents(of: Self.path) else { throw OracleFailure("the store is gone") }
        var position = 0
        for slot in HintField.slots + [bytesBefore.count] where !bytesBefore.isEmpty {
            guard bytesBefore.count <= bytes.count,
                position >= slot || bytesBefore[position..<slot] == bytes[position..<slot]
            else { throw OracleFailure("a byte below the end has changed, in \(position)..<\(slot)") }
            position = slot + HintField.bytes
        }
        let end = try anyHandle().engine.view().end
        bytesBefore = Array(bytes.prefix(Int(end)))
    }

    // MARK: Compaction

    /// A number whose state history still has.
    func numberInHistory() -> Int { model.horizon + random.below(model.number + 1 - model.horizon) }

    /// Cleans some of the history, or none, and compacts. Now and then the process dies meanwhile.
    private func compact() throws {
        let handle = try writer()
        handle.hasAppended = true
        counts.operations += 1
        counts.compactions += 1
        bytesBefore = []
        let isCleaning = random.chance(2, in: 3)
        if isCleaning {
            let number = numberInHistory()
            _ = try handle.engine.deleteHistory(before: UInt64(number) + 1)
            model.horizon = number
        }
        if random.chance(1, in: 3) { return try dieInCompaction(handle) }
        _ = try handle.generations.compact(.lowered)
        model.durable = model.number
        for handle in handles { try compareAll(handle) }
        try comparePast()
        try compareHistory()
        try check()
    }

    private func dieInCompaction(_ handle: OracleHandle) throws {
        let kinds: [CallKind] = [.write, .synchronize, .rename, .createExclusively, .synchronizeDirectory, .close]
        let kind = kinds[random.below(kinds.count)]
        let fault: Fault.Effect = .death(afterBytes: random.below(600) * 8)
        let occurrence = 1 + random.below(kind == .write ? 40 : 3)
        handle.held = []
        disk.addFault(Fault(fault, on: kind, occurrence: occurrence, process: handle.process))
        _ = try? handle.generations.compact(.lowered)
        disk.removeAllFaults()
        disk.kill(handle.process)
        handles.removeAll { $0 === handle }
        counts.kills += 1
        try settle(atLeast: model.number)
        try writer().engine.writeCheckpoint()
        guard !disk.names(in: "/data").contains(TemporaryName.compaction.of("s.annals")) else {
            throw OracleFailure("what a compactor that died has left is still there")
        }
    }

    func check() throws {
        let report = try Checker.check(Self.path, files: disk.process(9999))
        let damage = report.findings.filter { $0.isDamage && $0.rule != "F3" }
        guard damage.isEmpty, report.stoppedAt == nil else { throw OracleFailure("the checker found \(damage)") }
    }
}
