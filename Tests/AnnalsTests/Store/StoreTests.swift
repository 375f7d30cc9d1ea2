// A store through its public face: writing, reading, history, tokens, schema changes, opening and closing.

import Annals
import Foundation
import TestSupport
import Testing

@Suite struct StoreTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    /// A store with three clips, in two transactions.
    func filled() throws -> (Store, [ObjectID]) {
        let store = try folder.open([Sample.clip])
        let first = try store.writeOptimistically(author: "app", contextName: "view") { transaction in
            try [
                transaction.insert("Clip", ["title": "A", "url": "a", "rank": 3]),
                transaction.insert("Clip", ["title": "B", "url": "b", "rank": 1]),
            ]
        }.result
        let second = try store.write(author: "extension") { transaction in
            try transaction.insert("Clip", ["url": "c", "rank": 2])
        }.result
        return (store, first + [second])
    }

    /// Of a limited address space (`ulimit -v`, valgrind) a store takes what there is.
    @Test func aStoreWorksWithFewAddresses() throws {
        let run = try runTool(["addresses", folder.path], name: "process-helper")
        #expect(run.status == 0, "\(run.errors)")
        try folder.expectIntact()
    }

    @Test func aWriteInsideAWriteOfAnotherHandleIsBusy() throws {
        let (store, _) = try filled()
        let second = try Store(at: folder.path, options: .init(lockTimeout: .milliseconds(20)))
        try store.write { _ in
            let error = expect(.busy) {
                try second.writeOptimistically { try $0.insert("Clip", ["url": "d", "rank": 4]) }
            }
            #expect(error?.lockHolder?.processID == UInt32(getpid()))
            #expect(error?.message.contains("This process has the same number.") == true)
        }
        try second.writeOptimistically { try $0.insert("Clip", ["url": "d", "rank": 4]) }
        try second.close()
        try store.close()
        try folder.expectIntact()
    }

    @Test func insertedObjectsAreRead() throws {
        let (store, ids) = try filled()
        let snapshot = try store.snapshot()
        let row = try #require(try snapshot.row(ids[0]))
        #expect(row.entity == "Clip" && row.attributes == ["title", "url", "rank"] && row.values == ["A", "a", 3])
        #expect(row["rank"] == 3 && row["no"] == nil && row.id == ids[0])
        #expect(try snapshot.row(ids[2])?["title"] == "untitled")
        #expect(try snapshot.count(of: "Clip") == 3)
        expect(.unknownEntity) { try snapshot.count(of: "No") }
        #expect(try snapshot.rows(of: "Clip").map(\.id) == ids)
        #expect(try snapshot.row(#require(ObjectID("1:99"))) == nil && snapshot.row(#require(ObjectID("9:1"))) == nil)
        #expect(try store.entities == [Sample.clip])
        try store.close()
        let again = try folder.open([Sample.clip])
        #expect(try again.snapshot().rows(of: "Clip").map { $0["url"] } == ["a", "b", "c"])
        #expect(try again.currentToken == snapshot.token)
        try again.close()
        try folder.expectIntact()
    }

    /// Nobody else holds the store when it is read.
    @Test func aSnapshotKeepsItsStoreOpen() throws {
        func snapshot() throws -> (Snapshot, [ObjectID]) {
            let (store, ids) = try filled()
            return (try store.snapshot(), ids)
        }
        let (snapshot, ids) = try snapshot()
        #expect(try snapshot.row(ids[0])?["title"] == "A")
    }

    /// The row before a change is what the state before the transaction shows, also of attributes that are younger than
    /// the row.
    @Test func theRowBeforeAChangeIsThatOfTheStateBefore() throws {
        let (store, ids) = try filled()
        try store.changeSchema([
            .addAttribute(AttributeDescription("color", .string, defaultValue: "grey"), to: "Clip")
        ])
        let token = try store.currentToken
        try store.writeOptimistically { try $0.update(ids[0], ["color": "red"]) }
        try store.writeOptimistically { try $0.delete(ids[1]) }
        for transaction in try store.history(after: token, includingValues: true) {
            let earlier = try store.snapshot(asOf: transaction.number - 1)
            for change in transaction.changes { #expect(try change.before == earlier.row(change.object)) }
            #expect(!transaction.changesSchema)
        }
        #expect(try store.history(after: token.number - 1)[0].changesSchema)
        try store.close()
    }

    /// An object that is older than an attribute reads as its default: setting that is no change, of whatever type it
    /// is.
    @Test func settingTheDefaultOfANewerAttributeChangesNothing() throws {
        let (store, ids) = try filled()
        let defaults: [(name: String, type: AttributeType, value: Value, other: Value)] = [
            ("a", .string, .string("grey"), .string("red")), ("b", .bool, .bool(true), .bool(false)),
            ("c", .int, .int(3), .int(4)), ("d", .double, .double(0), .double(-0.0)),
            ("e", .date, .date(Date(timeIntervalSince1970: 5)), .date(Date(timeIntervalSince1970: 6))),
            ("f", .uuid, .uuid(UUID(uuidString: "00000000-0000-0000-0000-000000000001")!), .uuid(UUID())),
            ("g", .decimal, .decimal(Decimal(15) / 10), .decimal(2)), ("h", .data, .data(Data([1])), .data(Data())),
            ("i", .json, .json("[1]"), .json("[1 ]")),
        ]
        try store.changeSchema(
            defaults.flatMap { item -> [SchemaChange] in
                [
                    .addAttribute(AttributeDescription(item.name, item.type, defaultValue: item.value), to: "Clip"),
                    .addAttribute(AttributeDescription("no " + item.name, item.type), to: "Clip"),
                ]
            })
        let clips = try store.entity("Clip")
        let token = try store.currentToken
        for item in defaults {
            let isChanged = try store.write { transaction in
                try transaction.update(ids[0], [item.name: item.value, "no " + item.name: .null])
            }.result
            #expect(!isChanged, "\(item.name)")
        }
        let row = try #require(try store.snapshot().row(ids[0]))
        #expect(
            try !store.write { try $0.update(ids[0], of: clips, clips.attributes.map { row[$0] ?? .null }) }.result)
        #expect(try store.currentToken == token)
        for item in defaults {
            for value in [item.other, .null] {
                let change = try store.write { try $0.update(ids[1], [item.name: value]) }
                #expect(change.result, "\(item.name)")
                #expect(try store.snapshot().row(ids[1])?[item.name] == value)
            }
            try store.writeOptimistically { try $0.update(ids[1], ["no " + item.name: item.value]) }
        }
        let changes = try store.history(after: token).flatMap(\.changes)
        #expect(changes.allSatisfy { $0.object == ids[1] && $0.attributes.count == 1 })
        #expect(changes.count == 3 * defaults.count)
        try store.close()
        try folder.expectIntact()
    }

    /// The way to an object leads over frames that are verified on the way: a bad one there is the matter of who reads
    /// it.
    @Test func damageAffectsOnlyItsReaders() throws {
        let store = try folder.open([Sample.clip])
        let filler = String(repeating: "x", count: 400)
        let ids = try (0..<400).map { number in
            try store.writeOptimistically {
                try $0.insert("Clip", ["title": .string("mark \(number);" + filler), "url": .string("\(number)")])
            }
            .result
        }
        try store.close()
        var bytes = try Data(contentsOf: URL(filePath: folder.path))
        let place = try #require(bytes.range(of: Data("mark 40;".utf8)))
        bytes[place.lowerBound] ^= 1
        try bytes.write(to: URL(filePath: folder.path))
        for order in [[399, 40, 399, 80, 0], [40, 80, 399], [0, 399, 200, 80, 40]] {
            let again = try folder.open([Sample.clip])
            let snapshot = try again.snapshot()
            for number in order {
                if number == 40 {
                    let error = #expect(throws: StoreError.self) { try snapshot.row(ids[number]) }
                    #expect(error?.code == .damaged)
                } else {
                    #expect(try snapshot.row(ids[number])?["url"] == .string("\(number)"))
                }
            }
            try again.close()
        }
        let copied = try runTool(["dump", folder.path, "--bare"])
        #expect(copied.status == 65 && copied.output.contains("mark 0;"))
        #expect(try runTool(["verify", folder.path]).status == 65)
    }

    /// IDs may come from outside.
    @Test func anObjectOfAnotherEntityIsNotFound() throws {
        let (store, _) = try filled()
        let clips = try store.entity("Clip")
        #expect(try !store.snapshot().withRow(#require(ObjectID("2:1")), in: clips) { _ in })
        try store.close()
    }

    @Test func aTransactionReadsItsOwnLongValues() throws {
        let (store, ids) = try filled()
        let long = String(repeating: "long ", count: 40_000)
        try store.writeOptimistically { transaction in
            let id = try transaction.insert("Clip", ["title": .string(long), "url": "d", "rank": 4])
            #expect(try transaction.row(id)?["title"] == .string(long))
            try transaction.update(ids[0], ["title": .string(long + "er")])
            #expect(try transaction.row(ids[0])?["title"] == .string(long + "er"))
        }
        #expect(try store.snapshot().row(ids[0])?["title"] == .string(long + "er"))
        try store.close()
    }

    /// An error that is caught inside does not leave half a row.
    @Test func aRowOfWhichAValueWasRefusedIsNotWritten() throws {
        let (store, ids) = try filled()
        let clips = try store.entity("Clip")
        let invalid: [UInt8] = [0xFF]
        #expect(throws: StoreError.self) {
            try store.writeOptimistically { transaction in
                try transaction.update(ids[0]) { (row) throws(StoreError) in
                    do throws(StoreError) {
                        try invalid.withUnsafeBufferPointer { (bytes) throws(StoreError) in
                            try row.set(utf8: UnsafeRawBufferPointer(bytes), at: 0)
                        }
                    } catch {}
                    try row.set(int: 9, at: 2)
                }
            }
        }
        #expect(throws: StoreError.self) {
            try store.writeOptimistically { transaction in
                try transaction.insert(clips) { (row) throws(StoreError) in
                    do throws(StoreError) { try row.set(int: 1, at: 0) } catch {}
                    try row.set(string: "u", at: 1)
                }
            }
        }
        #expect(try store.snapshot().row(ids[0])?["title"] == "A" && store.snapshot().count(of: "Clip") == 3)
        try store.close()
    }

    /// While a row is written nothing else of its transaction can be done, and no number is given twice.
    @Test func anInsertInsideOfAnotherIsRefused() throws {
        let (store, ids) = try filled()
        try store.changeSchema([
            .addEntity(EntityDescription("Other", attributes: [AttributeDescription("x", .string)]))
        ])
        let other = try store.entity("Other")
        try store.writeOptimistically { transaction in
            _ = try? transaction.insert(other) { (row) throws(StoreError) in
                do {
                    try transaction.insert("Clip", ["url": "inner"])
                } catch {
                    throw StoreError(.invalidArgument, "\(error)")
                }
                try row.set(string: "x", at: 0)
            }
            try transaction.insert("Clip", ["url": "behind"])
        }
        let snapshot = try store.snapshot()
        #expect(try snapshot.rows(of: "Clip").map { $0["url"] } == ["a", "b", "c", "behind"])
        #expect(try snapshot.count(of: "Other") == 0 && snapshot.row(ids[2])?["url"] == "c")
        try store.close()
    }

    @Test func rangesOfNoNumbersAreEmptyAndForeignSnapshotsRefused() throws {
        let (store, _) = try filled()
        var found = 0
        try store.snapshot().forEachRow(of: store.entity("Clip"), numbers: 0...0) { _ in
            found += 1
            return true
        }
        #expect(found == 0)
        let again = try folder.open([])
        #expect(throws: StoreError.self) {
            try store.forEachTransaction(after: 0, in: again.snapshot()) { _ in true }
        }
        try again.close()
        try store.close()
    }

    @Test func onlyDifferencesAreWritten() throws {
        let (store, ids) = try filled()
        let before = try store.currentToken
        let same = try store.writeOptimistically { try $0.update(ids[0], ["title": "A", "rank": 3]) }
        #expect(try !same.result && same.token == nil && (store.currentToken) == before)
        let other = try store.writeOptimistically { try $0.update(ids[0], ["title": "A", "rank": 4]) }
        #expect(try other.result && other.token == (store.currentToken))
        #expect(try store.history(after: before)[0].changes[0].attributes == ["rank"])
        let none = try store.writeOptimistically { try $0.update(ids[0], ["rank": .null]) }
        #expect(try none.result && (store.snapshot().row(ids[0])?["rank"]) == .null)
        try store.close()
        try folder.expectIntact()
    }

    @Test func anErrorOfTheBodyAbandonsEverything() throws {
        struct Stop: Error {}
        let (store, ids) = try filled()
        let before = try store.currentToken
        #expect(throws: Stop.self) {
            try store.writeOptimistically { transaction in
                try transaction.delete(ids[0])
                throw Stop()
            }
        }
        #expect(throws: Stop.self) { try store.write { _ in throw Stop() } }
        #expect(try store.currentToken == before && store.snapshot().count(of: "Clip") == 3)
        try store.close()
        try folder.expectIntact()
    }

    @Test func invalidWritesAreRefused() throws {
        let (store, ids) = try filled()
        expect(.unknownEntity) { try store.writeOptimistically { try $0.insert("No", [:]) } }
        expect(.unknownAttribute) { try store.writeOptimistically { try $0.insert("Clip", ["no": 1]) } }
        expect(.typeMismatch) { try store.writeOptimistically { try $0.insert("Clip", ["rank": "x"]) } }
        expect(.requiredMissing) { try store.writeOptimistically { try $0.insert("Clip", ["title": .null]) } }
        expect(.requiredMissing) { try store.writeOptimistically { try $0.update(ids[0], ["title": .null]) } }
        expect(.uniqueViolation) { try store.writeOptimistically { try $0.insert("Clip", ["url": "a"]) } }
        expect(.uniqueViolation) { try store.writeOptimistically { try $0.update(ids[1], ["url": "a"]) } }
        expect(.objectNotFound) { try store.writeOptimistically { try $0.delete(#require(ObjectID("1:77"))) } }
        expect(.objectNotFound) { try store.writeOptimistically { try $0.update(#require(ObjectID("7:1")), [:]) } }
        let handle = try store.entity("Clip")
        expect(.invalidArgument) { try store.writeOptimistically { try $0.insert(handle, ["x"]) } }
        expect(.invalidArgument) {
            try store.writeOptimistically { transaction in
                try transaction.insert(handle) { (row) throws(StoreError) in try row.set(int: 1, at: 3) }
            }
        }
        #expect(try store.currentToken.number == 3)
        try store.close()
        try folder.expectIntact()
    }

    @Test func rowsAreWrittenAndReadByPosition() throws {
        let types = AttributeType.allCases.map { AttributeDescription($0.rawValue, $0) }
        let store = try folder.open([EntityDescription("All", attributes: types)])
        let handle = try store.entity("All")
        let (other, _) = try store.writeOptimistically { try $0.insert("All", [:]) }
        let uuid = UUID()
        let id = try store.writeOptimistically { transaction in
            try transaction.insert(handle) { (row) throws(StoreError) in
                try row.set(bool: true, at: 0)
                try row.set(int: -5, at: 1)
                try row.set(double: -0.0, at: 2)
                var text = "ä"
                var failure: StoreError?
                text.withUTF8 { utf8 in
                    do throws(StoreError) { try row.set(utf8: UnsafeRawBufferPointer(utf8), at: 3) } catch {
                        failure = error
                    }
                }
                if let failure { throw failure }
                try row.set(.data(Data([1, 2])), at: 4)
                try row.set(date: Date(timeIntervalSinceReferenceDate: 0.1), at: 5)
                try row.set(uuid: uuid, at: 6)
                try row.set(decimal: 2.5, at: 7)
                try row.set(string: "[1]", at: 8)
                try row.set(object: other, at: 9)
                try row.set(.orderedObjects([other]), at: 10)
            }
        }.result
        var values: [Value] = []
        var bytes: [UInt8] = []
        let isThere = try store.snapshot().withRow(id, in: handle) { (row) throws(StoreError) in
            let (bool, text, json) = (try row.bool(at: 0), try row.string(at: 3), try row.string(at: 8))
            let object = try row.object(at: 9)
            #expect(bool == true && row.int(at: 1) == -5 && row.double(at: 2)?.sign == .minus)
            #expect(text == "ä" && json == "[1]" && object == other)
            #expect(row.date(at: 5)?.timeIntervalSinceReferenceDate == 0.1 && row.uuid(at: 6) == uuid)
            #expect(row.isPresent(at: 0) && !row.isPresent(at: 11) && row.count == 12)
            for position in 0..<row.count { values.append(try row.value(at: position)) }
            _ = try row.withBytes(at: 4) { bytes = Array($0) }
        }
        #expect(bytes == [1, 2] && values.count == 12)
        #expect(values[7...] == [.decimal(2.5), .json("[1]"), .object(other), .orderedObjects([other]), .null])
        #expect(isThere)
        try store.close()
        try folder.expectIntact()
    }

    @Test func largeValuesAreReadCompletely() throws {
        let store = try folder.open([Sample.clip])
        let text = String(repeating: "xyz ", count: 100_000)
        let id = try store.writeOptimistically { try $0.insert("Clip", ["title": .string(text)]) }.result
        #expect(try store.snapshot().row(id)?["title"] == .string(text))
        #expect(try !store.writeOptimistically { try $0.update(id, ["title": .string(text)]) }.result)
        try store.close()
        try folder.expectIntact()
    }

    @Test func rangesFollowTheIndex() throws {
        let (store, ids) = try filled()
        let snapshot = try store.snapshot()
        let clip = try snapshot.entity("Clip")
        func ranks(_ from: RangeBound, _ to: RangeBound, _ reversed: Bool = false) throws -> [ObjectID] {
            var found: [ObjectID] = []
            try snapshot.forEachRow(of: clip, by: ["rank"], from: from, to: to, reversed: reversed) {
                (row) throws(StoreError) in
                found.append(row.id)
                return true
            }
            return found
        }
        #expect(try ranks(.unbounded, .unbounded) == [ids[1], ids[2], ids[0]])
        #expect(try ranks(.unbounded, .unbounded, true) == [ids[0], ids[2], ids[1]])
        #expect(try ranks(.including([2]), .excluding([3])) == [ids[2]])
        #expect(try ranks(.excluding([1]), .including([3]), true) == [ids[0], ids[2]])
        #expect(try snapshot.objects(of: clip, where: "url", equals: "b") == [ids[1]])
        #expect(try snapshot.objects(of: clip, where: "url", equals: "z") == [])
        expect(.invalidArgument) { try snapshot.objects(of: clip, where: "title", equals: "A") }
        expect(.unknownAttribute) { try snapshot.objects(of: clip, where: "no", equals: 1) }
        expect(.typeMismatch) { try snapshot.objects(of: clip, where: "rank", equals: "x") }
        try store.close()
        try folder.expectIntact()
    }

    /// Keys are cut above 240 bytes, so what is equal up to there must be told apart by the rows.
    @Test func longTextsAreFoundExactly() throws {
        let store = try folder.open([Sample.clip])
        let stem = String(repeating: "k", count: 400)
        let ids = try store.writeOptimistically { transaction in
            try ["a", "b", "c"].map { try transaction.insert("Clip", ["url": .string(stem + $0)]) }
        }.result
        let snapshot = try store.snapshot()
        let clip = try snapshot.entity("Clip")
        #expect(try snapshot.objects(of: clip, where: "url", equals: .string(stem + "b")) == [ids[1]])
        #expect(try snapshot.objects(of: clip, where: "url", equals: .string(stem)) == [])
        var found: [ObjectID] = []
        try snapshot.forEachRow(of: clip, by: ["url"], from: .excluding([.string(stem + "a")])) {
            (row) throws(StoreError) in
            found.append(row.id)
            return true
        }
        #expect(Set(found) == Set(ids[1...]))
        try store.close()
        try folder.expectIntact()
    }

    // MARK: History

    @Test func historyNamesAuthorsProcessesAndChanges() throws {
        let (store, ids) = try filled()
        let before = try store.currentToken
        try store.writeOptimistically(author: "app") { transaction in
            try transaction.update(ids[0], ["rank": 9])
            try transaction.delete(ids[1])
        }
        let all = try store.history(after: 0)
        #expect(all.map(\.number) == [1, 2, 3, 4] && all.map(\.author) == [nil, "app", "extension", "app"])
        #expect(all[1].contextName == "view" && all[1].changes.map(\.kind) == [.insert, .insert])
        #expect(all[3].processID == UInt32(ProcessInfo.processInfo.processIdentifier) && all[3].process != nil)
        #expect(zip(all, all.dropFirst()).allSatisfy { $0.microseconds < $1.microseconds })
        let last = try store.history(after: before, includingValues: true)
        #expect(try last.count == 1 && last[0].token == (store.currentToken))
        let update = last[0].changes[0]
        #expect(
            update.kind == .update && update.object == ids[0] && update.entity == "Clip"
                && update.attributes == ["rank"])
        #expect(update.before?["rank"] == 3 && update.after?["rank"] == 9 && update.preserved == nil)
        let deletion = last[0].changes[1]
        #expect(deletion.kind == .delete && deletion.before?["title"] == "B" && deletion.after == nil)
        #expect(deletion.preserved?["url"] == "b" && deletion.preserved?["title"] == .null)
        #expect(try store.history(after: 0, limit: 2).count == 2 && store.history(after: 0, limit: 0).isEmpty)
        #expect(try store.snapshot(asOf: before).row(ids[1])?["title"] == "B")
        #expect(try store.snapshot(asOf: 1).count(of: "Clip") == 0)
        try store.close()
        try folder.expectIntact()
    }

    @Test func invalidTokensAreErrors() throws {
        let (store, _) = try filled()
        let token = try store.currentToken
        let foreign = HistoryToken(storeIdentifier: UUID(), number: 1, tag: 1)
        let unknown = HistoryToken(storeIdentifier: store.identifier, number: 99, tag: 1)
        let diverged = HistoryToken(storeIdentifier: store.identifier, number: 2, tag: 1)
        for (other, code) in [
            (foreign, StoreError.Code.tokenForeign), (unknown, .tokenUnknown), (diverged, .tokenDiverged),
        ] {
            expect(code) { try store.history(after: other) }
            expect(code) { try store.snapshot(asOf: other) }
        }
        expect(.tokenUnknown) { try store.snapshot(asOf: 99) }
        expect(.tokenUnknown) { try store.history(after: 99) }
        #expect(try store.history(after: token).isEmpty)
        for transaction in try store.history(after: 0) { try store.validate(transaction.token) }
        try store.writeOptimistically(durability: .full) { try $0.insert("Clip", ["rank": 1]) }
        #expect(try store.durableToken == store.currentToken)
        try store.close()
        let reader = try folder.open { $0.access = .readOnly }
        #expect(try reader.durableToken == reader.currentToken)
        try reader.close()
        try folder.expectIntact()
    }

    // MARK: Schema

    @Test func oldRowsAreReadInTheNewSchema() throws {
        let (store, ids) = try filled()
        let old = try store.entity("Clip")
        let past = try store.snapshot()
        try store.changeSchema(
            [
                .renameAttribute("title", of: "Clip", to: "name"), .removeAttribute("url", from: "Clip"),
                .addAttribute(AttributeDescription("stars", .int, isOptional: false, defaultValue: 5), to: "Clip"),
                .renameEntity("Clip", to: "Link"),
            ], author: "migration")
        let row = try #require(try store.snapshot().row(ids[0]))
        #expect(row.entity == "Link" && row.attributes == ["name", "rank", "stars"] && row.values == ["A", 3, 5])
        #expect(try past.row(ids[0])?.values == ["A", "a", 3])
        expect(.schemaChanged) { try store.writeOptimistically { try $0.insert(old, ["x", "y", 1]) } }
        expect(.schemaChanged) {
            try store.writeOptimistically { transaction in
                try transaction.insert(old) { (row) throws(StoreError) in try row.set(string: "x", at: 0) }
            }
        }
        _ = try store.snapshot().withRow(ids[0], in: old) { (row) throws(StoreError) in
            let name = try row.string(at: 0)
            #expect(name == "A" && row.int(at: 2) == 3)
        }
        expect(.unknownEntity) { try store.entity("Clip") }
        #expect(try store.changeSchema([.renameEntity("Link", to: "Link")]) == nil)
        #expect(try store.history(after: 3)[0].author == "migration")
        try store.writeOptimistically { try $0.update(ids[0], ["stars": 1]) }
        #expect(try store.snapshot().row(ids[0])?.values == ["A", 3, 1])
        try store.close()
        try folder.expectIntact()
    }

    @Test func openingAddsDeclarationsAndRemovesNothing() throws {
        try folder.open([Sample.clip]).close()
        var wider = Sample.clip
        wider.attributes.removeFirst()
        wider.attributes.append(AttributeDescription("note", .data))
        let store = try folder.open([wider, EntityDescription("Tag", attributes: [])])
        #expect(try store.entities.map(\.name) == ["Clip", "Tag"])
        #expect(try store.entity("Clip").attributes == ["title", "url", "rank", "note"])
        try store.close()
        var other = Sample.clip
        other.attributes[2].type = .string
        expect(.schemaMismatch) { try folder.open([other]) }
        expect(.schemaMismatch) {
            try folder.open([EntityDescription("New", attributes: [])]) { $0.access = .readOnly }
        }
        try folder.expectIntact()
    }

    @Test func duplicatesKeepAnAttributeFromBecomingUnique() throws {
        let store = try folder.open([Sample.clip])
        try store.writeOptimistically { transaction in
            for _ in 0..<2 { try transaction.insert("Clip", ["title": "same"]) }
        }
        expect(.uniqueViolation) { try store.changeSchema([.changeAttribute("title", of: "Clip", isUnique: true)]) }
        #expect(try store.entities[0]["title"]?.isUnique == false)
        try store.close()
        try folder.expectIntact()
    }

    // MARK: Opening and closing

    @Test func callsOfAClosedStoreThrow() throws {
        let (store, ids) = try filled()
        let snapshot = try store.snapshot()
        try store.close()
        try store.close()
        expect(.closed) { try store.snapshot() }
        expect(.closed) { try store.writeOptimistically { try $0.delete(ids[0]) } }
        expect(.closed) { try store.history(after: 0) }
        expect(.closed) { try snapshot.row(ids[0]) }
        expect(.closed) { try store.statistics }
        try folder.expectIntact()
    }

    @Test func readOnlyHandlesCannotWrite() throws {
        let (store, ids) = try filled()
        let reader = try folder.open { $0.access = .readOnly }
        expect(.readOnly) { try reader.writeOptimistically { try $0.delete(ids[0]) } }
        try store.writeOptimistically { try $0.delete(ids[2]) }
        #expect(try reader.snapshot().count(of: "Clip") == 2)
        try reader.close()
        try store.close()
        try folder.expectIntact()
    }

    @Test func missingStoresAreNotOpened() throws {
        expect(.notFound) { try folder.open { $0.createsIfMissing = false } }
        expect(.notFound) { try folder.open { $0.access = .readOnly } }
        try folder.temporary.write(String(repeating: "x", count: 5000), to: "other")
        expect(.notAStore) { try Store(at: folder.temporary.path("other")) }
        expect(.invalidArgument) { try Store(at: URL(string: "https://swift.org")!) }
        #expect(folder.temporary.names == ["other"])
    }

    @Test func destroyRemovesStoresOnly() throws {
        try folder.open().close()
        try folder.temporary.write("x", to: "other")
        expect(.notAStore) { try Store.destroy(at: folder.temporary.path("other")) }
        expect(.notFound) { try Store.destroy(at: folder.temporary.path("none")) }
        let store = try Store(at: URL(fileURLWithPath: folder.path))
        expect(.busy) { try store.write { _ in try Store.destroy(at: folder.path) } }
        try Store.destroy(at: folder.path)
        #expect(folder.temporary.names == ["other"])
        expect(.storeRemoved) {
            try store.writeOptimistically(durability: .full) {
                try $0.changeSchema([.addEntity(EntityDescription("A", attributes: []))])
            }
        }
        try? store.close()
    }

    @Test func statisticsCountObjectsAndTransactions() throws {
        let (store, ids) = try filled()
        try store.writeOptimistically { try $0.delete(ids[0]) }
        let statistics = try store.statistics
        #expect(statistics.objects == ["Clip": 2] && statistics.transactions == 4)
        #expect(statistics.endBytes <= statistics.fileBytes && statistics.bytesByKind["transaction"] ?? 0 > 0)
        try store.close()
        try folder.expectIntact()
    }
}
