// `leaks`: contexts and trackers that are used in every way and forgotten must leave nothing: no object, context,
// thread, descriptor or memory.

import Annals
import FoundationEssentials
import Glibc
import Observation
import Synchronization

/// In a process of its own, because it counts what the whole process has. Contexts belong to this actor.
actor ContextLeaks {
    struct Group: Entity {
        var name = ""
        var notes = ToMany<Note>()
    }

    struct Note: Entity {
        var title = ""
        var rank = 0
        var group: Reference<Group>?
        var next: Reference<Note>?
        var others: [Reference<Note>] = []

        static let schema = Schema<Note> {
            Attribute(\.rank, .indexed)
            Relationship(\.group, inverse: \.notes, whenTargetIsDeleted: .cascade)
        }
    }

    /// What every tenth context leaks on purpose, to see that it is noticed.
    enum Plant: String, CaseIterable {
        case object, context, thread, descriptor, memory
    }

    private struct Witness {
        weak var instance: AnyObject?
        let name: String
    }

    private static let contextsPerStore = 50
    private let path: String
    private let plant: Plant?
    private var witnesses: [Witness] = []

    init(_ path: String, _ plant: Plant?) { (self.path, self.plant) = (path, plant) }

    /// Throws what was left.
    static func run(_ path: String, contexts: Int, plant: Plant?) throws {
        let leaks = ContextLeaks(path, plant)
        let ended = Ended()
        Task {
            do {
                try await leaks.run(contexts)
                ended.end(nil)
            } catch {
                ended.end(error)
            }
        }
        if let error = ended.wait() { throw error }
        let memory = Resources.countsMemory ? "" : " (memory not counted)"
        Lines.write("leaks, \(contexts) contexts, nothing left\(memory)\n", to: 1)
    }

    private func run(_ contexts: Int) async throws {
        let descriptors = Resources.now.descriptors
        // The first rounds make what stays: metadata of types, the threads of the pool, and what each thread keeps for
        // its next tasks. The latter reaches some 200 KB only after thousands of contexts.
        for _ in 0..<max(4, contexts / Self.contextsPerStore / 2) {
            try await round(Self.contextsPerStore, leaks: false)
        }
        var before = Resources.now
        // A thread that is told to end may have the watch for changes still open.
        before.descriptors = descriptors
        for first in stride(from: 0, to: contexts, by: Self.contextsPerStore) {
            try await round(min(Self.contextsPerStore, contexts - first), leaks: true)
        }
        // Threads that were told to end may still be doing so.
        let problems = try await settled([.thread, .descriptor, .memory]) {
            Resources.now.excess(over: before, contexts: contexts)
        }
        guard problems.isEmpty else { throw Wrong(problems.joined(separator: ", ")) }
    }

    /// One store, and so many contexts one after the other. Afterwards everything is released.
    private func round(_ contexts: Int, leaks: Bool) async throws {
        try? FileManager.default.removeItem(atPath: path)
        let store = try Store(at: path, entities: [Group.self, Note.self])
        for number in 0..<contexts {
            try await use(store, number)
            if leaks, number % 10 == 0 { try leak(store) }
        }
        let left = try await settled([.object, .context]) {
            witnesses.compactMap { $0.instance == nil ? nil : $0.name }
        }
        guard left.isEmpty else { throw Wrong("left: \(Set(left).sorted().joined(separator: ", "))") }
        witnesses = []
        try store.close()
    }

    /// What `problems` says when it says nothing any more, or after a minute. What is leaked on purpose stays.
    private func settled(_ plants: Set<Plant>, _ problems: () -> [String]) async throws -> [String] {
        let isPlanted = plant.map { plants.contains($0) } ?? false
        for _ in 0..<(isPlanted ? 100 : 6000) {
            if problems().isEmpty { return [] }
            try await Task.sleep(for: .milliseconds(10))
        }
        return problems()
    }

    private func watch(_ instance: AnyObject, _ name: String) {
        witnesses.append(Witness(instance: instance, name: name))
    }

    // MARK: Using a context

    private func use(_ store: Store, _ number: Int) async throws {
        let context = store.makeContext(author: "leaks", name: "context \(number % 10)")
        watch(context, "context")
        if number % 3 == 0 { context.undoLevels = 10 }
        let (group, notes) = try makeObjects(context, number)
        try edit(context, group, notes, number)
        observe(group, notes)
        switch number % 10 {
        case 1: try await follow(store, context, notes[0])
        case 2: try await context.saveInBackground()
        case 3: context.delete(group)
        case 4: context.rollback()
        case 5: try mergeChanges(store, context, notes)
        case 6: try store.perform { watch(try $0.fetch(Note.self, limit: 1)[0], "object of a piece of work") }
        case 7: try context.follow()
        case 8: try await track(store, context, notes[0]).stop()
        // Releasing it must do.
        case 9: _ = try await track(store, context, notes[0])
        default: break
        }
        // Every second context is forgotten with what is unsaved in it.
        if number % 2 == 0 { context.close() }
    }

    /// Objects that refer to each other in circles.
    private func makeObjects(_ context: Context, _ number: Int) throws -> (Object<Group>, [Object<Note>]) {
        let group = context.insert(Group(name: "group \(number)"))
        let notes = (0..<4).map { context.insert(Note(title: "a note with a long title \($0)", rank: $0)) }
        for (index, note) in notes.enumerated() {
            note.group = group
            note.next = notes[(index + 1) % notes.count]
            note.others = notes
            watch(note, "inserted object")
        }
        watch(group, "inserted object")
        if number % 4 != 3 { try context.save() }
        for note in try context.fetch(Note.self, where: #Predicate { $0.rank > 1 }, limit: 20) {
            watch(note, "fetched object")
            _ = note.group?.notes.first?.next?.title
        }
        return (group, notes)
    }

    private func edit(
        _ context: Context, _ group: Object<Group>, _ notes: [Object<Note>], _ number: Int
    ) throws {
        for note in notes { note.objectUpdate { ($0.title, $0.rank) = ("another title, long again", $0.rank + 1) } }
        if context.canUndo {
            try context.undo()
            if context.canRedo { try context.redo() }
        }
        if number % 5 == 0 { context.discard(notes[1]) }
        if number % 7 == 0 { context.delete(notes[2]) }
        if number % 4 == 0 { try context.save() }
        group.name = "not saved"
    }

    /// Some observers are told, and some never.
    private func observe(_ group: Object<Group>, _ notes: [Object<Note>]) {
        for object in notes {
            withObservationTracking {
                _ = object.title
                _ = object.group?.name
            } onChange: {
            }
        }
        withObservationTracking {
            _ = group.notes.count
        } onChange: {
        }
        notes[0].title = "observed"
    }

    private func follow(_ store: Store, _ context: Context, _ note: Object<Note>) async throws {
        try context.save()
        try context.follow()
        let reference = note.objectReference
        try await store.write(author: "other") { try $0.update(reference) { $0.rank = 1000 } }
        while note.rank != 1000 { try await Task.sleep(for: .milliseconds(1)) }
        context.stopFollowing()
    }

    /// A tracker that has observed a change, and whose context shows it.
    private func track(_ store: Store, _ context: Context, _ note: Object<Note>) async throws -> HistoryTracker {
        try context.save()
        let tracker = try HistoryTracker(
            store: store, contexts: [context], currentAuthor: "leaks", allAuthors: [], logLevel: 0,
            deduplicator: { _, _ in })
        let ranks = Ranks()
        watch(tracker, "tracker")
        watch(ranks, "what an observer holds")
        tracker.observe(Note.self, [.update]) { changes in ranks.add(changes.map { $0.after?.rank ?? 0 }) }
        let reference = note.objectReference
        try await store.write(author: "other") { try $0.update(reference) { $0.rank = 2000 } }
        while note.rank != 2000 || !ranks.all.contains(2000) { try await Task.sleep(for: .milliseconds(1)) }
        return tracker
    }

    private func mergeChanges(_ store: Store, _ context: Context, _ notes: [Object<Note>]) throws {
        let other = store.makeContext()
        watch(other, "other context")
        for note in try other.fetch(Note.self) { note.title = "changed elsewhere" }
        try other.save()
        try context.merge()
    }

    // MARK: Leaking on purpose

    private func leak(_ store: Store) throws {
        switch plant {
        case nil: break
        case .object:
            let object = try store.makeContext().first(Note.self)
            if let object {
                watch(object, "leaked object")
                _ = Unmanaged.passRetained(object)
            }
        case .context:
            let context = store.makeContext()
            watch(context, "leaked context")
            _ = Unmanaged.passRetained(context)
        case .thread:
            var thread = pthread_t()
            pthread_create(
                &thread, nil,
                { _ in
                    while true { sleep(1000) }
                }, nil)
        case .descriptor: _ = open("/dev/null", O_RDONLY)
        case .memory: _ = Resources.allocated(50_000)
        }
    }
}

/// What an observer got.
private final class Ranks: Sendable {
    private let list = Mutex<[Int]>([])
    var all: [Int] { list.withLock { $0 } }
    func add(_ ranks: [Int]) { list.withLock { $0 += ranks } }
}

/// Lets the main thread wait for a task.
final class Ended: Sendable {
    private let isEnded = Atomic<Bool>(false)
    private let error = Mutex<(any Error)?>(nil)

    func end(_ error: (any Error)?) {
        self.error.withLock { $0 = error }
        isEnded.store(true, ordering: .releasing)
    }

    func wait() -> (any Error)? {
        while !isEnded.load(ordering: .acquiring) { usleep(1000) }
        return error.withLock { $0 }
    }
}

/// What the process has.
private struct Resources {
    var threads: Int
    /// What each open descriptor leads to. Without those of the system's queues, which open timers when they first need
    /// them, and keep them. The library opens none of these.
    var descriptors: [String]
    var heapBytes: Int

    static var now: Resources {
        let threads = entries("/proc/self/task").count
        let descriptors = entries("/proc/self/fd").compactMap {
            try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/" + $0)
        }.filter { !["anon_inode:[eventpoll]", "anon_inode:[eventfd]", "anon_inode:[timerfd]"].contains($0) }
        return Resources(threads: threads, descriptors: descriptors, heapBytes: heap())
    }

    private static func entries(_ folder: String) -> [String] {
        (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
    }

    private typealias MallocInfo = @convention(c) (Int32, UnsafeMutablePointer<FILE>) -> Int32

    /// The bytes that `malloc` has given out. The module of the C library does not have `malloc_info`.
    private static func heap() -> Int {
        var (text, size): (UnsafeMutablePointer<CChar>?, Int) = (nil, 0)
        guard let symbol = dlsym(nil, "malloc_info"), let stream = open_memstream(&text, &size) else { return 0 }
        _ = unsafeBitCast(symbol, to: MallocInfo.self)(0, stream)
        fclose(stream)
        defer { free(text) }
        guard let text else { return 0 }
        let lines = String(cString: text).split(separator: "\n")
        // What all arenas have together comes last.
        let total = lines[(lines.lastIndex { $0.hasPrefix("</heap>") } ?? 0)...]
        func bytes(_ start: String) -> Int {
            let line = total.first { $0.hasPrefix(start) }
            return line?.split(separator: "size=\"").last.flatMap { Int($0.prefix(while: \.isNumber)) } ?? 0
        }
        return bytes("<system type=\"current\"") + bytes("<total type=\"mmap\"") - bytes("<total type=\"fast\"")
            - bytes("<total type=\"rest\"")
    }

    /// Memory that nobody uses. Seen through, the optimizer would leave it out.
    @inline(never)
    static func allocated(_ bytes: Int) -> UnsafeMutableRawPointer? { malloc(bytes) }

    /// Not with the allocator of a sanitizer.
    static let countsMemory: Bool = {
        let before = heap()
        let bytes = 1 << 20
        guard let memory = allocated(bytes) else { return false }
        defer { free(memory) }
        return heap() - before >= bytes
    }()

    /// What is more than there was, and cannot be chance: the pool of threads has grown, or a buffer.
    func excess(over before: Resources, contexts: Int) -> [String] {
        var excess: [String] = []
        if threads > before.threads + 8 { excess.append("\(threads - before.threads) threads left") }
        if descriptors.count > before.descriptors.count {
            // Several may lead to the same thing.
            var left = descriptors
            for known in before.descriptors { if let place = left.firstIndex(of: known) { left.remove(at: place) } }
            let names = left.sorted().joined(separator: ", ")
            excess.append("\(descriptors.count - before.descriptors.count) descriptors left (\(names))")
        }
        let bytes = heapBytes - before.heapBytes
        if Self.countsMemory, bytes > 64 * 1024 + 16 * contexts { excess.append("\(bytes) bytes left") }
        return excess
    }
}
