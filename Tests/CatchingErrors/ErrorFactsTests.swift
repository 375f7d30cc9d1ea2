// What errors say as values, each met for real.

import Annals
import Foundation
import Testing

@Suite struct ErrorFactsTests {
    private let path = NSTemporaryDirectory() + "annals-facts-\(UUID().uuidString)"
    private let clip = EntityDescription(
        "Clip",
        attributes: [
            AttributeDescription("url", .string, isOptional: false, isUnique: true),
            AttributeDescription("rank", .int),
        ])

    private func error(_ body: () throws -> Void) -> StoreError? {
        do {
            try body()
            return nil
        } catch {
            return error as? StoreError
        }
    }

    private func end(_ store: Store) throws {
        try store.close()
        try FileManager.default.removeItem(atPath: path)
    }

    @Test func aUniqueViolationNamesTheObjectThatHasTheValue() throws {
        let store = try Store(at: path, entities: [clip])
        let (first, _) = try store.writeOptimistically { try $0.insert("Clip", ["url": "a"]) }
        let met = try #require(error { try store.writeOptimistically { try $0.insert("Clip", ["url": "a"]) } })
        #expect(met.code == .uniqueViolation)
        #expect(met.entity == "Clip" && met.attributes == ["url"] && met.object == first)
        try end(store)
    }

    @Test func missingUnknownAndMistypedValuesAreNamed() throws {
        let store = try Store(at: path, entities: [clip])
        let cases: [(StoreError.Code, [String], [String: Value], String)] = [
            (.requiredMissing, ["url"], ["rank": 1], "Clip"),
            (.unknownAttribute, ["size"], ["url": "a", "size": 1], "Clip"),
            (.typeMismatch, ["rank"], ["url": "a", "rank": "1"], "Clip"),
            (.unknownEntity, [], ["url": "a"], "Film"),
        ]
        for (code, attributes, values, entity) in cases {
            let met = try #require(error { try store.writeOptimistically { try $0.insert(entity, values) } })
            #expect(met.code == code && met.entity == entity && met.attributes == attributes && met.object == nil)
        }
        try end(store)
    }

    @Test func busyNamesTheProcessThatHoldsTheLock() throws {
        let store = try Store(at: path, entities: [clip])
        var options = Store.Options()
        options.lockTimeout = .milliseconds(20)
        let other = try Store(at: path, options: options)
        let begun = Date()
        var met: StoreError?
        try store.write { _ in
            met = error { try other.writeOptimistically { try $0.insert("Clip", ["url": "b"]) } }
        }
        let holder = try #require(met?.lockHolder)
        #expect(met?.code == .busy && holder.processID == UInt32(ProcessInfo.processInfo.processIdentifier))
        // A lock's time is kept in microseconds.
        #expect(holder.since > begun - 1 && holder.since < Date() + 1)
        try other.close()
        try end(store)
    }

    @Test func damageHasItsOffset() throws {
        let store = try Store(at: path, entities: [clip])
        for number in 0..<100 { try store.writeOptimistically { try $0.insert("Clip", ["url": "\(number)"]) } }
        try store.close()
        var bytes = try Data(contentsOf: URL(filePath: path))
        bytes[4096 + 100] ^= 1
        try bytes.write(to: URL(filePath: path))
        let met = error {
            let damaged = try Store(at: path)
            defer { _ = try? damaged.close() }
            _ = try damaged.history(after: 0)
        }
        #expect(met?.code == .damaged && met?.offset != nil)
        try FileManager.default.removeItem(atPath: path)
    }
}
