// One process of an interleaving: what it can do, and what it makes sure of on the way.

import Annals
import SimulatedDisk

/// Sound although it is shared: its thread uses it while it has the baton, and the test before and after.
final class Player: @unchecked Sendable {
    let index: Int
    let model: InterleavedStore
    let journal: Journal
    let baton: Baton
    let files: InterleavedFiles
    private let environment: SimulatedEnvironment
    private let options: EngineOptions
    /// Nil while it has not opened the store, and once it has closed it.
    private(set) var store: StoreHandle?
    /// Taken before the other one begins.
    private var earlier: (engine: Engine, view: View, authors: [String])?
    var failure: StoreError?
    var violation: String?
    /// What scenarios count on to have happened at least once, over all schedules.
    var seen: Set<String> = []

    init(
        _ index: Int, _ disk: SimulatedDisk, _ baton: Baton, _ run: InterleavingRun, _ journal: Journal
    ) {
        let id = UInt32(11 + index)
        (self.index, self.model, self.journal, self.baton) = (index, run.model, journal, baton)
        files = InterleavedFiles(disk, id, baton, index, sabotage: run.sabotage)
        options = InterleavedStore.options(isMapped: run.scenario.isMapped, keepsLock: run.scenario.keepsLock)
        environment = SimulatedEnvironment(seed: UInt64(id), process: id, name: "process \(index)")
        environment.setOnSleep { _ in baton.sleep(index) }
    }

    func run(_ body: (Player) throws -> Void) {
        do {
            try body(self)
        } catch let error as StoreError {
            failure = error
        } catch {
            violation = "\(error)"
        }
    }

    private func opened() throws -> StoreHandle {
        guard let store else { throw InterleavingFailure("the scenario has not opened the store") }
        return store
    }

    // MARK: What it can do

    func open() throws {
        let known = journal.last
        let store = StoreHandle(
            try Engine.open(Machine.path, options: options, files: files, environment: environment))
        self.store = store
        try check(store, known: known)
    }

    func commit(_ author: String, _ durability: Durability = .full) throws {
        try model.commit(author, durability, try opened(), journal)
    }

    /// The newest state has everything that was acknowledged before.
    @discardableResult
    func look() throws -> [String] { try check(try opened(), known: journal.last) }

    @discardableResult
    private func check(_ store: StoreHandle, known: UInt64) throws -> [String] {
        let (engine, view) = try store.newest()
        return try model.check(view, engine, journal, known: known)
    }

    func compact() throws {
        let known = journal.last
        let result = try opened().compact(.lowered)
        guard result.bytesAfter > 0 else { throw InterleavingFailure("the compacted file is empty") }
        journal.isDurable(through: known)
        seen.insert("compacted")
    }

    /// What a thread does when commits have ceased.
    func releaseLock() throws { try opened().newest().engine.log.releaseIdleLock() }

    func clean(before number: UInt64) throws {
        _ = try opened().onNewest { (engine) throws(StoreError) in
            try engine.deleteHistory(before: number, durability: .full)
        }
    }

    func close() throws {
        let known = journal.last
        let store = try opened()
        self.store = nil
        try store.close()
        journal.isDurable(through: known)
    }

    func keepSnapshot() throws {
        let (engine, view) = try opened().newest()
        earlier = (engine, view, try model.check(view, engine, journal, known: journal.last))
    }

    /// What was taken before shows what it showed.
    func checkSnapshot() throws {
        guard let earlier else { return }
        let authors = try model.check(earlier.view, earlier.engine, journal, known: 0)
        guard authors == earlier.authors else { throw InterleavingFailure("a snapshot has changed") }
    }

    /// Reads history as a consumer does that has a token: all that came after it, or word that it is no place in
    /// history any more.
    func readHistory(after number: UInt64, tag: UInt64) throws {
        let known = journal.last
        let (engine, view) = try opened().newest()
        guard number >= engine.tracking.horizon else {
            _ = seen.insert("expired")
            return
        }
        let found = number == view.number ? view.tag : try engine.view(asOf: number).tag
        guard found == tag else { throw InterleavingFailure("the token of \(number) is said to have diverged") }
        let history = engine.tracked(view)
        if let cleaned = try history.lastCleaned(history.coverage, after: number) {
            throw InterleavingFailure("\(cleaned) is said to be cleaned")
        }
        var next = number + 1
        try engine.tracked(view).forEachTransaction(after: number) { (transaction) throws(StoreError) in
            guard transaction.number == next else { return false }
            if let tag = model.tags[next] ?? journal.tags[next], tag != transaction.tag { return false }
            // A token of the past is read with its values.
            try transaction.forEachChange { (change) throws(StoreError) in
                _ = try view.withRow(after: change) { _ in }
                return true
            }
            next += 1
            return true
        }
        guard next == view.number + 1, view.number >= known else {
            throw InterleavingFailure("history after \(number) ends before \(next), and the state is \(view.number)")
        }
        seen.insert("complete")
    }

    /// Waits as who listens for changes does: the watch first, then look, then wait for news and look again. Returns
    /// when it has seen so many, each once and in order.
    func watch(for count: Int) throws {
        baton.watch(index)
        if store == nil { try open() }
        var last = model.number
        var authors: [String] = []
        while true {
            let (engine, view) = try opened().newest()
            try engine.tracked(view).forEachTransaction(after: last) { (transaction) in
                guard transaction.number == last + 1 else { return false }
                last += 1
                authors.append(transaction.author ?? "nobody")
                return true
            }
            guard last == view.number else { throw InterleavingFailure("the watcher misses \(last + 1)") }
            if authors.count >= count { break }
            guard baton.waitForNews(index) else {
                if journal.hasDeath { break }
                throw InterleavingFailure("the watcher has seen \(authors), and is told of nothing more")
            }
        }
        for (offset, author) in authors.enumerated() {
            let number = model.number + UInt64(offset) + 1
            if let known = journal.acknowledged[number], known != author {
                throw InterleavingFailure("the watcher has seen \(author) as \(number), which is \(known)")
            }
        }
    }

    // MARK: After the race

    /// Every handle that is still open agrees, then closes.
    func agree(with authors: [String]) throws {
        guard !files.isDead, store != nil else { return }
        let found = try look()
        guard found == authors else {
            throw InterleavingFailure("process \(index) has \(found), a fresh one \(authors)")
        }
    }

    func closeIfOpen() throws {
        guard !files.isDead, store != nil else { return }
        try close()
    }
}
