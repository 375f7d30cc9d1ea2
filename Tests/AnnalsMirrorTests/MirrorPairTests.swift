// A mirrored store beside other features of a store: transactions from outside of the group, undoing, compaction, odd
// names.

import Annals
import AnnalsMirror
import FoundationEssentials
import TestSupport
import Testing

@Suite struct MirrorPairTests {
    /// Two stores of a group, over a courier without faults.
    private struct Pair {
        let exchange = SimulatedExchange(seed: 1)
        let stores: [Store]
        let peers: [MirrorPeer]

        init(_ entities: [EntityDescription]) throws {
            let exchange = exchange
            let stores = try (0..<2).map { _ in try Store(inMemory: entities) }
            self.stores = stores
            peers = try (0..<2).map { index in
                try MirrorPeer.begin(
                    stores[index], exchange.courier(for: stores[index].identifier.uuidString), firstNumber: 1,
                    instance: UInt64(index), clock: { exchange.now })
            }
            try becomeQuiet()
        }

        func becomeQuiet() throws {
            var rounds = 0
            while !peers.allSatisfy(\.isQuiet) || rounds < 3 {
                rounds += 1
                try #require(rounds < 100, "the peers do not become quiet: \(peers.map(\.obstacles))")
                for peer in peers { try peer.step() }
                exchange.advance(by: 1)
            }
        }

        func expectIntact() throws {
            for store in stores {
                let report = try Checker.check(
                    store.path, options: CheckOptions(), files: try Store.files(for: store.path))
                #expect(report.isIntact, "\(report.findings)")
            }
        }

        /// The texts of an attribute in both stores, sorted.
        func texts(_ attribute: String, of entity: String) throws -> [[String]] {
            try stores.map { store in
                try store.snapshot().rows(of: entity).compactMap { $0[attribute]?.string }.sorted()
            }
        }
    }

    private static let note = EntityDescription(
        "Note",
        attributes: [
            AttributeDescription("title", .string, isUnique: true),
            AttributeDescription("next", .object, target: "Note", whenTargetIsDeleted: .nullify),
        ])

    /// A step ends after some time, so that a mirror can be stopped while it has much to merge.
    @Test func mergingGoesOnInTheNextStep() throws {
        let exchange = SimulatedExchange(seed: 1)
        let stores = try (0..<2).map { _ in try Store(inMemory: [Self.note]) }
        var calls = 0.0
        let peers = try stores.enumerated().map { index, store in
            try MirrorPeer.begin(
                store, exchange.courier(for: store.identifier.uuidString), firstNumber: 1, instance: UInt64(index),
                clock: {
                    calls += 1
                    return exchange.now + calls / 10
                })
        }
        func count() throws -> Int { try stores[1].snapshot().rows(of: "Note").count }
        for _ in 0..<20 {
            for peer in peers { try peer.step() }
            exchange.advance(by: 1)
        }
        try stores[0].write { try $0.insert("Note", ["title": "first"]) }
        for number in 1...50 { try stores[0].write { try $0.insert("Note", ["title": .string("\(number)")]) } }
        try peers[0].step()
        var counts: [Int] = []
        for _ in 0..<40 where counts.last != 51 {
            try peers[1].step()
            counts.append(try count())
            exchange.advance(by: 1)
        }
        #expect(counts.last == 51 && Set(counts.filter { $0 > 0 }).count > 5, "\(counts)")
    }

    /// For the group they are made in the store that applies them.
    @Test func transactionsFromAStoreOutsideReachTheGroup() throws {
        let pair = try Pair([Self.note])
        let outside = try Store(inMemory: [Self.note])
        try outside.write(author: "outside") {
            let first = try $0.insert("Note", ["title": "first"])
            try $0.insert("Note", ["title": "second", "next": .object(first)])
        }
        try pair.stores[1].write { try $0.insert("Note", ["title": "first"]) }
        for transaction in try outside.export() { try pair.stores[0].apply(transaction, conflicts: .exportWins) }
        try pair.becomeQuiet()
        #expect(try pair.texts("title", of: "Note") == [["first", "second"], ["first", "second"]])
        let second = try #require(try outside.snapshot().rows(of: "Note").first { $0["title"] == "second" })
        try outside.write(author: "outside") { try $0.update(second.id, ["title": "renamed"]) }
        let last = try pair.stores[0].lastApplied(from: outside.identifier)
        for transaction in try outside.export(after: last.map { .token($0) }) {
            try pair.stores[0].apply(transaction, conflicts: .exportWins)
        }
        try pair.becomeQuiet()
        #expect(try pair.texts("title", of: "Note") == [["first", "renamed"], ["first", "renamed"]])
        try pair.expectIntact()
    }

    @Test func anUndoneTransactionIsUndoneEverywhere() throws {
        let pair = try Pair([Self.note])
        try pair.stores[0].write {
            let first = try $0.insert("Note", ["title": "first"])
            try $0.insert("Note", ["title": "second", "next": .object(first)])
        }
        let token = try pair.stores[0].currentToken
        try pair.becomeQuiet()
        let first = try #require(try pair.stores[1].snapshot().rows(of: "Note").first { $0["title"] == "first" })
        try pair.stores[1].write { try $0.delete(first.id) }
        let deletion = try pair.stores[1].currentToken
        try pair.becomeQuiet()
        #expect(try pair.texts("title", of: "Note") == [["second"], ["second"]])
        // The store that did not insert it, and deleted it, undoes its deletion.
        try pair.stores[1].revert(deletion, conflicts: .storeWins)
        try pair.becomeQuiet()
        #expect(try pair.texts("title", of: "Note") == [["first", "second"], ["first", "second"]])
        try pair.stores[0].revert(token, conflicts: .storeWins)
        try pair.becomeQuiet()
        #expect(try pair.texts("title", of: "Note") == [[], []])
        try pair.expectIntact()
    }

    @Test func oddNamesAndValuesKeepTheirBytes() throws {
        let (entity, attribute, text) = ("Zoë “x”\n", "e\u{301}", "\0 \u{10ffff} e\u{301}")
        let odd = EntityDescription(entity, attributes: [AttributeDescription(attribute, .string, isUnique: true)])
        let pair = try Pair([odd])
        try pair.stores[0].write { try $0.insert(entity, [attribute: .string(text)]) }
        try pair.becomeQuiet()
        let row = try #require(try pair.stores[1].snapshot().rows(of: entity).first)
        let arrived = try #require(row[attribute]?.string)
        #expect(arrived.unicodeScalars.elementsEqual(text.unicodeScalars))
        try pair.expectIntact()
    }

    /// Compaction and cleaning keep the history that a late transaction needs.
    @Test func compactionAndCleaningKeepTheWindow() throws {
        let pair = try Pair([Self.note])
        try pair.stores[0].write { try $0.insert("Note", ["title": "first"]) }
        try pair.becomeQuiet()
        pair.exchange.cutOff(pair.stores[1].identifier.uuidString)
        for (index, store) in pair.stores.enumerated() {
            for number in 0..<3 {
                let row = try #require(try store.snapshot().rows(of: "Note").first)
                try store.write { try $0.update(row.id, ["title": .string("\(index) \(number)")]) }
                try store.write { try $0.insert("Note", ["title": .string("new \(number)")]) }
                _ = try store.clean()
                _ = try store.compact()
                if index == 0 { try pair.peers[0].step() }
                try pair.peers[index].save()
            }
        }
        pair.exchange.join(pair.stores[1].identifier.uuidString)
        try pair.becomeQuiet()
        let texts = try pair.texts("title", of: "Note")
        #expect(texts[0] == texts[1] && texts[0].count == 4 && texts[0].contains("new 2"), "\(texts)")
        // Nothing holds up cleaning any more.
        for (store, peer) in zip(pair.stores, pair.peers) {
            try peer.save()
            _ = try store.clean()
            _ = try store.compact()
        }
        try pair.stores[1].write { try $0.insert("Note", ["title": "after"]) }
        try pair.becomeQuiet()
        #expect(try pair.texts("title", of: "Note").allSatisfy { $0.contains("after") })
        try pair.expectIntact()
    }
}
