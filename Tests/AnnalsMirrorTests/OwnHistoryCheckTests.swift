// A store whose older state has replaced it, and two mirrors under one name.

import Annals
import AnnalsMirror
import FoundationEssentials
import TestSupport
import Testing

@Suite struct OwnHistoryCheckTests {
    private let folder: TemporaryDirectory
    private var path: String { folder.path("notes") }

    init() throws { folder = try TemporaryDirectory() }

    private func write(_ count: Int, to store: Store) throws -> [HistoryToken] {
        try (0..<count).map { number in
            try store.write {
                try $0.insert("Tag", ["name": .string("tag \(number) \(UInt64.random(in: 0 ... .max))")])
            }
            return try store.currentToken
        }
    }

    private func requireKnown(_ token: HistoryToken, in store: Store) throws {
        let check = OwnHistoryCheck(store: store.identifier, instance: 1)
        try check.requireKnown(token, newest: try store.snapshot().token.number) { (number) throws(StoreError) in
            try store.tag(ofTransaction: number)
        }
    }

    private func check(_ store: Store) throws {
        try store.close()
        let report = try Checker.check(path, options: CheckOptions(), files: try Store.files(for: path))
        #expect(report.isIntact, "\(report.findings)")
    }

    /// Writes, copies, writes more, and puts the copy in place.
    private func restored() throws -> (store: Store, kept: [HistoryToken], lost: [HistoryToken]) {
        let store = try Store(at: path, entities: MergeModel.entities)
        let kept = try write(5, to: store)
        try store.backup(to: folder.path("backup"))
        let lost = try write(5, to: store)
        for token in kept + lost { try requireKnown(token, in: store) }
        try store.close()
        let files = RealFileSystem()
        let place = try files.openPlace(path)
        try files.rename("backup", to: "notes", in: place.directory)
        files.close(place.directory)
        return (try Store(at: path), kept, lost)
    }

    @Test func transactionsThatTheStoreLacksAreNoticed() throws {
        let (store, kept, lost) = try restored()
        for token in kept { try requireKnown(token, in: store) }
        for token in lost { #expect(code { try requireKnown(token, in: store) } == .storeRestored) }
        let newest = try store.snapshot().token.number
        let history = OwnHistoryCheck(store: store.identifier, instance: 1)
        try history.requireKnown(newest, newest: newest)
        let error = storeError { try history.requireKnown(newest + 1, newest: newest) }
        #expect(error?.code == .storeRestored)
        #expect(error?.message.contains("\(newest + 1)") == true)
        try check(store)
    }

    @Test func otherTransactionsWithTheSameNumbersAreNoticed() throws {
        let (store, kept, lost) = try restored()
        _ = try write(10, to: store)
        for token in kept { try requireKnown(token, in: store) }
        for token in lost { #expect(code { try requireKnown(token, in: store) } == .storeRestored) }
        // After compaction, too.
        try store.deleteHistory(before: try store.currentToken)
        try store.compact()
        #expect(try store.tag(ofTransaction: kept[0].number) == nil)
        for token in kept { try requireKnown(token, in: store) }
        try check(store)
    }

    @Test func tokensOfOtherStoresAreIgnored() throws {
        let store = try Store(at: path, entities: MergeModel.entities)
        try requireKnown(HistoryToken(storeIdentifier: UUID(), number: 1000, tag: 1), in: store)
        #expect(
            code { try requireKnown(.init(storeIdentifier: store.identifier, number: 1000, tag: 1), in: store) }
                == .storeRestored)
        try check(store)
    }

    // MARK: Two mirrors

    private let me = UUID()

    private func join(_ instance: UInt64, of peer: UUID? = nil) -> PeerMessage {
        PeerMessage(peer: peer ?? me, name: "", versions: 1...1, instance: instance)
    }

    @Test func aJoinOfAnotherMirrorAfterTheOwnIsNoticed() throws {
        var check = OwnHistoryCheck(store: me, instance: 2, earlier: [1])
        // Of earlier runs of the store's mirror.
        try check.see(join(1))
        try check.see(join(7))
        try check.see(join(2))
        // Doubled, or late.
        try check.see(join(2))
        try check.see(join(1))
        try check.see(join(7, of: UUID()))
        #expect(code { try check.see(join(7)) } == .storeCopied)
    }
}
