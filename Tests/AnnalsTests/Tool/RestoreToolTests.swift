// `annals restore`: earlier states of everything, of an entity and of single objects, from history and from a backup.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct RestoreToolTests {
    private static let tag = EntityDescription(
        "Tag", attributes: [AttributeDescription("name", .string, isUnique: true)])
    private static let item = EntityDescription(
        "Item",
        attributes: [
            AttributeDescription("key", .string, isOptional: false, isUnique: true),
            AttributeDescription("text", .string), AttributeDescription("size", .double),
            AttributeDescription("tag", .object, target: "Tag", whenTargetIsDeleted: .cascade),
            AttributeDescription("other", .object, target: "Tag", whenTargetIsDeleted: .deny),
            AttributeDescription("tags", .objects, target: "Tag", whenTargetIsDeleted: .nullify),
            AttributeDescription("order", .orderedObjects, target: "Tag"),
        ])

    private let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    private func restore(_ arguments: String...) throws -> ToolRun {
        try runTool(["restore", folder.path] + arguments)
    }

    /// All objects, as texts.
    private func state(_ snapshot: Snapshot) throws -> [String] {
        try snapshot.entities.flatMap { entity in
            try snapshot.rows(of: entity.name).map { "\($0.id) \($0.attributes) \($0.values)" }
        }
    }

    // MARK: Everything

    /// After random changes, each earlier state comes back exactly, from history or from a backup: by one transaction,
    /// which a dry run has announced.
    @Test(arguments: 1...8 as ClosedRange<UInt64>, [false, true])
    func eachStateComesBack(seed: UInt64, fromBackup: Bool) throws {
        var random = SeededRandom(seed)
        let temporary = try TemporaryDirectory()
        var store = try folder.open([Self.tag, Self.item])
        let long = String(repeating: "long ", count: 10_000)
        func values(_ tags: [ObjectID]) -> [String: Value] {
            func one() -> Value { tags.isEmpty || random.happens(0.4) ? .null : .object(random.one(of: tags)) }
            return [
                "size": .double(random.one(of: [0.0, -0.0, .nan, 1.5])),
                "text": random.one(of: [.null, "a", "e\u{301}", "\u{e9}", .string(long)]), "tag": one(), "other": one(),
                "tags": .objects(tags.filter { _ in random.happens(0.4) }),
                "order": .orderedObjects(tags.shuffled(using: &random)),
            ]
        }
        for round in 0..<12 {
            for step in 0..<4 {
                let (tags, items) = (
                    try store.snapshot().rows(of: "Tag").map(\.id), try store.snapshot().rows(of: "Item").map(\.id)
                )
                // A denied deletion changes nothing.
                _ = try? store.write { transaction in
                    switch Int.random(in: 0..<6, using: &random) {
                    case 0: try transaction.insert("Tag", ["name": .string("t\(round).\(step)")])
                    case 1 where !tags.isEmpty: try transaction.delete(random.one(of: tags))
                    case 2 where !items.isEmpty: try transaction.delete(random.one(of: items))
                    case 3 where items.count > 1:
                        // The keys of two objects are exchanged.
                        let pair = items.shuffled(using: &random)
                        let keys = try pair.map { try transaction.row($0)?["key"] ?? .null }
                        try transaction.update(pair[0], ["key": keys[1]])
                        try transaction.update(pair[1], ["key": keys[0]])
                    case 4 where !items.isEmpty: try transaction.update(random.one(of: items), values(tags))
                    default:
                        // The key of a deleted object is used again.
                        let key = "k\(Int.random(in: 0..<6, using: &random))"
                        try transaction.insert("Item", values(tags).merging(["key": .string(key)]) { $1 })
                    }
                }
            }
            if round == 6 { try store.backup(to: temporary.path("backup")) }
        }
        let backup = try Store(at: temporary.path("backup"))
        let last = fromBackup ? try backup.currentToken.number : try store.currentToken.number
        try backup.close()
        // History no longer has what the backup has.
        if fromBackup { #expect(try runTool(["clean", folder.path, "--before", "\(last + 1)"]).status == 0) }
        let source = fromBackup ? ["--from", temporary.path("backup")] : []
        for _ in 0..<5 {
            let number = UInt64.random(in: 1...last, using: &random)
            let expected = try state(
                fromBackup
                    ? Store(at: temporary.path("backup")).snapshot(asOf: number) : store.snapshot(asOf: number))
            let before = try (state(store.snapshot()), store.currentToken.number)
            try store.close()
            let dry = try runTool(["restore", folder.path, "--to", "\(number)", "--dry-run"] + source)
            #expect(dry.status == 0 && dry.errors == "", "seed \(seed): \(dry.errors)")
            let run = try runTool(["restore", folder.path, "--to", "\(number)", "--format", "json"] + source)
            #expect(run.status == 0 && run.errors == "", "seed \(seed), to \(number): \(run.errors)")
            store = try Store(at: folder.path)
            let comment = Comment(rawValue: "seed \(seed), to \(number), backup \(fromBackup): \(run.output)")
            #expect(try state(store.snapshot()) == expected, comment)
            let differs = before.0 != expected
            #expect(try store.currentToken.number == before.1 + (differs ? 1 : 0), comment)
            #expect(dry.output.split(separator: "\n").count == (try changes(store, after: before.1)), comment)
        }
        try store.close()
        try folder.expectIntact()
    }

    private func changes(_ store: Store, after number: UInt64) throws -> Int {
        try store.history(HistoryRequest(after: .number(number))).reduce(0) { $0 + $1.changes.count }
    }

    // MARK: Some objects

    private func makeItems() throws -> (tag: ObjectID, items: [ObjectID]) {
        let store = try folder.open([Self.tag, Self.item])
        let made = try store.write { transaction in
            let tag = try transaction.insert("Tag", ["name": "swift"])
            let items = try ["a", "b", "7"].map {
                try transaction.insert("Item", ["key": .string($0), "size": .double(1), "tag": .object(tag)])
            }
            return (tag, items)
        }.result
        try store.write { try $0.update(made.1[0], ["size": .double(2), "text": "new"]) }
        try store.write { try $0.delete(made.1[1]) }
        try store.write { try $0.insert("Item", ["key": "c"]) }
        try store.close()
        return made
    }

    @Test func someObjectsComeBackAndTheRestStays() throws {
        let items = try makeItems().items
        // By label, by number and by ID.
        let dry = try restore("Item", "b", "--to", "2", "--dry-run", "--format", "text")
        #expect(dry.output == "+  Item b (2:2)\n", "\(dry)")
        let run = try restore("Item", "b", "1", "2:2", "--to", "2", "--author", "me", "--context", "mistake")
        #expect(run.status == 0 && run.output.hasPrefix("1 inserted, 1 updated, 0 deleted; token A1."), "\(run)")
        let store = try Store(at: folder.path)
        let now = try store.snapshot()
        #expect(try now.row(items[0])?["size"] == .double(1) && now.row(items[0])?["text"] == .null)
        #expect(try now.row(items[1])?["key"] == "b" && now.count(of: "Item") == 4)
        let last = try #require(try store.history(HistoryRequest(after: .number(5))).first)
        #expect(last.author == "me" && last.contextName == "mistake" && last.changes.count == 2)
        try store.close()
        // Again there is nothing to do. An object that was inserted since is deleted.
        #expect(try restore("Item", "b", "--to", "2").output == "Nothing differs from that state.\n")
        #expect(try restore("Item", "c", "--to", "2").output.hasPrefix("0 inserted, 0 updated, 1 deleted; token"))
        try folder.expectIntact()
    }

    @Test func aMissingTargetIsRestoredFirst() throws {
        let (tag, items) = try makeItems()
        let store = try Store(at: folder.path)
        // Its items follow it.
        try store.write { try $0.delete(tag) }
        #expect(try store.snapshot().count(of: "Item") == 1)
        try store.close()
        let run = try restore("Item", "a", "b", "--to", "2")
        #expect(run.status == 1 && run.output == "", "\(run)")
        #expect(
            run.errors == """
                annals: “tag” of “Item” 1 refers to 1:1, which does not exist: insert it in the same transaction, or \
                refer to another object.
                Tag swift (1:1) was deleted since. Restore it first: annals restore STORE 'Tag' 1:1 with the same \
                options.

                """, "\(run.errors)")
        #expect(try restore("Item", "a", "b", "--to", "2", "--dry-run").errors == run.errors)
        #expect(try restore("Tag", "1:1", "--to", "2").status == 0)
        #expect(try restore("Item", "a", "b", "7", "--to", "2").status == 0)
        let again = try Store(at: folder.path)
        #expect(try again.snapshot().row(items[1])?["tag"] == .object(tag))
        try again.close()
        try folder.expectIntact()
    }

    @Test func aTakenKeyIsAnError() throws {
        _ = try makeItems()
        #expect(try runTool(["insert", folder.path, "Item", "key=b"]).status == 0)
        // The deleted object is meant, and not the new one of that label.
        for extra in [[], ["--dry-run"]] {
            let run = try runTool(["restore", folder.path, "Item", "b", "--to", "2"] + extra)
            #expect(run.status == 1 && run.output == "" && run.errors.contains("“key”"), "\(run)")
        }
        #expect(try restore("Item", "b", "2:5", "--to", "2").status == 0)
        let missing = try restore("Item", "99", "--to", "2")
        #expect(missing.status == 1 && missing.errors.contains("2:99 did not exist"), "\(missing)")
        try folder.expectIntact()
    }

    @Test func aDeniedDeletionIsAnError() throws {
        let store = try folder.open([Self.tag, Self.item])
        try store.write { try $0.insert("Item", ["key": "a"]) }
        let tag = try store.write { try $0.insert("Tag", ["name": "new"]) }.result
        try store.write { try $0.insert("Item", ["key": "b", "other": .object(tag)]) }
        try store.close()
        for extra in [[], ["--dry-run"]] {
            let run = try runTool(["restore", folder.path, "Tag", "--to", "2"] + extra)
            #expect(run.status == 1 && run.output == "" && run.errors.contains("“other”"), "\(run)")
        }
        #expect(try restore("--to", "2").status == 0)
        try folder.expectIntact()
    }

    // MARK: Delete rules

    /// Objects that are not selected follow their delete rules. A dry run shows that, and the counts have it.
    @Test func effectsOfDeleteRulesAreShown() throws {
        let store = try folder.open([Self.tag, Self.item])
        let items = try store.write { transaction in
            try ["a", "b"].map { try transaction.insert("Item", ["key": .string($0)]) }
        }.result
        let tag = try store.write { try $0.insert("Tag", ["name": "new"]) }.result
        try store.write { try $0.update(items[0], ["tag": .object(tag)]) }
        try store.write { try $0.update(items[1], ["tags": .objects([tag])]) }
        try store.close()
        let dry = try restore("Tag", "--to", "2", "--dry-run", "--format", "text")
        let lines = dry.output.split(separator: "\n").map {
            $0.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        }
        #expect(
            Set(lines) == ["- Tag new (1:1)", "- Item a (2:1)", "Item b (2:2) tags [new (1:1)] []"], "\(dry)")
        let run = try restore("Tag", "--to", "2")
        #expect(run.output.hasPrefix("0 inserted, 1 updated, 2 deleted; token"), "\(run)")
        try folder.expectIntact()
    }

    /// An attribute that was added since keeps its values, but not references to objects that the restore deletes.
    @Test(arguments: DeleteRule.allCases, [false, true])
    func keptReferencesDeleteNothing(rule: DeleteRule, fromBackup: Bool) throws {
        let temporary = try TemporaryDirectory()
        let store = try folder.open([Self.tag, Self.item])
        let item = try store.write { try $0.insert("Item", ["key": "a"]) }.result
        try store.backup(to: temporary.path("backup"))
        try store.changeSchema([
            .addAttribute(AttributeDescription("one", .object, target: "Tag", whenTargetIsDeleted: rule), to: "Item"),
            .addAttribute(AttributeDescription("all", .objects, target: "Tag", whenTargetIsDeleted: rule), to: "Item"),
        ])
        let tag = try store.write { try $0.insert("Tag", ["name": "new"]) }.result
        try store.write { try $0.update(item, ["one": .object(tag), "all": .objects([tag])]) }
        try store.close()
        let source = fromBackup ? ["--from", temporary.path("backup")] : ["--to", "2"]
        let dry = try runTool(["restore", folder.path, "--dry-run"] + source)
        #expect(dry.status == 0 && dry.output.split(separator: "\n").count == 2, "\(dry)")
        let run = try runTool(["restore", folder.path] + source)
        #expect(run.status == 0 && run.output.hasPrefix("0 inserted, 1 updated, 1 deleted; token"), "\(run)")
        #expect(try runTool(["restore", folder.path] + source).output == "Nothing differs from that state.\n")
        let again = try Store(at: folder.path)
        #expect(try again.snapshot().row(item)?["one"] == .null && again.snapshot().row(item)?["all"] == .objects([]))
        try again.close()
        try folder.expectIntact()
    }

    /// A text that is the number of one object and the label of another one names none, in the earlier state too.
    @Test func anAmbiguousNameIsAnError() throws {
        let store = try folder.open([Self.tag, Self.item])
        let tags = try store.write { transaction in
            try ["2", "b"].map { try transaction.insert("Tag", ["name": .string($0)]) }
        }.result
        try store.write { try $0.update(tags[0], ["name": "renamed"]) }
        try store.close()
        let run = try restore("Tag", "2", "--to", "2")
        #expect(run.status == 1 && run.errors.contains("is the ID of 1:2 and the label of 1:1"), "\(run)")
        #expect(try restore("Tag", "1:1", "--to", "2").status == 0)
        try folder.expectIntact()
    }

    /// A note that cannot be printed does not hide the result.
    @Test func theResultIsPrintedWithoutStandardError() throws {
        _ = try makeItems()
        let store = try Store(at: folder.path)
        try store.changeSchema([.removeAttribute("text", from: "Item")])
        try store.close()
        let run = try runTool(["restore", folder.path, "--to", "2"], closing: [2])
        #expect(run.status == 0 && run.output.contains("; token A1."), "\(run)")
        try folder.expectIntact()
    }

    // MARK: Schemas

    @Test func theSchemaIsKept() throws {
        let items = try makeItems().items
        let store = try Store(at: folder.path)
        try store.changeSchema([
            .renameEntity("Item", to: "Ding"), .renameAttribute("key", of: "Ding", to: "schlüssel"),
            .removeAttribute("text", from: "Ding"),
            .replaceAttribute("size", of: "Ding", by: AttributeDescription("size", .int)),
            .addAttribute(AttributeDescription("stars", .int, defaultValue: 5), to: "Ding"),
            .addEntity(EntityDescription("New", attributes: [AttributeDescription("n", .int)])),
        ])
        try store.write { try $0.update(items[0], ["schlüssel": "other", "stars": 3, "size": 9]) }
        try store.write { try $0.insert("New", ["n": 1]) }
        try store.close()
        let run = try restore("--to", "2")
        #expect(run.status == 0 && run.output.hasPrefix("1 inserted, 1 updated, 2 deleted"), "\(run)")
        let kept = "of “Ding” stays as it is: the schema no longer has that attribute"
        #expect(
            run.errors == "note: “text” \(kept).\nnote: “size” \(kept), but another one of its name.\n", "\(run.errors)"
        )
        let again = try Store(at: folder.path)
        let now = try again.snapshot()
        // An attribute that did not exist then keeps its value, or has its default in a new row.
        #expect(try now.row(items[0])?["schlüssel"] == "a" && now.row(items[0])?["stars"] == 3)
        #expect(try now.row(items[0])?["size"] == 9 && now.row(items[1])?["size"] == .null)
        #expect(try now.row(items[1])?["schlüssel"] == "b" && now.row(items[1])?["stars"] == 5)
        #expect(try now.count(of: "New") == 0)
        try again.changeSchema([.removeEntity("New")])
        try again.close()
        let rest = try restore("--to", "7")
        #expect(rest.status == 0 && rest.errors.contains("The objects of “New” stay removed"), "\(rest)")
        try folder.expectIntact()
    }

    // MARK: Places without history

    @Test func anOlderStateComesFromABackup() throws {
        let items = try makeItems().items
        let temporary = try TemporaryDirectory()
        var store = try Store(at: folder.path)
        try store.backup(to: temporary.path("backup"))
        try store.write { try $0.delete(items[2]) }
        #expect(try runTool(["clean", folder.path, "--before", "7"]).status == 0)
        try store.compact()
        try store.close()
        let expired = try restore("--to", "2")
        #expect(expired.status == 1 && expired.errors.contains("--from BACKUP"), "\(expired)")
        #expect(try restore("Item", "7", "--from", temporary.path("backup"), "--to", "2").status == 0)
        store = try Store(at: folder.path)
        #expect(try store.snapshot().row(items[2])?["key"] == "7")
        // A state without history.
        try store.changeSchema([.changeEntity("Item", history: .off)])
        try store.write { try $0.update(items[2], ["size": .double(7)]) }
        let number = try store.currentToken.number
        try store.close()
        let gap = try restore("--to", "\(number - 1)")
        #expect(gap.status == 1 && gap.errors.contains("--from BACKUP"), "\(gap)")
        let run = try restore("Item", "--from", temporary.path("backup"))
        #expect(run.status == 0 && run.output.hasPrefix("0 inserted, 1 updated"), "\(run)")
        try folder.expectIntact()
    }

    @Test func onlyABackupOfTheStoreIsTaken() throws {
        _ = try makeItems()
        let temporary = try TemporaryDirectory()
        let other = try StoreFolder()
        try other.open([Self.tag, Self.item]).close()
        let foreign = try restore("--from", other.path)
        #expect(foreign.status == 1 && foreign.errors.contains("is not a backup of this store"), "\(foreign)")
        let store = try Store(at: folder.path)
        try store.backup(to: temporary.path("copy"))
        try store.close()
        #expect(try runTool(["insert", temporary.path("copy"), "Tag", "name=x"]).status == 0)
        let newer = try restore("--from", temporary.path("copy"))
        #expect(newer.status == 1 && newer.errors.contains("transactions that this store does not have"), "\(newer)")
        #expect(try restore("--from", temporary.path("copy"), "--to", "2", "Item", "a").status == 0)
        #expect(try restore("Item", "a").status == 64)
        #expect(try restore("--to", "2", "--format", "csv").status == 64)
        try other.expectIntact()
        try folder.expectIntact()
    }
}
