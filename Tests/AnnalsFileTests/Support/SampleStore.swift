// Stores with every kind of frame that a log writes, for tests that damage them.

import Annals
import SimulatedDisk
import TestSupport
import Testing

/// The bytes of a store, and what its frames say.
struct SampleStore {
    var bytes: [UInt8]
    /// The end of what counts.
    var end: Int
    /// The last frame's durable mark.
    var durableMark: UInt64
    /// For each frame where it begins and the state before it.
    var frames: [(offset: Int, state: LogState)] = []
    /// The tags of the transactions, by their numbers.
    var tags: [UInt64: UInt64] = [0: 0]

    /// A store that was closed cleanly; it has at least so many bytes of frames.
    static func sealed(minimumBytes: Int, seed: UInt64 = 1) throws -> SampleStore {
        var maker = try SampleMaker(seed: seed)
        try maker.fill(toBytes: minimumBytes / 3)
        try maker.closeAndTear()
        try maker.stepClockBack()
        try maker.fill(toBytes: minimumBytes)
        try maker.log.close()
        return try SampleStore(maker.bytes())
    }

    /// A store whose writer was killed after commits that it made durable one by one.
    static func unsealed(transactions: Int, seed: UInt64 = 1) throws -> SampleStore {
        var maker = try SampleMaker(seed: seed)
        for _ in 0..<transactions { try maker.insert() }
        return try SampleStore(maker.bytes())
    }

    init(_ bytes: [UInt8]) throws {
        self.bytes = bytes
        (end, durableMark) = (0, 0)
        let disk = SimulatedDisk()
        disk.install(bytes, at: Machine.path)
        let opened = try OpenedSample(disk)
        var walk = try opened.walk()
        var frames = [(offset: 4096, state: walk.state)]
        var tags: [UInt64: UInt64] = [0: 0]
        _ = try walk.toTheEnd(asker: .judge) { (frame, _, state) throws(StoreError) in
            frames.append((Int(frame.end), state))
            tags[state.lastNumber] = state.lastTag
        }
        end = Int(walk.state.end)
        durableMark = walk.state.durableMark
        self.frames = frames.dropLast()
        self.tags = tags
    }

    func frameRange(_ index: Int) -> Range<Int> {
        frames[index].offset..<(index + 1 < frames.count ? frames[index + 1].offset : end)
    }

    func kind(_ index: Int) -> UInt8 { bytes[frames[index].offset + FrameField.kind] }
}

/// A file on a disk that is open for reading.
struct OpenedSample {
    let disk: SimulatedDisk
    let file: Descriptor

    init(_ disk: SimulatedDisk) throws {
        self.disk = disk
        file = try disk.open("s.annals", in: try disk.openDirectory("/data"), access: .readOnly)
    }

    /// A walk from a state; without one, from the header.
    func walk(from state: LogState? = nil) throws -> LogWalk {
        let window = ByteWindow(disk, file, stepBytes: 8192)
        if let state { return LogWalk(state: state, window: window) }
        return LogWalk(state: LogState(header: try Log.readHeader(window).0), window: window)
    }
}

/// Writes transactions of all shapes.
private struct SampleMaker {
    var machine: Machine
    var log: Log
    private var random: SeededRandom
    private var objects = 0
    /// Where the newest row of the newest object is.
    private var row: UInt64 = 0

    init(seed: UInt64) throws {
        machine = Machine(seed: seed, limits: .lowered)
        log = try machine.create()
        random = SeededRandom(seed)
        try log.defineNotes()
    }

    func bytes() throws -> [UInt8] { try #require(machine.disk.contents(of: Machine.path)) }

    mutating func fill(toBytes count: Int) throws {
        while log.current.end < UInt64(count) {
            try insert()
            try update()
            if objects % 3 == 0 { try delete() }
            if objects % 4 == 0 { try insertMany() }
        }
    }

    mutating func insert() throws {
        objects += 1
        let large = objects % 5 == 2 ? [UInt8](repeating: UInt8(objects % 256), count: 1000 + objects * 7 % 9000) : nil
        let appended = try log.insertNote(
            objects, Note.row("note \(objects)", Int64(objects), large), author: "author \(objects % 4)")
        // One entry of 16 bytes stands between the record and the row.
        row = appended.commitFrame + UInt64(FrameField.bytes + TransactionField.bytes + ChangeField.bytes)
    }

    private mutating func update() throws {
        let transaction = log.makeFrames()
        try transaction.update(
            Note.object(objects), Note.row("changed", Int64(random.next() >> 1)), positions: [0, 1],
            previous: .row(offset: row))
        let appended = try log.commit(transaction)
        row = appended.commitFrame + UInt64(FrameField.bytes + TransactionField.bytes + ChangeField.bytes + 16)
    }

    private func delete() throws {
        let transaction = log.makeFrames()
        try transaction.delete(
            Note.object(objects), preserved: [.absent, .absent, .data([1, 2, 3])], previous: .row(offset: row))
        _ = try log.commit(transaction)
    }

    /// More than one frame holds.
    private mutating func insertMany() throws {
        let transaction = log.makeFrames()
        for _ in 0..<60 {
            objects += 1
            try transaction.insert(Note.object(objects), Note.row("one of many", 7, [UInt8](repeating: 9, count: 100)))
        }
        _ = try log.commit(transaction)
    }

    /// Leaves bytes after the seal, as a write that did not finish.
    mutating func closeAndTear() throws {
        let end = log.current.end
        try log.close()
        for distance in [200, 300] { machine.disk.corrupt(Machine.path, at: Int(end) + distance, to: 1) }
        log = try machine.open()
    }

    func stepClockBack() throws {
        machine.environment.setWallClock(machine.environment.wallClockMicroseconds() - 2 * clockStepMicroseconds)
    }
}
