// A consumer is never moved to a transaction that the store does not have, not even below what was cleaned.

import Annals
import Foundation
import TestSupport
import Testing

@Suite struct ConsumerPlaceTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    @Test func aCleanedTransactionIsStillTheOneThatTheFileHolds() throws {
        let store = try folder.open([Sample.clip])
        let start = try store.currentToken
        // Cleaning does not lose it: it reads nothing.
        try store.registerConsumer("writer", kind: .writes, at: start)
        let tokens = try (1...6).map { _ in
            try #require(try store.writeOptimistically { try $0.insert("Clip", ["title": "t"]) }.token)
        }
        func other(_ number: UInt64) -> HistoryToken {
            HistoryToken(storeIdentifier: store.identifier, number: number, tag: 1)
        }
        try store.deleteHistory(before: tokens[4])
        for isCompacted in [false, true] {
            let from = try #require(try store.consumer("writer")).cursor
            // Compaction folds what was cleaned, up to this one, which is the base then.
            for number in [tokens[3].number, tokens[5].number] {
                expect(.tokenDiverged) { try store.advanceConsumer("writer", from: from, to: other(number)) }
                expect(.tokenDiverged) {
                    try store.writeOptimistically { try $0.advanceConsumer("writer", from: from, to: other(number)) }
                }
            }
            expect(.tokenDiverged) { try store.advanceConsumer("writer", from: from, to: other(0)) }
            try store.advanceConsumer("writer", from: from, to: tokens[isCompacted ? 2 : 1])
            if !isCompacted { try store.compact() }
        }
        expect(.tokenDiverged) { try store.registerConsumer("another", at: other(tokens[5].number)) }
        expect(.tokenDiverged) { try store.resetConsumer("writer", to: other(tokens[4].number)) }
        let begin = HistoryToken(storeIdentifier: store.identifier, number: 0, tag: 0)
        expect(.tokenExpired) { try store.resetConsumer("writer", to: begin) }
        #expect(try store.consumer("writer")?.cursor == tokens[2])
        try store.close()
        try folder.expectIntact()
    }
}
