// Changes store files as files, frame by frame, and then seals them anew half of the time: a plain mutation never
// passes a checksum.

internal import Annals

package enum FuzzMutator {
    /// The same bytes and seed give the same result, never longer than `maximumBytes`.
    package static func mutated(_ bytes: [UInt8], maximumBytes: Int, seed: UInt64) -> [UInt8] {
        var mutation = Mutation(pieces: StorePieces(bytes), random: ByteChanger(seed: seed))
        let steps = 1 + mutation.random.next(below: 4)
        for _ in 0..<steps { mutation.step() }
        mutation.sealSometimes()
        return mutation.pieces.joined(maximumBytes: min(maximumBytes, FuzzTargets.maximumStoreBytes))
    }

    /// The file as it is, sealed anew with everything made to agree.
    package static func sealed(_ bytes: [UInt8]) -> [UInt8] {
        var pieces = StorePieces(bytes)
        pieces.seal([.numbers, .marks, .records, .tags, .references, .hints])
        return pieces.joined(maximumBytes: .max)
    }
}

private struct Mutation {
    var pieces: StorePieces
    var random: ByteChanger

    mutating func sealSometimes() {
        guard random.next(below: 2) == 0 else { return }
        // Mostly everything is made to agree but for what one of the repairs would have mended.
        var repairs: StorePieces.Repairs = [
            .numbers, .marks, .records, .tags, .references, .hints, .checkpoints, .consumers,
        ]
        if random.next(below: 3) == 0 { repairs.remove(.init(rawValue: 1 << UInt8(random.next(below: 8)))) }
        pieces.seal(repairs)
    }

    mutating func step() {
        switch random.next(below: 20) {
        case 0...5: changeFrame()
        case 6, 7: changeIndex()
        case 8, 9: changeHeaderField()
        case 10: duplicate()
        case 11: remove()
        case 12: swap()
        case 13: truncate()
        case 14: grow()
        case 15: insertSmallFrame()
        case 16, 17: changePage()
        case 18: changeRest()
        default: cut()
        }
    }

    // MARK: Inside a frame

    private mutating func anyFrame() -> Int? {
        pieces.frames.isEmpty ? nil : random.next(below: pieces.frames.count)
    }

    private mutating func changeFrame() {
        guard let index = anyFrame() else { return changePage() }
        let body = pieces.frames[index].bodyStart
        let count = pieces.frames[index].bytes.count
        let inTable = random.next(below: 3) > 0
        let range = inTable && body > FrameField.bytes ? FrameField.bytes..<body : body..<count
        random.change(&pieces.frames[index].bytes, range)
    }

    /// A frame with nodes or a checkpoint, its words mostly: the offsets that they are lead anywhere.
    private mutating func changeIndex() {
        let kinds = [FrameKind.nodes.rawValue, FrameKind.checkpoint.rawValue]
        let places = pieces.frames.indices.filter { kinds.contains(pieces.frames[$0].kind) }
        guard !places.isEmpty else { return changeFrame() }
        let index = places[random.next(below: places.count)]
        let body = pieces.frames[index].bodyStart
        let words = (pieces.frames[index].bytes.count - body) / 8
        guard words > 0, random.next(below: 3) > 0 else { return changeFrame() }
        let target = body + 8 * random.next(below: words)
        let source = body + 8 * random.next(below: words)
        let copied = pieces.frames[index].bytes.integer(source, as: UInt64.self)
        let frame = UInt64(pieces.frames[places[random.next(below: places.count)]].offset ?? 0)
        switch random.next(below: 4) {
        case 0: pieces.frames[index].bytes.store(copied, at: target)
        case 1: pieces.frames[index].bytes.store(frame + 72 + 4096 * UInt64(random.next(below: 3)), at: target)
        case 2: pieces.frames[index].bytes.store(copied &+ 8, at: target)
        default: random.change(&pieces.frames[index].bytes, body..<pieces.frames[index].bytes.count)
        }
    }

    private mutating func changeHeaderField() {
        guard let index = anyFrame() else { return changePage() }
        let number = random.integer()
        switch random.next(below: 8) {
        case 0, 1: pieces.frames[index].bytes.store(UInt8(random.next(below: 15)), at: FrameField.kind)
        case 2: pieces.frames[index].bytes[FrameField.flags] ^= 1
        case 3: pieces.frames[index].bytes.store(UInt32(truncatingIfNeeded: number), at: FrameField.tableBytes)
        case 4: pieces.frames[index].bytes.store(number, at: FrameField.durableMark)
        case 5: pieces.frames[index].bytes.store(number, at: FrameField.number)
        default: random.change(&pieces.frames[index].bytes, 0..<FrameField.bytes)
        }
    }

    // MARK: Whole frames

    private mutating func duplicate() {
        guard let index = anyFrame(), pieces.frames.count < 600 else { return }
        var copy = pieces.frames[index]
        copy.offset = nil
        pieces.frames.insert(copy, at: random.next(below: pieces.frames.count + 1))
    }

    private mutating func remove() {
        guard let index = anyFrame() else { return }
        pieces.frames.remove(at: index)
    }

    private mutating func swap() {
        guard let first = anyFrame(), let second = anyFrame() else { return }
        pieces.frames.swapAt(first, second)
    }

    private mutating func truncate() {
        guard let index = anyFrame() else { return }
        let most = (pieces.frames[index].bytes.count - FrameField.bytes) / 8
        guard most > 0 else { return }
        pieces.frames[index].bytes.removeLast(8 * (1 + random.next(below: min(most, 16))))
    }

    private mutating func grow() {
        guard let index = anyFrame() else { return }
        let count = 8 * (1 + random.next(below: 8))
        let place = random.next(below: 2) == 0 ? pieces.frames[index].bodyStart : pieces.frames[index].bytes.count
        pieces.frames[index].bytes.insert(contentsOf: repeatElement(0, count: count), at: place)
        let table = pieces.frames[index].bytes.integer(FrameField.tableBytes, as: UInt32.self)
        if random.next(below: 2) == 0 {
            pieces.frames[index].bytes.store(table &+ UInt32(count), at: FrameField.tableBytes)
        }
    }

    /// A frame of any kind with a short table.
    private mutating func insertSmallFrame() {
        let table = 8 * random.next(below: 9)
        var bytes = [UInt8](repeating: 0, count: FrameField.bytes + table)
        bytes.store(UInt32(bytes.count), at: FrameField.frameBytes)
        bytes.store(UInt32(table), at: FrameField.tableBytes)
        bytes[FrameField.kind] = UInt8(1 + random.next(below: 13))
        bytes[FrameField.flags] = random.next(below: 3) == 0 ? 1 : 0
        random.change(&bytes, FrameField.bytes..<bytes.count)
        if random.next(below: 3) == 0 { bytes = historyFrame() }
        pieces.frames.insert(.init(bytes: bytes), at: random.next(below: pieces.frames.count + 1))
    }

    /// A consumer, cleaning or replacing frame that has the form of one.
    private mutating func historyFrame() -> [UInt8] {
        let small = UInt64(random.next(below: 6))
        let kind: FrameKind
        let table: [UInt8]
        switch random.next(below: 3) {
        case 0:
            kind = .consumer
            table = ConsumerRecord(
                name: ["a", "b", "sync"][random.next(below: 3)], kind: [.reads, .writes], cursor: small, tag: 0,
                lastSeen: 0, registered: 0, processID: 1
            ).encoded()
        case 1:
            kind = .cleaning
            let hidden = CleaningRecord.Hidden(author: UInt32(random.next(below: 3)), before: small + 1)
            table = CleaningRecord(before: small, time: 0, hidden: random.next(below: 2) == 0 ? [hidden] : []).encoded()
        default:
            kind = .replacing
            table = ReplacingRecord(generation: small, salt: 1, time: 0).encoded()
        }
        var bytes = [UInt8](repeating: 0, count: FrameField.bytes) + table
        bytes.store(UInt32(bytes.count), at: FrameField.frameBytes)
        bytes.store(UInt32(table.count), at: FrameField.tableBytes)
        bytes[FrameField.kind] = kind.rawValue
        bytes[FrameField.flags] = kind == .consumer && random.next(below: 2) == 0 ? 1 : 0
        return bytes
    }

    // MARK: Around the frames

    private mutating func changePage() {
        guard pieces.page.count >= HintField.slots[1] + HintField.bytes else {
            return random.change(&pieces.page, 0..<pieces.page.count)
        }
        switch random.next(below: 8) {
        case 0: random.change(&pieces.page, 0..<pieces.page.count)
        case 1, 2: random.change(&pieces.page, 0..<HeaderField.bytes)
        case 3: pieces.page.store(random.integer(), at: HeaderField.baseNumber)
        case 4: pieces.page.store(random.integer(), at: HeaderField.baseTime)
        case 5: pieces.page[HeaderField.storeID] = random.next(below: 2) == 0 ? 0xFF : 0xFE
        default:
            let slot = HintField.slots[random.next(below: 2)]
            random.change(&pieces.page, slot..<slot + HintField.bytes)
        }
    }

    private mutating func changeRest() {
        switch random.next(below: 4) {
        case 0: pieces.rest = []
        case 1: pieces.rest += repeatElement(0, count: 8 * random.next(below: 600))
        case 2:
            // What is left of a frame that was written once.
            if let index = anyFrame() {
                pieces.rest = Array(pieces.frames[index].bytes.prefix(8 * random.next(below: 64))) + pieces.rest
            }
        default:
            if pieces.rest.isEmpty { pieces.rest = [UInt8](repeating: 0, count: 4096) }
            random.change(&pieces.rest, 0..<pieces.rest.count)
        }
    }

    private mutating func cut() {
        guard random.next(below: 3) == 0, !pieces.page.isEmpty else {
            if let index = anyFrame() { pieces.frames.removeSubrange(index...) }
            return
        }
        if random.next(below: 8) == 0 { pieces.page.removeLast(1 + random.next(below: pieces.page.count)) }
        pieces.rest = Array(pieces.rest.prefix(random.next(below: pieces.rest.count + 1)))
    }
}
