// Consumers, retention and cleaning as programs and the tool use them.

import Annals
import Foundation
import TestSupport
import Testing

@Suite struct CleaningTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    @discardableResult
    private func insert(_ store: Store, _ author: String? = "app") throws -> HistoryToken {
        try #require(try store.writeOptimistically(author: author) { try $0.insert("Clip", ["title": "t"]) }.token)
    }

    /// Cleaned, or hidden: also while the file still has it.
    @Test func cleanedVersionsAreNotReturned() throws {
        let store = try folder.open([Sample.clip])
        let object = try store.writeOptimistically(author: "app") { try $0.insert("Clip", ["title": "a"]) }.result
        for (author, title) in [("bob", "b"), ("app", "c"), ("bob", "d")] {
            _ = try store.writeOptimistically(author: author) { try $0.update(object, ["title": .string(title)]) }
        }
        #expect(try store.versions(of: object).map(\.number) == [5, 4, 3, 2])
        _ = try store.deleteHistory(before: 5, authors: ["bob"])
        #expect(try store.versions(of: object).map(\.number) == [5, 4, 2])
        _ = try store.deleteHistory(before: 4)
        #expect(try store.versions(of: object).map(\.number) == [5, 4])
        try store.compact()
        #expect(try store.versions(of: object).map(\.number) == [5, 4])
        #expect(try store.snapshot().row(object)?["title"] == "d")
        try store.close()
        try folder.expectIntact()
    }

    @Test func aConsumerContinuesAtItsCursor() throws {
        let store = try folder.open([Sample.clip])
        try insert(store)
        let consumer = try store.registerConsumer("extension")
        #expect(consumer.cursor == (try store.currentToken) && consumer.lag == 0 && !consumer.isLost)
        #expect(consumer.kind == .reads && consumer.processID == Int(ProcessInfo.processInfo.processIdentifier))
        for _ in 1...3 { try insert(store) }
        #expect(try store.consumer("extension")?.lag == 3)
        var cursor = consumer.cursor
        for transaction in try store.history(HistoryRequest(after: .token(cursor))) {
            try store.advanceConsumer("extension", from: cursor, to: transaction.token)
            cursor = transaction.token
        }
        #expect(try store.consumer("extension")?.lag == 0)
        // Another handle sees it at once.
        let other = try folder.open()
        #expect(try other.consumer("extension")?.cursor == cursor)
        try store.close()
        #expect(try other.consumer("extension")?.cursor == cursor)
        #expect(try other.consumers.map(\.name) == ["extension"])
        #expect(try other.consumer("nobody") == nil)
        #expect(try other.removeConsumer("extension"))
        #expect(try !other.removeConsumer("extension"))
        try other.close()
        try folder.expectIntact()
    }

    /// Cleaning between naming the oldest place and using it changes what it stands for, and is no error.
    @Test func theOldestPlaceIsFoundWhenItIsUsed() throws {
        let store = try folder.open([Sample.clip])
        let other = try folder.open()
        for _ in 1...6 { try insert(store) }
        let watcher = try store.changeWatcher(after: .oldest)
        try other.deleteHistory(before: 4)
        let consumer = try store.registerConsumer("reader", at: .oldest)
        #expect(try consumer.cursor.number == 3 && consumer.cursor == other.oldestToken && !consumer.isLost)
        let last = try store.currentToken
        let signal = try #require(try watcher.next(timeout: .seconds(600)))
        #expect(signal.token == last && watcher.position == last.number)
        // From then on it is a place like any other.
        try insert(store)
        try insert(store)
        try other.deleteHistory(before: last.number + 2)
        expect(.tokenExpired) { _ = try watcher.next(timeout: .seconds(600)) }
        #expect(try store.history(HistoryRequest(after: .oldest)).map(\.number) == [last.number + 2])
        #expect(try store.history(HistoryRequest(before: .oldest)).isEmpty)
        // One that is lost is told so, wherever it moves to.
        expect(.consumerLost) {
            try store.advanceConsumer("reader", from: consumer.cursor, to: try store.currentToken)
        }
        try other.close()
        try store.close()
        try folder.expectIntact()
    }

    @Test func wrongMovesAreRefused() throws {
        let store = try folder.open([Sample.clip])
        let start = try store.currentToken
        let end = try insert(store)
        expect(.consumerUnknown) { try store.advanceConsumer("nobody", from: start, to: end) }
        expect(.consumerUnknown) { try store.resetConsumer("nobody", to: end) }
        try store.registerConsumer("reader", at: start)
        expect(.consumerConflict) { try store.advanceConsumer("reader", from: end, to: end) }
        expect(.invalidArgument) { try store.registerConsumer("", kind: .reads) }
        expect(.invalidArgument) { try store.registerConsumer("none", kind: []) }
        let other = try StoreFolder()
        let foreign = try other.open([Sample.clip])
        let token = try foreign.currentToken
        expect(.tokenForeign) { try store.advanceConsumer("reader", from: start, to: token) }
        expect(.tokenForeign) { try store.advanceConsumer("reader", from: token, to: end) }
        expect(.tokenForeign) { try store.registerConsumer("another", at: token) }
        expect(.tokenForeign) { try store.resetConsumer("reader", to: token) }
        try store.close()
        expect(.closed) { try store.advanceConsumer("reader", from: start, to: end) }
        expect(.closed) { _ = try store.consumers }
        let reader = try folder.open { $0.access = .readOnly }
        expect(.readOnly) { try reader.advanceConsumer("reader", from: start, to: end) }
        expect(.readOnly) { try reader.registerConsumer("reader 2") }
        expect(.readOnly) { _ = try reader.clean() }
        try reader.close()
        try foreign.close()
        try other.expectIntact()
        try folder.expectIntact()
    }

    @Test func aCursorInATransactionIsPartOfIt() throws {
        let store = try folder.open([Sample.clip])
        let start = try store.currentToken
        try store.registerConsumer("importer", at: start)
        let first = try insert(store)
        let second = try insert(store)
        try store.advanceConsumer("importer", from: start, to: start)
        try store.advanceConsumer("importer", from: start, to: first)
        try store.writeOptimistically { transaction in
            try transaction.insert("Clip", ["title": "imported"])
            try transaction.advanceConsumer("importer", from: first, to: second)
        }
        #expect(try store.consumer("importer")?.cursor == second)
        try store.advanceConsumer("importer", from: second, to: try store.currentToken)
        let third = try store.currentToken
        let fourth = try insert(store)
        try store.write { transaction in
            try transaction.insert("Clip", ["title": "imported again"])
            try transaction.advanceConsumer("importer", from: third, to: fourth)
            // Reading of consumers waits for nobody.
            _ = try store.consumers
        }
        #expect(try store.consumer("importer")?.cursor == fourth)
        let before = try store.currentToken
        expect(.consumerConflict) {
            try store.writeOptimistically { transaction in
                try transaction.insert("Clip", ["title": "never"])
                try transaction.advanceConsumer("importer", from: third, to: fourth)
            }
        }
        #expect(try store.currentToken == before)
        try store.close()
        try folder.expectIntact()
    }

    @Test func cleaningWaitsForReadersAndNamesThem() throws {
        let store = try folder.open([Sample.clip])
        let start = try store.currentToken
        try store.registerConsumer("fast", at: start)
        try store.registerConsumer("slow", at: start)
        try store.registerConsumer("writer", kind: .writes, at: start)
        var tokens = [start]
        for _ in 1...10 { tokens.append(try insert(store)) }
        try store.advanceConsumer("fast", from: start, to: tokens[8])
        try store.advanceConsumer("slow", from: start, to: tokens[3])
        let plan = try store.cleaningPlan()
        #expect(plan.before == tokens[3].number + 1 && plan.transactions == tokens[3].number)
        #expect(plan.waitingFor.map(\.name) == ["slow", "fast"] && plan.overtaken == [])
        #expect(try store.clean() == plan)
        #expect(try store.horizon == tokens[3].number)
        #expect(try store.clean().transactions == 0)
        // Up to what everybody has read, and no further: what comes next is there for all.
        for name in ["slow", "fast"] {
            let cursor = try #require(try store.consumer(name)).cursor
            let next = try #require(try store.history(HistoryRequest(after: .token(cursor))).first)
            #expect(next.number == cursor.number + 1)
        }
        // By hand it waits for nobody, and who is overtaken is told.
        #expect(try store.cleaningPlan(before: 100).overtaken.map(\.name) == ["slow", "fast"])
        try store.deleteHistory(before: tokens[9])
        let slow = try #require(try store.consumer("slow"))
        #expect(slow.isLost)
        expect(.tokenExpired) { try store.history(HistoryRequest(after: .token(slow.cursor))) }
        let error = #expect(throws: StoreError.self) {
            try store.advanceConsumer("slow", from: slow.cursor, to: tokens[5])
        }
        #expect(error?.code == .consumerLost && error?.oldestToken == tokens[8])
        #expect(error?.message.contains("is at transaction \(slow.cursor.number),") == true)
        for isLocked in [false, true] {
            let error = #expect(throws: StoreError.self) {
                let move = { (transaction: Transaction) in
                    try transaction.advanceConsumer("slow", from: slow.cursor, to: tokens[5])
                }
                if isLocked { try store.write(move) } else { try store.writeOptimistically(move) }
            }
            #expect(error?.code == .consumerLost && error?.oldestToken == tokens[8])
        }
        // Nobody waits for who is lost.
        #expect(try store.cleaningPlan().waitingFor.map(\.name) == ["fast"])
        let snapshot = try store.snapshot()
        let token = snapshot.token
        #expect(try snapshot.count(of: "Clip") == 10)
        #expect(try !store.resetConsumer("slow", to: token).isLost)
        try store.close()
        try folder.expectIntact()
    }

    @Test func withoutReadersOnlyRetentionCounts() throws {
        let store = try folder.open([Sample.clip])
        for _ in 1...5 { try insert(store) }
        #expect(try store.retention == .standard)
        #expect(try store.cleaningPlan().transactions == 0)
        try store.setRetention(.none)
        #expect(try store.retention == .none)
        let last = try store.currentToken.number
        #expect(try store.cleaningPlan().before == last + 1)
        try store.setRetention(.forever)
        #expect(try store.cleaningPlan().transactions == 0)
        let seconds = Store.Retention(age: .seconds(3600), bytes: 5000)
        try store.setRetention(seconds)
        expect(.invalidArgument) { try store.setRetention(Store.Retention(age: .microseconds(-1), bytes: nil)) }
        let other = try folder.open()
        #expect(try other.retention == seconds)
        // Whoever commits applies it.
        try other.setRetention(.none)
        try insert(store)
        try insert(other)
        #expect(try store.horizon > last)
        try other.close()
        try store.close()
        try folder.expectIntact()
    }

    @Test func historyIsDeletedBeforeADate() throws {
        let store = try folder.open([Sample.clip])
        for _ in 1...3 { try insert(store) }
        let times = try store.history(HistoryRequest()).map(\.timestamp)
        #expect(try !store.deleteHistory(before: Date.distantPast))
        #expect(try store.deleteHistory(before: times[2]))
        // Exclusive: the transaction of that moment stays.
        #expect(try store.history(HistoryRequest()).map(\.number) == [3, 4])
        expect(.invalidArgument) { try store.deleteHistory(before: Date(timeIntervalSince1970: .nan)) }
        #expect(try store.deleteHistory(before: Date.distantFuture))
        #expect(try store.history(HistoryRequest()).isEmpty)
        try store.close()
        try folder.expectIntact()
    }

    /// What was cleaned is in the file until that is compacted: a date does not lead there either.
    @Test func aDateInCleanedHistoryIsExpired() throws {
        let store = try folder.open([Sample.clip])
        for _ in 1...9 { try insert(store) }
        let times = try store.history(HistoryRequest()).map(\.timestamp)
        #expect(try times.count == 10 && store.deleteHistory(before: 8))
        let oldest = try store.oldestToken
        for isCompacted in [false, true] {
            if isCompacted { try store.compact() }
            for date in [Date.distantPast] + times[..<6] {
                for request in [
                    HistoryRequest(after: .date(date)), HistoryRequest(after: .date(date), before: .number(10)),
                ] {
                    let error = #expect(throws: StoreError.self) { try store.history(request) }
                    #expect(error?.code == .tokenExpired && error?.oldestToken == oldest)
                }
            }
            for date in times[..<7] { expect(.tokenExpired) { try store.history(HistoryRequest(before: .date(date))) } }
            for place in 6..<10 {
                let number = UInt64(place + 1)
                #expect(
                    try store.history(HistoryRequest(after: .date(times[place]))).map(\.number)
                        == (1...10).filter { $0 > number })
                #expect(
                    try place == 6
                        || store.history(HistoryRequest(before: .date(times[place]))).map(\.number)
                            == (8...10).filter { $0 < number }
                )
            }
        }
        try store.close()
        try folder.expectIntact()
    }

    /// What another handle has cleaned counts at once, also for who reads history up to a snapshot from before.
    @Test func cleaningByAnotherHandleCountsForAnOlderSnapshot() throws {
        let store = try folder.open([Sample.clip])
        for _ in 1...9 { try insert(store) }
        let other = try folder.open()
        var before: UInt64 = 2
        func snapshotThenClean() throws -> Snapshot {
            let snapshot = try store.snapshot()
            before += 1
            #expect(try other.deleteHistory(before: before))
            return snapshot
        }
        func numbers(_ request: HistoryRequest, _ snapshot: Snapshot) throws -> [UInt64] {
            var numbers: [UInt64] = []
            try store.forEachTransaction(request, in: snapshot) { (transaction) in
                numbers.append(transaction.number)
                return true
            }
            return numbers
        }
        var snapshot = try snapshotThenClean()
        #expect(try numbers(HistoryRequest(), snapshot) == Array(before...10))
        snapshot = try snapshotThenClean()
        expect(.tokenExpired) { try numbers(HistoryRequest(after: .number(2)), snapshot) }
        snapshot = try snapshotThenClean()
        expect(.tokenExpired) { try store.forEachTransaction(after: 3, in: snapshot) { _ in true } }
        snapshot = try snapshotThenClean()
        var exported: [UInt64] = []
        try store.forEachExportedTransaction(in: snapshot) { (transaction) in
            exported.append(transaction.token.number)
            return true
        }
        #expect(exported == Array((before - 1)...10))
        // One that history does not reach back to is a state, and nothing follows.
        snapshot = try store.snapshot(asOf: 6)
        #expect(try other.deleteHistory(before: 10))
        exported = []
        try store.forEachExportedTransaction(in: snapshot) { (transaction) in
            exported.append(transaction.token.number)
            return true
        }
        #expect(exported == [6])
        #expect(try numbers(HistoryRequest(), snapshot).isEmpty)
        try other.close()
        try store.close()
        try folder.expectIntact()
    }

    /// From the beginning of history, what is left is shown, in every form and whatever was cleaned.
    @Test func aRequestFromTheBeginningShowsTheRemainingHistory() throws {
        let store = try folder.open([Sample.clip])
        var clips: [ObjectID] = []
        for author in ["a", "b", "a", "b", "c"] {
            clips.append(try store.writeOptimistically(author: author) { try $0.insert("Clip", ["title": "t"]) }.result)
        }
        #expect(try store.deleteHistory(before: 5, authors: ["b"]))
        for isCompacted in [false, true] {
            if isCompacted { try store.compact() }
            for place in [nil, HistoryRequest.Place.oldest] {
                var request = HistoryRequest(after: place)
                #expect(try store.history(request).map(\.number) == [1, 2, 4, 5, 6])
                #expect(try store.transactionCount(request) == 5 && store.netChanges(request).count == 4)
                #expect(try store.changedObjects(request) == [clips[0], clips[2], clips[3], clips[4]])
                request.order = .newestFirst
                #expect(try store.changes(request).map(\.object) == [clips[4], clips[3], clips[2], clips[0]])
                #expect(try store.history(HistoryRequest(after: place, authors: ["b"])).map(\.number) == [5])
                #expect(try store.history(HistoryRequest(after: place, authors: ["a"])).map(\.number) == [2, 4])
            }
            // From there on nothing is missing.
            let oldest = try store.oldestToken
            #expect(oldest.number == 3)
            #expect(try store.history(after: oldest).map(\.number) == [4, 5, 6])
            let error = expect(.tokenExpired) { try store.history(after: 0) }
            #expect(error?.oldestToken == oldest)
            let cursor = try store.registerConsumer("reader", at: .oldest).cursor
            #expect(cursor == oldest)
            #expect(try store.history(HistoryRequest(after: .token(cursor))).count == 3)
            try store.removeConsumer("reader")
            #expect(try runTool(["history", folder.path]).status == 0)
        }
        #expect(try store.deleteHistory(before: 6))
        #expect(try store.oldestToken.number == 5 && store.registerConsumer("reader", at: .oldest).cursor.number == 5)
        #expect(try store.history(HistoryRequest(after: .oldest)).map(\.number) == [6])
        try store.close()
        try folder.expectIntact()
    }

    /// An answer that would not show what is hidden is whole without it.
    @Test func hiddenHistoryFailsOnlyRequestsThatNeedIt() throws {
        let store = try folder.open([Sample.clip])
        for author in ["a", "a", "b", "a"] {
            try store.writeOptimistically(author: author, contextName: author == "b" ? "y" : "x") {
                try $0.insert("Clip", ["title": "t"])
            }
        }
        #expect(try store.deleteHistory(before: 5, authors: ["b"]))
        expect(.tokenExpired) { try store.history(HistoryRequest(after: .number(1))) }
        expect(.tokenExpired) { try store.history(HistoryRequest(after: .number(1), before: .number(5))) }
        #expect(try store.history(HistoryRequest(after: .number(1), before: .number(4))).map(\.number) == [2, 3])
        #expect(try store.history(HistoryRequest(contextNames: ["x"])).map(\.number) == [2, 3, 5])
        expect(.tokenExpired) { try store.history(HistoryRequest(after: .number(1), contextNames: ["x", "y"])) }
        let error = #expect(throws: StoreError.self) { try store.revert(4) }
        #expect(try error?.code == .tokenExpired && error?.oldestToken == store.oldestToken)
        #expect(try store.currentToken.number == 5)
        try store.close()
        try folder.expectIntact()
    }

    // MARK: The tool

    private func tool(_ arguments: String...) throws -> ToolRun { try runTool(arguments) }

    @Test func theToolRegistersMovesAndRemovesConsumers() throws {
        let store = try folder.open([Sample.clip])
        for _ in 1...4 { try insert(store) }
        try store.close()
        let path = folder.path
        #expect(try tool("consumers", path).output == "")
        let registered = try tool("consumers", path, "--register", "a\"b", "2")
        #expect(registered.status == 0)
        #expect(registered.output.hasPrefix("{\"name\":\"a\\\"b\",\"kind\":[\"reads\"],\"number\":2,\"token\":\"A1."))
        #expect(try tool("consumers", path, "--format", "text").output.contains("a\"b       reads      2       3  "))
        #expect(try tool("clean", path, "--dry-run").output.hasPrefix("{\"transactions\":2,\"horizon\":2,"))
        #expect(try tool("clean", path).output.hasPrefix("{\"transactions\":2,\"horizon\":2,"))
        #expect(try tool("clean", path, "--before", "5").output.contains("\"overtaken\":[{\"name\":\"a\\\"b\""))
        #expect(try tool("consumers", path).output.contains("\"lost\":true"))
        #expect(try tool("consumers", path, "--advance", "a\"b", "5").output.contains("\"lost\":false"))
        #expect(try tool("info", path, "--format", "json").output.contains("\"horizon\":4,\"retention\":{"))
        #expect(try tool("consumers", path, "--remove", "a\"b").status == 0)
        for (arguments, status) in [
            (["--remove", "a\"b"], 1), (["--advance", "x"], 64), (["--advance", "x", "5"], 1),
            (["--advance", "x", "1"], 1),
            (["7"], 64), (["--register", "x", "--remove", "y"], 64), (["--register", "x", "99"], 1),
            (["--register", "x", "nonsense"], 64), (["--register", ""], 64),
        ] {
            let run = try runTool(["consumers", path] + arguments)
            #expect(run.status == Int32(status) && run.errors.hasPrefix("annals: "), "\(arguments): \(run)")
        }
        try folder.expectIntact()
    }

    @Test func theToolShowsAndSetsTheRetention() throws {
        try folder.open([Sample.clip]).close()
        let path = folder.path
        #expect(try tool("retention", path).output == "{\"seconds\":604800,\"bytes\":1073741824,\"entitiesOff\":[]}\n")
        for (arguments, line) in [
            (["30d"], "{\"seconds\":2592000,\"bytes\":null}"), (["2h", "5000"], "{\"seconds\":7200,\"bytes\":5000}"),
            (["forever"], "{\"seconds\":null,\"bytes\":null}"), (["forever", "7"], "{\"seconds\":null,\"bytes\":7}"),
            (["none"], "{\"seconds\":0,\"bytes\":null}"), (["standard"], "{\"seconds\":604800,\"bytes\":1073741824}"),
        ] {
            let whole = line.dropLast() + ",\"entitiesOff\":[]}\n"
            #expect(try runTool(["retention", path] + arguments).output == whole)
            #expect(try tool("retention", path).output == whole)
        }
        for (age, text) in [
            ("90m", "90m"), ("7d", "7d"), ("48h", "2d"), ("36h", "36h"), ("3600s", "1h"), ("61s", "61s"), ("0d", "0s"),
        ] {
            let run = try tool("retention", path, age, "--format", "text")
            #expect(run.output == "History is kept for \(text).\n")
        }
        #expect(
            try tool("retention", path, "30d", "5000", "--format", "text").output.contains("for 30d or 5000 bytes."))
        #expect(try tool("info", path).output.contains("and is kept for 30d or 5000 bytes\n"))
        for arguments in [
            ["7"], ["d"], ["-1d"], ["99999999999999999999d"], ["999999999999999999d"], ["1d", "x"], ["none", "5"], [""],
        ] {
            #expect(try runTool(["retention", path] + arguments).status == 64, "\(arguments)")
        }
        try folder.expectIntact()
    }

    @Test func theToolCleansBeforeAMomentAndOfOneAuthor() throws {
        let store = try folder.open([Sample.clip])
        for author in ["a", "b", nil] { try insert(store, author) }
        try store.close()
        let path = folder.path
        #expect(
            try tool("clean", path, "--before", "5", "--author", "b", "--dry-run").output.hasPrefix(
                "{\"transactions\":1,"))
        #expect(
            try tool("clean", path, "--before", "2000-01-01T00:00:00Z").output.hasPrefix(
                "{\"transactions\":0,\"horizon\":0,"))
        #expect(try tool("clean", path, "--before", "5", "--author", "").status == 0)
        for arguments in [["--before", "6"], ["--before", "6", "--author", "a"], ["--before", "6", "--dry-run"]] {
            let run = try runTool(["clean", path] + arguments)
            #expect(run.status == 1 && run.errors.contains("no transaction 6: its newest is 4"), "\(run.errors)")
        }
        #expect(try tool("history", path).output.split(separator: "\n").count == 2)
        #expect(try tool("history", path, "--after", "0").status == 1)
        #expect(
            try tool("clean", path, "--before", "9999-01-01T00:00:00Z").output.hasPrefix(
                "{\"transactions\":4,\"horizon\":4,"))
        for arguments in [["--author", "a"], ["--before", "tomorrow"], ["--before", ""], ["--format", "xml"]] {
            #expect(try runTool(["clean", path] + arguments).status == 64)
        }
        try folder.expectIntact()
    }
}
