// Power cuts and deaths of processes while rows are written, indexed and compacted: afterwards a search index is right,
// or behind, and never wrong.
//
// A larger sample: ANNALS_CRASH_IMAGES=more.

import Annals
import FoundationEssentials
import SimulatedDisk
import TestSupport
import Testing

@Suite struct SearchCrashTests {
    private static let looksAtMore = ProcessInfo.processInfo.environment["ANNALS_CRASH_IMAGES"] == "more"

    @Test(arguments: 1...2) func everyPowerCutLeavesARightIndex(seed: UInt64) async throws {
        let checked = try await LongTests.run(besideOthers: true) {
            let work = try SearchCrashWork(seed)
            var options = CrashOptions(seed: seed)
            (options.exhaustiveBits, options.maximumSizes) = (Self.looksAtMore ? 4 : 1, 2)
            options.randomChoices = Self.looksAtMore ? 4 : 1
            options.maximumOfEachList = Self.looksAtMore ? 3 : 1
            let images = SearchedImages(work.check)
            let chosen = options
            work.disk.setOnChange { disk in
                disk.forEachCrashImage(chosen) { images.look(at: $0, isChosen: Self.looksAtMore || $0.hash % 24 == 0) }
            }
            try work.run()
            work.disk.setOnChange(nil)
            return try images.end()
        }
        print("seed \(seed): searches in \(checked) crash images")
        #expect(checked > 20)
    }

    @Test func everyDeathOfAProcessLeavesARightIndex() async throws {
        let deaths = try await LongTests.run(besideOthers: true) {
            let clean = try SearchCrashWork(9)
            try clean.run()
            try clean.check(clean.disk)
            var deaths = 0
            for kind in CallKind.allCases where ![.read, .open].contains(kind) {
                let count = clean.disk.callCount(of: kind)
                for occurrence in stride(from: 1, through: count, by: Self.looksAtMore ? 1 : 11) {
                    let work = try SearchCrashWork(9)
                    let bytes = kind == .write ? occurrence * 67 % 900 : 0
                    work.disk.addFault(Fault(.death(afterBytes: bytes), on: kind, occurrence: occurrence, process: 1))
                    do { try work.run() } catch is StoreError { deaths += 1 }
                    work.disk.removeAllFaults()
                    work.disk.kill(1)
                    do { try work.check(work.disk) } catch {
                        throw SearchCrash("death in call \(occurrence) of \(kind): \(error)")
                    }
                }
            }
            return deaths
        }
        print("searches after \(deaths) deaths")
        #expect(deaths > 10)
    }
}

private struct SearchCrash: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

/// A store on a simulated disk, and changes of it with steps of its index. Sound as Sendable: one thread uses it.
private final class SearchCrashWork: @unchecked Sendable {
    let disk = SimulatedDisk()
    private let seed: UInt64
    private let environment: SimulatedEnvironment
    private let temporary: TemporaryDirectory
    private static let path = "/data/s.annals"

    init(_ seed: UInt64) throws {
        self.seed = seed
        environment = SimulatedEnvironment(seed: seed, process: 1, name: "search", stepMicroseconds: 1)
        temporary = try TemporaryDirectory()
        let path = temporary.path("first.annals")
        let store = try Store(at: path, entities: [SearchNote.self], options: Store.Options(durability: .relaxed))
        try store.insert(contentsOf: (0..<20).map { SearchNote(title: "swift \($0)", text: "on linux", rank: $0) })
        try store.close()
        disk.install(Array(try Data(contentsOf: URL(filePath: path))), at: Self.path)
    }

    private static var options: EngineOptions {
        var options = EngineOptions()
        options.log.limits.minimumPreallocationBytes = 4096
        options.log.limits.maximumPreallocationBytes = 16384
        options.log.limits.mappingReserveBytes = 4 << 20
        options.log.synchronizesInBackground = false
        options.dirtyNodeBytes = 16 << 10
        options.checkpointTailBytes = 8 << 10
        options.appliesRetention = false
        return options
    }

    /// Inserts, updates and deletes, with a step after most transactions, and compactions.
    func run() throws {
        let engine = try Engine.open(
            Self.path, options: Self.options, files: disk.process(1), environment: environment)
        let handle = StoreHandle(engine)
        let updates = SearchUpdates(handle, UUID())
        guard let notes = try handle.newest().view.catalog.number(ofEntity: "SearchNote") else {
            throw SearchCrash("the store has no notes")
        }
        var random = SeededRandom(seed)
        var limits = SearchLimits()
        (limits.termsPerSegment, limits.segmentsPerMerge) = (30, 2)
        for round in 0..<10 {
            try change(handle, notes, &random)
            if round % 3 != 2 { _ = try updates.moveOn(notes, limits) }
            if round % 2 == 1 { _ = try updates.join(notes, limits) }
            if round == 4 || round == 7 { _ = try handle.compact(.lowered) }
        }
        try handle.close()
    }

    private func change(_ handle: StoreHandle, _ notes: UInt16, _ random: inout SeededRandom) throws {
        var objects: [ObjectID] = []
        try handle.newest().view.scan(entity: notes) { (object, _) in
            objects.append(object)
            return true
        }
        let (updated, deleted) = (random.one(of: objects), random.one(of: objects))
        let texts = (0..<4).map { _ in SearchWords.text(&random) }
        _ = try handle.write(author: "crash", durability: random.happens(0.3) ? .full : .relaxed) { draft in
            for text in texts { _ = try draft.insert(entity: notes, [.string(text), .string("swift"), .int(0)]) }
            try draft.update(updated, [(0, .string(texts[0] + " swim"))])
            if deleted != updated { try draft.delete(deleted) }
        }
    }

    /// Opens a copy of what the disk has, as a program would, and searches it.
    func check(_ disk: SimulatedDisk) throws {
        guard let bytes = disk.contents(of: Self.path) else { throw SearchCrash("the store is gone") }
        let path = temporary.path("copy.annals")
        try Data(bytes).write(to: URL(filePath: path))
        let store = try Store(at: path, entities: [SearchNote.self], options: Store.Options(durability: .relaxed))
        try compare(store)
        try store.updateSearchIndexes()
        guard try store.searchIndexes.map(\.unindexedObjects) == [0] else { throw SearchCrash("the index is behind") }
        try compare(store)
        try store.close()
        let report = try Checker.check(path, files: RealFileSystem())
        // A torn tail is what a power cut leaves.
        guard report.findings.allSatisfy({ !$0.isDamage || $0.rule == "F3" }) else {
            throw SearchCrash("the checker found \(report.findings)")
        }
    }

    private func compare(_ store: Store) throws {
        if let fault = try store.searchIndexFaults().first { throw SearchCrash("\(fault)") }
        let snapshot = try store.snapshot()
        let oracle = try SearchOracle<SearchNote>(snapshot)
        for query: SearchQuery in ["swift", "swim", "linux", .not("on"), .prefix("a"), .phrase("on linux")] {
            if let difference = try oracle.difference(from: snapshot, query) { throw SearchCrash(difference) }
        }
    }
}

/// The images that were looked at, and the first failure. Sound as Sendable: the hooks run on one thread.
private final class SearchedImages: @unchecked Sendable {
    private let check: (SimulatedDisk) throws -> Void
    private var seen: Set<UInt64> = []
    private var failure: SearchCrash?

    init(_ check: @escaping (SimulatedDisk) throws -> Void) { self.check = check }

    func look(at image: CrashImage, isChosen: Bool) {
        guard failure == nil, isChosen, seen.insert(image.hash).inserted else { return }
        do { try check(image.makeDisk()) } catch {
            failure = SearchCrash("crash point \(image.crashPoint), image \(image.number): \(error)")
        }
    }

    func end() throws -> Int {
        if let failure { throw failure }
        return seen.count
    }
}
