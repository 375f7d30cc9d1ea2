// Large values that are lists of objects, and sorting with little memory: what the checker does in pieces.

import Annals
import SimulatedDisk
import TestSupport
import Testing

@Suite struct CheckerPartsTests {
    // MARK: Forms

    private func forms(_ bytes: [UInt8], pieceBytes: Int) -> ValueForms {
        var form = LargeValueForm()
        for start in stride(from: 0, to: bytes.count, by: pieceBytes) {
            bytes[start..<min(start + pieceBytes, bytes.count)].withUnsafeBytes { form.accept($0) }
        }
        return form.finish()
    }

    private func list(_ objects: [UInt64]) -> [UInt8] {
        var bytes: [UInt8] = []
        for object in objects {
            bytes += [UInt8](repeating: 0, count: 8)
            bytes.put(object, at: bytes.count - 8)
        }
        return bytes
    }

    @Test(arguments: [1, 3, 7, 8, 9, 16, 1000]) func listsInPiecesAreReadAsAWhole(_ pieceBytes: Int) {
        let entity: UInt64 = 5 << 48
        let ascending = list([entity | 1, entity | 2, entity | 0xFF80])
        #expect(forms(ascending, pieceBytes: pieceBytes).isSuperset(of: [.objects, .ascendingObjects]))
        let mixed = list([entity | 2, entity | 1, entity | 3])
        #expect(forms(mixed, pieceBytes: pieceBytes).intersection([.objects, .ascendingObjects]) == .objects)
        let twice = list([entity | 2, entity | 2])
        #expect(!forms(twice, pieceBytes: pieceBytes).contains(.ascendingObjects))
        for bad in [[entity], [7], [0], [entity | 1, 9]] as [[UInt64]] {
            #expect(forms(list(bad), pieceBytes: pieceBytes).isDisjoint(with: [.objects, .ascendingObjects]))
        }
        #expect(forms(ascending.dropLast() + [], pieceBytes: pieceBytes).isDisjoint(with: .objects))
    }

    /// Random sequences of the bytes at the edges of what UTF-8 allows, and whole characters, against the standard
    /// library.
    @Test func textInPiecesIsValidIfTheWholeTextIs() {
        let bytes: [UInt8] = [
            0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xED, 0xEF, 0xF0, 0xF1,
            0xF4, 0xF5, 0xFF,
        ]
        var random = SeededRandom(7)
        for _ in 0..<100_000 {
            let count = Int.random(in: 1...12, using: &random)
            let text = (0..<count).map { _ in bytes.randomElement(using: &random) ?? 0 }
            let isValid = String(validating: text, as: UTF8.self) != nil
            let piece = Int.random(in: 1...12, using: &random)
            #expect(forms(text, pieceBytes: piece).contains(.text) == isValid, "\(text)")
        }
        for scalar in stride(from: 0, to: 0x11_0000 as UInt32, by: 97) {
            guard let character = Unicode.Scalar(scalar) else { continue }
            #expect(forms(Array(String(character).utf8) + [0x41], pieceBytes: 2).contains(.text))
        }
    }

    // MARK: Sorting

    private struct Record: SortRecord, Equatable {
        var key: UInt64
        var index: UInt64
        static func < (left: Record, right: Record) -> Bool {
            left.key != right.key ? left.key < right.key : left.index < right.index
        }
    }

    @Test(arguments: [(0, 100), (1, 100), (50, 100), (1000, 100), (1000, 1_000_000), (5000, 320), (30_000, 64)])
    func recordsAreReturnedSorted(_ count: Int, _ memoryBytes: Int) throws {
        let disk = SimulatedDisk()
        let sorter = ExternalSorter<Record>(disk, directory: "/data", memoryBytes: memoryBytes)
        var random = SeededRandom(UInt64(count))
        let records = (0..<count).map { Record(key: random.next() % 500, index: UInt64($0)) }
        for record in records { try sorter.append(record) }
        #expect((sorter.runCount > 0) == (count * 16 > memoryBytes))
        var drained: [Record] = []
        try sorter.drain { drained.append($0) }
        #expect(drained == records.sorted())
        #expect(disk.names(in: "/data") == [])
    }

    @Test func aFileIsCheckedWithAlmostNoMemory() throws {
        var file = try ForgedFile.withNotes()
        var rows: [UInt64] = []
        for turn in 0..<30 {
            let changes = try (1...40).map { number in
                let row = try Note.encoded("note \(turn)")
                return turn == 0
                    ? ForgedChange.insert(number, row) : .update(number, row, previous: rows[number - 1])
            }
            rows = file.addCommit(changes).rows
        }
        file.addCommit([.update(7, try Note.encoded("x"), previous: rows[6] - 8)])
        var options = CheckOptions()
        options.spillDirectory = "/data"
        options.sortingBytes = 12 * 400
        let report = try check(file.finished(), options: options)
        #expect(report.findings.map(\.rule) == ["F18"] && report.counts.changes == 1201)
    }

    @Test func noSpaceToSortIsAnError() throws {
        var file = try ForgedFile.withNotes()
        for number in 1...100 { file.addCommit([.insert(number, try Note.encoded("x"))]) }
        var options = CheckOptions()
        options.spillDirectory = "/nowhere"
        options.sortingBytes = 1200
        #expect(throws: StoreError.self) { try check(file.finished(), options: options) }
    }
}
