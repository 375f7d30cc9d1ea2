// Whatever happens to the bytes of a file, it is found, and what is read is right: flips, cuts, frames out of place.

import Annals
import SimulatedDisk
import TestSupport
import Testing

@Suite struct DamageTests {
    // MARK: Flips

    /// Damages a file's bytes one at a time, each in a copy of its own; splits the work over two threads.
    private func everyByte(
        _ bytes: [UInt8], _ range: StrideTo<Int>, _ body: @escaping @Sendable (SimulatedDisk, Int) throws -> Void,
        flip: @escaping @Sendable (Int) -> UInt8
    ) async throws {
        let offsets = Array(range)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for part in 0..<2 {
                group.addTask {
                    let disk = SimulatedDisk()
                    disk.install(bytes, at: Machine.path)
                    for index in stride(from: part, to: offsets.count, by: 2) {
                        let offset = offsets[index]
                        disk.corrupt(Machine.path, at: offset, to: bytes[offset] ^ flip(offset))
                        try body(disk, offset)
                        disk.corrupt(Machine.path, at: offset, to: bytes[offset])
                    }
                }
            }
            try await group.waitForAll()
        }
    }

    private static func seededFlip(_ offset: Int) -> UInt8 {
        var random = SeededRandom(UInt64(offset))
        return UInt8.random(in: 1...255, using: &random)
    }

    /// A damaged byte of a sealed file is damage from the header to the seal's end, and a torn tail after it. In a hint
    /// slot it is a notice (F3): nothing relies on a hint.
    private func expectFound(_ disk: SimulatedDisk, _ offset: Int, _ sample: SampleStore) throws {
        let report = try check(disk)
        if let slot = HintField.slots.first(where: { ($0..<$0 + HintField.bytes).contains(offset) }) {
            let isNoticed = report.findings.contains { $0.rule == "F3" && $0.offset == UInt64(slot) && !$0.isDamage }
            if !isNoticed || report.hasDamage { Issue.record("The byte at \(offset) of a hint is not a notice.") }
        } else if offset < sample.end {
            if !report.hasDamage { Issue.record("The byte at \(offset) is missed.") }
        } else if report.tornTail?.offset != UInt64(sample.end) || report.hasDamage || report.findings.isEmpty {
            Issue.record("The byte at \(offset) behind the seal is not reported as a torn tail.")
        }
    }

    @Test func aSampleHasAllFramesThatALogWrites() throws {
        let sample = try SampleStore.sealed(minimumBytes: 256 << 10)
        let kinds = Set(sample.frames.indices.compactMap { FrameKind(rawValue: sample.kind($0)) })
        #expect(kinds == [.transaction, .part, .value, .schema, .metadata, .recovery, .seal])
        #expect(sample.end > 256 << 10 && sample.bytes.count == sample.end + 4096)
        #expect(try HintSlot.decodeAll(sample).allSatisfy { if case .good = $0 { true } else { false } })
        let report = try check(sample.bytes)
        #expect(report.findings == [] && report.isSealed && report.counts.largeValues > 5)
    }

    /// Every byte of the frames through the log's own walk, from the frame that the byte is in to the verdict.
    @Test func everyFlippedByteOfTheFramesIsDamageToTheLog() async throws {
        let sample = try SampleStore.sealed(minimumBytes: 256 << 10)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for part in 0..<2 {
                group.addTask {
                    let disk = SimulatedDisk()
                    disk.install(sample.bytes, at: Machine.path)
                    let opened = try OpenedSample(disk)
                    for index in stride(from: part, to: sample.frames.count, by: 2) {
                        try Self.flipFrame(index, sample, opened)
                    }
                }
            }
            try await group.waitForAll()
        }
    }

    private static func flipFrame(_ index: Int, _ sample: SampleStore, _ opened: OpenedSample) throws {
        let frame = sample.frames[index]
        for offset in sample.frameRange(index) {
            opened.disk.corrupt(Machine.path, at: offset, to: sample.bytes[offset] ^ seededFlip(offset))
            var walk = try opened.walk(from: frame.state)
            do throws(StoreError) {
                let end = try walk.toTheEnd(asker: .judge) { (_, _, _) throws(StoreError) in }
                Issue.record("The byte at \(offset) is missed: \(end).")
            } catch {
                let isRight = error.code == .damaged && error.offset == UInt64(frame.offset)
                if !isRight { Issue.record("The byte at \(offset): \(error).") }
            }
            opened.disk.corrupt(Machine.path, at: offset, to: sample.bytes[offset])
        }
    }

    @Test func everyFlippedByteOfTheHeaderAndTheSparePageIsFound() async throws {
        let sample = try SampleStore.sealed(minimumBytes: 64 << 10)
        for range in [0..<4096, sample.end..<sample.bytes.count] {
            try await everyByte(
                sample.bytes, stride(from: range.lowerBound, to: range.upperBound, by: 1),
                { (disk, offset) in try self.expectFound(disk, offset, sample) }, flip: Self.seededFlip)
        }
    }

    @Test func flippedBytesOfALargeFileAreFound() async throws {
        let sample = try SampleStore.sealed(minimumBytes: 256 << 10)
        try await everyByte(
            sample.bytes, stride(from: 0, to: sample.bytes.count, by: 61),
            { (disk, offset) in try self.expectFound(disk, offset, sample) }, flip: Self.seededFlip)
    }

    @Test func everyFlippedBitOfASmallFileIsFound() async throws {
        let sample = try SampleStore.sealed(minimumBytes: 12 << 10)
        #expect(sample.bytes.count >= 16 << 10)
        for bit in 0..<8 {
            try await everyByte(
                sample.bytes, stride(from: 0, to: sample.bytes.count, by: 1),
                { (disk, offset) in try self.expectFound(disk, offset, sample) }, flip: { _ in 1 << UInt8(bit) })
        }
    }

    // MARK: Cuts

    @Test func everyCutOfASealedFileIsFound() throws {
        let sample = try SampleStore.sealed(minimumBytes: 12 << 10)
        for count in 0..<sample.bytes.count {
            let report = try Self.expectPrefix(Array(sample.bytes[..<count]), sample)
            if !report.hasDamage { Issue.record("A cut to \(count) bytes is not found.") }
        }
    }

    @Test func everyCutOfAnUnsealedFileLeavesAPrefix() throws {
        let sample = try SampleStore.unsealed(transactions: 30)
        var complete = Set<UInt64>()
        for count in 0..<sample.bytes.count {
            let report = try Self.expectPrefix(Array(sample.bytes[..<count]), sample)
            if count >= 4096, report.hasDamage { Issue.record("A cut to \(count) bytes is damage: \(report.findings)") }
            if report.end > UInt64(count) { Issue.record("What counts of \(count) bytes ends at \(report.end).") }
            complete.insert(report.lastNumber)
        }
        #expect(complete.count == sample.tags.count)
    }

    /// Checks and opens a file; what both read must be a prefix of the sample's transactions.
    @discardableResult
    private static func expectPrefix(_ bytes: [UInt8], _ sample: SampleStore) throws -> CheckReport {
        let machine = Machine(limits: .lowered)
        machine.disk.install(bytes, at: Machine.path)
        let report = try check(machine.disk)
        do {
            let log = try machine.open(access: .readOnly)
            let state = log.current
            if sample.tags[state.lastNumber] != state.lastTag { Issue.record("Another transaction was read.") }
            if report.stoppedAt != nil { Issue.record("The checker found what opening did not: \(report.findings)") }
            if report.end != state.end || report.lastNumber != state.lastNumber {
                Issue.record("The checker and the log disagree: \(report.end), \(state.end).")
            }
            if (report.tornTail?.offset) != log.openingReport.tornTail { Issue.record("The torn tails differ.") }
        } catch let error as StoreError {
            let isRight = [.damaged, .truncated, .notAStore].contains(error.code) && error.offset != nil
            if !isRight { Issue.record("\(error)") }
            if !report.hasDamage { Issue.record("The checker missed what opening found: \(error)") }
        }
        return report
    }

    // MARK: Rot in an unsealed file

    @Test func aRottenHeaderBelowAcknowledgedCommitsIsDamage() throws {
        let sample = try SampleStore.unsealed(transactions: 40)
        let proven = Int(sample.durableMark)
        #expect(sample.frames.count > 40 && proven > sample.end / 2)
        for frame in sample.frames {
            var bytes = sample.bytes
            bytes[frame.offset + 9] ^= 0x40
            let report = try Self.expectPrefix(bytes, sample)
            // The last commit was acknowledged, but nothing was written after it that could say so.
            #expect(report.hasDamage == (frame.offset < proven), "offset \(frame.offset)")
            #expect(report.hasDamage == (report.tornTail == nil))
        }
    }

    // MARK: Frames out of place

    /// A file of the sample's header and these frames, each at the place that follows.
    private func assembled(_ frames: [[UInt8]], _ sample: SampleStore) -> [UInt8] {
        Array(sample.bytes[..<4096]) + frames.flatMap { $0 } + [UInt8](repeating: 0, count: 4096)
    }

    private func frames(_ sample: SampleStore) -> [[UInt8]] {
        sample.frames.indices.map { Array(sample.bytes[sample.frameRange($0)]) }
    }

    private func expectNotIntact(_ frames: [[UInt8]], _ sample: SampleStore, _ what: String) throws {
        let bytes = assembled(frames, sample)
        if bytes == sample.bytes { return }
        let report = try Self.expectPrefix(bytes, sample)
        #expect(report.hasDamage || report.tornTail != nil, "\(what)")
    }

    @Test func framesOutOfPlaceAreFound() throws {
        for sample in [try SampleStore.sealed(minimumBytes: 12 << 10), try SampleStore.unsealed(transactions: 12)] {
            let all = frames(sample)
            for index in all.indices {
                var doubled = all
                doubled.insert(all[index], at: index)
                try expectNotIntact(doubled, sample, "frame \(index) twice")
                var missing = all
                missing.remove(at: index)
                if index + 1 < all.count { try expectNotIntact(missing, sample, "frame \(index) missing") }
                for other in all.indices where other > index && all[other] != all[index] {
                    var swapped = all
                    swapped.swapAt(index, other)
                    try expectNotIntact(swapped, sample, "frames \(index) and \(other) swapped")
                }
            }
        }
    }

    /// The same transactions in a file with another salt, and the same frames under the header of another generation.
    @Test func framesOfAnotherFileOrGenerationAreFound() throws {
        let sample = try SampleStore.unsealed(transactions: 12)
        let other = try SampleStore.unsealed(transactions: 12, seed: 2)
        #expect(frames(sample).map(\.count) == frames(other).map(\.count))
        let strangers = frames(other)
        for index in strangers.indices {
            var spliced = frames(sample)
            spliced[index] = strangers[index]
            try expectNotIntact(spliced, sample, "frame \(index) of another file")
            try expectNotIntact(Array(frames(sample)[..<index]) + strangers[index...], sample, "the rest is another's")
        }
        var next = sample
        var header = try sample.bytes.withUnsafeBytes { try FileHeader.decode($0) }
        header.generation = 1
        header.salt ^= 0x1234
        next.bytes.replaceSubrange(0..<4096, with: header.encoded())
        try expectNotIntact(frames(sample), next, "frames under the next generation's header")
    }

    @Test func zerosInTheMiddleAreNotTheEnd() throws {
        let sample = try SampleStore.sealed(minimumBytes: 24 << 10)
        for sector in stride(from: 4096, to: sample.end - 512, by: 512) {
            var bytes = sample.bytes
            for offset in sector..<(sector + 512) { bytes[offset] = 0 }
            let report = try Self.expectPrefix(bytes, sample)
            #expect(report.hasDamage, "sector at \(sector)")
        }
    }
}

extension HintSlot {
    static func decodeAll(_ sample: SampleStore) throws -> [HintSlot] {
        try sample.bytes.withUnsafeBytes { decodeAll($0, salt: try FileHeader.decode($0).salt) }
    }
}
