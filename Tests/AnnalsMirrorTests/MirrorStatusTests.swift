// The public face of a mirror: wrong routes and names, its status and the stream of it, conflicts as values.

import Annals
import AnnalsMirror
import FoundationEssentials
import TestSupport
import Testing

@Suite(.serialized, .timeLimit(.minutes(20))) struct MirrorStatusTests {
    private func expectIntact(_ stores: [Store]) throws {
        for store in stores {
            let report = try Checker.check(store.path, options: CheckOptions(), files: try Store.files(for: store.path))
            #expect(report.isIntact, "\(report.findings)")
        }
    }

    /// Waits for a status, by the stream.
    private func status(
        of mirror: Mirror, _ holds: @Sendable (Mirror.Status) throws -> Bool
    ) async throws -> Mirror.Status {
        for await status in mirror.statusUpdates() where try holds(status) { return status }
        throw StoreError(.timeout, "The stream ended at \(mirror.status).")
    }

    @Test func impossibleRoutesAndNamesAreErrorsOfTheInitializer() throws {
        let store = try Store(inMemory: MergeModel.entities)
        let routes: [Mirror.Route] = [
            .nats(""), .nats("tls://host"), .nats("http://host"), .nats("nats://host:0"),
            .nats("nats://host", replicas: 0),
            .nats("nats://host", replicas: 6), .nats("nats://host", domain: "a.b"), .nats("nats://host", domain: ""),
            .nats("nats://host", user: "u", password: "p", replicas: 9), .folder(""), .folder("a\0b"),
        ]
        for (index, route) in routes.enumerated() {
            let error = #expect(throws: StoreError.self) { try Mirror(store, group: "g", through: route) }
            #expect(error?.code == .invalidArgument, "\(index)")
        }
        for group in ["", String(repeating: "g", count: 100)] {
            for route in [Mirror.Route.nats("host"), .folder("/")] {
                let error = #expect(throws: StoreError.self) { try Mirror(store, group: group, through: route) }
                #expect(error?.code == .invalidArgument)
            }
        }
        for name in ["", String(repeating: "é", count: 128)] {
            let error = #expect(throws: StoreError.self) {
                try Mirror(store, group: "g", through: .folder("/"), name: name)
            }
            #expect(error?.code == .invalidArgument)
        }
        let longest = String(repeating: "n", count: 255)
        #expect(try Mirror(store, group: "g", through: .folder("/"), name: longest).name == longest)
        #expect(try !Mirror(store, group: "g", through: .folder("/")).name.isEmpty)
        #expect(try Mirror.lastStatus(of: store) == nil)
        try expectIntact([store])
    }

    /// Their changes are in no transaction.
    @Test func entitiesWithoutHistoryStayAndAreNamed() async throws {
        let folder = try TemporaryDirectory()
        let entities = [
            EntityDescription("Line", attributes: [AttributeDescription("text", .string)], history: .off),
            EntityDescription("Note", attributes: [AttributeDescription("text", .string)]),
        ]
        let stores = try (0..<2).map { _ in try Store(inMemory: entities) }
        let mirrors = try stores.map { try Mirror($0, group: "g", through: .folder(folder.path)) }
        for mirror in mirrors { try await mirror.start() }
        for (index, store) in stores.enumerated() {
            try await store.write {
                try $0.insert("Line", ["text": "line"])
                try $0.insert("Note", ["text": .string("note \(index)")])
            }
        }
        for (store, mirror) in zip(stores, mirrors) {
            _ = try await status(of: mirror) { _ in try store.snapshot().count(of: "Note") == 2 }
            #expect(mirror.status.weaknesses.contains { $0.hasPrefix("Objects of Line are not mirrored") })
            #expect(try store.snapshot().count(of: "Line") == 1)
            await mirror.stop()
        }
        try expectIntact(stores)
    }

    @Test func aStoreThatIsOpenForReadingIsAnError() async throws {
        let folder = try TemporaryDirectory()
        let store = try Store(at: folder.path("store"), entities: MergeModel.entities)
        var options = Store.Options()
        options.access = .readOnly
        let reader = try Store(at: folder.path("store"), options: options)
        let mirror = try Mirror(reader, group: "g", through: .folder(folder.path))
        try await mirror.start()
        let shown = try await status(of: mirror) { $0.lastError != nil }
        #expect(shown.lastError?.code == .readOnly)
        await mirror.stop()
        for store in [reader, store] { try store.close() }
        try expectIntact([store])
    }

    @Test func aMissingFolderIsAnErrorOfTheStatusUntilItExists() async throws {
        let folder = try TemporaryDirectory()
        let stores = [try Store(inMemory: MergeModel.entities)]
        let mirror = try Mirror(stores[0], group: "g", through: .folder(folder.path("shared")))
        #expect(!mirror.status.isRunning)
        try await mirror.start()
        let failed = try await status(of: mirror) { $0.lastError != nil }
        #expect(failed.isRunning && failed.lastError?.code == .courierUnreachable)
        try FileManager.default.createDirectory(atPath: folder.path("shared"), withIntermediateDirectories: false)
        try await stores[0].write { try $0.insert("Tag", ["name": "a"]) }
        let connected = try await status(of: mirror) { $0.lastError == nil && $0.published > 0 }
        #expect(connected.isRunning)
        await mirror.stop()
        #expect(!mirror.status.isRunning && mirror.status.lastError == nil)
        try expectIntact(stores)
    }

    @Test func theStatusShowsWhatIsParkedUntilItFits() async throws {
        let folder = try TemporaryDirectory()
        let stores = try [AttributeType.int, .string].map { type in
            try Store(inMemory: [EntityDescription("Item", attributes: [AttributeDescription("rank", type)])])
        }
        let mirrors = try stores.map { try Mirror($0, group: "g", through: .folder(folder.path)) }
        for mirror in mirrors { try await mirror.start() }
        try await stores[0].write { try $0.insert("Item", ["rank": 7]) }
        let shown = try await status(of: mirrors[1]) { !$0.parked.isEmpty }
        #expect(shown.lastError == nil && shown.parked.allSatisfy { $0.store == stores[0].identifier })
        #expect(shown.parked.allSatisfy { $0.reason.code == .schemaMismatch })
        #expect(shown.parked.last?.reason.message.contains("rank") == true)
        await mirrors[1].stop()
        #expect(try Mirror.lastStatus(of: stores[1])?.parked == shown.parked)
        try await mirrors[1].start()
        try stores[1].changeSchema([
            .removeAttribute("rank", from: "Item"), .addAttribute(AttributeDescription("rank", .int), to: "Item"),
        ])
        _ = try await status(of: mirrors[1]) {
            try $0.parked.isEmpty && stores[1].snapshot().rows(of: "Item").count == 1
        }
        #expect(try stores[1].snapshot().rows(of: "Item").first?["rank"] == 7)
        for mirror in mirrors { await mirror.stop() }
        try expectIntact(stores)
    }

    @Test func aStreamBeginsWithThePresentStatusAndEndsWithTheMirror() async throws {
        let folder = try TemporaryDirectory()
        let store = try Store(inMemory: MergeModel.entities)
        var mirror: Mirror? = try Mirror(store, group: "g", through: .folder(folder.path))
        let (first, second) = (try #require(mirror?.statusUpdates()), try #require(mirror?.statusUpdates()))
        try await mirror?.start()
        await mirror?.stop()
        mirror = nil
        for stream in [first, second] {
            var last: Mirror.Status?
            for await status in stream { last = status }
            #expect(last?.isRunning == false)
        }
        try expectIntact([store])
    }

    @Test func aConflictNamesTheObjectOfThisStoreAndIsCountedOverAStop() async throws {
        let folder = try TemporaryDirectory()
        let stores = try (0..<2).map { _ in try Store(inMemory: MergeModel.entities) }
        let mirrors = try stores.enumerated().map {
            try Mirror($0.element, group: "g", through: .folder(folder.path), name: "store \($0.offset)")
        }
        // An object of another entity, so that the numbers of the objects differ.
        try await stores[1].write { try $0.insert("Tag", ["name": "other"]) }
        try await stores[0].write { try $0.insert("Tag", ["name": "a"]) }
        for mirror in mirrors { try await mirror.start() }
        @Sendable func tag(_ index: Int) throws -> ObjectID? {
            try stores[index].snapshot().rows(of: "Tag", where: "name", equals: "a").first?.id
        }
        _ = try await status(of: mirrors[1]) { _ in try tag(1) != nil }
        for mirror in mirrors { await mirror.stop() }
        let (here, there) = (try #require(try tag(0)), try #require(try tag(1)))
        #expect(here != there)
        // An update against a deletion that is before it in the group's order: the update is left out.
        for rank in 1...3 { try await stores[0].write { try $0.update(here, ["rank": .int(Int64(rank))]) } }
        try await stores[1].write { try $0.delete(there) }
        for mirror in mirrors { try await mirror.start() }
        for (mirror, object) in zip(mirrors, [here, there]) {
            let status = try await status(of: mirror) { $0.conflicts > 0 }
            let conflict = try #require(status.recentConflicts.first)
            #expect(status.conflicts == status.recentConflicts.count)
            #expect(conflict.object == object && conflict.reason == .objectIsGone)
            #expect(conflict.loser == stores[0].identifier)
            #expect(status.peers.count == 1 && status.peers[0].name != "")
        }
        for mirror in mirrors {
            let before = mirror.status.conflicts
            await mirror.stop()
            try await mirror.start()
            #expect(mirror.status.conflicts == before)
            await mirror.stop()
        }
        try expectIntact(stores)
    }

    @Test func twoValuesOfOneAttributeAreAConflictWithBoth() async throws {
        let folder = try TemporaryDirectory()
        let stores = try (0..<2).map { _ in try Store(inMemory: MergeModel.entities) }
        let mirrors = try stores.map { try Mirror($0, group: "g", through: .folder(folder.path)) }
        for (store, name) in zip(stores, ["a", "b"]) {
            try await store.write { try $0.insert("Tag", ["name": .string(name)]) }
        }
        for mirror in mirrors { try await mirror.start() }
        @Sendable func row(_ index: Int) throws -> Row? {
            try stores[index].snapshot().rows(of: "Tag", where: "name", equals: "a").first
        }
        // Each knows the other's numbers in the group's order.
        for (store, mirror) in zip(stores, mirrors) {
            _ = try await status(of: mirror) { _ in try store.snapshot().rows(of: "Tag").count == 2 }
        }
        for mirror in mirrors { await mirror.stop() }
        let objects = try (0..<2).map { try #require(try row($0)).id }
        // The last one comes after the other store's in the group's order.
        for rank in 1...2 { try await stores[0].write { try $0.update(objects[0], ["rank": .int(Int64(rank))]) } }
        try await stores[1].write { try $0.update(objects[1], ["rank": 3]) }
        for mirror in mirrors { try await mirror.start() }
        for (index, mirror) in mirrors.enumerated() {
            let status = try await status(of: mirror) { status in
                try row(index)?["rank"] == 2 && status.conflicts > 0
            }
            let conflict = try #require(status.recentConflicts.last)
            #expect(conflict.object == objects[index] && conflict.attribute == "rank")
            #expect(conflict.reason == .overwritten && conflict.lost == 3 && conflict.loser == stores[1].identifier)
            #expect(index == 1 || conflict.kept == 2)
            await mirror.stop()
        }
        try expectIntact(stores)
    }

    @Test func aStoreThatWasDeclaredLostShowsItAndHoldsNoHistory() async throws {
        let folder = try TemporaryDirectory()
        let stores = try (0..<2).map { _ in try Store(inMemory: MergeModel.entities) }
        let mirrors = try stores.map { try Mirror($0, group: "g", through: .folder(folder.path)) }
        try await stores[0].write { try $0.insert("Tag", ["name": "a"]) }
        for mirror in mirrors { try await mirror.start() }
        _ = try await status(of: mirrors[0]) { _ in
            try stores[1].snapshot().rows(of: "Tag").count == 1
        }
        await mirrors[1].stop()
        #expect(try stores[1].consumer("annals.mirror") != nil)
        try await mirrors[0].forget(stores[1].identifier)
        try await mirrors[1].start()
        _ = try await status(of: mirrors[1]) { $0.lastError?.code == .leftGroup }
        // It lasts: what the program wants from the group fails at once.
        do {
            try await mirrors[1].leave()
            Issue.record("a lost store has left its group")
        } catch let error as StoreError {
            #expect(error.code == .leftGroup)
        }
        #expect(mirrors[1].status.lastError?.code == .leftGroup)
        #expect(try stores[1].consumer("annals.mirror") == nil)
        // A later start registers nothing.
        await mirrors[1].stop()
        try await mirrors[1].start()
        _ = try await status(of: mirrors[1]) { $0.lastError?.code == .leftGroup }
        #expect(try stores[1].consumer("annals.mirror") == nil)
        for mirror in mirrors { await mirror.stop() }
        try expectIntact(stores)
    }
}
