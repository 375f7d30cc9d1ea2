// All who read a store while it is changed in the ways of Ways.swift, and what each of them must show.

import Annals
import FoundationEssentials
import Synchronization
import TestSupport

/// Handles that read in different ways, contexts, lists, and a tracker.
@MainActor final class WaysReaders {
    private let stores: [Store]
    /// Merges when it is told to, and has an edit that is never saved.
    private let merging: Context
    private let mergingList: Results<Ways.Part>
    private let edited: Object<Ways.Part>
    /// Follows by itself, and has a new object that is never saved.
    private let following: Context
    private let followingList: Results<Ways.Part>
    private let boxList: Results<Ways.Box>
    private var results: [String] = []
    private var endOfResults: String?
    private var task: Task<Void, Never>?
    private let tracker: HistoryTracker
    private let observed = Mutex<[ObjectID: String]>([:])
    private let observedBoxes = Mutex<[ObjectID: String]>([:])
    /// The parts as the changes of the history say, up to a place.
    private var replayed: [ObjectID: String] = [:]
    private var place: HistoryToken
    private var past: [(token: HistoryToken, lines: [String])] = []
    private let boxes: [ObjectID: Int]
    /// Whether history was cleaned since the last check.
    private var mayLackHistory = false
    /// Until then, who only reads may not have seen which file has the store's name.
    private var mayBeLate = ContinuousClock.now

    init(_ path: String, _ options: Store.Options) throws {
        let readings: [(Store.Access, Store.Reading)] = [
            (.readWrite, .mapped), (.readWrite, .copied), (.readOnly, .mapped),
        ]
        stores = try readings.map { access, reading in
            var options = options
            (options.access, options.reading) = (access, reading)
            return try Store(at: path, entities: Ways.entities, options: options)
        }
        merging = stores[2].makeContext(author: "merging")
        mergingList = try merging.results(Ways.Part.self)
        guard let first = try merging.fetch(Ways.Part.self).first else { throw OracleDifference("there is no part") }
        edited = first
        edited.memo = "never saved"
        following = stores[1].makeContext(author: "following")
        followingList = try following.results(Ways.Part.self)
        boxList = try following.results(Ways.Box.self)
        var part = Ways.Part()
        part.key = -1
        following.insert(part)
        try following.follow()
        tracker = try HistoryTracker(
            store: stores[0], currentAuthor: "reader", allAuthors: [], includingMirroring: true, logLevel: 0,
            autoStart: false)
        place = try stores[0].currentToken
        let snapshot = try stores[0].snapshot()
        let references = try snapshot.references(to: Ways.Box.self)
        boxes = Dictionary(uniqueKeysWithValues: references.enumerated().map { ($1.id, $0) })
        replayed = try Self.parts(snapshot, boxes)
        try setBoxes(snapshot)
        observe()
        tracker.start()
        let list = stores[1].results(Ways.Part.self)
        task = Task { [weak self] in
            do {
                for try await update in list {
                    guard let self else { return }
                    results = update.values.map { line($0) }.sortedByKey
                }
            } catch { self?.endOfResults = "\(error)" }
        }
    }

    func close() async throws {
        await tracker.stop()
        task?.cancel()
        await task?.value
        following.close()
        merging.close()
        for store in stores { try store.close() }
    }

    private func observe() {
        let boxes = boxes
        observed.withLock { $0 = replayed }
        tracker.observe(
            Ways.Part.self, Set(HistoryChange.Kind.allCases),
            { [weak self] changes in
                for change in changes {
                    self?.observed.withLock { $0[change.reference.id] = change.after.map { Self.line($0, boxes) } }
                }
            },
            resynchronized: { [weak self] snapshot in
                let parts = try Self.parts(snapshot, boxes)
                self?.observed.withLock { $0 = parts }
            })
        // Nobody sets what changes of boxes.
        tracker.observe(
            Ways.Box.self, [.update],
            { [weak self] changes in
                for change in changes {
                    self?.observedBoxes.withLock { $0[change.reference.id] = change.after.map { Self.line($0) } }
                }
            },
            resynchronized: { [weak self] snapshot in try self?.setBoxes(snapshot) })
    }

    nonisolated private func setBoxes(_ snapshot: Snapshot) throws {
        let references = try snapshot.references(to: Ways.Box.self)
        let lines = try snapshot.fetch(Ways.Box.self).map { Self.line($0) }
        observedBoxes.withLock { $0 = Dictionary(uniqueKeysWithValues: zip(references.map(\.id), lines)) }
    }

    // MARK: Lines

    nonisolated private static func line(_ item: some WaysItem, _ boxes: [ObjectID: Int]) -> String {
        WaysItems.line(item.key, item.rank, item.text.count, item.box.flatMap { boxes[$0.id] })
    }

    nonisolated private static func line(_ box: Ways.Box) -> String {
        "\(box.number): total \(box.total), of visits \(box.visitTotal)"
    }

    private func line(_ item: some WaysItem) -> String { Self.line(item, boxes) }

    private func lines(of snapshot: Snapshot) throws -> [String] {
        try snapshot.fetch(Ways.Part.self).map { line($0) }.sortedByKey
    }

    private func lines(_ objects: some Sequence<Object<Ways.Part>>) -> [String] {
        objects.filter { $0.key >= 0 }.map { line($0.objectStatus.snapshot) }.sortedByKey
    }

    nonisolated private static func parts(_ snapshot: Snapshot, _ boxes: [ObjectID: Int]) throws -> [ObjectID: String] {
        var parts: [ObjectID: String] = [:]
        for reference in try snapshot.references(to: Ways.Part.self) {
            parts[reference.id] = try snapshot[reference].map { line($0, boxes) }
        }
        return parts
    }

    // MARK: Checking

    private func require(_ found: [String], _ wanted: [String], _ who: String) throws {
        guard found == wanted else {
            let (more, less) = (Set(found).subtracting(wanted).sorted(), Set(wanted).subtracting(found).sorted())
            throw OracleDifference("\(who): \(found.count) objects, with \(more) and without \(less)")
        }
    }

    /// Throws if somebody does not show these parts and visits: at once, or soon if they wait for changes. Whoever only
    /// reads looks once a second whether a backup has taken the place of the file.
    func check(_ parts: WaysItems, _ visits: WaysItems) async throws {
        let wanted = parts.lines
        let totals = (0..<3).map { number in
            "\(number): total \(parts.total(ofBox: number)), of visits \(visits.total(ofBox: number))"
        }
        for (number, store) in stores.enumerated() {
            while ContinuousClock.now < mayBeLate, try lines(of: store.snapshot()) != wanted {
                try await Task.sleep(for: .milliseconds(1))
            }
            let snapshot = try store.snapshot()
            try require(try lines(of: snapshot), wanted, "store \(number)")
            try require(
                try snapshot.fetch(Ways.Visit.self).map { line($0) }.sortedByKey, visits.lines,
                "visits of store \(number)")
            for rank in Set(parts.items.values.map(\.rank)) {
                let found = try snapshot.fetch(Ways.Part.self, where: #Predicate { $0.rank == rank }).map { line($0) }
                try require(
                    found.sortedByKey, wanted.filter { $0.contains(": rank \(rank),") }, "rank \(rank) of \(number)")
            }
            try require(try snapshot.fetch(Ways.Box.self).map { Self.line($0) }, totals, "boxes of store \(number)")
            try checkSearches(of: snapshot, parts, visits, "store \(number)")
        }
        try checkHistory(wanted)
        try merging.merge()
        try require(lines(mergingList), wanted, "the merging context")
        try require(lines(try merging.fetch(Ways.Part.self)), wanted, "a fetch of the merging context")
        guard edited.objectStatus.changedValues.keys.sorted() == ["memo"], edited.memo == "never saved" else {
            throw OracleDifference(
                "the merging context has edits of \(edited.objectStatus.changedValues.keys.sorted())")
        }
        try checkSearches(of: merging, parts)
        try await soon(wanted, "the following context") { [self] in lines(followingList) }
        guard following.insertedObjects(Ways.Part.self).map(\.key) == [-1],
            following.changedObjects(Ways.Part.self).isEmpty
        else { throw OracleDifference("the following context has other edits") }
        try await soon(wanted, "the results of the store") { [self] in results }
        try await soon(wanted, "the observer") { [self] in observed.withLock { Array($0.values) }.sortedByKey }
        try await soon(totals, "the boxes of the following context") { [self] in
            boxList.map { Self.line($0.objectStatus.snapshot) }
        }
        try await soon(totals, "the observer of boxes") { [self] in
            observedBoxes.withLock { Array($0.values) }.sortedByKey
        }
        if let error = following.followError { throw OracleDifference("following ended: \(error)") }
    }

    /// Every search finds what has its words, whether it was indexed since or not.
    private func checkSearches(
        of snapshot: Snapshot, _ parts: WaysItems, _ visits: WaysItems, _ who: String
    ) throws {
        for rank in Set(parts.items.values.map(\.rank)) {
            let found = try snapshot.search(Ways.Part.self, for: .word("w\(rank)")).map { line($0.value) }
            try require(
                found.sortedByKey, parts.lines.filter { $0.contains(": rank \(rank),") }, "a search of \(who)")
        }
        for rank in Set(visits.items.values.map(\.rank)) {
            let found = try snapshot.search(Ways.Visit.self, for: .word("w\(rank)")).map { line($0.value) }
            try require(
                found.sortedByKey, visits.lines.filter { $0.contains(": rank \(rank),") }, "visits found in \(who)")
        }
        guard try snapshot.searchCount(Ways.Part.self, for: "rank") == parts.items.count else {
            throw OracleDifference("\(who) does not count all parts")
        }
    }

    private func checkSearches(of context: Context, _ parts: WaysItems) throws {
        for rank in Set(parts.items.values.map(\.rank)) {
            let found = try context.search(Ways.Part.self, for: .word("w\(rank)")).map(\.object)
            try require(lines(found), parts.lines.filter { $0.contains(": rank \(rank),") }, "a search of the context")
        }
        guard try context.search(Ways.Part.self, for: "never").map(\.object.key) == [edited.key] else {
            throw OracleDifference("the unsaved edit is not found")
        }
    }

    private func checkHistory(_ wanted: [String]) throws {
        for (token, lines) in past {
            let found = try Self.parts(stores[1].snapshot(asOf: token), boxes)
            try require(found.values.sortedByKey, lines, "the state of \(token)")
        }
        do { try replay() } catch let error as StoreError where error.code == .tokenExpired && mayLackHistory {
            // A step of an index came after the last change, and was cleaned with it.
            replayed = try Self.parts(stores[2].snapshot(), boxes)
        }
        mayLackHistory = false
        place = try stores[2].currentToken
        try require(replayed.values.sortedByKey, wanted, "the history")
        past.append((place, wanted))
        if past.count > 3 { past.removeFirst() }
    }

    private func replay() throws {
        for transaction in try stores[2].history(
            HistoryRequest(after: .token(place), entities: ["Part"]), includingValues: true)
        {
            for change in transaction.changes {
                replayed[change.object] = try change.after(of: Ways.Part.self).map { line($0) }
            }
        }
    }

    /// Another file has taken the store's place.
    func fileWasReplaced() { mayBeLate = .now + .seconds(2) }

    /// What was before is not there any more.
    func forgetPast() { (past, mayLackHistory) = ([], true) }

    private func soon(_ wanted: [String], _ who: String, _ found: () -> [String]) async throws {
        let deadline = ContinuousClock.now + .seconds(300)
        while found() != wanted {
            if let endOfResults { throw OracleDifference("the results have ended: \(endOfResults)") }
            if ContinuousClock.now > deadline { return try require(found(), wanted, who) }
            try await Task.sleep(for: .milliseconds(1))
        }
    }
}

extension Collection<String> {
    /// Lines begin with a number and a colon.
    fileprivate var sortedByKey: [String] {
        func key(_ line: String) -> Int { Int(line.prefix { $0 != ":" }) ?? 0 }
        return sorted { key($0) < key($1) }
    }
}
