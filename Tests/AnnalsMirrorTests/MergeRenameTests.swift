// Merging while stores have different names for the same entities and attributes.

import Annals
import AnnalsMirror
import FoundationEssentials
import TestSupport
import Testing

@Suite struct MergeRenameTests {
    private static let tag = EntityDescription(
        "Tag",
        attributes: [
            AttributeDescription("name", .string, isOptional: false, isUnique: true),
            AttributeDescription("rank", .int),
        ])
    private static let note = EntityDescription(
        "Note",
        attributes: [
            AttributeDescription("text", .string),
            AttributeDescription("tag", .object, target: "Tag", whenTargetIsDeleted: .nullify),
        ])

    private static func member(_ seed: UInt64) throws -> GroupMember {
        let store = try GroupMember.store(seed: seed, [tag, note])
        return GroupMember(store, try MergingStore(store))
    }

    /// The names in a store at present.
    private struct Names {
        var tag: String
        var name: String
        var rank: String

        init(_ store: Store) throws {
            let entity = try #require(
                try store.snapshot().entities.first { $0.attributes.contains { $0.type == .int } })
            tag = entity.name
            name = try #require(entity.attributes.first { $0.type == .string }).name
            rank = try #require(entity.attributes.first { $0.type == .int }).name
        }
    }

    /// The schema and the objects, without IDs.
    private static func lines(of store: Store) throws -> [String] {
        let (names, snapshot) = (try Names(store), try store.snapshot())
        var lines = try snapshot.rows(of: names.tag).map { row in
            let (name, rank) = (row[names.name] ?? .null, row[names.rank] ?? .null)
            return "\(names.tag) \(names.name) \(name) \(names.rank) \(rank)"
        }
        for row in try snapshot.rows(of: "Note") {
            var tag = Value.null
            if case .object(let object)? = row["tag"], let found = try snapshot.row(object) {
                tag = found[names.name] ?? .null
            }
            lines.append("Note \(row["text"] ?? .null) \(tag)")
        }
        return lines.sorted()
    }

    @Test func anUpdateUnderAFormerNameReachesTheAttribute() throws {
        let (a, b) = (try Self.member(1), try Self.member(2))
        let (first, _) = try a.store.write { try $0.insert("Tag", ["name": "x", "rank": 1]) }
        for own in try a.take() { try b.receive(own) }
        let copy = try #require(try b.store.snapshot().rows(of: "Tag").first).id
        try a.store.changeSchema([
            .renameAttribute("rank", of: "Tag", to: "level"), .renameEntity("Tag", to: "Label"),
        ])
        try a.store.write { try $0.update(first, ["level": 2]) }
        try b.store.write { try $0.update(copy, ["name": "y"]) }
        for rank in 3...9 { try b.store.write { try $0.update(copy, ["rank": .int(Int64(rank))]) } }
        let (ownOfA, ownOfB) = (try a.take(), try b.take())
        for own in ownOfB { try a.receive(own) }
        for own in ownOfA { try b.receive(own) }
        for store in [a.store, b.store] {
            let row = try #require(try store.snapshot().rows(of: "Label").first)
            #expect(row["level"] == 9 && row["name"] == "y")
        }
        // A new mirror reads the old names in history.
        try b.restart()
        try a.store.write { try $0.update(first, ["level": 10]) }
        for own in try a.take() { try b.receive(own) }
        #expect(try Self.lines(of: a.store) == Self.lines(of: b.store))
    }

    @Test(arguments: 1...16 as ClosedRange<UInt64>)
    func storesThatRenameAtAnyTimeAreEqual(seed: UInt64) throws {
        var random = SeededRandom(seed)
        let count = 2 + Int(seed % 2)
        let members = try (0..<count).map { try Self.member(seed << 8 | UInt64($0)) }
        var logs: [[OwnTransaction]] = try members.map { try $0.take() }
        var read = Array(repeating: Array(repeating: 0, count: count), count: count)
        func receive(_ reader: Int, _ writer: Int) throws -> Bool {
            guard read[reader][writer] < logs[writer].count else { return false }
            let next = logs[writer][read[reader][writer]]
            for peer in 0..<count where peer != reader {
                let known = next.knowledge[members[peer].store.identifier]
                guard members[reader].merging.knowledge[members[peer].store.identifier] >= known else { return false }
            }
            try members[reader].receive(next)
            read[reader][writer] += 1
            return true
        }
        var renamings: [(Names) -> SchemaChange] = [
            { .renameAttribute($0.rank, of: $0.tag, to: "level") },
            { .renameEntity($0.tag, to: "Label") },
            { .renameAttribute($0.name, of: $0.tag, to: "title") },
            { .renameAttribute($0.rank, of: $0.tag, to: "order") },
            { .renameAttribute($0.name, of: $0.tag, to: "label") },
        ]
        for step in 0..<140 {
            if step % 25 == 24 {
                let names = try Names(members[0].store)
                try members[0].store.changeSchema([renamings.removeFirst()(names)])
                logs[0] += try members[0].take()
                continue
            }
            let member = Int.random(in: 0..<count, using: &random)
            let writer = Int.random(in: 0..<count, using: &random)
            if member != writer {
                _ = try receive(member, writer)
            } else {
                try? Self.write(members[member].store, &random)
            }
            logs[member] += member == writer ? try members[member].take() : []
            if random.happens(0.05) { try members[member].restart() }
        }
        var moves = true
        while moves {
            moves = false
            for reader in 0..<count {
                for writer in 0..<count where writer != reader { if try receive(reader, writer) { moves = true } }
            }
        }
        let pictures = try members.map { try Self.lines(of: $0.store) }
        for picture in pictures { #expect(picture == pictures[0], "seed \(seed)") }
        for member in members {
            let path = member.store.path
            let report = try Checker.check(path, options: CheckOptions(), files: try Store.files(for: path))
            #expect(report.isIntact, "seed \(seed): \(report.findings)")
        }
    }

    /// A transaction that the store may refuse.
    private static func write(_ store: Store, _ random: inout SeededRandom) throws {
        let names = try Names(store)
        let snapshot = try store.snapshot()
        let (tags, notes) = (try snapshot.rows(of: names.tag).map(\.id), try snapshot.rows(of: "Note").map(\.id))
        let name: Value = .string("\(Int.random(in: 0..<5, using: &random))")
        let rank: Value = .int(Int64.random(in: 0..<100, using: &random))
        let (tag, note) = (tags.randomElement(using: &random), notes.randomElement(using: &random))
        let kind = Int.random(in: 0..<8, using: &random)
        try store.write { transaction in
            switch kind {
            case 0, 1: try transaction.insert(names.tag, [names.name: name, names.rank: rank])
            case 2, 3: if let tag { try transaction.update(tag, [names.rank: rank]) }
            case 4: if let tag { try transaction.update(tag, [names.name: name]) }
            case 5: if let tag { try transaction.delete(tag) }
            case 6: try transaction.insert("Note", ["text": name, "tag": tag.map { .object($0) } ?? .null])
            default: if let note, let tag { try transaction.update(note, ["tag": .object(tag)]) }
            }
        }
    }
}
