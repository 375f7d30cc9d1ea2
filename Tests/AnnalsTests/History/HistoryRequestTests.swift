// Requests of every kind against a look at everything, net changes, versions, places that are none.

import Annals
import Foundation
import TestSupport
import Testing

@Suite struct HistoryRequestTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    private func random(_ seed: UInt64) throws -> (Store, RandomHistory) {
        let store = try folder.open([Sample.clip, RandomHistory.note, RandomHistory.wide])
        return (store, try RandomHistory(store, seed: seed))
    }

    private func close(_ store: Store) throws {
        try store.close()
        try folder.expectIntact()
    }

    // MARK: Filters

    @Test(arguments: 1...5) func requestsAgreeWithAFilterOfTheWholeHistory(seed: UInt64) throws {
        var (store, history) = try random(seed)
        let all = try store.history(after: 0, includingValues: true)
        let naive = NaiveHistory(all: all)
        var found = 0
        for _ in 0..<100 {
            let request = history.request(all)
            let expected = naive.transactions(request)
            found += expected.isEmpty ? 0 : 1
            let transactions = try store.history(request, includingValues: true)
            #expect(transactions.map { ChosenTransaction($0) } == expected, "\(request)")
            #expect(try store.changes(request, includingValues: true) == naive.changes(request), "\(request)")
            #expect(try store.changedObjects(request) == naive.objects(request), "\(request)")
            #expect(try store.transactionCount(request) == expected.count, "\(request)")
        }
        #expect(found > 25)
        try close(store)
    }

    /// A snapshot ends history, and the callback may end it as well; what it throws comes out.
    @Test func aRequestEndsAtItsSnapshotOrItsCallback() throws {
        let (store, _) = try random(9)
        let snapshot = try store.snapshot(asOf: store.currentToken.number)
        let count = try store.transactionCount(HistoryRequest())
        try store.writeOptimistically { try $0.insert("Clip", ["rank": 1]) }
        for order in [HistoryRequest.Order.oldestFirst, .newestFirst] {
            var numbers: [UInt64] = []
            try store.forEachTransaction(HistoryRequest(order: order), in: snapshot) { (transaction) in
                numbers.append(transaction.number)
                return true
            }
            #expect(numbers.count == count && numbers.max() == snapshot.token.number)
            numbers = []
            try store.forEachTransaction(HistoryRequest(order: order)) { (transaction) in
                numbers.append(transaction.number)
                return numbers.count < 3
            }
            #expect(numbers.count == 3)
            let mine = StoreError(.busy, "Mine.")
            expect(.busy) {
                try store.forEachChange(HistoryRequest(order: order)) { (_, _) throws(StoreError) in throw mine }
            }
            expect(.busy) {
                try store.forEachChangedObject(HistoryRequest(order: order)) { _ in throw mine }
            }
            expect(.busy) {
                try store.forEachNetChange(HistoryRequest(order: order)) { _ in throw mine }
            }
        }
        try close(store)
    }

    @Test func unknownNamesAreErrorsAndUnknownAuthorsMatchNothing() throws {
        let (store, _) = try random(2)
        expect(.unknownEntity) { try store.history(HistoryRequest(entities: ["Clip", "No"])) }
        expect(.unknownEntity) { try store.history(HistoryRequest(changedAttributes: ["No": ["x"]])) }
        expect(.unknownAttribute) { try store.history(HistoryRequest(changedAttributes: ["Clip": ["x"]])) }
        expect(.unknownAttribute) { try store.netChanges(HistoryRequest(changedAttributes: ["Clip": ["x"]])) }
        expect(.invalidArgument) {
            try store.history(HistoryRequest(after: .date(Date(timeIntervalSinceReferenceDate: .nan))))
        }
        #expect(try store.history(HistoryRequest(authors: ["nobody"])).isEmpty)
        #expect(try store.history(HistoryRequest(authors: [])).isEmpty)
        // An empty name is none, as where it is written.
        let unnamed = try store.history(HistoryRequest(authors: [nil]))
        #expect(try !unnamed.isEmpty && store.history(HistoryRequest(authors: [""])) == unnamed)
        #expect(
            try store.transactionCount(HistoryRequest(excludedAuthors: [""], contextNames: [""]))
                == store.transactionCount(HistoryRequest(excludedAuthors: [nil], contextNames: [nil])))
        #expect(
            try store.transactionCount(HistoryRequest(excludedAuthors: ["nobody"]))
                == store.transactionCount(HistoryRequest()))
        let all = try store.transactionCount(HistoryRequest())
        #expect(try store.transactionCount(HistoryRequest(excludedContextNames: ["nothing"])) == all)
        #expect(
            try store.transactionCount(HistoryRequest(contextNames: [nil]))
                + store.transactionCount(HistoryRequest(excludedContextNames: [""])) == all)
        #expect(try store.transactionCount(HistoryRequest(after: .date(.distantPast))) == all)
        #expect(try store.transactionCount(HistoryRequest(before: .date(.distantFuture))) == all)
        #expect(try store.transactionCount(HistoryRequest(after: .date(.distantFuture))) == 0)
        #expect(try store.transactionCount(HistoryRequest(before: .date(.distantPast))) == 0)
        #expect(try store.transactionCount(HistoryRequest(limit: -1)) == 0)
        let far = Date(timeIntervalSinceReferenceDate: 1e30)
        #expect(try store.transactionCount(HistoryRequest(after: .date(far))) == 0)
        #expect(try store.transactionCount(HistoryRequest(before: .number(.max))) == all)
        // A removed entity is found by its last name.
        let before = try store.changes(HistoryRequest(entities: ["Wide"])).count
        try store.changeSchema([.removeEntity("Wide")])
        #expect(try before > 0 && store.changes(HistoryRequest(entities: ["Wide"])).count == before)
        try close(store)
    }

    // MARK: Net changes

    /// One change for each object, by what was there before and after.
    private func folded(
        _ request: HistoryRequest, _ all: [HistoryTransaction], _ store: Store
    ) throws -> [ObjectID: (kind: HistoryChange.Kind, attributes: Set<String>, first: UInt64, last: UInt64)] {
        var choice = request
        choice.kinds = nil
        choice.changedAttributes = nil
        var courses: [ObjectID: [(number: UInt64, change: HistoryChange)]] = [:]
        for transaction in NaiveHistory(all: all).chosen(choice) {
            for change in transaction.changes {
                courses[change.object, default: []].append((transaction.number, change))
            }
        }
        var result: [ObjectID: (kind: HistoryChange.Kind, attributes: Set<String>, first: UInt64, last: UInt64)] = [:]
        for (object, course) in courses {
            let (first, last) = (course[0], course[course.count - 1])
            let wasThere = first.change.kind != .insert
            let isThere = last.change.kind != .delete
            guard wasThere || isThere else { continue }
            let kind: HistoryChange.Kind = !wasThere ? .insert : isThere ? .update : .delete
            var attributes: Set<String> = []
            if kind == .update, course.allSatisfy({ $0.change.kind == .update }) {
                attributes = Set(course.flatMap(\.change.attributes).map { $0 == "size" ? "bytes" : $0 })
            } else if kind == .update {
                let before = try #require(try store.snapshot(asOf: first.number - 1).row(object))
                let after = try #require(try store.snapshot(asOf: last.number).row(object))
                attributes = Set(
                    after.attributes.filter {
                        let old = before[$0] ?? ($0 == "bytes" ? before["size"] : $0 == "late" ? 7 : nil)
                        return after[$0] != old
                    })
                if attributes.isEmpty { continue }
                attributes = Set(attributes.map { $0 == "size" ? "bytes" : $0 })
            }
            if let kinds = request.kinds, !kinds.contains(kind) { continue }
            if let chosen = request.changedAttributes {
                let names = chosen[(last.change.entity)] ?? []
                if kind != .update || attributes.isDisjoint(with: names) { continue }
            }
            result[object] = (kind, attributes, first.number, last.number)
        }
        return result
    }

    @Test(arguments: 11...14) func netChangesFoldTheChangesOfEachObject(seed: UInt64) throws {
        var (store, history) = try random(seed)
        let all = try store.history(after: 0, includingValues: true)
        var kinds: Set<HistoryChange.Kind> = []
        for _ in 0..<60 {
            let request = history.request(all)
            let net = try store.netChanges(request, includingValues: true)
            let expected = try folded(request, all, store)
            let objects = request.order == .newestFirst ? expected.keys.sorted().reversed() : expected.keys.sorted()
            #expect(net.map(\.object) == Array(objects.prefix(request.limit ?? .max)), "\(request)")
            for change in net {
                guard let want = expected[change.object] else { continue }
                kinds.insert(change.kind)
                #expect(change.kind == want.kind)
                #expect(change.firstTransaction == want.first && change.lastTransaction == want.last)
                // “mark” was removed by the schema change, and is named only before it.
                let hasMark = try store.snapshot(asOf: want.last).entity(change.entity).attributes.contains("mark")
                let names = Set(change.attributes.map { $0 == "size" ? "bytes" : $0 })
                #expect(names == (hasMark ? want.attributes : want.attributes.subtracting(["mark"])), "\(change)")
                #expect(
                    try change.after
                        == (change.kind == .delete ? nil : store.snapshot(asOf: want.last).row(change.object)))
                let old = try store.snapshot(asOf: want.first - 1).row(change.object)
                #expect((change.before == nil) == (change.kind == .insert))
                if let before = change.before, before.attributes == old?.attributes { #expect(before == old) }
            }
        }
        #expect(kinds == Set(HistoryChange.Kind.allCases))
        try close(store)
    }

    @Test func anUndoneDeletionIsNoNetChange() throws {
        let store = try folder.open([Sample.clip])
        let id = try store.writeOptimistically { try $0.insert("Clip", ["title": "A", "url": "a", "rank": 1]) }.result
        let token = try store.currentToken
        let deletion = try #require(try store.writeOptimistically { try $0.delete(id) }.token)
        let after = HistoryRequest(after: .token(token))
        #expect(try store.netChanges(after).map(\.kind) == [.delete])
        #expect(try store.netChanges(after)[0].preserved?["url"] == "a")
        try store.revert(deletion)
        #expect(try store.netChanges(after).isEmpty)
        try store.writeOptimistically { try $0.update(id, ["rank": 2]) }
        let net = try store.netChanges(after, includingValues: true)
        #expect(net.count == 1 && net[0].kind == .update && net[0].attributes == ["rank"])
        #expect(net[0].before?["rank"] == 1 && net[0].after?["rank"] == 2)
        #expect(try store.netChanges(HistoryRequest()).map(\.kind) == [.insert])
        try close(store)
    }

    /// Who cannot write reads net changes too, whose sorting may need a file.
    @Test func aReadOnlyHandleReadsNetChanges() throws {
        let (store, _) = try random(5)
        let net = try store.netChanges(HistoryRequest())
        try store.close()
        let reader = try folder.open { $0.access = .readOnly }
        #expect(try !net.isEmpty && reader.netChanges(HistoryRequest()) == net)
        try close(reader)
    }

    // MARK: Versions

    @Test(arguments: 21...23) func versionsAreTheChangesOfAnObject(seed: UInt64) throws {
        let (store, _) = try random(seed)
        let all = try store.history(after: 0, includingValues: true)
        for object in Set(all.flatMap(\.changes).map(\.object)) {
            let expected = all.reversed().compactMap { transaction in
                transaction.changes.first { $0.object == object }.map { (transaction, $0) }
            }
            let versions = try store.versions(of: object)
            #expect(versions.map(\.number) == expected.map(\.0.number) && versions.map(\.change) == expected.map(\.1))
            for (version, (transaction, _)) in zip(versions, expected) {
                #expect(version.token == transaction.token && version.author == transaction.author)
                #expect(
                    version.microseconds == transaction.microseconds && version.contextName == transaction.contextName)
                #expect(try version.change.after == store.snapshot(asOf: version.number).row(object))
            }
            #expect(try store.versions(of: object, limit: 1) == Array(versions.prefix(1)))
        }
        #expect(try store.versions(of: #require(ObjectID("1:99999"))).isEmpty)
        #expect(try store.versions(of: #require(ObjectID("9:1")), limit: 0).isEmpty)
        try close(store)
    }

    // MARK: Tokens

    @Test func aSnapshotHasThePlaceAfterItsLastTransaction() throws {
        let (store, _) = try random(4)
        let snapshot = try store.snapshot()
        let token = snapshot.token
        let now = HistoryRequest(after: .now)
        #expect(try store.history(now).isEmpty && store.transactionCount(HistoryRequest(before: .now)) > 0)
        try store.writeOptimistically { try $0.insert("Clip", ["rank": 99]) }
        #expect(try store.history(now).isEmpty)
        #expect(try store.transactionCount(HistoryRequest(before: .now)) == Int(token.number) + 1)
        #expect(try store.registerConsumer("now", at: .now).cursor.number == token.number + 1)
        #expect(try !snapshot.rows(of: "Clip").contains { $0["rank"] == 99 })
        #expect(try store.history(after: token).map(\.number) == [token.number + 1])
        #expect(try store.oldestToken.number == 0)
        try close(store)
    }

    /// A store whose header says that transactions up to 5 are no longer held, as compaction leaves one.
    @Test func placesBeforeHistoryAreExpiredWithTheOldestToken() throws {
        let identifier = UUIDBytes(high: 1, low: 2)
        let time: Int64 = 1_700_000_000_000_000
        let header = FileHeader(
            storeID: identifier, generation: 1, salt: 3, created: time, baseNumber: 5, baseTag: 77, baseTime: time)
        try Data(header.encoded()).write(to: URL(filePath: folder.path))
        let store = try folder.open([Sample.clip])
        let id = try store.writeOptimistically { try $0.insert("Clip", ["rank": 1]) }.result
        let oldest = HistoryToken(storeIdentifier: store.identifier, number: 5, tag: 77)
        let lost = HistoryToken(storeIdentifier: store.identifier, number: 4, tag: 7)
        let early = Date(timeIntervalSince1970: 1_600_000_000)
        #expect(try store.oldestToken == oldest)
        let bodies: [() throws -> Void] = [
            { try store.validate(lost) }, { _ = try store.history(after: 4) }, { _ = try store.history(after: lost) },
            { _ = try store.snapshot(asOf: lost) }, { _ = try store.history(HistoryRequest(after: .number(0))) },
            { _ = try store.history(HistoryRequest(after: .token(lost))) },
            { _ = try store.history(HistoryRequest(after: .date(early))) },
            { _ = try store.history(HistoryRequest(before: .token(lost))) },
            { _ = try store.netChanges(HistoryRequest(before: .date(early))) },
            { try store.revert(5) },
        ]
        for (place, body) in bodies.enumerated() {
            let error = #expect(throws: StoreError.self, "\(place)") { try body() }
            #expect(error?.code == .tokenExpired && error?.oldestToken == oldest, "\(place)")
        }
        #expect(try store.history(HistoryRequest()).map(\.number) == [6, 7])
        #expect(try store.history(after: oldest).map(\.number) == [6, 7])
        let later = Date(timeIntervalSince1970: Double(time / 1_000_000))
        #expect(try store.transactionCount(HistoryRequest(after: .date(later))) == 2)
        #expect(try store.versions(of: id).map(\.number) == [7])
        try close(store)
    }

    @Test func aPreservedAttributeThatIsNewerThanTheDeletionHasNoValue() throws {
        let store = try folder.open([Sample.clip])
        let id = try store.writeOptimistically { try $0.insert("Clip", ["title": "A", "url": "a", "rank": 1]) }.result
        try store.writeOptimistically { try $0.delete(id) }
        let later = AttributeDescription("later", .int, isOptional: false, isPreservedOnDeletion: true, defaultValue: 9)
        try store.changeSchema([.addAttribute(later, to: "Clip")])
        let entity = try store.entity("Clip")
        var values: [Int64?] = []
        try store.forEachTransaction(after: 0) { (transaction) throws(StoreError) in
            try transaction.forEachChange { (change) throws(StoreError) in
                _ = try change.withAfter(in: entity) { row in values.append(row.int(at: 3)) }
                return true
            }
            return true
        }
        #expect(values == [9, nil])
        let changes = try store.history(after: 0).flatMap(\.changes)
        let deletion = try #require(changes.first { $0.kind == .delete })
        #expect(deletion.preserved?["url"] == "a" && deletion.preserved?["later"] == nil)
        try close(store)
    }

    @Test func invalidPlacesAreErrorsInRequests() throws {
        let (store, _) = try random(3)
        let newest = try store.currentToken
        let foreign = HistoryToken(storeIdentifier: UUID(), number: 1, tag: newest.tag)
        let unknown = HistoryToken(storeIdentifier: store.identifier, number: newest.number + 1, tag: 1)
        let diverged = HistoryToken(storeIdentifier: store.identifier, number: newest.number, tag: newest.tag ^ 1)
        for (token, code) in [
            (foreign, StoreError.Code.tokenForeign), (unknown, .tokenUnknown), (diverged, .tokenDiverged),
        ] {
            expect(code) { try store.history(HistoryRequest(after: .token(token))) }
            expect(code) { try store.changedObjects(HistoryRequest(before: .token(token))) }
            expect(code) { try store.revert(token) }
        }
        expect(.tokenUnknown) { try store.history(HistoryRequest(after: .number(newest.number + 1))) }
        expect(.tokenMalformed) { try HistoryToken(newest.description + "0") }
        let coded = try JSONDecoder().decode([HistoryToken].self, from: JSONEncoder().encode([newest]))
        #expect(coded == [newest])
        #expect(try HistoryToken(newest.description) == newest)
        #expect(try store.history(after: 0).map(\.token).max() == newest)
        try close(store)
    }
}
