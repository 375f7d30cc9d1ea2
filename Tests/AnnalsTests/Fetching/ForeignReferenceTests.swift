// References of another store are told, wherever they are used.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct ForeignReferenceTests {
    struct Link: Codable, Equatable {
        var note: Reference<Note>
    }

    struct Card: Entity {
        var link: Link?
        static let schema = Schema<Card> { Attribute(\.link, .unique) }
    }

    private static let entities: [any Entity.Type] = [Group.self, Note.self, Label.self, Card.self]
    private let folders: [StoreFolder]
    private let here: Store
    private let there: Store

    init() throws {
        folders = [try StoreFolder(), try StoreFolder()]
        here = try Store(at: folders[0].path, entities: Self.entities)
        there = try Store(at: folders[1].path, entities: Self.entities)
        // The same IDs in both.
        for (store, name) in [(here, "here"), (there, "there")] {
            try store.write { transaction in
                let group = try transaction.insert(Group(name: name))
                let label = try transaction.insert(Label(name: name))
                try transaction.insert(Note(title: name, group: group, labels: [label]))
            }
        }
    }

    private func end() throws {
        try here.close()
        try there.close()
        for folder in folders { try folder.expectIntact() }
    }

    private func groups(_ store: Store) throws -> [Reference<Group>] { try store.snapshot().references(to: Group.self) }

    /// Every way to get a reference.
    private func references(_ store: Store) throws -> [Reference<Group>] {
        let snapshot = try store.snapshot()
        let note = try #require(try snapshot.fetch(Note.self).first)
        let context = store.makeContext()
        let group = try #require(try context.fetch(Group.self).first)
        return try [
            groups(store)[0], #require(note.group), group.objectReference,
            context.references(to: Group.self)[0],
            store.reference(for: store.uri(of: groups(store)[0]), as: Group.self),
            store.write { try $0.references(to: Group.self)[0] }.result,
        ]
    }

    @Test func fetchesAndChangesRefuseForeignReferences() throws {
        for foreign in try references(there) {
            let own = try groups(here)[0]
            #expect(own.id == foreign.id && own != foreign && Set([own, foreign]).count == 2)
            #expect(own == Reference(foreign.id) && foreign == Reference(foreign.id))
            expect(.referenceForeign) { try here.snapshot()[foreign] }
            expect(.referenceForeign) { try here.snapshot().references(\Group.notes, of: foreign) }
            expect(.referenceForeign) { try here.write { try $0.update(foreign) { $0.name = "x" } } }
            expect(.referenceForeign) { try here.write { try $0.update(foreign, to: Group(name: "x")) } }
            expect(.referenceForeign) { try here.write { try $0.delete(foreign) } }
            expect(.referenceForeign) { try here.write { _ = try $0.insert(Note(title: "x", group: foreign)) } }
            expect(.referenceForeign) { try here.insert(contentsOf: [Note(title: "x", group: foreign)]) }
            expect(.referenceForeign) { try here.update(Note.self) { $0.group = foreign } }
            expect(.referenceForeign) { try here.makeContext().object(foreign) }
            expect(.referenceForeign) { try here.uri(of: foreign) }
            // An ID alone says nothing of the store.
            #expect(try here.snapshot()[Reference<Group>(foreign.id)]?.name == "here")
        }
        for own in try references(here) {
            #expect(try here.snapshot()[own]?.name == "here")
            try here.write { _ = try $0.update(own) { $0.name = "here" } }
        }
        #expect(try here.snapshot().count(Note.self) == 1 && here.snapshot().fetch(Group.self).map(\.name) == ["here"])
        try end()
    }

    private func isForeign<E: Entity>(
        _ reference: Reference<E>?, sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let reference = try #require(reference, sourceLocation: sourceLocation)
        expect(.referenceForeign, sourceLocation: sourceLocation) { try here.snapshot()[reference] }
        #expect(try there.snapshot()[reference] != nil, sourceLocation: sourceLocation)
    }

    /// Every way in which a reference is read from a store, beside those above.
    @Test func referencesThatAreReadBelongToTheirStore() throws {
        let link = Link(note: try #require(try there.snapshot().references(to: Note.self).first))
        try there.write { _ = try $0.insert(Card(link: link)) }
        try there.setMetadata(link, for: "link")
        let snapshot = try there.snapshot()
        // Lists, single properties, groups and Codable values.
        try isForeign(snapshot.fetch(Note.self).first?.labels.first)
        try isForeign(snapshot.values(of: \Note.group).first ?? nil)
        try isForeign(snapshot.values(of: \Note.labels).first?.first)
        try isForeign(snapshot.select(Note.self, \.title, \.group).first?.1)
        try isForeign(snapshot.groups(by: \Note.group).first?.key)
        try isForeign(snapshot.minimum(of: \Note.group))
        try isForeign(snapshot.groups(by: \Note.title, aggregating: \Note.group).first?.maximum(\.group))
        try isForeign(snapshot.fetch(Card.self).first?.link?.note)
        try isForeign((snapshot.values(of: \Card.link).first ?? nil)?.note)
        try isForeign(snapshot.metadata("link", as: Link.self)?.note)
        try isForeign(there.write { try $0.fetch(Note.self).first?.labels.first }.result)
        // History.
        let changes = try there.history(after: 0, includingValues: true).flatMap(\.changes)
        try isForeign(changes.lazy.compactMap { $0.reference(to: Note.self) }.first)
        for change in changes where change.entity == "Note" {
            try isForeign(change.after(of: Note.self)?.group)
            try isForeign(change.after(of: Note.self)?.labels.first)
        }
        for change in changes where change.entity == "Card" { try isForeign(change.after(of: Card.self)?.link?.note) }
        try end()
    }

    @Test func referencesThatContextsReadBelongToTheirStore() throws {
        let context = there.makeContext()
        let note = try #require(try context.fetch(Note.self).first)
        func value() -> Note {
            var value = Note()
            note.objectUpdate { value = $0 }
            return value
        }
        try isForeign(value().labels.first)
        try isForeign(note.labels.first?.objectReference)
        let results = try context.results(Note.self)
        try isForeign(results.references.first)
        try isForeign(results.first?.objectReference)
        try isForeign(results.first?.labels.first?.objectReference)
        // Set before its target was saved.
        let (group, label) = (context.insert(Group(name: "new")), context.insert(Label(name: "new")))
        note.group = group
        note.labels.append(label)
        try context.save()
        try isForeign(group.objectReference)
        try isForeign(value().group)
        try isForeign(value().labels.last)
        context.delete(try #require(try context.fetch(Label.self).first))
        try isForeign(value().labels.last)
        context.close()
        try end()
    }

    @Test func referencesOfLiveResultsBelongToTheirStore() async throws {
        var updates = there.results(Note.self).makeAsyncIterator()
        let update = try #require(try await updates.next())
        try isForeign(update.references.first)
        try isForeign(update.values.first?.group)
        try isForeign(update.values.first?.labels.first)
        try end()
    }

    @Test func tombstonesBelongToTheirStore() throws {
        let note = try #require(try there.snapshot().references(to: Note.self).first)
        let token = try #require(try there.write { try $0.delete(note) }.token)
        let change = try #require(try there.history(after: token.number - 1).first?.changes.first)
        let reference = try #require(change.tombstone(of: Note.self)?.reference)
        expect(.referenceForeign) { try here.snapshot()[reference] }
        try end()
    }

    /// A predicate that cannot be translated asks each object.
    @Test func evaluatedPredicatesFindNothingOfAnotherStore() throws {
        let foreign = try groups(there)[0]
        let inside: Predicate<Object<Group>> = #Predicate { ($0.objectReference == foreign) == ($0.name.count > 1) }
        let through: Predicate<Object<Group>> = #Predicate { group in
            group.notes.contains { note in (note.group?.objectReference == foreign) == (note.title.count > 1) }
        }
        for predicate in [inside, through] {
            #expect(try here.snapshot().count(Group.self, where: predicate) == 0)
            #expect(try there.snapshot().count(Group.self, where: predicate) == 1)
        }
        try end()
    }

    @Test func listsRefuseForeignReferences() throws {
        let label = try there.write { try $0.insert(Label(name: "blue")) }.result
        try here.write { _ = try $0.insert(Label(name: "red")) }
        let error = expect(.referenceForeign) {
            try here.write { _ = try $0.insert(Note(title: "x", labels: [label])) }
        }
        let begin = "“labels” of “Note” refers to 3:2 of “Label”"
        #expect(error?.message.hasPrefix(begin) ?? false, "\(error?.message ?? "")")
        #expect(try here.snapshot().count(Note.self) == 1)
        try end()
    }

    @Test func contextsRefuseForeignReferences() throws {
        let (context, other) = (here.makeContext(), there.makeContext())
        let note = try #require(try context.fetch(Note.self).first)
        let group = try #require(try other.fetch(Group.self).first)
        let added = other.insert(Group(name: "added"))
        try other.save()
        for foreign in [group, added] {
            note.group = foreign
            #expect(note.group?.name == "here")
            expect(.referenceForeign) { try context.save() }
            note.objectUpdate { $0.group = foreign.objectReference }
            expect(.referenceForeign) { try context.save() }
            context.rollback()
            #expect(note.group?.name == "here")
        }
        // An object of another context of the same store is accepted.
        let own = try #require(try here.makeContext().fetch(Group.self).first)
        note.group = own
        try context.save()
        context.close()
        other.close()
        try end()
    }

    @Test func jsonContainsTheStoreOfAReference() throws {
        let note = try #require(try there.snapshot().references(to: Note.self).first)
        let link = Link(note: note)
        let text = String(decoding: try JSONEncoder().encode(link), as: UTF8.self)
        #expect(text.contains("\"\(note.id)@"))
        let read = try JSONDecoder().decode(Link.self, from: Data(text.utf8))
        expect(.referenceForeign) { try here.snapshot()[read.note] }
        let bare = try JSONDecoder().decode(Link.self, from: Data("{\"note\":\"\(note.id)\"}".utf8))
        #expect(bare == link)
        #expect(try here.snapshot()[bare.note]?.title == "here")
        for wrong in ["1:2@", "1:2@x", "1:2@1@2", "1:2@123456789", "@1", "1:2@+1", "1:2@01", "1:2@A"] {
            #expect(throws: DecodingError.self) {
                try JSONDecoder().decode(Link.self, from: Data("{\"note\":\"\(wrong)\"}".utf8))
            }
        }
        try end()
    }

    /// Whether it says of which store it is, does not matter inside a store, and in its copies.
    @Test func equalCodableValuesAreStoredAlike() throws {
        let note = try #require(try here.snapshot().references(to: Note.self).first)
        let bare = Reference<Note>(note.id)
        let card = try here.write { try $0.insert(Card(link: Link(note: note))) }.result
        #expect(try here.write { try $0.update(card) { $0.link = Link(note: bare) } }.result == false)
        #expect(try here.write { try $0.upsert(Card(link: Link(note: bare))) }.result == card)
        #expect(try here.snapshot().values(of: \Card.link, distinct: true).count == 1)
        let context = here.makeContext()
        try context.object(card).link = Link(note: note)
        #expect(try context.save() == here.currentToken && here.snapshot().count(Card.self) == 1)
        try here.setMetadata(note, for: "home")
        let path = folders[0].path + ".copy"
        try here.backup(to: path, newIdentity: true)
        let copy = try Store(at: path, entities: Self.entities)
        let link = try #require(try copy.snapshot().fetch(Card.self).first?.link)
        #expect(try copy.snapshot()[link.note]?.title == "here")
        let home = try #require(try copy.metadata("home", as: Reference<Note>.self))
        #expect(try copy.snapshot()[home]?.title == "here")
        try copy.close()
        try FileManager.default.removeItem(atPath: path)
        try end()
    }

    /// Translated and evaluated, in snapshots, transactions, contexts and batches.
    @Test func predicatesFindNothingOfAnotherStore() throws {
        let (foreign, own) = (try groups(there)[0], try groups(here)[0])
        let both: Set<Reference<Group>> = [foreign, own]
        let alone: Set<Reference<Group>> = [foreign]
        let none: [(Predicate<Object<Note>>, Int)] = [
            (#Predicate { $0.group?.objectReference == foreign }, 0),
            (#Predicate { $0.group?.objectReference != foreign }, 1),
            (#Predicate { $0.group?.objectReference == own }, 1),
        ]
        for (predicate, count) in none {
            #expect(try here.snapshot().count(Note.self, where: predicate) == count)
            #expect(try here.makeContext().count(Note.self, where: predicate) == count)
        }
        let groups: [(Predicate<Object<Group>>, Int)] = [
            (#Predicate { $0.objectReference == foreign }, 0), (#Predicate { alone.contains($0.objectReference) }, 0),
            (#Predicate { both.contains($0.objectReference) }, 1), (#Predicate { $0.objectReference != foreign }, 1),
            (#Predicate { $0.name.count > 0 && $0.objectReference == foreign }, 0),
        ]
        for (predicate, count) in groups {
            #expect(try here.snapshot().count(Group.self, where: predicate) == count)
            #expect(try here.write { try $0.count(Group.self, where: predicate) }.result == count)
        }
        #expect(try here.delete(Group.self, where: #Predicate { $0.objectReference == foreign }).count == 0)
        let updated = try here.update(Note.self, where: #Predicate { $0.group?.objectReference == foreign }) {
            $0.rank = 9
        }
        #expect(updated.count == 0)
        try end()
    }

    /// Each handle creates a file of its own, with its own identity, and all but one are given up.
    @Test func aStoreThatSeveralCreateAtOnceHasOneIdentity() async throws {
        for _ in 0..<50 {
            let folder = try StoreFolder()
            let references = try await withThrowingTaskGroup(of: Reference<Group>.self) { group in
                for number in 0..<4 {
                    group.addTask {
                        let store = try Store(at: folder.path, entities: Self.entities)
                        defer { try? store.close() }
                        return try store.write { try $0.insert(Group(name: "\(number)")) }.result
                    }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            let store = try Store(at: folder.path, entities: Self.entities)
            for reference in references { #expect(try store.snapshot()[reference] != nil) }
            try store.close()
            try folder.expectIntact()
        }
        try end()
    }

    /// A copy of the store is the same store, and one with a new identity is another.
    @Test func copiesAcceptReferencesUnlessTheyHaveANewIdentity() throws {
        let group = try groups(here)[0]
        for newIdentity in [false, true] {
            let path = folders[0].path + ".copy"
            try here.backup(to: path, newIdentity: newIdentity)
            let copy = try Store(at: path, entities: Self.entities)
            if newIdentity {
                expect(.referenceForeign) { try copy.snapshot()[group] }
            } else {
                #expect(try copy.snapshot()[group]?.name == "here")
            }
            try copy.close()
            try FileManager.default.removeItem(atPath: path)
        }
        // A layout that is made after a copy with another identity is of this store, too.
        try here.changeSchema([.addAttribute(AttributeDescription("added", .int), to: "Group")])
        let note = try #require(try here.snapshot().fetch(Note.self).first)
        #expect(try groups(here) == [group] && note.group == group)
        #expect(try here.snapshot()[group]?.name == "here")
        try here.write { _ = try $0.insert(Note(title: "own", group: group)) }
        try here.compact()
        #expect(try here.snapshot()[group]?.name == "here")
        try end()
    }
}
