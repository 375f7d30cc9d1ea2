// History as JSON and back, and values from integers and interpolated texts.

import Annals
import Foundation
import Testing

@Suite struct CodableTests {
    private let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    private func roundTrip<Content: Codable & Equatable>(
        _ content: Content, sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let coded = try JSONEncoder().encode(content)
        #expect(try JSONDecoder().decode(Content.self, from: coded) == content, sourceLocation: sourceLocation)
    }

    @Test func historyIsReadBackFromJSON() throws {
        let store = try folder.open([Sample.clip])
        try store.registerConsumer("reader")
        let watcher = try store.changeWatcher()
        let id = try store.writeOptimistically { try $0.insert("Clip", ["title": "a", "url": "b"]) }.result
        try store.writeOptimistically(author: "somebody") { try $0.update(id, ["rank": 7, "title": "e\u{301}"]) }
        let net = try store.netChanges(HistoryRequest(), includingValues: true)
        #expect(net.count == 1)
        try roundTrip(net)
        try roundTrip(try #require(try store.snapshot().row(id)))
        try store.writeOptimistically { try $0.delete(id) }
        let history = try store.history(HistoryRequest(), includingValues: true)
        #expect(history.flatMap(\.changes).map(\.kind) == [.insert, .update, .delete])
        try roundTrip(history)
        try roundTrip(history.flatMap(\.changes))
        try roundTrip(try store.versions(of: id))
        try roundTrip(try store.netChanges(HistoryRequest(), includingValues: true))
        try roundTrip(try #require(try watcher.next(timeout: .seconds(600))))
        let consumers = try store.consumers
        #expect(consumers.map(\.name) == ["reader"])
        try roundTrip(consumers)
        try store.close()
    }

    /// The members of a transaction's header are members of the JSON object itself.
    @Test func transactionsAndVersionsAreOneFlatObject() throws {
        let store = try folder.open([Sample.clip])
        let id = try store.writeOptimistically(author: "app", contextName: "import") {
            try $0.insert("Clip", ["url": "a"])
        }.result
        try store.writeOptimistically { try $0.delete(id) }
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        func text(_ content: some Encodable) throws -> String {
            String(decoding: try encoder.encode(content), as: UTF8.self)
        }
        func header(_ transaction: HistoryTransaction) throws -> String {
            let process = try transaction.process.map { "\"process\":\(try text($0))," } ?? ""
            return """
                "microseconds":\(transaction.microseconds),"number":\(transaction.number),\(process)\
                "processID":\(transaction.processID),"token":"\(transaction.token)"
                """
        }
        let history = try store.history(after: 1, includingValues: true)
        #expect(
            try text(history[0]) == """
                {"author":"app","changes":\(text(history[0].changes)),"changesSchema":false,"contextName":"import",\
                \(header(history[0]))}
                """)
        #expect(
            try text(history[1]) == """
                {"changes":\(text(history[1].changes)),"changesSchema":false,\(header(history[1]))}
                """)
        let versions = try store.versions(of: id)
        #expect(
            try text(versions[1]) == """
                {"author":"app","change":\(text(history[0].changes[0])),"contextName":"import",\(header(history[0]))}
                """)
        #expect(versions[1].header == history[0].header && versions[1].author == "app")
        try store.close()
        try folder.expectIntact()
    }

    @Test func aRowOfTooFewValuesIsRefused() throws {
        let id = try #require(ObjectID(entityNumber: 1, number: 2))
        let row = Row(id: id, entity: "Clip", attributes: ["a", "b"], values: ["x", .null])
        let text = String(decoding: try JSONEncoder().encode(row), as: UTF8.self)
        try roundTrip(row)
        let shorter = text.replacingOccurrences(of: ",null]", with: "]")
        #expect(shorter != text)
        #expect(throws: DecodingError.self) { try JSONDecoder().decode(Row.self, from: Data(shorter.utf8)) }
    }

    @Test func aRowReturnsAValueOrNamesTheMissingAttribute() throws {
        let id = try #require(ObjectID(entityNumber: 1, number: 2))
        let row = Row(id: id, entity: "Clip", attributes: ["a", "b"], values: ["x", .null])
        #expect(try row.value("a") == "x" && row.value("b") == .null)
        expect(.unknownAttribute) { try row.value("c") }
        #expect(row["c"] == nil)
    }

    @Test func valuesCanBeMadeFromIntegersAndInterpolations() throws {
        let count = 7
        #expect(Value(count) == 7)
        #expect(try Value(UInt8(7)) == 7 && Value(Int128(-7)) == -7 && Value(UInt64(Int64.max)) == .int(.max))
        expect(.valueOutOfRange) { try Value(UInt64.max) }
        expect(.valueOutOfRange) { try Value(Int128(Int64.min) - 1) }
        let value: Value = "item \(count)"
        #expect(value == .string("item 7"))
    }
}
