// Steps of indexes in two processes: at each system call of one, the other one does all of its own.

import Annals
import FoundationEssentials
import SimulatedDisk
import TestSupport
import Testing

@Suite struct SearchInterleavingTests {
    /// The work of the other process in the meantime.
    enum Other: CaseIterable {
        case indexesAnotherEntity, indexesTheSame, joins, compacts, cleansHistory, removesTheConsumer
    }

    /// No step fails or is lost, wherever the other process comes between.
    @Test(arguments: Other.allCases, [false, true])
    func aStepIsDoneWhateverAnotherProcessDoes(_ other: Other, deletes: Bool) throws {
        let folder = try TemporaryDirectory()
        try Self.makeStore(folder.path("first.annals"))
        let first = try Data(contentsOf: URL(filePath: folder.path("first.annals")))
        var moments = 0
        for moment in 1... {
            let race = try SearchRace(Array(first), deletes)
            try race.run(interruptedAt: moment) { (handle, updates, entities) in
                switch other {
                case .indexesAnotherEntity: _ = try updates.moveOn(entities[1])
                case .indexesTheSame: _ = try updates.moveOn(entities[0])
                case .joins:
                    var limits = SearchLimits()
                    limits.segmentsPerMerge = 2
                    for entity in entities { _ = try updates.join(entity, limits) }
                case .compacts: _ = try handle.compact()
                case .cleansHistory:
                    _ = try handle.onNewest { (engine) throws(StoreError) in
                        _ = try engine.removeConsumer("_annals.search")
                        return try engine.deleteHistory(before: .max)
                    }
                case .removesTheConsumer:
                    _ = try handle.onNewest { (engine) throws(StoreError) in
                        try engine.removeConsumer("_annals.search")
                    }
                }
            }
            try race.check()
            if !race.wasInterrupted { break }
            moments += 1
        }
        #expect(moments > 2)
    }

    /// A store with two indexed entities.
    private static func makeStore(_ path: String) throws {
        let store = try Store(at: path, entities: [SearchNote.self], options: Store.Options(durability: .relaxed))
        for name in ["Page", "Old"] {
            try store.changeSchema([
                .addEntity(EntityDescription(name, attributes: [AttributeDescription("text", .string)]))
            ])
            try store.addSearchIndex(of: name, ["text": 1])
        }
        for _ in 0..<3 {
            try store.write { transaction in
                try transaction.insert("Page", ["text": .string("swift")])
                try transaction.insert("SearchNote", ["title": .string("linux")])
            }
            try store.updateSearchIndexes()
        }
        // It has kept the cursor far behind: the next step of each other index moves it.
        try store.removeSearchIndex(of: "Old")
        try store.close()
    }
}

/// Two processes with the store open, and changes to index. Sound as Sendable: all of it is on one thread.
private final class SearchRace: @unchecked Sendable {
    private let disk = SimulatedDisk()
    private var calls = 0
    private(set) var wasInterrupted = false
    private var failure: (any Error)?
    private static let path = "/data/s.annals"

    /// A step over deletions writes no block, so two of them have nothing in common but the consumer.
    private let deletes: Bool

    init(_ bytes: [UInt8], _ deletes: Bool) throws {
        self.deletes = deletes
        disk.install(bytes, at: Self.path)
    }

    private func open(_ process: UInt32) throws -> StoreHandle {
        var options = EngineOptions()
        options.log.synchronizesInBackground = false
        options.appliesRetention = false
        // The other one may hold the lock, and cannot give it back meanwhile.
        options.log.lockTimeoutMicroseconds = 10_000
        return StoreHandle(
            try Engine.open(
                Self.path, options: options, files: disk.process(process),
                environment: SimulatedEnvironment(
                    seed: 1, process: process, name: "race", stepMicroseconds: 100)))
    }

    func run(
        interruptedAt moment: Int, _ body: @escaping @Sendable (StoreHandle, SearchUpdates, [UInt16]) throws -> Void
    ) throws {
        let (first, second) = (try open(1), try open(2))
        let (updates, otherUpdates) = (SearchUpdates(first, UUID()), SearchUpdates(second, UUID()))
        let entities = try updates.entities()
        _ = try first.write(durability: .relaxed) { draft in
            if deletes { return try delete(entities, draft) }
            _ = try draft.insert(entity: entities[0], [.string("swift"), .string("on linux"), .int(1)])
            _ = try draft.insert(entity: entities[1], [.string("swift")])
        }
        // It has seen the changes.
        _ = try second.newest()
        disk.setOnCall { [unowned self] call in
            guard call.process == 1, !wasInterrupted, failure == nil else { return }
            calls += 1
            guard calls == moment else { return }
            wasInterrupted = true
            do { try body(second, otherUpdates, entities) } catch {
                if (error as? StoreError)?.code != .busy { failure = error }
            }
        }
        defer { disk.setOnCall(nil) }
        do { _ = try updates.moveOn(entities[0]) } catch {
            throw SearchRaceFailure("interrupted at call \(moment): \(error)")
        }
        disk.setOnCall(nil)
        if let failure { throw SearchRaceFailure("the other process at call \(moment): \(failure)") }
        // Whatever the other one has done, the step was not lost.
        try updates.finish()
        try first.close()
        try second.close()
    }

    private func delete(_ entities: [UInt16], _ draft: Draft) throws {
        for entity in entities {
            var objects: [ObjectID] = []
            try draft.base.scan(entity: entity) { (object, _) in
                objects.append(object)
                return true
            }
            for object in objects { try draft.delete(object) }
        }
    }

    func check() throws {
        let temporary = try TemporaryDirectory()
        let path = temporary.path("copy.annals")
        try Data(disk.contents(of: Self.path) ?? []).write(to: URL(filePath: path))
        let store = try Store(at: path)
        let (status, faults) = (try store.searchIndexes, try store.searchIndexFaults())
        let count = deletes ? 0 : 4
        guard status.map(\.unindexedObjects) == [0, 0], status.map(\.indexedObjects) == [count, count], faults.isEmpty
        else {
            throw SearchRaceFailure("the indexes are \(status), with the faults \(faults)")
        }
        try store.close()
        let report = try Checker.check(path, files: RealFileSystem())
        guard report.isIntact else { throw SearchRaceFailure("the checker found \(report.findings)") }
    }
}

private struct SearchRaceFailure: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}
