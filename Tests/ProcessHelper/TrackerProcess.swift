// A process with a context and a tracker, which writes and observes until everything is over or it is killed.

import Annals
import FoundationEssentials
import Glibc
import Synchronization
import TestSupport

/// `trackers work STORE FOLDER NUMBER SEED PLANS SECONDS`: goes on where its logs end. `SECONDS` is the tracker's
/// `maximumDuration`. The context belongs to this actor.
actor TrackerProcess {
    private typealias Note = Tracked.Note

    private let files: TrackedFiles
    private let store: Store
    private let number: Int
    private let total: Int
    private let plans: Lines
    private let run: Int
    private var plan: Int
    private var edits = 0
    private var random: SeededRandom
    private var context: Context?
    /// What the context has shown so far, to see that it follows.
    private var held: [Object<Tracked.Note>] = []
    /// The last transaction that the plain observer got.
    private let observed = Mutex<UInt64>(0)

    static func run(
        _ path: String, folder: String, number: Int, seed: UInt64, plans: Int, maximumDuration: Double
    ) throws {
        let files = TrackedFiles(folder: folder, number: number)
        let process = try TrackerProcess(path, files, seed: seed, plans: plans)
        let ended = Ended()
        Task {
            do {
                try await process.work(maximumDuration)
                ended.end(nil)
            } catch {
                ended.end(error)
            }
        }
        if let error = ended.wait() { throw error }
    }

    private init(_ path: String, _ files: TrackedFiles, seed: UInt64, plans: Int) throws {
        self.files = files
        number = files.number
        total = plans
        store = try Tracked.open(path, process: files.number)
        run = Lines.words(in: files.seen).count { $0[0] == "s" }
        plan = try TrackedPlan.read(files).last?.number ?? 0
        self.plans = try Lines(appendingTo: files.plans)
        random = SeededRandom(seed &* 7919 &+ UInt64(files.number) &* 131 &+ UInt64(run))
    }

    private func work(_ maximumDuration: Double) async throws {
        try settle()
        let context = store.makeContext(author: Tracked.author(number), name: "view")
        self.context = context
        let tracker = try tracker(context, maximumDuration)
        let seen = try Lines(appendingTo: files.seen)
        seen.add("s \(run)")
        observe(tracker, seen)
        tracker.start()
        var isDone = false
        // Without its test it ends, too.
        let parent = getppid()
        while access(files.stop, F_OK) != 0 {
            if getppid() != parent { throw Wrong("process \(number) was left alone") }
            if access(files.leave, F_OK) == 0 { break }
            if case .failed(let error) = tracker.state { throw Wrong("the tracker has ended: \(error)") }
            if plan < total {
                do { try await act(tracker) } catch { throw Wrong("process \(number), plan \(plan): \(error)") }
            } else if !isDone {
                try save()
                _ = try Lines(appendingTo: files.done)
                isDone = true
            }
            // The tracker merges meanwhile.
            try await Task.sleep(for: .microseconds(isDone ? 5_000 : random.next(below: 16_000)))
        }
        await tracker.stop()
        if access(files.stop, F_OK) == 0 { try conclude(tracker) }
        // What was observed until now is not observed again, unless the cursor could not be moved.
        let cursor = try store.consumer(Tracked.author(number))?.cursor.number ?? 0
        let isEnded = cursor >= observed.withLock { $0 } || tracker.metrics.lastError?.code != .busy
        context.close()
        // Somebody who is stopped may have the lock.
        _ = try tolerating([.busy]) { try store.close() }
        if isEnded { seen.add("e \(run)") }
    }

    /// Finds out what became of the plan during which the process was killed.
    private func settle() throws {
        guard let last = try TrackedPlan.read(files).last, last.isCommitted == nil else { return }
        let snapshot = try store.snapshot()
        let isCommitted: Bool
        if last.way == .batch {
            let parts = (last.changes.first ?? "").split(separator: ":").map(String.init)
            let key = parts[1]
            let note = try snapshot.fetch(Note.self, where: #Predicate { $0.key == key }).first
            switch parts[0] {
            case "i": isCommitted = note != nil
            case "u": isCommitted = note?.mark == last.number
            default: isCommitted = note == nil
            }
        } else {
            let (number, way) = (number, last.way.rawValue)
            let ledger = try snapshot.fetch(
                Tracked.Ledger.self, where: #Predicate { $0.owner == number && $0.way == way }
            ).first
            isCommitted = ledger?.plan == last.number
        }
        plans.add(isCommitted ? "a \(last.number)" : "x \(last.number)")
    }

    // MARK: Tracking

    private func tracker(_ context: Context, _ maximumDuration: Double) throws -> HistoryTracker {
        let strategies: [HistoryTracker.CleanStrategy] = [
            .byNotification(times: 1), .byNotification(times: 20), .byDuration(seconds: 0.3),
        ]
        return try HistoryTracker(
            store: store, contexts: [context], currentAuthor: Tracked.author(number), allAuthors: Tracked.authors,
            batchAuthors: [Tracked.batchAuthor], cleanStrategy: strategies[number], maximumDuration: maximumDuration,
            logger: TrackerMessages(lines: try Lines(appendingTo: files.messages)), autoStart: false)
    }

    /// One observer writes what it gets to a log, the other one counts it in the store.
    private func observe(_ tracker: HistoryTracker, _ seen: Lines) {
        let (store, number) = (store, number)
        let kinds: Set<HistoryChange.Kind> = [.insert, .update, .delete]
        /// Where history was lost: after the cursors of the tracker and of the tally, up to the snapshot.
        @Sendable func lost(_ snapshot: Snapshot) throws -> String {
            let cursor = try store.consumer(Tracked.author(number))?.cursor.number ?? 0
            let tally = try store.consumer(Tracked.tallyCursor(number))?.cursor.number ?? 0
            return "\(cursor) \(tally) \(snapshot.token.number) \(try store.horizon)"
        }
        tracker.observe(Note.self, kinds) { changes in
            let texts = changes.map(Self.text).joined(separator: " ")
            seen.add("c \(changes.transaction.number) \(texts)")
            self.observed.withLock { $0 = changes.transaction.number }
        } resynchronized: { snapshot in
            seen.add("r \(try lost(snapshot))")
        }
        tracker.observeInTransaction(Note.self, kinds, name: "tally") { changes, transaction in
            for change in changes {
                try transaction.insert(
                    Tracked.Tally(
                        owner: number, number: Int(changes.transaction.number), change: Self.text(change)))
            }
        } resynchronized: { snapshot in
            seen.add("w \(try lost(snapshot))")
        }
    }

    private static func text(_ change: ObservedChange<Note>) -> String {
        let key = change.after?.key ?? change.tombstone?[\.key] ?? "?"
        return Tracked.change(change.change.kind, key, change.after?.stamp)
    }

    // MARK: Plans

    private func act(_ tracker: HistoryTracker) async throws {
        switch random.next(below: 100) {
        case 0..<45:
            try edit()
            if random.next(below: 3) > 0 { try save() }
        case 45..<70: try await write()
        case 70..<85: try batch()
        case 85..<87:
            await tracker.stop()
            tracker.start()
        case 87: _ = try tolerating([.busy]) { try store.compact() }
        default: try expectFollowing()
        }
    }

    private func next(below bound: Int) -> Int { Int(random.next(below: UInt64(bound))) }

    private func stamp() -> String {
        edits += 1
        return "\(number).\(run).\(edits)"
    }

    /// Some edits in the context.
    private func edit() throws {
        guard let context else { return }
        let notes = try context.fetch(Note.self)
        held += notes
        held.removeFirst(max(0, held.count - 500))
        let own = notes.filter { $0.owner == number }
        let snapshot = try store.snapshot()
        for _ in 0...next(below: 3) {
            switch next(below: 4) {
            case 0 where own.count < 25:
                let stamp = stamp()
                context.insert(Note(key: "n" + stamp, stamp: stamp, owner: number))
            case 1:
                // Not one that batch work has deleted, which the context may still show.
                guard let note = own.isEmpty ? nil : own[next(below: own.count)],
                    note.objectStatus.isInserted == false, try snapshot[note.objectReference] != nil
                else { continue }
                context.delete(note)
            default:
                guard !notes.isEmpty else { continue }
                let note = notes[next(below: notes.count)]
                if !note.objectStatus.isDeleted { note.stamp = stamp() }
            }
        }
    }

    /// Saves the context, or gives up what is unsaved if others have changed the same.
    private func save() throws {
        guard let context, context.hasChanges else { return }
        let next = plan + 1
        let changes =
            context.insertedObjects(Note.self).map { Tracked.change(.insert, $0.key, nil) }
            + context.changedObjects(Note.self).map { Tracked.change(.update, $0.key, $0.stamp) }
            + context.deletedObjects(Note.self).map { Tracked.change(.delete, $0.key, nil) }
        guard !changes.isEmpty else { return }
        let number = number
        guard
            let ledger = try context.first(
                Tracked.Ledger.self, where: #Predicate { $0.owner == number && $0.way == "save" })
        else {
            throw Wrong("there is no ledger of process \(number)")
        }
        ledger.plan = next
        announce(.save, changes)
        let token = try tolerating([.mergeConflict, .objectGone, .busy]) { try context.save() }
        if token == nil { context.rollback() }
        concluded(token)
    }

    /// A transaction that inserts notes and changes some, whoever owns them.
    private func write() async throws {
        let next = plan + 1
        let (inserts, wanted) = (next % 3, 1 + self.next(below: 3))
        let (stamps, number, first) = ((0..<6).map { _ in stamp() }, number, self.next(below: 100))
        do {
            let token = try await store.write(author: Tracked.author(number), contextName: "write") { transaction in
                var changes: [String] = []
                let notes = try transaction.snapshot.references(to: Note.self).sorted()
                for offset in 0..<min(wanted, notes.count) {
                    let stamp = stamps[offset]
                    try transaction.update(notes[(first + offset) % notes.count]) { note in
                        note.stamp = stamp
                        changes.append(Tracked.change(.update, note.key, stamp))
                    }
                }
                let own = try transaction.snapshot.references(to: Note.self, where: #Predicate { $0.owner == number })
                for offset in 0..<max(inserts, changes.isEmpty ? 1 : 0) where own.count < 25 || changes.isEmpty {
                    let stamp = stamps[3 + offset]
                    try transaction.insert(Note(key: "n" + stamp, stamp: stamp, owner: number))
                    changes.append(Tracked.change(.insert, "n" + stamp, nil))
                }
                let ledgers = try transaction.snapshot.references(
                    to: Tracked.Ledger.self, where: #Predicate { $0.owner == number && $0.way == "write" })
                for ledger in ledgers { try transaction.update(ledger) { $0.plan = next } }
                self.plans.add(TrackedPlan(process: number, number: next, way: .write, changes: changes).line)
            }.token
            plan = next
            concluded(token)
        } catch let error as StoreError where error.code == .busy {
            // The body has run or not.
            guard try TrackedPlan.read(files).last?.number == next else { return }
            plan = next
            concluded(nil)
        }
    }

    /// Batch work on the process's own notes. Nobody else inserts or deletes them, so it is known beforehand what the
    /// batch will find.
    private func batch() throws {
        try save()
        let number = number
        let own = try store.snapshot().fetch(Note.self, where: #Predicate { $0.owner == number })
        let (next, stamp) = (plan + 1, stamp())
        let author = Tracked.batchAuthor
        switch self.next(below: 3) {
        case 0:
            guard own.count < 25 else { return }
            let notes = (0..<2 + self.next(below: 5)).map { place in
                Note(key: "n\(stamp).\(place)", stamp: stamp, owner: number, mark: next)
            }
            announce(.batch, notes.map { Tracked.change(.insert, $0.key, nil) })
            concluded(try tolerating([.busy]) { try store.insert(contentsOf: notes, author: author).token } ?? nil)
        case 1:
            guard !own.isEmpty else { return }
            announce(.batch, own.map { Tracked.change(.update, $0.key, stamp) })
            let token = try tolerating([.busy]) {
                try store.update(Note.self, where: #Predicate { $0.owner == number }, author: author) { note in
                    note.stamp = stamp
                    note.mark = next
                }.token
            }
            concluded(token ?? nil)
        default:
            guard let mark = own.isEmpty ? nil : own[self.next(below: own.count)].mark else { return }
            announce(.batch, own.filter { $0.mark == mark }.map { Tracked.change(.delete, $0.key, nil) })
            let token = try tolerating([.busy]) {
                try store.delete(Note.self, where: #Predicate { $0.owner == number && $0.mark == mark }, author: author)
                    .token
            }
            concluded(token ?? nil)
        }
    }

    private func announce(_ way: TrackedPlan.Way, _ changes: [String]) {
        plan += 1
        plans.add(TrackedPlan(process: number, number: plan, way: way, changes: changes).line)
    }

    private func concluded(_ token: HistoryToken?) {
        plans.add(token.map { "a \(plan) \($0.number)" } ?? "x \(plan)")
    }

    /// Nil after an error with one of these codes.
    private func tolerating<Result>(_ codes: Set<StoreError.Code>, _ body: () throws -> Result) throws -> Result? {
        do { return try body() } catch let error as StoreError {
            guard codes.contains(error.code) else { throw error }
            return nil
        }
    }

    // MARK: What always holds

    /// If the context is at the newest state, its objects show it.
    private func expectFollowing() throws {
        guard let context else { return }
        let snapshot = try store.snapshot()
        guard try context.token == snapshot.token else { return }
        for object in held
        where !object.objectStatus.hasChanges && !object.objectStatus.isInserted && !object.objectStatus.isDeleted {
            let shown = object.objectStatus.isGone ? nil : Tracked.line(object.objectStatus.snapshot)
            let stored = try snapshot[object.objectReference].map(Tracked.line)
            guard shown == stored else {
                throw Wrong("the context shows \(shown ?? "nothing"), the store has \(stored ?? "nothing")")
            }
        }
    }

    /// Everything is at rest, so the tracker has brought the context to the newest state.
    private func conclude(_ tracker: HistoryTracker) throws {
        guard let context else { return }
        let (shown, newest) = (try context.token.number, try store.currentToken.number)
        guard shown == newest else { throw Wrong("the context of process \(number) is at \(shown), not \(newest)") }
        guard !context.hasChanges else { throw Wrong("something is unsaved in process \(number)") }
        try expectFollowing()
        let parked = try tracker.parked
        guard parked.isEmpty else { throw Wrong("process \(number) has parked \(parked)") }
        let state = try Lines(appendingTo: files.state)
        for note in try context.fetch(Note.self) { state.add(Tracked.line(note.objectStatus.snapshot)) }
        // All have read everything.
        try tracker.cleanerBuilder().clean()
        guard try store.horizon == newest else {
            throw Wrong("cleaning leaves history from \(try store.horizon) to \(newest)")
        }
    }
}

/// The tracker's messages, in a file.
private struct TrackerMessages: HistoryTrackerLogger {
    let lines: Lines
    func log(type: HistoryTrackerLogType, message: String) { lines.add("\(type) \(message)") }
}
