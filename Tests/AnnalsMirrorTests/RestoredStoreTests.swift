// A store that was restored from a backup: it is noticed whatever the group still has, and what was written since comes
// into the group by another store.

import Annals
import AnnalsMirror
import FoundationEssentials
import TestSupport
import Testing

@Suite struct RestoredStoreTests {
    private let folder: TemporaryDirectory

    init() throws { folder = try TemporaryDirectory() }

    private func begin(_ store: Store, _ exchange: SimulatedExchange, run: UInt64) throws -> MirrorPeer {
        try MirrorPeer.begin(
            store, exchange.courier(for: store.identifier.uuidString), firstNumber: run * 1_000_000, instance: run,
            clock: { exchange.now })
    }

    private func step(_ peers: [MirrorPeer], _ exchange: SimulatedExchange) throws {
        for _ in 0..<60 {
            for peer in peers { try peer.step() }
            exchange.advance(by: 1)
        }
    }

    private func insertTag(_ name: String, in store: Store) throws -> ObjectID {
        try store.write { try $0.insert("Tag", ["name": .string(name)]) }.0
    }

    private static let lostCount = 5

    /// The transactions since: fewer than were lost, as many, and more. With the messages of the group, and after the
    /// engine has lost all of them.
    @Test(arguments: [1, 3, 5, 6, 9], [true, false])
    func aRestoredStoreIsNoticedAndItsChangesComeByAnotherOne(count: Int, hasMessages: Bool) throws {
        var exchange = SimulatedExchange(seed: 1)
        let original = try Store(at: folder.path("original"), entities: MergeModel.entities)
        let other = try GroupMember.store(seed: 2)
        var peers = [try begin(original, exchange, run: 1), try begin(other, exchange, run: 1)]
        let tag = try insertTag("shared", in: original)
        let shared = try original.write { try $0.insert("Folder", ["name": "shared"]) }.0
        let kept = try original.write {
            try $0.insert("Note", ["title": "kept", "folder": .object(shared), "must": .object(tag)])
        }.0
        try step(peers, exchange)
        for peer in peers { try peer.save() }
        try original.backup(to: folder.path("restored"))
        let common = peers[0].publishedNumber
        for number in 1...Self.lostCount { _ = try insertTag("not in the backup \(number)", in: original) }
        try step(peers, exchange)
        for peer in peers {
            #expect(peer.isQuiet)
            try peer.save()
        }
        try original.close()

        let restored = try Store(at: folder.path("restored"))
        try write(count, to: restored, shared, tag, kept)
        if !hasMessages { exchange = SimulatedExchange(seed: 2) }
        let before = try StorePicture.lines(of: other)
        peers = [try begin(restored, exchange, run: 3), try begin(other, exchange, run: 3)]
        let error = storeError { try step(peers, exchange) }
        #expect(error?.code == .storeRestored)
        #expect(error?.message.contains("annals export OLD --after \(common) --new-identity") == true)
        #expect(try StorePicture.lines(of: other) == before)

        // The store leaves, and a new one takes its place.
        let new = try GroupMember.store(seed: 3)
        try peers[1].declareLost(restored.identifier)
        peers = [peers[1], try begin(new, exchange, run: 1)]
        try step(peers, exchange)
        #expect(try StorePicture.lines(of: new) == before)
        let exported = try restored.export(after: .number(common), newIdentity: true)
        for transaction in exported { #expect(try new.apply(transaction).outcome == .applied) }
        for transaction in exported { #expect(try new.apply(transaction).outcome == .alreadyApplied) }
        try step(peers, exchange)
        for peer in peers { #expect(peer.isQuiet && peer.obstacle == nil) }
        #expect(try StorePicture.lines(of: other) == StorePicture.lines(of: new))
        try expect(count, in: other)
        try restored.close()
        for name in ["original", "restored"] {
            let path = folder.path(name)
            let report = try Checker.check(path, options: CheckOptions(), files: try Store.files(for: path))
            #expect(report.isIntact, "\(report.findings)")
        }
    }

    /// Two copies that went different ways are two stores.
    @Test func copiesWithOtherChangesGetOtherIdentities() throws {
        let original = try Store(at: folder.path("original"), entities: MergeModel.entities)
        _ = try insertTag("shared", in: original)
        let place = try original.currentToken
        var identities: Set<UUID> = [original.identifier]
        for name in ["first", "second"] {
            try original.backup(to: folder.path(name))
            let copy = try Store(at: folder.path(name))
            _ = try insertTag(name, in: copy)
            let exported = try copy.export(after: .token(place), newIdentity: true)
            #expect(try exported == copy.export(after: .number(place.number), newIdentity: true))
            identities.formUnion(exported.map(\.store))
            try copy.close()
        }
        #expect(identities.count == 3)
        let error = storeError { _ = try original.export(newIdentity: true) }
        #expect(error?.code == .invalidArgument)
        try original.close()
    }

    /// The state of a group is not its own.
    @Test func aStateThatWasTakenIsNotExported() throws {
        let source = try GroupMember.store(seed: 1)
        let tag = try insertTag("group", in: source)
        let copy = try GroupMember.store(seed: 2)
        var reader = try source.stateReader()
        try copy.applyState { apply in while let part = try reader.next() { try apply(part) } }
        let object = try #require(try copy.snapshot().rows(of: "Tag").first).id
        try copy.write { try $0.update(object, ["rank": 1]) }
        let receiver = try GroupMember.store(seed: 3)
        for transaction in try source.export() { try receiver.apply(transaction) }
        for transaction in try copy.export(after: .number(0), newIdentity: true) {
            #expect(transaction.holds == nil)
            #expect(try receiver.apply(transaction).outcome == .applied)
        }
        #expect(try receiver.snapshot().rows(of: "Tag").map { $0["rank"] } == [1])
        #expect(tag.number == 1)
    }

    /// One transaction of each kind, as far as the count goes: then more of the first.
    private func write(
        _ count: Int, to store: Store, _ shared: ObjectID, _ tag: ObjectID, _ kept: ObjectID
    ) throws {
        var own: ObjectID?
        for index in 0..<count {
            switch index {
            case 1: try store.write { try $0.update(shared, ["name": "renamed"]) }
            case 2:
                let object = try #require(own)
                try store.write {
                    try $0.insert("Note", ["title": "new", "folder": .object(shared), "must": .object(object)])
                }
            case 3: try store.write { try $0.delete(kept) }
            case 4: try store.write { try $0.update(shared, ["guard": .object(tag)]) }
            default: own = try insertTag("since \(index)", in: store)
            }
        }
    }

    private func expect(_ count: Int, in store: Store) throws {
        let snapshot = try store.snapshot()
        let tags = try snapshot.rows(of: "Tag").compactMap { $0["name"]?.string }
        let since = (0..<count).filter { !(1...4).contains($0) }.map { "since \($0)" }
        let lost = (1...Self.lostCount).map { "not in the backup \($0)" }
        #expect(tags.sorted() == (since + lost + ["shared"]).sorted())
        let folder = try #require(try snapshot.rows(of: "Folder").first)
        #expect(folder["name"] == (count > 1 ? "renamed" : "shared"))
        #expect((folder["guard"]?.object != nil) == (count > 4))
        let notes = try snapshot.rows(of: "Note").compactMap { $0["title"]?.string }
        #expect(notes.sorted() == (count > 3 ? ["new"] : count > 2 ? ["kept", "new"] : ["kept"]))
    }
}
