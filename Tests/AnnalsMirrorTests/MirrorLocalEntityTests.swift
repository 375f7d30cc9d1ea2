// Entities that stay in their store (MO1 to MO3): the errors, renamings, and the history that is not needed. Random
// groups with local entities are in MirrorChurnTests.

import Annals
import AnnalsMirror
import FoundationEssentials
import TestSupport
import Testing

@Suite struct MirrorLocalEntityTests {
    private static let note = EntityDescription(
        "Note", attributes: [AttributeDescription("title", .string, isUnique: true)])
    private static let draft = EntityDescription("Draft", attributes: [AttributeDescription("title", .string)])

    private func begin(
        _ store: Store, _ exchange: SimulatedExchange, run: UInt64 = 1, local: [String]?
    ) throws -> MirrorPeer {
        try MirrorPeer.begin(
            store, exchange.courier(for: store.identifier.uuidString), firstNumber: run * 1_000_000, instance: run,
            localEntities: local, clock: { exchange.now })
    }

    private func step(_ peers: [MirrorPeer], _ exchange: SimulatedExchange, rounds: Int = 30) throws {
        for _ in 0..<rounds {
            for peer in peers { try peer.step() }
            exchange.advance(by: 1)
        }
    }

    private func insert(_ entity: String, _ title: String, in store: Store) throws {
        try store.write { _ = try $0.insert(entity, ["title": .string(title)]) }
    }

    private func titles(_ entity: String, in store: Store) throws -> [String] {
        try store.snapshot().rows(of: entity).compactMap { $0["title"]?.string }.sorted()
    }

    private func expectError(
        _ code: StoreError.Code, _ text: String, sourceLocation: SourceLocation = #_sourceLocation,
        _ body: () throws -> Void
    ) {
        let error = #expect(throws: StoreError.self, sourceLocation: sourceLocation, performing: body)
        #expect(error?.code == code, sourceLocation: sourceLocation)
        #expect(error?.message.contains(text) == true, "\(error?.message ?? "")", sourceLocation: sourceLocation)
    }

    // MARK: Relations

    /// The mirror begins to send when the relation is gone, and not before.
    @Test(arguments: [true, false])
    func noRelationLeadsOutOfThem(fromDraft: Bool) throws {
        let exchange = SimulatedExchange(seed: 1)
        let (from, to) = fromDraft ? ("Draft", "Note") : ("Note", "Draft")
        let entities = [Self.note, Self.draft].map { entity in
            var entity = entity
            if entity.name == from { entity.attributes.append(AttributeDescription("other", .object, target: to)) }
            return entity
        }
        let store = try Store(inMemory: entities)
        try insert("Note", "first", in: store)
        expectError(.invalidArgument, "“other” leads from “\(from)” to “\(to)”") {
            let peer = try begin(store, exchange, local: ["Draft"])
            try step([peer], exchange)
        }
        #expect(exchange.bodies.allSatisfy { !$0.contains("first".utf8) })
    }

    @Test func noAttributeMayReferToAnything() throws {
        let exchange = SimulatedExchange(seed: 1)
        let any = EntityDescription("Any", attributes: [AttributeDescription("object", .object)])
        let store = try Store(inMemory: [Self.note, Self.draft, any])
        expectError(.invalidArgument, "“object” of “Any” may refer to objects of any entity") {
            try step([try begin(store, exchange, local: ["Draft"])], exchange)
        }
        // Without local entities this is no error.
        try step([try begin(store, exchange, run: 2, local: [])], exchange)
    }

    // MARK: The choice

    @Test func anEntityStaysLocal() throws {
        let exchange = SimulatedExchange(seed: 1)
        let store = try Store(inMemory: [Self.note, Self.draft])
        try insert("Draft", "secret", in: store)
        let peer = try begin(store, exchange, local: ["Draft"])
        try step([peer], exchange)
        #expect(peer.phase == .member)
        try peer.save()
        expectError(.groupConflict, "“Draft” was a local entity until now") {
            _ = try begin(store, exchange, run: 2, local: [])
        }
        // Without the argument nothing changes.
        let next = try begin(store, exchange, run: 3, local: nil)
        try insert("Draft", "secret too", in: store)
        try insert("Note", "plain", in: store)
        try step([next], exchange)
        #expect(exchange.bodies.contains { $0.contains("plain".utf8) })
        #expect(!exchange.bodies.contains { $0.contains("secret".utf8) })
        #expect(try Mirror.lastStatus(of: store)?.localEntities == ["Draft"])
    }

    /// The group has none as soon as each store has confirmed the deletion, and not before.
    @Test func anEntityBecomesLocalWhileTheGroupHasNoObjectsOfIt() throws {
        let exchange = SimulatedExchange(seed: 1)
        let stores = try (0..<2).map { _ in try Store(inMemory: [Self.note, Self.draft]) }
        var peers = try stores.map { try begin($0, exchange, local: nil) }
        try insert("Draft", "of the group", in: stores[1])
        try step(peers, exchange)
        var run: UInt64 = 1
        func become(_ local: [String]) throws {
            run += 1
            try peers[0].save()
            peers[0] = try begin(stores[0], exchange, run: run, local: local)
        }
        expectError(.groupConflict, "“Draft” cannot become a local entity") { try become(["Draft"]) }
        try stores[0].write { transaction in
            for row in try stores[0].snapshot().rows(of: "Draft") { try transaction.delete(row.id) }
        }
        try peers[0].step()
        expectError(.groupConflict, "“Draft” cannot become a local entity") { try become(["Draft"]) }
        try step(peers, exchange)
        try become(["Draft"])
        try insert("Draft", "secret", in: stores[0])
        try step(peers, exchange)
        #expect(!exchange.bodies.contains { $0.contains("secret".utf8) })
        #expect(try titles("Draft", in: stores[1]).isEmpty)
    }

    @Test func namesAreChecked() throws {
        let store = try Store(inMemory: [Self.note, Self.draft])
        expectError(.invalidArgument, "This store has no entity “Drafts”") {
            _ = try Mirror(store, group: "g", through: .nats("nats://127.0.0.1:1"), localEntities: ["Drafts"])
        }
        // It was renamed since, or removed.
        let exchange = SimulatedExchange(seed: 1)
        try step([try begin(store, exchange, local: ["Draft"])], exchange)
        try store.changeSchema([.renameEntity("Draft", to: "Sketch")])
        for names in [["Draft"], ["Sketch"]] {
            _ = try Mirror(store, group: "g", through: .nats("nats://127.0.0.1:1"), localEntities: names)
            _ = try begin(store, exchange, run: 2, local: names)
        }
        // One that joins with an empty store gets its schema later.
        let empty = try Store(inMemory: [])
        _ = try Mirror(empty, group: "g", through: .nats("nats://127.0.0.1:1"), localEntities: ["Draft"])
    }

    /// Names that differ only in their Unicode form are different names.
    @Test func namesAreComparedByTheirBytes() throws {
        let exchange = SimulatedExchange(seed: 1)
        let forms = ["\u{e9}", "e\u{301}"]
        let store = try Store(
            inMemory: forms.map { EntityDescription($0, attributes: [AttributeDescription("title", .string)]) })
        let peer = try begin(store, exchange, local: [forms[1]])
        try insert(forms[0], "plain", in: store)
        try insert(forms[1], "secret", in: store)
        try step([peer], exchange)
        #expect(exchange.bodies.contains { $0.contains("plain".utf8) })
        #expect(!exchange.bodies.contains { $0.contains("secret".utf8) })
    }

    // MARK: Other stores

    /// A store whose group mirrors the entity takes nothing of it, and shows that. Other transactions arrive before.
    @Test func otherStoresMirrorTheEntity() throws {
        let exchange = SimulatedExchange(seed: 1)
        let stores = try (0..<2).map { _ in try Store(inMemory: [Self.note, Self.draft]) }
        let peers = [
            try begin(stores[0], exchange, local: nil), try begin(stores[1], exchange, local: ["Draft"]),
        ]
        try insert("Note", "plain", in: stores[0])
        try step(peers, exchange)
        try insert("Draft", "of 0", in: stores[0])
        try insert("Draft", "of 1", in: stores[1])
        try step(peers, exchange)
        #expect(try titles("Note", in: stores[1]) == ["plain"])
        #expect(try titles("Draft", in: stores[1]) == ["of 1"])
        #expect(try titles("Draft", in: stores[0]) == ["of 0"])
        #expect(peers[1].obstacle?.code == .groupConflict)
        #expect(peers[1].obstacle?.message.contains("The group has objects of “Draft”") == true)
    }

    @Test func aStateHasObjectsOfTheEntity() throws {
        let exchange = SimulatedExchange(seed: 1)
        let stores = try (0..<3).map { _ in try Store(inMemory: [Self.note, Self.draft]) }
        let members = try stores.prefix(2).map { try begin($0, exchange, local: nil) }
        try insert("Draft", "of 0", in: stores[0])
        try step(members, exchange)
        exchange.beginAgain()
        try insert("Draft", "of 2", in: stores[2])
        let peer = try begin(stores[2], exchange, local: ["Draft"])
        expectError(.groupConflict, "The group has objects of “Draft”") { try step(members + [peer], exchange) }
        #expect(try titles("Draft", in: stores[2]) == ["of 2"])
    }

    /// A store without such an entity needs not know of it.
    @Test func aStoreThatLacksTheEntityJoinsByAState() throws {
        let exchange = SimulatedExchange(seed: 1)
        let stores = try [[Self.note, Self.draft], [Self.note, Self.draft], []].map { try Store(inMemory: $0) }
        var peers = try stores.prefix(2).map { try begin($0, exchange, local: ["Draft"]) }
        try insert("Note", "plain", in: stores[0])
        try insert("Draft", "secret", in: stores[0])
        try step(peers, exchange)
        exchange.beginAgain()
        peers.append(try begin(stores[2], exchange, local: nil))
        try step(peers, exchange)
        #expect(peers[2].phase == .member)
        #expect(try stores[2].snapshot().entities.map(\.name) == ["Note"])
        #expect(try titles("Note", in: stores[2]) == ["plain"])
    }

    // MARK: Other features

    /// Under any of its names, also for transactions from before the renaming that are published after it.
    @Test func aRenamedEntityStaysLocal() throws {
        let exchange = SimulatedExchange(seed: 1)
        let stores = try (0..<2).map { _ in try Store(inMemory: [Self.note, Self.draft]) }
        var peers = try stores.map { try begin($0, exchange, local: ["Draft"]) }
        try step(peers, exchange)
        try insert("Draft", "secret", in: stores[0])
        try stores[0].changeSchema([.renameEntity("Draft", to: "Sketch")])
        try insert("Sketch", "secret too", in: stores[0])
        try insert("Note", "plain", in: stores[0])
        for (run, local) in [(2, nil), (3, ["Sketch"]), (4, ["Draft"])] as [(UInt64, [String]?)] {
            try peers[0].save()
            peers[0] = try begin(stores[0], exchange, run: run, local: local)
            try step(peers, exchange)
        }
        #expect(try titles("Note", in: stores[1]) == ["plain"])
        #expect(try stores[1].snapshot().entities.map(\.name).sorted() == ["Draft", "Note"])
        #expect(!exchange.bodies.contains { $0.contains("secret".utf8) || $0.contains("Sketch".utf8) })
        for peer in peers { #expect(peer.isQuiet) }
    }

    /// Another entity with its former name is another entity.
    @Test(arguments: [true, false]) func aFormerNameIsUsedAgain(isRemoved: Bool) throws {
        let exchange = SimulatedExchange(seed: 1)
        let stores = try (0..<2).map { _ in try Store(inMemory: [Self.note]) }
        try stores[0].changeSchema([.addEntity(Self.draft)])
        var peers = [try begin(stores[0], exchange, local: ["Draft"]), try begin(stores[1], exchange, local: nil)]
        try step(peers, exchange)
        // No mirror runs between these.
        try peers[0].save()
        try insert("Draft", "secret 1", in: stores[0])
        try stores[0].changeSchema([.renameEntity("Draft", to: "Sketch")])
        try insert("Sketch", "secret 2", in: stores[0])
        if isRemoved { try stores[0].changeSchema([.removeEntity("Sketch")]) }
        try stores[0].changeSchema([.addEntity(Self.draft)])
        try insert("Draft", "plain", in: stores[0])
        peers[0] = try begin(stores[0], exchange, run: 2, local: nil)
        try step(peers, exchange)
        #expect(try titles("Draft", in: stores[1]) == ["plain"])
        #expect(!exchange.bodies.contains { $0.contains("secret".utf8) || $0.contains("Sketch".utf8) })
        for peer in peers { #expect(peer.isQuiet) }
        // It can be local, too, as long as it has no objects.
        expectError(.groupConflict, "“Draft” cannot become") {
            _ = try begin(stores[0], exchange, run: 3, local: ["Draft", "Sketch"])
        }
    }

    /// Objects of local entities stay when a state replaces the others, also without history.
    @Test(arguments: [HistoryPolicy.full, .off]) func aStateLeavesThemAlone(policy: HistoryPolicy) throws {
        let exchange = SimulatedExchange(seed: 1)
        let stores = try (0..<3).map { _ in try Store(inMemory: [Self.note, Self.draft]) }
        var peers = try stores.prefix(2).map { try begin($0, exchange, local: ["Draft"]) }
        try insert("Note", "of the group", in: stores[0])
        try step(peers, exchange)
        exchange.beginAgain()
        try insert("Draft", "own", in: stores[2])
        try insert("Note", "brought along", in: stores[2])
        if policy == .off { try stores[2].changeSchema([.changeEntity("Draft", history: .off)]) }
        let before = try stores[2].snapshot().rows(of: "Draft").map(\.id)
        peers.append(try begin(stores[2], exchange, local: ["Draft"]))
        try step(peers, exchange)
        #expect(peers[2].phase == .member)
        #expect(try stores[2].snapshot().rows(of: "Draft").map(\.id) == before)
        for store in stores { #expect(try titles("Note", in: store) == ["brought along", "of the group"]) }
        #expect(try titles("Draft", in: stores[0]).isEmpty)
    }

    /// A store that writes only for itself, for weeks, does not keep its history for the group.
    @Test func theirHistoryIsCleaned() throws {
        let exchange = SimulatedExchange(seed: 1)
        let stores = try (0..<2).map { _ in try Store(inMemory: [Self.note, Self.draft]) }
        for store in stores { try store.setRetention(.none) }
        let peers = try stores.map { try begin($0, exchange, local: ["Draft"]) }
        try insert("Note", "plain", in: stores[0])
        try step(peers, exchange)
        for number in 0..<2000 { try insert("Draft", "\(number)", in: stores[0]) }
        try step(peers, exchange, rounds: 3)
        try peers[0].save()
        try stores[0].clean()
        let (oldest, newest) = try (stores[0].oldestToken.number, stores[0].currentToken.number)
        #expect(newest - oldest < 1000, "\(oldest) of \(newest)")
        // It goes on from there.
        let next = try begin(stores[0], exchange, run: 2, local: nil)
        try insert("Note", "later", in: stores[0])
        try insert("Note", "there", in: stores[1])
        try step([next, peers[1]], exchange)
        for store in stores { #expect(try titles("Note", in: store) == ["later", "plain", "there"]) }
        #expect(next.isQuiet)
    }
}
