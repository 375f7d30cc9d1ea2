// Transactions in the making: rows written by closures, changes taken out again, entries looked at before and after the
// commit.

import Annals
import SimulatedDisk
import TestSupport
import Testing

@Suite struct DraftFramesTests {
    private struct Refused: Error {}

    private func store(_ limits: LogLimits = LogLimits()) throws -> (Machine, Log, RowLayout) {
        let machine = Machine(limits: limits)
        let log = try machine.create()
        try log.defineNotes()
        let layout = try #require(log.current.catalog.layout(version: 1, entity: Note.entity))
        return (machine, log, layout)
    }

    /// Every row of the store with the change that wrote it, as read back from the file.
    private func changes(_ log: Log) throws -> [(
        object: ObjectID, kind: ChangeKind, row: [StoredValue]?, place: UInt64
    )] {
        var found: [(object: ObjectID, kind: ChangeKind, row: [StoredValue]?, place: UInt64)] = []
        try log.forEachFrame { (frame, state) throws(StoreError) in
            guard [.transaction, .part].contains(frame.header.kind) else { return }
            var cursor = ChangeCursor(frame)
            while let change = try cursor.next() {
                var row: [StoredValue]?
                if let bytes = frame.row(of: change), let layout = state.rowCatalog.layout(version: 1, entity: 1) {
                    row = try RowImage(bytes, layout: layout).values()
                }
                found.append((change.object, change.kind, row, frame.offset + UInt64(change.rowOffset ?? 0)))
            }
        }
        return found
    }

    private func insert(
        _ number: Int, _ title: String, _ rank: Int64? = nil, _ data: [UInt8]? = nil,
        into transaction: DraftFrames, _ layout: RowLayout
    ) throws(StoreError) {
        try transaction.insert(Note.object(number), layout: layout) { (row) throws(StoreError) in
            try row.set(text: title, at: 0)
            if let rank { try row.set(stored: .int(rank), at: 1) }
            if let data { try row.set(stored: .data(data), at: 2) }
        }
    }

    @Test func rowsOfUnknownSizeFillFramesLikeRowsOfKnownSize() throws {
        let (machine, log, layout) = try store(.lowered)
        let (otherMachine, other, _) = try store(.lowered)
        let first = log.makeFrames()
        let second = other.makeFrames()
        for number in 1...300 {
            let data = [UInt8](repeating: UInt8(number & 0xFF), count: number * 37 % 500)
            try insert(number, "note \(number)", Int64(number), data, into: first, layout)
            try second.insert(Note.object(number), Note.row("note \(number)", Int64(number), data))
        }
        try log.commit(first)
        try other.commit(second)
        #expect(log.current.frames == other.current.frames && log.current.frames > 20)
        #expect(try changes(log).map(\.row) == changes(other).map(\.row))
        try log.close()
        try other.close()
        try expectIntact(machine.disk, isSealed: true)
        try expectIntact(otherMachine.disk, isSealed: true)
    }

    @Test func aRefusedRowLeavesNothing() throws {
        let (machine, log, layout) = try store(.lowered)
        let transaction = log.makeFrames()
        try insert(1, "one", 1, nil, into: transaction, layout)
        let large = [UInt8](repeating: 3, count: 10_000)
        #expect(throws: StoreError.self) {
            try transaction.insert(Note.object(2), layout: layout) { (row) throws(StoreError) in
                try row.set(text: "two", at: 0)
                try addLarge(large, to: transaction, &row)
                throw StoreError(.invalidArgument, "no")
            }
        }
        #expect(throws: StoreError.self, "no attribute was written") {
            try transaction.update(Note.object(2), Note.row("two"), positions: [], previous: .row(offset: 8192))
        }
        #expect(throws: StoreError.self, "there is no such attribute") {
            try transaction.update(Note.object(2), Note.row("two"), positions: [3], previous: .row(offset: 8192))
        }
        try insert(3, "three", 3, nil, into: transaction, layout)
        #expect(transaction.changes == 2)
        try log.commit(transaction)
        #expect(try changes(log).map(\.row) == [Note.row("one", 1), Note.row("three", 3)])
        try log.close()
        let report = try expectIntact(machine.disk, isSealed: true)
        #expect(report.counts.largeValues == 0)
    }

    @Test func whileARowIsWrittenNothingElseOfItsTransactionChanges() throws {
        let (machine, log, layout) = try store()
        let transaction = log.makeFrames()
        try transaction.insert(Note.object(1), Note.row("one"))
        var refusals: [StoreError.Code] = []
        func refused(_ body: () throws(StoreError) -> Void) {
            do throws(StoreError) { try body() } catch { refusals.append(error.code) }
        }
        try transaction.insert(Note.object(2), layout: layout) { (row) throws(StoreError) in
            try row.set(text: "two", at: 0)
            refused { () throws(StoreError) in try transaction.insert(Note.object(3), Note.row("three")) }
            refused { () throws(StoreError) in try insert(3, "three", into: transaction, layout) }
            refused { () throws(StoreError) in _ = try transaction.ownChange(of: Note.object(1)) }
            refused { () throws(StoreError) in try transaction.forEachEntry { (_, _) throws(StoreError) in true } }
            refused { () throws(StoreError) in try log.commit(transaction) }
            try row.set(stored: .int(2), at: 1)
        }
        #expect(refusals == [StoreError.Code](repeating: .invalidArgument, count: 5))
        try log.commit(transaction)
        #expect(try changes(log).map(\.row) == [Note.row("one"), Note.row("two", 2)])
        try log.close()
        try expectIntact(machine.disk, isSealed: true)
    }

    private func addLarge(
        _ value: [UInt8], to transaction: DraftFrames, _ row: inout RowWriter
    ) throws(StoreError) {
        var done = 0
        let large = try transaction.addLargeValue(bytes: UInt64(value.count)) { (buffer) throws(StoreError) in
            let count = min(buffer.count, value.count - done, 1000)
            for index in 0..<count { buffer[index] = value[done + index] }
            done += count
            return count
        }
        try row.set(stored: large, at: 2)
    }

    private func read(_ value: StoredValue?, _ log: Log) throws -> [UInt8] {
        guard case .large(let reference) = value else { return [] }
        var bytes: [UInt8] = []
        try log.readLargeValue(reference) { (piece) throws(StoreError) in bytes += Array(piece) }
        return bytes
    }

    @Test func aLargeValueAddedWhileItsRowIsWrittenIsFound() throws {
        let (machine, log, layout) = try store(.lowered)
        let transaction = log.makeFrames()
        for number in 1...8 {
            // Rows between, so that a row with a reference is moved to the next frame once.
            for other in 0..<9 {
                try insert(
                    number * 100 + other, "between", 1, [UInt8](repeating: 1, count: 300), into: transaction, layout)
            }
            try transaction.insert(Note.object(number), layout: layout) { (row) throws(StoreError) in
                try row.set(text: "large \(number)", at: 0)
                try addLarge([UInt8](repeating: UInt8(number), count: 9000), to: transaction, &row)
            }
        }
        try log.commit(transaction)
        let large = try changes(log).filter { $0.object.number < 100 }
        #expect(large.count == 8)
        for (index, change) in large.enumerated() {
            #expect(try read(change.row?[2], log) == [UInt8](repeating: UInt8(index + 1), count: 9000))
        }
        try log.close()
        let report = try expectIntact(machine.disk, isSealed: true)
        #expect(report.counts.largeValues == 8)
    }

    @Test func aRowThatIsTooLongLosesItsLongestValues() throws {
        var limits = LogLimits.lowered
        limits.maximumInlineRowBytes = 400
        let (machine, log, layout) = try store(limits)
        let transaction = log.makeFrames()
        let data = [UInt8](repeating: 9, count: 500)
        try insert(1, "short", 1, [1], into: transaction, layout)
        try insert(2, "long", 2, data, into: transaction, layout)
        try insert(3, String(repeating: "é", count: 300), 3, [5], into: transaction, layout)
        #expect(throws: StoreError.self, "a required attribute is missing") {
            try transaction.insert(Note.object(4), layout: layout) { (row) throws(StoreError) in
                try row.set(stored: .data(data), at: 2)
            }
        }
        #expect(transaction.changes == 3)
        try log.commit(transaction)
        let rows = try changes(log).map(\.row)
        #expect(rows[0] == Note.row("short", 1, [1]))
        #expect(try read(rows[1]?[2], log) == data)
        #expect(try read(rows[2]?[0], log) == Array(String(repeating: "é", count: 300).utf8))
        try log.close()
        let report = try expectIntact(machine.disk, isSealed: true)
        #expect(report.counts.largeValues == 2)
    }

    // MARK: Folding

    /// What stands in the transaction, looked at before and after its commit, and read back from the file.
    private func expect(
        _ expected: [(Int, ChangeKind, [StoredValue]?)], _ transaction: DraftFrames, _ log: Log,
        _ layout: RowLayout
    ) throws {
        func seen() throws -> [String] {
            var seen: [String] = []
            try transaction.forEachEntry(withRows: true) { (change, row) throws(StoreError) in
                let values = try row.map { bytes throws(StoreError) in try RowImage(bytes, layout: layout).values() }
                seen.append("\(change.object.number) \(change.kind) \(String(describing: values))")
                return true
            }
            return seen
        }
        let wanted = expected.map { "\($0.0) \($0.1) \(String(describing: $0.2))" }
        #expect(try seen() == wanted)
        #expect(transaction.countingChanges == UInt64(expected.count))
        let before = try changes(log).count
        try log.commit(transaction)
        #expect(try seen() == wanted)
        let found = try changes(log).dropFirst(before)
        #expect(found.map { "\($0.object.number) \($0.kind) \(String(describing: $0.row))" } == wanted)
    }

    @Test func aChangeCanBeRemovedAtAnyPosition() throws {
        for removed in 1...4 {
            let (machine, log, layout) = try store()
            let transaction = log.makeFrames()
            for number in 1...4 {
                try insert(
                    number, String(repeating: "t", count: number * 7), Int64(number), nil, into: transaction, layout)
            }
            let change = try #require(try transaction.ownChange(of: Note.object(removed)))
            #expect(change.kind == .insert && change.previous == nil && change.attributes.isEmpty)
            let row = try #require(change.row)
            try row.withUnsafeBytes { bytes in
                let values = try RowImage(bytes, layout: layout).values()
                #expect(values == Note.row(String(repeating: "t", count: removed * 7), Int64(removed)))
            }
            try transaction.takeOut(Note.object(removed))
            #expect(try transaction.ownChange(of: Note.object(removed)) == nil)
            #expect(transaction.countingChanges == 3)
            try insert(5, "five", 5, nil, into: transaction, layout)
            try insert(removed, "again", 0, nil, into: transaction, layout)
            var expected: [(Int, ChangeKind, [StoredValue]?)] = []
            for number in 1...4 where number != removed {
                expected.append((number, .insert, Note.row(String(repeating: "t", count: number * 7), Int64(number))))
            }
            expected.append((5, .insert, Note.row("five", 5)))
            expected.append((removed, .insert, Note.row("again", 0)))
            try expect(expected, transaction, log, layout)
            try log.close()
            try expectIntact(machine.disk, isSealed: true)
        }
    }

    @Test func updatesAndDeletionsCanBeRemovedAndRepeated() throws {
        let (machine, log, layout) = try store()
        let first = log.makeFrames()
        for number in 1...5 { try insert(number, "n\(number)", Int64(number), [UInt8(number)], into: first, layout) }
        try log.commit(first)
        let places = try changes(log).map(\.place)
        let second = log.makeFrames()
        for number in [1, 2, 3] {
            try second.update(
                Note.object(number), Note.row("u\(number)", -1), positions: [0, 1, 2],
                previous: .row(offset: places[number - 1]))
        }
        try second.delete(
            Note.object(4), preserved: [.absent, .absent, .data([4])], previous: .row(offset: places[3]))
        try second.delete(Note.object(5), previous: .row(offset: places[4]))
        let updated = try #require(try second.ownChange(of: Note.object(2)))
        #expect(updated.kind == .update && updated.previous == .row(offset: places[1]))
        #expect(updated.attributes == AttributeSet([0, 1, 2]))
        let deleted = try #require(try second.ownChange(of: Note.object(5)))
        #expect(deleted.kind == .delete && deleted.row == nil)
        try second.update(Note.object(2), Note.row("u2", -1), positions: [0, 1, 2], previous: .row(offset: places[1]))
        try second.supersede()
        try second.takeOut(Note.object(5))
        try second.takeOut(Note.object(5))
        try second.delete(Note.object(5), previous: .row(offset: places[4]))
        try expect(
            [
                (1, .update, Note.row("u1", -1)), (3, .update, Note.row("u3", -1)),
                (4, .delete, [.absent, .absent, .data([4])]), (2, .update, Note.row("u2", -1)), (5, .delete, nil),
            ], second, log, layout)
        try log.close()
        try expectIntact(machine.disk, isSealed: true)
    }

    @Test func referencesOfOtherRowsStayValidWhenAChangeIsRemoved() throws {
        let (machine, log, _) = try store(.lowered)
        let transaction = log.makeFrames()
        let values = (1...3).map { [UInt8](repeating: UInt8($0), count: 600 * $0) }
        for number in 1...3 {
            try transaction.insert(Note.object(number), Note.row("l\(number)", nil, values[number - 1]))
        }
        try transaction.takeOut(Note.object(2))
        try transaction.insert(Note.object(1), Note.row("again", nil, [UInt8](repeating: 9, count: 700)))
        try transaction.supersede()
        try log.commit(transaction)
        let found = try changes(log)
        #expect(found.map(\.object.number) == [3, 1])
        #expect(try read(found[0].row?[2], log) == values[2])
        #expect(try read(found[1].row?[2], log) == [UInt8](repeating: 9, count: 700))
        try log.close()
        try expectIntact(machine.disk, isSealed: true)
    }

    /// In any of several frames. Each round changes other objects again, some of them often.
    @Test func anObjectIsChangedAgainInALongTransaction() throws {
        let (machine, log, layout) = try store(.lowered)
        let transaction = log.makeFrames()
        var wanted: [Int: Int64] = [:]
        for number in 1...400 {
            try insert(
                number, "note \(number)", Int64(number), [UInt8](repeating: 1, count: 100), into: transaction, layout)
            wanted[number] = Int64(number)
        }
        var random = SeededRandom(7)
        for round in 0..<2000 {
            let number = Int.random(in: 1...400, using: &random)
            let change = try transaction.ownChange(of: Note.object(number))
            #expect((change == nil) == (wanted[number] == nil))
            guard let row = change?.row else { continue }
            try row.withUnsafeBytes { bytes in
                let rank = try RowImage(bytes, layout: layout).int(at: 1)
                #expect(rank == wanted[number])
            }
            if round % 20 == 0 {
                try transaction.takeOut(Note.object(number))
                wanted[number] = nil
            } else {
                try insert(number, "again", Int64(-round), nil, into: transaction, layout)
                try transaction.supersede()
                wanted[number] = Int64(-round)
            }
        }
        #expect(transaction.countingChanges == UInt64(wanted.count))
        for withRows in [false, true] {
            var seen: [Int: Int64] = [:]
            try transaction.forEachEntry(withRows: withRows) { (change, row) throws(StoreError) in
                #expect((row != nil) == withRows && seen[Int(change.object.number)] == nil)
                seen[Int(change.object.number)] =
                    try row.map { (row) throws(StoreError) in
                        try RowImage(row, layout: layout).int(at: 1) ?? 0
                    } ?? wanted[Int(change.object.number)]
                return true
            }
            #expect(seen == wanted)
        }
        try log.commit(transaction)
        let found = try changes(log)
        #expect(found.count == wanted.count)
        for change in found {
            guard case .int(let int)? = change.row?[1] else {
                Issue.record("no row")
                continue
            }
            #expect(wanted[Int(change.object.number)] == int)
        }
        try log.close()
        try expectIntact(machine.disk, isSealed: true)
    }

    @Test func theTableOfACommittedTransactionHasThePlacesOfItsRows() throws {
        let (machine, log, layout) = try store()
        let transaction = log.makeFrames()
        for number in 1...50 { try insert(number, "note \(number)", nil, nil, into: transaction, layout) }
        let appended = try log.commit(transaction)
        var places: [UInt64] = []
        try transaction.forEachEntry { (change, _) throws(StoreError) in
            places.append(appended.commitFrame + UInt64(change.rowOffset ?? 0))
            return true
        }
        #expect(try changes(log).map(\.place) == places)
        let table = transaction.lastFrameTable
        #expect(try TransactionRecord.decode(table).tag == appended.tag)
        let bytes = try #require(machine.disk.contents(of: Machine.path))
        let start = Int(appended.commitFrame) + FrameField.bytes
        #expect(Array(table) == Array(bytes[start..<(start + table.count)]))
        withExtendedLifetime(transaction) {}
        try log.close()
        try expectIntact(machine.disk, isSealed: true)
    }

    // MARK: Attribute sets

    @Test func attributeSetsHoldAllPositions() throws {
        var random = SeededRandom(7)
        for count in [0, 1, 2, 40, 400] {
            let positions = Set((0..<count).map { _ in Int(random.next() % 1000) })
            let set = AttributeSet(positions)
            #expect(set.positions == positions.sorted())
            #expect(set.isEmpty == positions.isEmpty && set.last == positions.max())
            #expect(set == AttributeSet(positions.sorted().reversed()))
            var union = AttributeSet([3, 999])
            union.formUnion(set)
            #expect(union.positions == positions.union([3, 999]).sorted())
            #expect(!set.contains(1000) && !set.contains(-1))
        }
    }
}
