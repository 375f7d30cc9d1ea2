// Random work in several contexts with live results: each list is always what a fetch finds, and the differences that
// it tells lead from one list to the next.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct ResultsOracleTests {
    /// Longer with `Tests/run long results`: an operation is a round.
    @Test(arguments: [1, 2, 3] as [UInt64]) func resultsAgreeWithAFetch(_ number: UInt64) throws {
        guard let long = LongRun("results", seed: number, operations: 250) else { return }
        let stores = long.forEachStore(500) { seed, count in try ResultsRun(seed: seed).run(rounds: count) }
        if let stores { print("results, seed \(long.seed): \(long.operations) rounds on \(stores) stores") }
    }
}

/// One live list, and what a fetch finds instead.
private final class Watching<E: Entity> {
    let title: String
    let results: Results<E>
    /// Kept current by differences alone.
    private var mirror: [ObjectIdentifier]
    private var held: [ObjectIdentifier: Object<E>] = [:]
    private let fetch: () throws -> [Object<E>]
    private(set) var tells = 0
    private var failure: String?

    init(_ title: String, _ results: Results<E>, _ fetch: @escaping () throws -> [Object<E>]) {
        (self.title, self.results, self.fetch) = (title, results, fetch)
        mirror = results.map { ObjectIdentifier($0) }
        held = Dictionary(uniqueKeysWithValues: results.map { (ObjectIdentifier($0), $0) })
        results.onChange = { [unowned self, unowned results] diff in
            tells += 1
            let before = mirror
            mirror = diff.applied(to: mirror) { ObjectIdentifier(results[$0]) }
            // An object can get into another section where it stands.
            let isNothing = before == mirror && !(results is SectionedResults<Int, E>)
            if diff.isEmpty || isNothing { failure = "\(title): told of \(diff), which is nothing" }
            for object in results { held[ObjectIdentifier(object)] = object }
        }
    }

    func check() throws {
        if let failure { throw OracleDifference(failure) }
        if let error = results.updateError { throw OracleDifference("\(title): \(error)") }
        let found = try fetch().map { ObjectIdentifier($0) }
        let shown = results.map { ObjectIdentifier($0) }
        if shown != found {
            let (mine, theirs) = (results.references, try fetch().map(\.objectReference))
            throw OracleDifference("\(title): \(mine) are shown, \(theirs) are found")
        }
        if mirror != shown { throw OracleDifference("\(title): the differences lead to another list") }
        for (position, object) in results.enumerated() where results.index(of: object) != position {
            throw OracleDifference("\(title): the object at \(position) is not found")
        }
        held = held.filter { Set(found).contains($0.key) }
    }
}

private final class ResultsRun {
    private let folder: StoreFolder
    private var stores: [Store] = []
    private var contexts: [Context] = []
    private var checks: [[() throws -> Void]] = []
    private var random: SeededRandom
    private var step = 0
    private var earlier: [Int: EarlierState] = [:]

    init(seed: UInt64) throws {
        folder = try StoreFolder()
        random = SeededRandom(seed)
        for number in 0..<3 {
            stores.append(try Store(at: folder.path, entities: [Group.self, Note.self, Label.self]))
            let context = stores[number].makeContext(author: "\(number)")
            context.mergePolicy = MergePolicy.allCases[number % MergePolicy.allCases.count]
            if number < 2 { context.undoLevels = 5 }
            context.upserts = number == 1
            contexts.append(context)
            checks.append([])
            try watch(context, number)
        }
    }

    private func watch(_ context: Context, _ number: Int) throws {
        try notes(context, number, "all", nil)
        try notes(context, number, "rank", #Predicate { $0.rank >= 10 }, .ascending(\.rank))
        try notes(context, number, "descending", nil, .descending(\.rank), .descending(\.title))
        try notes(context, number, "mixed", nil, .descending(\.rank), .ascending(\.text))
        try notes(context, number, "hook", #Predicate { $0.text == nil }, .descending(\.saves))
        try notes(context, number, "group", nil, .ascending(\.group), .descending(\.rank))
        try notes(context, number, "no group", #Predicate { $0.group == nil }, .ascending(\.title))
        try notes(context, number, "related", #Predicate { $0.group?.name == "g1" }, .ascending(\.rank))
        try notes(context, number, "labels", #Predicate { $0.labels.contains { $0.name == "l1" } }, .ascending(\.rank))
        try notes(context, number, "evaluated", #Predicate { $0.title.count > 2 }, .descending(\.rank))
        try sections(context, number)
        try groups(context, number, "names", nil, .descending(\.name))
        try groups(context, number, "full", #Predicate { $0.notes.contains { $0.rank > 12 } }, .ascending(\.name))
        try groups(context, number, "parent", #Predicate { $0.parent?.name == "g1" })
    }

    private func notes(
        _ context: Context, _ number: Int, _ title: String, _ predicate: Predicate<Object<Note>>?,
        _ sort: SortKey<Note>...
    ) throws {
        let results: Results<Note>
        let fetch: () throws -> [Object<Note>]
        switch sort.count {
        case 0:
            results = try context.results(Note.self, where: predicate)
            fetch = { [unowned context] in
                try context.fetch(Note.self, where: predicate).sorted { $0.objectReference < $1.objectReference }
            }
        case 1:
            results = try context.results(Note.self, where: predicate, sortedBy: sort[0])
            fetch = { [unowned context] in try context.fetch(Note.self, where: predicate, sortedBy: sort[0]) }
        default:
            results = try context.results(Note.self, where: predicate, sortedBy: sort[0], sort[1])
            fetch = { [unowned context] in
                try context.fetch(Note.self, where: predicate, sortedBy: sort[0], sort[1])
            }
        }
        let watching = Watching("notes, \(title)", results, fetch)
        checks[number].append { try watching.check() }
    }

    private func sections(_ context: Context, _ number: Int) throws {
        let results = try context.results(Note.self, sortedBy: .ascending(\.title), sectionedBy: \.rank)
        let watching = Watching("sections", results) { [unowned context] in
            try context.fetch(Note.self, sortedBy: .ascending(\.rank), .ascending(\.title))
        }
        checks[number].append {
            try watching.check()
            let sections = results.sections
            let values = sections.map(\.value)
            guard sections.flatMap({ $0.map(\.objectReference) }) == results.references else {
                throw OracleDifference("sections: together they are not the list")
            }
            if values != values.sorted() || Set(values).count != values.count {
                throw OracleDifference("sections: \(values)")
            }
            for section in sections where section.contains(where: { $0.rank != section.value }) {
                throw OracleDifference("sections: \(section.value) has others")
            }
        }
    }

    private func groups(
        _ context: Context, _ number: Int, _ title: String, _ predicate: Predicate<Object<Group>>?,
        _ sort: SortKey<Group> = .ascending(\.name)
    ) throws {
        let watching = Watching(
            "groups, \(title)", try context.results(Group.self, where: predicate, sortedBy: sort)
        ) { [unowned context] in try context.fetch(Group.self, where: predicate, sortedBy: sort) }
        checks[number].append { try watching.check() }
    }

    func run(rounds: Int) throws {
        for step in 0..<rounds {
            self.step = step
            let number = Int.random(in: 0..<contexts.count, using: &random)
            do {
                let title = try act(in: contexts[number], number)
                do {
                    for check in checks[number] { try check() }
                } catch let difference as OracleDifference {
                    throw OracleDifference("after \(title): \(difference)")
                }
            } catch let difference as OracleDifference {
                throw OracleDifference("round \(step), context \(number): \(difference)")
            }
        }
        for (number, context) in contexts.enumerated() {
            context.rollback()
            try context.merge()
            for check in checks[number] { try check() }
        }
        checks = []
        for context in contexts { context.close() }
        for store in stores { try store.close() }
        try folder.expectIntact()
    }

    private func pick<Element>(_ elements: [Element]) -> Element? { elements.randomElement(using: &random) }

    private func act(in context: Context, _ number: Int) throws -> String {
        let (groups, notes) = (try context.fetch(Group.self), try context.fetch(Note.self))
        let labels = try context.fetch(Label.self)
        let rank = Int.random(in: 0..<20, using: &random)
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<6:
            let group = context.insert(Group(name: "g\(Int.random(in: 0..<8, using: &random))"))
            if Bool.random(using: &random) { group.parent = pick(groups) }
            return "a new group"
        case 6..<22:
            var note = Note(title: "n\(step % 30)", rank: rank)
            note.group = pick(groups)?.objectReference
            context.insert(note)
            return "a new note"
        case 22..<26:
            context.insert(Label(name: "l\(step % 5)"))
            return "a new label"
        case 26..<36:
            pick(notes)?.rank = rank
            return "another rank"
        case 36..<42:
            pick(notes)?.objectUpdate {
                $0.title = "t\(step % 17)"
                $0.text = step.isMultiple(of: 3) ? nil : "x\(step % 4)"
                $0.rank = rank
            }
            return "several properties"
        case 42..<50:
            pick(notes)?.group = pick(groups)
            return "another group"
        case 50..<55:
            guard let note = pick(notes), let label = pick(labels) else { return "nothing" }
            if note.labels.contains(where: { $0 === label }) {
                note.labels.removeAll { $0 === label }
            } else {
                note.labels.insert(label, at: 0)
            }
            return "labels"
        case 55..<59:
            if let group = pick(groups) { group.name = "g\(Int.random(in: 0..<8, using: &random))" }
            return "another name"
        case 59..<61:
            pick(labels)?.name = "l\(step % 5)"
            return "another label's name"
        case 61..<64:
            pick(groups)?.parent = pick(groups)
            return "another parent"
        case 64..<67:
            if let group = pick(groups) { context.delete(group) }
            return "a deleted group"
        case 67..<71:
            if let note = pick(notes) { context.delete(note) }
            return "a deleted note"
        case 71..<72:
            if let label = pick(labels) { context.delete(label) }
            return "a deleted label"
        case 72..<83:
            try save(context)
            return "saving"
        case 83..<88:
            try merge(context, number)
            return "merging"
        case 88..<89:
            context.rollback()
            return "a rollback"
        case 89..<90:
            try context.obtainPermanentReferences(for: context.insertedObjects(Note.self))
            return "permanent references"
        case 90..<92:
            if let note = pick(notes) { context.discard(note) }
            return "discarding"
        case 92..<95:
            try context.undo(skippingConflicts: true)
            return "undo"
        case 95..<97:
            try context.redo(skippingConflicts: true)
            return "redo"
        case 97..<98:
            try stores[number].update(Note.self, where: #Predicate { $0.rank == rank }) { $0.rank += 1 }
            return "batch updates"
        case 98..<99:
            try stores[number].delete(Note.self, where: #Predicate { $0.rank == rank })
            return "batch deletions"
        default:
            if let note = pick(notes), !note.objectStatus.isInserted {
                do {
                    try context.refresh(note, keepingEdits: Bool.random(using: &random))
                } catch let error as StoreError {
                    if error.code != .objectGone { throw error }
                }
            }
            return "a refresh"
        }
    }

    /// Merges to the newest state, or to one that was taken at an earlier merge.
    private func merge(_ context: Context, _ number: Int) throws {
        guard Bool.random(using: &random) else {
            try context.merge()
            return
        }
        let state = earlier[number]
        earlier[number] = try EarlierState(stores[number], using: &random)
        try state?.merge(context)
    }

    private func save(_ context: Context) throws {
        do {
            try context.save()
        } catch let error as StoreError {
            switch error.code {
            case .mergeConflict, .uniqueViolation, .deleteDenied, .referenceMissing, .validationFailed, .wrongContext:
                context.rollback()
            default: throw OracleDifference("\(error)")
            }
        }
    }
}
