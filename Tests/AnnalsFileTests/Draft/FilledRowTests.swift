// What a row writer fills in by itself, and texts that it must not take, whatever the closure does with the error.

import Annals
import SimulatedDisk
import Testing

@Suite struct FilledRowTests {
    private static func definition(_ flags: AttributeFlags, fixed: Int, default value: String?) -> EntityDefinition {
        var attributes = [
            AttributeDefinition(
                number: 1, type: .string, flags: flags, name: "a", defaultValue: value.map { Array($0.utf8) }),
            AttributeDefinition(number: 2, type: .string, flags: [.optional], name: "b"),
        ]
        for number in 0..<fixed {
            attributes.append(
                AttributeDefinition(number: UInt16(3 + number), type: .int, flags: [.optional], name: "c\(number)"))
        }
        return EntityDefinition(number: 1, name: "Note", attributes: attributes)
    }

    /// A text that became required has its default in the next update, which must name it, or an index would keep the
    /// key of before: whether the update sets all, some or none of the numbers.
    @Test(arguments: [(0, 0), (1, 1), (1, 0), (70, 70), (70, 69)])
    func anAttributeThatBecameRequiredCountsAsChanged(fixed: Int, set: Int) throws {
        let machine = EngineMachine()
        let engine = try machine.create(1, Self.definition([.optional, .indexed], fixed: fixed, default: nil))
        let (object, _) = try engine.commit { transaction in
            try transaction.insert(entity: 1, [.absent, .string("b")] + (0..<fixed).map { _ in .int(1) })
        }
        _ = try engine.commit {
            try $0.changeSchema([Self.definition([.indexed], fixed: fixed, default: "none")])
        }
        let before = try engine.view().number
        _ = try engine.commit { transaction in
            try transaction.update(object) { (row) throws(StoreError) in
                try row.set(text: "new", at: 1)
                for position in 0..<set { try row.set(.int(2), at: 2 + position) }
            }
        }
        var written: [[Int]] = []
        try engine.tracked(engine.view()).forEachTransaction(after: before) { (transaction) throws(StoreError) in
            try transaction.forEachChange { (change) throws(StoreError) in
                written.append((0..<fixed + 2).filter { change.contains(attributePosition: $0) })
                return true
            }
            return true
        }
        #expect(written == [[0, 1] + (0..<set).map { 2 + $0 }])
        try engine.writeCheckpoint()
        try machine.closeAndCheck(engine)
    }

    /// The old row's title cannot be read: who sets what stands after it and catches that must not get a row without
    /// it.
    @Test func anUpdateFailsIfAnOldValueCannotBeRead() throws {
        let machine = Machine()
        let log = try machine.create()
        try log.defineNotes()
        let layout = try #require(log.current.catalog.layout(version: 1, entity: Note.entity))
        var bytes = try Samples.row(Note.row("title", 1, [1]), layout)
        // The title is said to be a reference, and is none.
        bytes[RowField.bytes + 3] = 0x80
        let transaction = log.makeFrames()
        try bytes.withUnsafeBytes { bytes in
            let old = try RowImage(bytes, layout: layout)
            #expect(throws: StoreError.self) {
                let entry = DraftFrames.Entry(.update, Note.object(1), previous: .row(offset: 1 << 20))
                try transaction.write(entry, layout, old: old, .object) { (row) throws(StoreError) in
                    do throws(StoreError) { try row.set(stored: .data([2]), at: 2) } catch {}
                    try row.set(text: "new", at: 0)
                }
            }
        }
        #expect(transaction.changes == 0)
        try log.close()
        try expectIntact(machine.disk, isSealed: true)
    }

    @Test func anInvalidTextWhoseErrorIsCaughtLeavesNothing() throws {
        let machine = EngineMachine()
        let engine = try machine.create(1, Self.definition([.optional, .indexed], fixed: 1, default: nil))
        let (object, _) = try engine.commit { try $0.insert(entity: 1, [.string("x"), .string("b"), .int(1)]) }
        let limit = engine.options.log.limits.maximumInlineValueBytes
        for count in [1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 100, limit - 1, limit, limit + 1, limit * 3] {
            for place in Set([0, count / 2, count - 1]) {
                var bytes = [UInt8](repeating: 0x61, count: count)
                bytes[place] = 0xC3
                _ = try engine.commit { transaction in
                    let set: (inout RowWriter) throws(StoreError) -> Void = { row throws(StoreError) in
                        var failure: StoreError?
                        bytes.withUnsafeBytes { bytes in
                            do throws(StoreError) { try row.set(utf8: bytes, at: 1) } catch { failure = error }
                        }
                        #expect(failure?.code == .invalidArgument)
                        try row.set(.int(7), at: 2)
                    }
                    #expect(throws: StoreError.self) { try transaction.insert(entity: 1, set) }
                    #expect(throws: StoreError.self) { try transaction.update(object, set) }
                    try transaction.update(object, [(2, .int(Int64(count + place) + 1000))])
                    #expect(throws: StoreError.self) { try transaction.update(object, set) }
                    var values: [StoredValue] = []
                    _ = try transaction.withRow(object) { (row) throws(StoreError) in values = try row.values() }
                    #expect(values == [.string("x"), .string("b"), .int(Int64(count + place) + 1000)])
                }
            }
        }
        try machine.closeAndCheck(engine)
    }
}
