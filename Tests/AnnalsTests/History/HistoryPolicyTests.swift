// History of one entity turned off and on: declaring it, who is told of the gap, consumers, other handles, undoing,
// exporting, the tool.

import Annals
import Foundation
import TestSupport
import Testing

@Suite struct HistoryPolicyTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    private let both = [PolicyModel.clip, PolicyModel.log]

    @discardableResult
    private func insert(_ store: Store, _ entities: String...) throws -> [ObjectID] {
        try store.writeOptimistically(author: "app") { transaction in
            try entities.map { try transaction.insert($0, [$0 == "Clip" ? "name" : "line": "text"]) }
        }.result
    }

    private func turn(_ store: Store, _ history: HistoryPolicy) throws {
        try #require(try store.changeSchema([.changeEntity("Log", history: history)]) != nil)
    }

    private func policy(_ store: Store) throws -> HistoryPolicy? {
        try store.entities.first { $0.name == "Log" }?.history
    }

    /// Expects `historyGap`; returns the number of the place to go on from.
    @discardableResult
    private func expectGap<Result>(
        sourceLocation: SourceLocation = #_sourceLocation, _ body: () throws -> Result
    ) -> UInt64? {
        let error = #expect(throws: StoreError.self, sourceLocation: sourceLocation) { _ = try body() }
        #expect(error?.code == .historyGap, "\(error?.description ?? "")", sourceLocation: sourceLocation)
        #expect(error?.message.contains("“Log”") ?? false, sourceLocation: sourceLocation)
        return error?.oldestToken?.number
    }

    private func close(_ stores: Store...) throws {
        for store in stores { try store.close() }
        try folder.expectIntact()
    }

    // MARK: Declaring

    @Test func aDeclaredPolicyCountsOnlyWhenTheEntityIsAdded() throws {
        var off = PolicyModel.log
        off.history = .off
        var store = try folder.open([PolicyModel.clip, off])
        #expect(try policy(store) == .off)
        let token = try store.currentToken
        try store.close()
        // Who says nothing, or something else, changes nothing.
        store = try folder.open(both)
        #expect(try policy(store) == .off && store.currentToken == token)
        try turn(store, .full)
        try store.close()
        store = try folder.open([off])
        #expect(try policy(store) == .full && store.entities.map(\.history) == [.full, .full])
        #expect(try store.changeSchema([.changeEntity("Log", history: .full)]) == nil)
        expect(.unknownEntity) { try store.changeSchema([.changeEntity("No", history: .off)]) }
        // Renaming and attributes leave it as it is, and the other way round.
        try turn(store, .off)
        try store.changeSchema([
            .renameEntity("Log", to: "Journal"), .addAttribute(AttributeDescription("x", .int), to: "Journal"),
        ])
        #expect(try store.entities.map(\.history) == [.full, .off])
        // Removed and added again it is another entity.
        try store.changeSchema([.removeEntity("Journal")])
        try store.changeSchema([.addEntity(PolicyModel.log)])
        #expect(try policy(store) == .full && store.oldestToken(ofEntity: "Log") == store.oldestToken)
        try close(store)
    }

    @Test func aDescriptionIsCodedAsBeforeUnlessItsHistoryIsOff() throws {
        var log = PolicyModel.log
        let before = try JSONEncoder().encode(log)
        #expect(!String(decoding: before, as: UTF8.self).contains("history"))
        #expect(try JSONDecoder().decode(EntityDescription.self, from: before) == log)
        log.history = .off
        let off = try JSONEncoder().encode(log)
        #expect(String(decoding: off, as: UTF8.self).contains("\"history\":\"off\""))
        #expect(try JSONDecoder().decode(EntityDescription.self, from: off) == log)
    }

    // MARK: Asking

    /// 1 schema, 2 both, 3 off, 4 log, 5 clip, 6 on, 7 log.
    private func course() throws -> (store: Store, log: ObjectID, late: ObjectID) {
        let store = try folder.open(both)
        let log = try insert(store, "Clip", "Log")[1]
        try turn(store, .off)
        try insert(store, "Log")
        try insert(store, "Clip")
        try turn(store, .full)
        return (store, log, try insert(store, "Log")[0])
    }

    @Test func aRequestAcrossTheGapGetsThePlaceToContinueFrom() throws {
        let (store, log, late) = try course()
        #expect(try store.oldestToken(ofEntity: "Log")?.number == 5)
        #expect(try store.oldestToken(ofEntity: "Clip")?.number == 0)
        expect(.unknownEntity) { try store.oldestToken(ofEntity: "No") }
        for after in 0...4 {
            #expect(expectGap { try store.history(after: UInt64(after)) } == 5)
            #expect(expectGap { try store.history(HistoryRequest(after: .number(UInt64(after)))) } == 5)
        }
        // The place that the error names is one to go on from, as it is.
        let error = #expect(throws: StoreError.self) { try store.history(after: 0) }
        let token = try #require(error?.oldestToken)
        #expect(try store.history(after: token).map(\.number) == [6, 7])
        #expect(try store.history(HistoryRequest(after: .token(token), entities: ["Log"])).map(\.number) == [7])
        // Leaving it out.
        #expect(try store.history(HistoryRequest(entities: ["Clip"])).map(\.number) == [2, 5])
        // Attributes name their entities, also where changes are folded.
        #expect(try store.netChanges(HistoryRequest(changedAttributes: ["Clip": ["name"]])).isEmpty)
        #expect(expectGap { try store.netChanges(HistoryRequest(changedAttributes: ["Log": ["line"]])) } == 5)
        // By object, by attribute.
        #expect(expectGap { try store.history(HistoryRequest(objects: [log])) } == 5)
        #expect(expectGap { try store.history(HistoryRequest(changedAttributes: ["Log": ["line"]])) } == 5)
        #expect(try store.versions(of: late).map(\.number) == [7])
        #expect(expectGap { try store.versions(of: log) } == 5)
        #expect(try store.versions(of: log, after: 5).isEmpty)
        // Before the end of a range that ends in the gap, too.
        #expect(expectGap { try store.history(HistoryRequest(before: .number(4), entities: ["Log"])) } == 5)
        try close(store)
    }

    @Test func anEntityWithoutHistoryIsLeftOutOfOtherRequests() throws {
        let store = try folder.open(both)
        let log = try insert(store, "Clip", "Log")[1]
        try store.writeOptimistically { try $0.update(log, ["line": "other"]) }
        try turn(store, .off)
        try store.writeOptimistically { try $0.delete(log) }
        // Every number is there, and nothing of the entity: neither what came before nor what comes.
        let all = try store.history(after: 0, includingValues: true)
        #expect(all.map(\.number) == [1, 2, 3, 4, 5] && all.map(\.changes.count) == [0, 1, 0, 0, 0])
        #expect(try store.history(HistoryRequest(kinds: [.insert, .update, .delete])).map(\.number) == [2])
        for after in [UInt64(0), 4, 5] {
            #expect(expectGap { try store.history(HistoryRequest(after: .number(after), entities: ["Log"])) } == nil)
        }
        #expect(expectGap { try store.versions(of: log, after: 5) } == nil)
        #expect(try store.oldestToken(ofEntity: "Log") == nil)
        // A signal is a hint: views that show the entity are refreshed.
        let watcher = try store.changeWatcher(after: .number(4))
        #expect(try watcher.next()?.entities == ["Log"])
        try close(store)
    }

    @Test func aRemovedEntityWithoutHistoryBlocksNoRequest() throws {
        let store = try folder.open(both)
        try turn(store, .off)
        try insert(store, "Log")
        try store.changeSchema([.removeEntity("Log")])
        try store.changeSchema([.addEntity(PolicyModel.log)])
        try insert(store, "Log")
        #expect(try store.history(after: 0).map(\.changes.count) == [0, 0, 0, 0, 0, 1])
        // By name both are requested.
        #expect(expectGap { try store.history(HistoryRequest(entities: ["Log"])) } == nil)
        #expect(try store.history(HistoryRequest(after: .number(3), entities: ["Log"])).map(\.number) == [6])
        try close(store)
    }

    // MARK: The past

    @Test func unknownPastStatesCannotBeRead() throws {
        let (store, log, _) = try course()
        for number in UInt64(1)...4 {
            let past = try store.snapshot(asOf: number)
            let handle = try past.entity("Log")
            #expect(expectGap { try past.row(log) } == 5)
            #expect(expectGap { try past.count(of: "Log") } == 5)
            #expect(expectGap { try past.rows(of: "Log") } == 5)
            #expect(expectGap { try past.forEachRow(of: handle) { (_) in true } } == 5)
            #expect(expectGap { try past.rows(of: "Log", where: "line", equals: "text") } == 5)
            #expect(try past.rows(of: "Clip").count == (number == 1 ? 0 : 1))
        }
        // Before there was the entity there is nothing to be known.
        expect(.unknownEntity) { try store.snapshot(asOf: 0).count(of: "Log") }
        #expect(try store.snapshot(asOf: 5).count(of: "Log") == 2 && store.snapshot(asOf: 7).count(of: "Log") == 3)
        let now = try store.snapshot()
        try turn(store, .off)
        #expect(expectGap { try store.snapshot(asOf: 7).rows(of: "Log") } == nil)
        #expect(try store.snapshot(asOf: 8).rows(of: "Log").count == 3)
        // A state that somebody holds stays as it is; its history is what it is now.
        #expect(try now.rows(of: "Log").count == 3 && now.row(log) != nil)
        expectGap { try store.forEachTransaction(HistoryRequest(entities: ["Log"]), in: now) { (_) in true } }
        expectGap { try store.forEachVersion(of: log, in: now) { (_, _) in true } }
        try close(store)
    }

    @Test func transactionsWithUnknownChangesAreNotReverted() throws {
        let (store, _, late) = try course()
        let clip = try insert(store, "Clip")[0]
        expectGap { try store.revert(2) }
        // There is no place from which it could be undone.
        #expect(throws: StoreError.self) { try store.revert(2) }.map { error in
            #expect(error.oldestToken == nil && error.message.contains("of your own"), "\(error)")
        }
        expectGap { try store.revert(4, conflicts: .storeWins) }
        #expect(try store.revert(5).token != nil && store.revert(7).token != nil)
        #expect(try store.snapshot().row(late) == nil)
        try turn(store, .off)
        expectGap { try store.revert(7) }
        #expect(try store.revert(8).token != nil && store.snapshot().row(clip) == nil)
        try close(store)
    }

    // MARK: Consumers and other handles

    @Test func aConsumerGetsTheGapAndContinues() throws {
        let store = try folder.open(both)
        let start = try store.registerConsumer("reader").cursor
        try insert(store, "Clip", "Log")
        try turn(store, .off)
        try insert(store, "Log", "Clip")
        // While it is off it is left out, and the cursor passes it.
        let read = try store.history(after: start)
        #expect(read.map(\.changes.count) == [1, 0, 1])
        try store.advanceConsumer("reader", from: start, to: read[0].token)
        try store.close()
        let again = try folder.open()
        try turn(again, .full)
        let cursor = try #require(try again.consumer("reader")?.cursor)
        let error = #expect(throws: StoreError.self) { try again.history(HistoryRequest(after: .token(cursor))) }
        #expect(error?.code == .historyGap)
        let next = try #require(error?.oldestToken)
        let snapshot = try again.snapshot()
        let token = snapshot.token
        #expect(next.number == 4 && token.number == 5)
        #expect(try snapshot.rows(of: "Log").count == 2)
        try again.advanceConsumer("reader", from: cursor, to: token)
        try insert(again, "Log")
        #expect(try again.history(after: token).map(\.changes.count) == [1])
        try close(again)
    }

    @Test func anotherHandleSeesThePolicyChange() throws {
        let store = try folder.open(both)
        let other = try folder.open { $0.access = .readOnly }
        let log = try insert(store, "Clip", "Log")[1]
        #expect(try other.history(after: 0).map(\.changes.count) == [0, 2])
        // In the middle of its reading: what it reads is one state to its end.
        var counts: [UInt64] = []
        try other.forEachTransaction(after: 0) { (transaction) throws(StoreError) in
            if counts.isEmpty {
                #expect(throws: Never.self) { try store.changeSchema([.changeEntity("Log", history: .off)]) }
            }
            counts.append(transaction.changeCount)
            return true
        }
        #expect(counts == [0, 2])
        #expect(try other.history(after: 0).map(\.changes.count) == [0, 1, 0])
        expectGap { try other.versions(of: log) }
        try store.compact()
        #expect(try other.history(after: 0).map(\.changes.count) == [0, 1, 0])
        try turn(store, .full)
        #expect(expectGap { try other.history(after: 0) } == 3)
        try close(other, store)
    }

    // MARK: Exporting

    @Test func anExportBeginsWithAStateAndThenLeavesOutEntitiesWithoutHistory() throws {
        var log = PolicyModel.log
        log.history = .off
        let a = try folder.open([PolicyModel.clip, log])
        let target = try StoreFolder()
        let b = try target.open()
        let first = try insert(a, "Clip", "Log")
        try a.writeOptimistically { try $0.update(first[1], ["clip": .object(first[0])]) }
        let exported = try a.export()
        #expect(try exported.map(\.token) == [a.currentToken] && exported[0].changes.count == 2)
        #expect(try relay(from: a, to: b).map(\.outcome) == [.applied])
        #expect(try contents(of: a) == contents(of: b) && policy(b) == .off)
        // What is left out leaves transactions after, in which there is nothing; numbers go on.
        try insert(a, "Log")
        try insert(a, "Log", "Clip")
        let place = try #require(try b.lastApplied(from: a.identifier))
        #expect(try a.export(after: .token(place)).map(\.changes.count) == [0, 1])
        #expect(try relay(from: a, to: b).map(\.outcome) == [.applied, .applied])
        #expect(try b.snapshot().count(of: "Clip") == 2 && b.snapshot().count(of: "Log") == 1)
        // Turning it on does not reach the other store by itself, and is a gap for who goes on from before.
        let before = try a.currentToken
        try insert(a, "Log")
        try turn(a, .full)
        let last = try insert(a, "Log")
        expectGap { try a.export(after: .token(before)) }
        #expect(
            try a.export(after: .token(try #require(try a.oldestToken(ofEntity: "Log")))).map(\.changes.count) == [
                0, 1,
            ])
        let whole = try a.export()
        #expect(whole.map(\.changes.count) == [6, 0, 1] && whole[2].changes[0].object.id == last[0])
        try b.close()
        try target.expectIntact()
        try close(a)
    }

    // MARK: Compaction

    /// Nothing is different afterwards but the size, whoever asks; and what is not there any more is still not undone.
    @Test func compactionFreesHistoryThatIsNotKept() throws {
        let store = try folder.open(both)
        let ids = try insert(store, "Clip", "Log")
        try turn(store, .off)
        for number in 0..<100 {
            let text = Value.string(String(repeating: "\(number) ", count: 3000))
            try store.writeOptimistically { transaction in
                try transaction.update(ids[1], ["text": text])
                if number % 10 == 0 { try transaction.update(ids[0], ["rank": .int(Int64(number))]) }
            }
        }
        let last = try store.currentToken.number
        let watcher = try store.changeWatcher(after: .number(last - 1))
        #expect(try watcher.next()?.entities == ["Log"])
        let versions = try store.versions(of: ids[0])
        let history = try store.history(after: 0, includingValues: true)
        let dump = try tool("dump", folder.path)
        let result = try store.compact()
        #expect(result.bytesAfter * 10 < result.bytesBefore && result.horizon == 0)
        #expect(try store.history(after: 0, includingValues: true) == history && history.count == Int(last))
        #expect(try store.versions(of: ids[0]) == versions && versions.count == 11)
        #expect(try tool("dump", folder.path) == dump && dump.status == 0)
        expectGap { try store.snapshot(asOf: last - 1).rows(of: "Log") }
        expectGap { try store.versions(of: ids[1]) }
        // It is not known any more of which entity: so much stands in the file.
        expect(.historyGap) { try store.revert(last) }
        expect(.historyGap) { try store.revert(last - 9, conflicts: .storeWins) }
        #expect(try store.snapshot().row(ids[0])?["rank"] == 90)
        // A signal is folded from what is there.
        #expect(try store.changeWatcher(after: .number(last - 1)).next()?.entities == [])
        try close(store)
    }

    // MARK: The tool

    private func tool(_ arguments: String...) throws -> ToolRun { try runTool(arguments) }

    @Test func theToolTurnsHistoryOffAndOnAndShowsIt() throws {
        let store = try folder.open(both)
        try insert(store, "Clip", "Log")
        try store.close()
        let path = folder.path
        let standard = "{\"seconds\":604800,\"bytes\":1073741824,\"entitiesOff\":"
        #expect(try tool("retention", path, "--entity", "Log").output == standard + "[]}\n")
        #expect(try tool("retention", path, "off", "--entity", "Log").output == standard + "[\"Log\"]}\n")
        #expect(try tool("retention", path).output == standard + "[\"Log\"]}\n")
        #expect(
            try tool("retention", path, "--format", "text").output
                == "History is kept for 7d or 1073741824 bytes.\nNo history of Log is kept.\n")
        let info = try tool("info", path).output
        #expect(info.contains(/\nLog +1 +\d +off\n/) && info.contains(/\nClip +1 +\d +full\n/), "\(info)")
        let json = try tool("info", path, "--format", "json").output
        #expect(json.contains("\"name\":\"Log\",\"objects\":1,\"history\":\"off\","))
        #expect(json.contains("\"name\":\"Clip\",\"objects\":1,\"history\":\"full\","))
        #expect(try tool("history", path, "--count").output == "3\n")
        let named = try tool("history", path, "--entity", "Log")
        #expect(named.status == 1 && named.errors.contains("No history of “Log” is kept"))
        #expect(try tool("versions", path, "Log", "1").status == 1 && tool("dump", path, "--as-of", "2").status == 1)
        #expect(try tool("dump", path, "--as-of", "2", "--entity", "Clip").status == 0)
        #expect(try tool("retention", path, "full", "--entity", "Log").output == standard + "[]}\n")
        let all = try tool("history", path)
        #expect(all.status == 1 && all.errors.contains("after transaction 3"))
        #expect(try tool("history", path, "--after", "3", "--count").output == "1\n")
        for (arguments, status) in [
            (["none", "--entity", "Log"], 64), (["off", "5", "--entity", "Log"], 64), (["off"], 64),
            (["off", "--entity", "No"], 1), (["--entity", "No"], 1),
        ] {
            #expect(try runTool(["retention", path] + arguments).status == Int32(status), "\(arguments)")
        }
        try folder.expectIntact()
    }
}
