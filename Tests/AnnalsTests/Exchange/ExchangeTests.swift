// What one store exports and another applies.

import Annals
import Foundation
import TestSupport
import Testing

@Suite struct ExchangeTests {
    // MARK: Values

    @Test func everyValueIsExchangedBitForBit() throws {
        let pair = try ExchangeFolders(2, [ExchangeSample.everything])
        let (a, b) = (pair.stores[0], pair.stores[1])
        let rows: [[String: Value]] = [
            ["bool": true, "int": .int(.min), "double": .double(-0.0), "string": "é\u{301}\n\u{0}\"\\/\u{2028}"],
            ["bool": false, "int": .int(.max), "double": .double(.nan), "string": ""],
            ["double": .double(Double(bitPattern: 0x7ff4_0000_0000_0123)), "data": .data(Data(0...255))],
            ["double": .double(.infinity), "data": .data(Data()), "uuid": .uuid(UUID())],
            [
                "double": .double(.leastNonzeroMagnitude),
                "decimal": .decimal(Decimal(string: "-0.000123456789012345678901234567")!),
            ],
            ["double": .double(-.greatestFiniteMagnitude), "decimal": .decimal(.nan), "int": 1],
            ["double": 1.0, "decimal": .decimal(Decimal(string: "1e127")!), "json": .json("{\"a\": [1, 2.50]}")],
            ["date": .date(Date(timeIntervalSince1970: 1.000001)), "double": 0.1],
            [
                "string": .string(String(repeating: "long ", count: 40_000)),
                "data": .data(Data(repeating: 7, count: 200_000)),
            ],
            [:],
        ]
        var objects: [ObjectID] = []
        try a.writeOptimistically { transaction in
            for row in rows { objects.append(try transaction.insert("Thing", row)) }
        }
        try a.writeOptimistically { transaction in
            try transaction.update(
                objects[0],
                [
                    "object": .object(objects[9]), "orderedObjects": .orderedObjects([objects[3], objects[1]]),
                    "objects": .objects([objects[8], objects[2]]),
                ])
        }
        let far = Date(timeIntervalSinceReferenceDate: -Double(1e300).nextUp)
        let handle = try a.entity("Thing")
        let date = try #require(handle.position(of: "date"))
        try a.writeOptimistically { transaction in
            try transaction.update(objects[1]) { (writer) throws(StoreError) in
                try writer.set(date: far, at: date)
            }
        }
        _ = try relay(from: a, to: b)
        #expect(try a.snapshot().rows(of: "Thing") == b.snapshot().rows(of: "Thing"))
        let moment = try b.snapshot().withRow(objects[1]) { (row) throws(StoreError) in
            #expect(row.date(at: date) == far)
        }
        #expect(moment)
        try pair.expectIntact()
    }

    // MARK: Histories

    static let compared = [
        "Clip": ["rank", "title", "url"], "Note": ["bytes", "late", "text"], "Wide": RandomHistory.wideNames,
    ]

    @Test(arguments: [1, 2, 3] as [UInt64]) func aRandomHistoryLeadsToTheSameObjects(seed: UInt64) throws {
        let pair = try ExchangeFolders(2, [Sample.clip, RandomHistory.note, RandomHistory.wide])
        let (a, b) = (pair.stores[0], pair.stores[1])
        _ = try RandomHistory(a, seed: seed)
        let results = try relay(from: a, to: b)
        #expect(results.allSatisfy { $0.outcome == .applied && $0.conflicts.isEmpty })
        let expected = try contents(of: a, name: "url", attributes: Self.compared)
        #expect(try contents(of: b, name: "url", attributes: Self.compared) == expected)
        // Once more from the beginning, and nothing happens.
        let token = try b.currentToken
        let again = try a.export().map { try b.apply($0) }
        #expect(again.allSatisfy { $0.outcome == .alreadyApplied && $0.token == nil })
        #expect(try b.currentToken == token)
        #expect(try contents(of: b, name: "url", attributes: Self.compared) == expected)
        // Each state on the way is that of the origin.
        let applied = try b.history(after: 0)
        for transaction in applied where transaction.number.isMultiple(of: 20) {
            let origin = try #require(transaction.origin)
            #expect(origin.storeIdentifier == a.identifier)
            let (there, here) = (try a.snapshot(asOf: origin), try b.snapshot(asOf: transaction.token))
            for entity in ["Clip", "Note", "Wide"] {
                #expect(try there.count(of: entity) == here.count(of: entity))
            }
        }
        try pair.expectIntact()
    }

    @Test func anEmptyStoreUsesTheSameIDs() throws {
        let pair = try ExchangeFolders(2)
        let (a, b) = (pair.stores[0], pair.stores[1])
        for number in 0..<5 { try a.writeOptimistically { try $0.insert("Item", ["name": .string("\(number)")]) } }
        _ = try relay(from: a, to: b)
        #expect(try a.snapshot().rows(of: "Item") == b.snapshot().rows(of: "Item"))
        try pair.expectIntact()
    }

    @Test func authorContextAndOriginAreKept() throws {
        let pair = try ExchangeFolders(2)
        let (a, b) = (pair.stores[0], pair.stores[1])
        let (_, token) = try a.writeOptimistically(author: "me", contextName: "import") {
            try $0.insert("Item", ["name": "x"])
        }
        let results = try relay(from: a, to: b)
        let transaction = try #require(try b.history(after: 0).last)
        #expect(transaction.author == "me" && transaction.contextName == "import")
        #expect(transaction.origin == token && transaction.token == results.last?.token)
        #expect(transaction.changes.map(\.entity) == ["Item"])
        #expect(try b.lastApplied(from: a.identifier) == token)
        #expect(try b.appliedOrigins == [token])
        #expect(try a.history(after: 0).allSatisfy { $0.origin == nil })
        try b.writeOptimistically { try $0.insert("Item", ["name": "y"]) }
        #expect(try b.history(after: 0).last?.origin == nil)
        let other = try #require(try a.export(after: .number(1)).first)
        #expect(other.author == "me" && other.contextName == "import" && other.token == token)
        try pair.expectIntact()
    }

    @Test func objectsThatReferToEachOtherAreAppliedTogether() throws {
        let pair = try ExchangeFolders(2)
        let (a, b) = (pair.stores[0], pair.stores[1])
        // Numbers that differ here and there.
        try b.changeSchema([.addEntity(ExchangeSample.item)])
        try b.writeOptimistically { for number in 0..<7 { try $0.insert("Item", ["name": .string("own \(number)")]) } }
        // In circles, forwards and to itself, all in one exported state.
        var objects: [ObjectID] = []
        try a.writeOptimistically { transaction in
            for number in 0..<20 { objects.append(try transaction.insert("Item", ["name": .string("\(number)")])) }
            for number in 0..<20 {
                try transaction.update(
                    objects[number],
                    [
                        "parent": .object(objects[(number + 7) % 20]),
                        "children": .orderedObjects([objects[number], objects[19 - number]].uniqued()),
                        "friends": .objects([objects[0], objects[(number + 1) % 20]]),
                    ])
            }
        }
        _ = try relay(from: a, to: b)
        let expected = try contents(of: a)
        #expect(try contents(of: b).filter { !$0.contains("own") } == expected)
        try pair.expectIntact()
    }

    // MARK: Order

    @Test func gapsAndOtherTransactionsOfTheSameNumberAreErrors() throws {
        let pair = try ExchangeFolders(2)
        let (a, b) = (pair.stores[0], pair.stores[1])
        for number in 0..<5 { try a.writeOptimistically { try $0.insert("Item", ["name": .string("\(number)")]) } }
        let all = try a.export()
        #expect(all.map(\.token.number) == [1, 2, 3, 4, 5, 6])
        #expect(all.map(\.previous?.number) == [nil, 1, 2, 3, 4, 5])
        expect(.applyGap) { try b.apply(all[1]) }
        #expect(try b.history(after: 0).isEmpty)
        try b.apply(all[0])
        try b.apply(all[1])
        expect(.applyGap) { try b.apply(all[3]) }
        // Who begins in the middle says what came before.
        let middle = try a.export(after: .number(2))
        #expect(middle.first?.previous == all[1].token && middle.first?.schema != nil)
        try b.apply(middle[0])
        // The same number of another history.
        let line = all[2].jsonLine.replacing(
            all[2].token.description,
            with: HistoryToken(storeIdentifier: a.identifier, number: 3, tag: 1).description)
        expect(.originDiverged) { try b.apply(try ExportedTransaction(jsonLine: line)) }
        let behind = all[3].jsonLine.replacing(
            all[2].token.description,
            with: HistoryToken(storeIdentifier: a.identifier, number: 3, tag: 1).description)
        expect(.originDiverged) { try b.apply(try ExportedTransaction(jsonLine: behind)) }
        #expect(try b.apply(all[0]).outcome == .alreadyApplied)
        for transaction in all[3...] { #expect(try b.apply(transaction).outcome == .applied) }
        #expect(try contents(of: a) == contents(of: b))
        try pair.expectIntact()
    }

    /// What was lost may stand under the number of something that the receiver need not be given.
    @Test func anExportWithoutAnAppliedTransactionIsOfAnotherHistory() throws {
        let pair = try ExchangeFolders(2)
        var a = pair.stores[0]
        let b = pair.stores[1]
        try a.writeOptimistically { try $0.insert("Item", ["name": "first"]) }
        let (folder, copy) = (pair.folders[0], pair.folders[0].temporary.path("copy"))
        try a.backup(to: copy)
        _ = try relay(from: a, to: b)
        try a.writeOptimistically { try $0.insert("Item", ["name": "lost"]) }
        let lost = try #require(try relay(from: a, to: b).last)
        #expect(lost.outcome == .applied)
        try a.close()
        #expect(rename(copy, folder.path) == 0)
        a = try folder.open()
        // The number of the lost transaction is now that of one that came from the receiver.
        try b.writeOptimistically { try $0.insert("Item", ["name": "from b"]) }
        for transaction in try b.export(to: a.identifier) { #expect(try a.apply(transaction).outcome == .applied) }
        try a.writeOptimistically { try $0.insert("Item", ["name": "later"]) }
        let token = try b.currentToken
        for place in [nil, HistoryRequest.Place.number(3)] {
            let exported = try a.export(after: place, to: b.identifier)
            #expect(exported.last?.previous?.number == 2 && exported.last?.token.number == 4)
            expect(.originDiverged) { for transaction in exported { try b.apply(transaction) } }
        }
        #expect(try b.currentToken == token)
        try a.close()
        try pair.expectIntact()
    }

    /// Of the transaction before the last one the tag is known too.
    @Test func anotherHistoryIsDetectedBeforeItIsAsLong() throws {
        let pair = try ExchangeFolders(2)
        let (a, b) = (pair.stores[0], pair.stores[1])
        for number in 0..<3 { try a.writeOptimistically { try $0.insert("Item", ["name": .string("\(number)")]) } }
        let all = try a.export()
        for transaction in all { try b.apply(transaction) }
        let other = HistoryToken(storeIdentifier: a.identifier, number: 3, tag: 1).description
        let third = all[2].jsonLine.replacing(all[2].token.description, with: other)
        expect(.originDiverged) { try b.apply(try ExportedTransaction(jsonLine: third)) }
        let fourth = all[3].jsonLine.replacing(all[2].token.description, with: other)
        expect(.originDiverged) { try b.apply(try ExportedTransaction(jsonLine: fourth)) }
        for transaction in all { #expect(try b.apply(transaction).outcome == .alreadyApplied) }
        try pair.expectIntact()
    }

    /// Where to go on after may be cleaned, at first left out, or the place of a state.
    @Test(arguments: [false, true]) func anExportAfterHiddenTransactionsIsOfTheSameHistory(isSkipped: Bool) throws {
        let pair = try ExchangeFolders(2)
        let (a, b) = (pair.stores[0], pair.stores[1])
        try a.writeOptimistically(author: "me") { try $0.insert("Item", ["name": "1"]) }
        _ = try relay(from: a, to: b)
        if isSkipped {
            try b.writeOptimistically { try $0.insert("Item", ["name": "from b"]) }
            _ = try relay(from: b, to: a, leavingOut: true)
        } else {
            try a.writeOptimistically(author: "you") { try $0.insert("Item", ["name": "2"]) }
        }
        _ = try relay(from: a, to: b)
        let last = try a.currentToken
        #expect(try b.lastApplied(from: a.identifier) == last)
        try a.writeOptimistically(author: "me") { try $0.insert("Item", ["name": "3"]) }
        try a.deleteHistory(before: last.number + 1, authors: [isSkipped ? "me" : "you"])
        #expect(try relay(from: a, to: b, leavingOut: true).map(\.outcome) == [.applied])
        // A store that begins with the state there goes on in the same way.
        let folder = try StoreFolder()
        let c = try folder.open()
        let whole = try a.export()
        for transaction in whole { #expect(try c.apply(transaction).outcome == .applied) }
        try a.writeOptimistically { try $0.insert("Item", ["name": "4"]) }
        #expect(try relay(from: a, to: c).map(\.outcome) == [.applied])
        #expect(try relay(from: a, to: b).map(\.outcome) == [.applied])
        #expect(try contents(of: a) == contents(of: b) && contents(of: a) == contents(of: c))
        try c.close()
        try folder.expectIntact()
        try pair.expectIntact()
    }

    @Test func aFailedApplicationLeavesNothing() throws {
        let pair = try ExchangeFolders(2)
        let (a, b) = (pair.stores[0], pair.stores[1])
        try b.changeSchema([.addEntity(EntityDescription("Item", attributes: [AttributeDescription("name", .int)]))])
        try a.writeOptimistically { try $0.insert("Item", ["name": "x"]) }
        let token = try b.currentToken
        expect(.schemaMismatch) { try relay(from: a, to: b) }
        let error = #expect(throws: StoreError.self) { try relay(from: a, to: b) }
        #expect(error?.message.contains("is string in the transaction, but int in this store") ?? false)
        #expect(try b.currentToken == token)
        #expect(try b.appliedOrigins.isEmpty)
        try pair.expectIntact()
    }

    // MARK: Schemas

    @Test func entitiesAreAddedAndRenamedAndExistingOnesStay() throws {
        let pair = try ExchangeFolders(2)
        let (a, b) = (pair.stores[0], pair.stores[1])
        try b.changeSchema([
            .addEntity(
                EntityDescription(
                    "Item",
                    attributes: [
                        AttributeDescription("own", .int, defaultValue: 9), AttributeDescription("rank", .int),
                    ]))
        ])
        try a.writeOptimistically { try $0.insert("Item", ["name": "x", "rank": 1]) }
        try a.changeSchema([
            .renameEntity("Item", to: "Thing"), .renameAttribute("rank", of: "Thing", to: "place"),
            .addAttribute(AttributeDescription("late", .string, defaultValue: "l"), to: "Thing"),
            .addEntity(EntityDescription("Other", attributes: [AttributeDescription("name", .string)])),
        ])
        try a.writeOptimistically { transaction in
            let row = try #require(try transaction.snapshot.rows(of: "Thing").first)
            try transaction.update(row.id, ["place": 2])
            try transaction.insert("Other", ["name": "o"])
        }
        _ = try relay(from: a, to: b)
        #expect(try b.entities.map(\.name) == ["Thing", "Other"])
        let thing = try #require(try b.snapshot().rows(of: "Thing").first)
        #expect(thing["place"] == 2 && thing["own"] == 9 && thing["late"] == "l" && thing["name"] == "x")
        #expect(try b.snapshot().count(of: "Other") == 1)
        try pair.expectIntact()
    }

    /// What is written under the old name before the renaming comes there is of the renamed.
    @Test func anEntityRenamedDuringAnExchangeStaysOneEntity() throws {
        let other = EntityDescription(
            "Other", attributes: [AttributeDescription("item", .object, target: "Item")],
            keys: [IndexDescription(["item"], isUnique: false)])
        let pair = try ExchangeFolders(2, [ExchangeSample.item, other])
        let (a, b) = (pair.stores[0], pair.stores[1])
        try a.writeOptimistically { try $0.insert("Item", ["name": "a1", "rank": 1]) }
        _ = try relay(from: a, to: b, leavingOut: true)
        try b.writeOptimistically { transaction in
            let item = try transaction.insert("Item", ["name": "b1", "rank": 2])
            try transaction.insert("Other", ["item": .object(item)])
        }
        try b.writeOptimistically { transaction in
            let row = try #require(try transaction.snapshot.rows(of: "Item").last)
            try transaction.update(row.id, ["rank": 3])
        }
        try a.changeSchema([
            .renameEntity("Item", to: "Thing"), .renameAttribute("rank", of: "Thing", to: "place"),
            .renameAttribute("item", of: "Other", to: "thing"),
        ])
        for _ in 0..<2 {
            _ = try relay(from: b, to: a, leavingOut: true)
            _ = try relay(from: a, to: b, leavingOut: true)
        }
        for store in [a, b] {
            #expect(try store.entities.map(\.name) == ["Thing", "Other"])
            #expect(try store.snapshot().rows(of: "Thing").map { $0["place"] } == [1, 3])
        }
        #expect(try contents(of: a) == contents(of: b))
        // A new one under the name that is free now is another one.
        try b.changeSchema([.addEntity(EntityDescription("Item", attributes: [AttributeDescription("name", .string)]))])
        try b.writeOptimistically { try $0.insert("Item", ["name": "new"]) }
        _ = try relay(from: b, to: a, leavingOut: true)
        #expect(try a.snapshot().count(of: "Item") == 1 && a.snapshot().count(of: "Thing") == 2)
        try pair.expectIntact()
    }

    // MARK: Compaction and cleaning

    @Test func compactionOfEitherStoreChangesNothing() throws {
        let pair = try ExchangeFolders(2)
        let (a, b) = (pair.stores[0], pair.stores[1])
        var objects: [ObjectID] = []
        func change(_ turn: Int) throws {
            try a.writeOptimistically { transaction in
                for number in 0..<10 {
                    objects.append(
                        try transaction.insert(
                            "Item",
                            ["name": .string("\(turn) \(number)"), "parent": objects.last.map { .object($0) } ?? nil]))
                }
                if turn > 0 {
                    try transaction.delete(objects[turn])
                    try transaction.update(objects[turn * 3 + 10], ["rank": .int(Int64(turn))])
                }
            }
        }
        for turn in 0..<3 { try change(turn) }
        _ = try relay(from: a, to: b)
        try b.deleteHistory(before: .max)
        try b.compact()
        try change(3)
        _ = try relay(from: a, to: b)
        let place = try #require(try b.lastApplied(from: a.identifier))
        try a.deleteHistory(before: place)
        try a.compact()
        try change(4)
        let last = try relay(from: a, to: b)
        #expect(last.map(\.outcome) == [.applied] && last.allSatisfy { $0.conflicts.isEmpty })
        #expect(try contents(of: a) == contents(of: b))
        // What is cleaned cannot be exported, and is told so.
        try a.deleteHistory(before: .max)
        expect(.tokenExpired) { try a.export(after: .number(2)) }
        try pair.expectIntact()
    }

    @Test func aStoreWithoutItsHistoryIsExportedAsAState() throws {
        let trio = try ExchangeFolders(3)
        let (a, b, c) = (trio.stores[0], trio.stores[1], trio.stores[2])
        var objects: [ObjectID] = []
        for number in 0..<30 {
            try a.writeOptimistically(author: number < 20 ? "app" : nil) { transaction in
                let values: [String: Value] = [
                    "name": .string("\(number)"), "parent": objects.first.map { .object($0) } ?? nil,
                ]
                objects.append(try transaction.insert("Item", values))
                if number > 3 { try transaction.update(objects[number - 2], ["parent": .object(objects[number])]) }
            }
        }
        try a.writeOptimistically { try $0.delete(objects[9]) }
        try a.deleteHistory(before: 25)
        let exported = try a.export()
        #expect(exported.first?.token.number == 24 && exported.first?.previous == nil)
        #expect(exported.map(\.token.number) == Array(24...32))
        _ = try relay(from: a, to: b)
        #expect(try contents(of: a) == contents(of: b))
        try a.writeOptimistically { try $0.update(objects[0], ["rank": 3]) }
        _ = try relay(from: a, to: b)
        #expect(try contents(of: a) == contents(of: b))
        // It begins anew for nobody.
        expect(.applyGap) { try b.apply(try a.export(limit: 1)[0].with(number: 40)) }
        // The same where only some authors' transactions are gone.
        try a.writeOptimistically(author: "app") { try $0.update(objects[1], ["rank": 4]) }
        try a.deleteHistory(before: .max, authors: ["app"])
        let state = try a.export()
        #expect(state.count == 1 && state[0].changes.count == 29)
        _ = try relay(from: a, to: c)
        #expect(try contents(of: c) == contents(of: a))
        try trio.expectIntact()
    }

    // MARK: Hidden things

    @Test func theStoresOwnObjectsAreHidden() throws {
        let pair = try ExchangeFolders(2)
        let (a, b) = (pair.stores[0], pair.stores[1])
        let number = try b.currentToken.number
        let watcher = try b.changeWatcher()
        try a.writeOptimistically { for name in ["x", "y"] { try $0.insert("Item", ["name": .string(name)]) } }
        _ = try relay(from: a, to: b)
        #expect(try b.entities.map(\.name) == ["Item"])
        #expect(try b.statistics.objects == ["Item": 2])
        expect(.unknownEntity) { try b.snapshot().count(of: "_annals.origins") }
        expect(.unknownEntity) { try b.entity("_annals.origins") }
        expect(.unknownEntity) { try b.snapshot().rows(of: "_annals.objects") }
        expect(.unknownEntity) { try b.changedObjects(HistoryRequest(entities: ["_annals.objects"])) }
        for entity in [2, 3] as [UInt16] {
            let own = try #require(ObjectID(entityNumber: entity, number: 1))
            #expect(try b.snapshot().row(own) == nil)
            #expect(try b.versions(of: own).isEmpty)
            #expect(try b.changes(HistoryRequest(objects: [own])).isEmpty)
            expect(.objectNotFound) { try b.writeOptimistically { try $0.update(own, ["number": 1]) } }
            expect(.objectNotFound) { try b.writeOptimistically { try $0.delete(own) } }
            expect(.objectNotFound) {
                try b.writeOptimistically {
                    try $0.update(own) { (writer) throws(StoreError) in try writer.set(int: 1, at: 1) }
                }
            }
            #expect(try b.writeOptimistically { try $0.row(own) }.result == nil)
        }
        expect(.unknownEntity) { try b.changeSchema([.removeEntity("_annals.origins")]) }
        expect(.schemaRefused) { try b.changeSchema([.addEntity(EntityDescription("_annals.mine", attributes: []))]) }
        expect(.schemaRefused) { try b.changeSchema([.renameEntity("Item", to: "_annals.mine")]) }
        expect(.schemaRefused) {
            _ = try Store(at: pair.folders[1].path, entities: [EntityDescription("_annals.origins", attributes: [])])
        }
        let history = try b.history(after: number)
        #expect(history.flatMap(\.changes).map(\.entity) == ["Item", "Item"])
        #expect(try b.history(HistoryRequest(kinds: [.insert])).count == 1)
        #expect(try b.history(HistoryRequest(kinds: [.update])).isEmpty)
        #expect(try b.transactionCount(HistoryRequest()) == 2)
        #expect(try b.changedObjects(HistoryRequest()).count == 2)
        #expect(try b.netChanges(HistoryRequest()).map(\.kind) == [.insert, .insert])
        var counts: [UInt64] = []
        try b.forEachTransaction(HistoryRequest()) { (transaction) throws(StoreError) in
            counts.append(transaction.changeCount)
            return true
        }
        #expect(counts == [0, 2])
        let signal = try #require(try watcher.next(timeout: .seconds(600)))
        #expect(signal.entities == ["Item"])
        // Undoing it leaves alone what was noted of it.
        let last = try #require(history.last)
        #expect(try b.revert(last.number).conflicts.isEmpty)
        #expect(try b.snapshot().count(of: "Item") == 0)
        #expect(try b.apply(try #require(try a.export().last)).outcome == .alreadyApplied)
        try pair.expectIntact()
    }
}

extension [ObjectID] {
    fileprivate func uniqued() -> [ObjectID] { reduce(into: []) { if !$0.contains($1) { $0.append($1) } } }
}

extension ExportedTransaction {
    /// The same under another number.
    fileprivate func with(number: UInt64) throws -> ExportedTransaction {
        let token = HistoryToken(storeIdentifier: store, number: number, tag: 7)
        return try ExportedTransaction(jsonLine: jsonLine.replacing(self.token.description, with: token.description))
    }
}
