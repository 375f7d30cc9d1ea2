// Seeded stores to be damaged, what their frames held before, and what salvage must find of them then. Nothing here
// asks for checksums: what was not damaged is known by comparing bytes.

import Annals
import SimulatedDisk
import TestSupport
import Testing

/// A store as it was, frame by frame.
struct SalvageSample {
    struct Frame {
        var range: Range<Int>
        var kind: FrameKind
        var isMember: Bool
        var number: UInt64
        /// Of a schema frame.
        var version: UInt16 = 0
        /// Of a checkpoint: the newest schema version in it, and the frames that hold its document.
        var versions: UInt16 = 0
        var pieces: [Int] = []
    }

    struct Change {
        var object: ObjectID
        var frame: Int
        /// By attribute number; nil for a deletion.
        var values: [UInt16: StoredValue]?
        /// By attribute number: the frames of a value that does not stand in the row.
        var largeFrames: [UInt16: Range<Int>] = [:]
        var version: UInt16 = 0
    }

    let bytes: [UInt8]
    private(set) var frames: [Frame] = []
    /// In the order of their offsets.
    private(set) var changes: [Change] = []

    init(_ bytes: [UInt8]) throws {
        self.bytes = bytes
        let machine = Machine()
        machine.disk.install(bytes, at: Machine.path)
        let log = try machine.open(access: .readOnly)
        var frames: [Frame] = []
        var changes: [Change] = []
        try log.forEachFrame { (frame, state) throws(StoreError) in
            var found = Frame(
                range: Int(frame.offset)..<Int(frame.end), kind: frame.header.kind, isMember: frame.header.isMember,
                number: frame.header.number)
            switch frame.header.kind {
            case .schema: found.version = frame.table.withUnsafeInteger(at: SchemaField.version)
            case .checkpoint:
                found.versions = state.schemaVersion
                let pieces = Int(frame.table.withUnsafeInteger(at: CheckpointField.pieces) as UInt32)
                found.pieces = Array((frames.count - pieces)..<frames.count)
            case .transaction, .part, .rows:
                var cursor = ChangeCursor(frame)
                while let change = try cursor.next() {
                    changes.append(try Self.change(change, in: frame, frames, state.rowCatalog, log))
                }
            default: break
            }
            frames.append(found)
        }
        (self.frames, self.changes) = (frames, changes)
    }

    private static func change(
        _ change: ChangeView, in frame: FrameView, _ frames: [Frame], _ catalog: SchemaCatalog, _ log: Log
    ) throws(StoreError) -> Change {
        var found = Change(object: change.object, frame: frames.count)
        guard change.kind != .delete, let bytes = frame.row(of: change) else { return found }
        found.version = try RowHeader(bytes).schemaVersion
        guard let layout = catalog.layout(version: found.version, entity: change.object.entityNumber) else {
            return found
        }
        var values: [UInt16: StoredValue] = [:]
        let row = try RowImage(bytes, layout: layout)
        for (position, attribute) in layout.entity.attributes.enumerated() {
            let value = try row.value(at: position)
            values[attribute.number] = value
            guard case .large(let reference) = value else { continue }
            var content: [UInt8] = []
            try log.readLargeValue(reference) { (piece) throws(StoreError) in content += piece }
            values[attribute.number] = content.withUnsafeBytes { StoredValue($0, attribute.type) }
            guard let first = frames.firstIndex(where: { $0.range.lowerBound == Int(reference.offset) }) else {
                continue
            }
            var last = first + 1
            var size = UInt64(frames[first].range.count - 96)
            while size < reference.valueBytes {
                size += UInt64(frames[last].range.count - 96)
                last += 1
            }
            found.largeFrames[attribute.number] = first..<last
        }
        found.values = values
        return found
    }

    var everAlive: Set<ObjectID> { Set(changes.lazy.filter { $0.values != nil }.map(\.object)) }

    /// The objects that are alive in the undamaged store.
    var live: Set<ObjectID> {
        var live = Set<ObjectID>()
        for change in changes {
            if change.values == nil { live.remove(change.object) } else { live.insert(change.object) }
        }
        return live
    }

    // MARK: What is left

    /// What salvage must find of the damaged file.
    func expectation(of damaged: [UInt8]) -> SalvageExpectation {
        let isWhole = frames.map { frame in
            frame.range.upperBound <= damaged.count && damaged[frame.range] == bytes[frame.range]
        }
        let counts = frames.indices.map { isWhole[$0] && isCommitted($0, damaged) }
        var known = Set<UInt16>()
        for (index, frame) in frames.enumerated() where isWhole[index] {
            if frame.kind == .schema, counts[index] { known.insert(frame.version) }
            if frame.kind == .checkpoint, frame.versions > 0, frame.pieces.allSatisfy({ isWhole[$0] }) {
                known.formUnion(1...frame.versions)
            }
        }
        // A version of several frames is known where all of them are.
        for (index, frame) in frames.enumerated() where frame.kind == .schema && !counts[index] {
            let held = frames.indices.contains { other in
                frames[other].kind == .checkpoint && isWhole[other] && frames[other].versions >= frame.version
                    && frames[other].pieces.allSatisfy { isWhole[$0] }
            }
            if !held { known.remove(frame.version) }
        }
        var sure: UInt16 = 0
        while known.contains(sure + 1) { sure += 1 }
        var expectation = SalvageExpectation()
        for change in changes where counts[change.frame] {
            guard var values = change.values else {
                expectation.objects[change.object] = .deleted
                continue
            }
            for (attribute, range) in change.largeFrames where !range.allSatisfy({ isWhole[$0] }) {
                values[attribute] = .absent
            }
            expectation.objects[change.object] = change.version <= sure ? .row(values) : .unsure
        }
        return expectation
    }

    /// Whether there is still a sign that the transaction of a member was committed. All of them were.
    private func isCommitted(_ index: Int, _ damaged: [UInt8]) -> Bool {
        let frame = frames[index]
        guard frame.isMember else { return true }
        func hasHeader(_ other: Int) -> Bool {
            let range = frames[other].range.lowerBound..<(frames[other].range.lowerBound + FrameField.bytes)
            return range.upperBound <= damaged.count && damaged[range] == bytes[range]
        }
        for other in frames.indices.dropFirst(index + 1) where hasHeader(other) {
            if !frames[other].isMember || frames[other].number != frame.number { return true }
        }
        let own = frames.indices.filter { frames[$0].number == frame.number && frames[$0].isMember && hasHeader($0) }
        let end = frames[own.last ?? index].range.upperBound
        for case .good(let hint) in damaged.withUnsafeBytes({ HintSlot.decodeAll($0, salt: salt) })
        where hint.number >= frame.number && hint.durableEnd >= UInt64(end) {
            return true
        }
        return damaged.dropFirst(end).prefix(FrameField.bytes).contains { $0 != 0 }
    }

    var salt: UInt64 { bytes.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: HeaderField.salt, as: UInt64.self) } }
    /// Where the last frame ends.
    var end: Int { frames.last?.range.upperBound ?? 4096 }
}

/// The newest change of each object, of those that are left.
struct SalvageExpectation {
    enum Newest {
        case deleted
        case row([UInt16: StoredValue])
        /// Its schema version may be lost.
        case unsure
    }

    var objects: [ObjectID: Newest] = [:]
}

extension UnsafeRawBufferPointer {
    fileprivate func withUnsafeInteger<Integer: FixedWidthInteger>(at offset: Int) -> Integer {
        Integer(littleEndian: loadUnaligned(fromByteOffset: offset, as: Integer.self))
    }
}

// MARK: Stores

enum SalvageStores {
    static let folder = EntityDefinition(
        number: 2, name: "Folder",
        attributes: [
            AttributeDefinition(number: 1, type: .string, flags: [.optional, .indexed], name: "name"),
            AttributeDefinition(number: 2, type: .objects, flags: [.optional], target: 1, name: "notes"),
            AttributeDefinition(number: 3, type: .object, flags: [.optional], target: 1, name: "first"),
        ])

    static func options(_ machine: Machine) -> EngineOptions {
        var options = EngineOptions.lowered
        options.log = machine.options
        options.log.limits.mappingReserveBytes = 16 << 20
        return options
    }

    /// Notes and folders, changed and deleted over some 20 transactions of one frame or several, with large values,
    /// checkpoints, schema changes and, for some seeds, a compaction.
    static func make(_ seed: UInt64) throws -> [UInt8] {
        let machine = Machine(seed: seed, limits: .lowered)
        let engine = try Engine.create(
            Machine.path, options: options(machine), files: machine.files(), environment: machine.environment)
        let store = StoreHandle(engine)
        var maker = Maker(seed)
        _ = try store.commit { try $0.changeSchema([EngineNote.definition, folder]) }
        let compaction = seed % 3 == 0 ? 10 : -1
        for round in 0..<18 {
            try maker.change(store)
            if maker.chance(6) { try maker.changeSchema(store) }
            if maker.chance(8) { try store.current.writeCheckpoint() }
            if round == compaction {
                _ = try store.current.deleteHistory(before: store.newest().view.number - 5)
                _ = try store.compact(.lowered)
            }
        }
        if seed % 4 != 0 { try store.close() }
        return try #require(machine.disk.contents(of: Machine.path))
    }

    private struct Maker {
        private var random: SeededRandom
        private var notes: [ObjectID] = []
        private var count = 0
        private var attributes = EngineNote.definition.attributes

        init(_ seed: UInt64) { random = SeededRandom(seed) }

        mutating func chance(_ of: Int) -> Bool { Int.random(in: 0..<of, using: &random) == 0 }

        private mutating func row() -> [StoredValue] {
            count += 1
            let bytes = chance(4) ? Int.random(in: 500...9000, using: &random) : Int.random(in: 0...80, using: &random)
            let fill = UInt8.random(in: 0...255, using: &random)
            let body = (0..<bytes).map { fill ^ UInt8(truncatingIfNeeded: $0 / 64) }
            let own: [StoredValue] = [
                .string("note \(count)"), .int(Int64(count % 7)), chance(3) ? .absent : .data(body),
            ]
            return own + attributes.dropFirst(3).map { _ in .int(Int64(count)) }
        }

        mutating func change(_ store: StoreHandle) throws {
            let inserts = Int.random(in: 0...(chance(6) ? 90 : 8), using: &random)
            let rows = (0..<inserts).map { _ in row() }
            let updates = notes.shuffled(using: &random).prefix(Int.random(in: 0...6, using: &random))
            let updated = updates.map { ($0, row()) }
            let deletes = chance(2) ? notes.filter { !updates.contains($0) }.shuffled(using: &random).prefix(2) : []
            let linked = notes.filter { !deletes.contains($0) }.shuffled(using: &random).prefix(3)
            let (inserted, _) = try store.commit(author: "salvage tests") { transaction in
                for (object, row) in updated {
                    let values = row.enumerated().map { (position: $0.offset, value: $0.element) }
                    try transaction.update(object, values)
                }
                for object in deletes { try transaction.delete(object) }
                if let first = linked.first {
                    _ = try transaction.insert(
                        entity: 2, [.string("folder"), .objectSet(Array(linked)), .object(first)])
                }
                return try rows.map { try transaction.insert(entity: EngineNote.entity, $0) }
            }
            notes = notes.filter { !deletes.contains($0) } + inserted
        }

        mutating func changeSchema(_ store: StoreHandle) throws {
            guard attributes.count < 7 else { return }
            var definition = EngineNote.definition
            let number = UInt16(attributes.count + 1)
            attributes.append(
                AttributeDefinition(
                    number: number, type: .int, flags: [], name: "extra \(number)",
                    defaultValue: [UInt8](repeating: UInt8(number), count: 8)))
            definition.attributes = attributes
            _ = try store.commit { try $0.changeSchema([definition]) }
        }
    }

    /// Damages a copy in one of several ways; the header page but for the salt, rarely.
    static func damaged(_ sample: SalvageSample, _ seed: UInt64) -> [UInt8] {
        var random = SeededRandom(seed ^ 0xDA4A6E)
        var bytes = sample.bytes
        func place() -> Int { Int.random(in: 4096..<sample.end, using: &random) }
        switch seed % 6 {
        case 0:
            for _ in 0..<Int.random(in: 1...40, using: &random) {
                bytes[place()] ^= UInt8.random(in: 1...255, using: &random)
            }
        case 1:
            let start = place()
            for index in start..<min(sample.end, start + Int.random(in: 1...20_000, using: &random)) {
                bytes[index] = UInt8.random(in: 0...255, using: &random)
            }
        case 2:
            for _ in 0..<Int.random(in: 1...6, using: &random) {
                let page = place() & ~4095
                for index in page..<min(bytes.count, page + 4096) { bytes[index] = 0 }
            }
        case 3: bytes.removeSubrange(place()...)
        case 4:
            let start = place()
            for index in start..<bytes.count { bytes[index] = 0 }
        default:
            // Sectors that were written in each other's place.
            for _ in 0..<4 {
                let (first, second) = (place() & ~511, place() & ~511)
                for index in 0..<512 where max(first, second) + index < bytes.count {
                    bytes.swapAt(first + index, second + index)
                }
            }
        }
        if seed % 7 == 0 { bytes[[8, 20, 36, 50, 60, 121][Int(seed / 7 % 6)]] ^= 0x40 }
        return bytes
    }
}
