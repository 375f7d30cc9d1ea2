// `annals schema --apply`, from outside. What `--swift` prints is compiled by Tests/run schemas.

import Annals
import TestSupport
import Testing

@Suite struct SchemaToolTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    private func apply(_ json: String, _ options: String...) throws -> ToolRun {
        try folder.temporary.write(json, to: "schema.json")
        return try runTool(["schema", folder.path, "--apply", folder.temporary.path("schema.json")] + options)
    }

    private func lines(_ run: ToolRun) -> [String] { run.output.split(separator: "\n").map(String.init) }

    private func entities() throws -> [EntityDescription] {
        let store = try Store(at: folder.path)
        defer { try? store.close() }
        return try store.entities
    }

    static let first = """
        {"entities": [
          {"name": "Folder", "attributes": [{"name": "name", "type": "string", "unique": true}]},
          {"name": "Clip", "attributes": [
            {"name": "title", "type": "string", "optional": false, "default": "untitled"},
            {"name": "rank", "type": "int"},
            {"name": "folder", "type": "object", "target": "Folder", "inverse": "clips", "deleteRule": "cascade"}],
           "keys": [{"attributes": ["rank", "title"], "unique": false}]}]}
        """

    @Test func aMissingStoreIsCreatedAndASecondRunChangesNothing() throws {
        let dry = try apply(Self.first, "--dry-run")
        #expect(dry.status == 0 && folder.temporary.names == ["schema.json"])
        let run = try apply(Self.first, "--author", "ops")
        #expect(run.status == 0 && lines(run).dropLast() == lines(dry)[...], "\(run.output)\(run.errors)")
        #expect(
            lines(dry).contains("add entity Clip")
                && lines(dry).contains("  folder: object, of Folder, inverse clips, delete rule cascade"))
        #expect(try lines(apply(Self.first, "--prune")) == ["nothing to change"])
        let store = try Store(at: folder.path)
        #expect(try store.history(after: 0).map(\.author) == ["ops"])
        #expect(try HistoryToken(lines(run).last ?? "") == store.currentToken)
        try store.close()
        try expectIntact(folder.path)
    }

    @Test func differencesAreChangedAndNothingElseIsRemoved() throws {
        #expect(try apply(Self.first).status == 0)
        let store = try Store(at: folder.path)
        let clip = try store.writeOptimistically { transaction in
            let folder = try transaction.insert("Folder", ["name": "a"])
            return try transaction.insert("Clip", ["rank": 3, "folder": .object(folder)])
        }.result
        try store.close()
        let second = """
            {"version": 9, "entities": [
              {"name": "Film", "renamedFrom": "Clip", "history": "off", "attributes": [
                {"name": "heading", "renamedFrom": "title", "type": "string", "indexed": true, "default": "untitled"},
                {"name": "folder", "type": "object", "target": "Folder", "inverse": "films", "deleteRule": "deny"},
                {"name": "done", "type": "bool", "optional": false, "default": false}],
               "keys": [{"attributes": ["folder", "heading"], "unique": true}]}]}
            """
        let wanted = [
            "rename entity Clip to Film", "Film: rename title to heading",
            "Film: history off, and remove its history",
            "Film: heading becomes optional, indexed", "Film: folder becomes inverse films, delete rule deny",
            "Film: add done: bool, required, default false", "Film: add unique key on folder, heading",
        ]
        #expect(try lines(apply(second, "--dry-run")) == wanted)
        #expect(try lines(apply(second)).dropLast() == wanted[...])
        let kept = try #require(try entities().first { $0.name == "Film" })
        #expect(kept.attributes.map(\.name) == ["heading", "rank", "folder", "done"] && kept.keys.count == 2)
        let pruned = [
            "Film: remove the key on rank, heading", "Film: remove rank, and hide its values",
        ]
        // The folder is a target of what stays.
        let refused = try apply(second, "--prune", "--dry-run")
        #expect(refused.status == 1 && refused.errors.contains("“folder” of “Film” refers to “Folder”"), "\(refused)")
        let target = #"{"name": "Folder", "attributes": [{"name": "name", "type": "string", "unique": true}]}"#
        let both = second.replacing(#"{"name": "Film""#, with: target + #", {"name": "Film""#)
        #expect(try lines(apply(both, "--prune")).dropLast() == pruned[...])
        #expect(try lines(apply(Self.first, "--prune")).contains("remove entity Film, and hide its objects"))
        let after = try Store(at: folder.path)
        #expect(try after.snapshot().row(clip) == nil && after.snapshot().count(of: "Folder") == 1)
        try after.close()
        try expectIntact(folder.path)
    }

    /// Names that move on, names that become free, and names that are exchanged.
    @Test func attributesCanTakeNamesFromEachOther() throws {
        func file(_ attributes: (String, String?)...) -> String {
            let lines = attributes.map { name, former in
                let renamed = former.map { #", "renamedFrom": "\#($0)""# } ?? ""
                return #"{"name": "\#(name)", "type": "string"\#(renamed)}"#
            }
            return #"{"entities": [{"name": "Item", "attributes": [\#(lines.joined(separator: ", "))]}]}"#
        }
        func row() throws -> [String: Value] {
            let store = try Store(at: folder.path)
            defer { try? store.close() }
            let row = try #require(try store.snapshot().rows(of: "Item").first)
            return Dictionary(uniqueKeysWithValues: zip(row.attributes, row.values))
        }
        #expect(try apply(file(("a", nil), ("b", nil))).status == 0)
        let store = try Store(at: folder.path)
        try store.writeOptimistically { _ = try $0.insert("Item", ["a": "A", "b": "B"]) }
        try store.close()
        // Twice, because files are applied again.
        for _ in 0..<2 {
            let run = try apply(file(("b", "a"), ("c", "b")))
            #expect(run.status == 0, "\(run.errors)")
            #expect(try row() == ["b": "A", "c": "B"])
        }
        for _ in 0..<2 {
            #expect(try apply(file(("d", "b"), ("b", nil), ("c", nil))).status == 0)
            #expect(try row() == ["d": "A", "b": .null, "c": "B"])
        }
        let ring = try apply(file(("c", "d"), ("d", "c"), ("b", nil)))
        #expect(ring.status == 1 && ring.errors.contains("take their names from each other"), "\(ring)")
        #expect(try row() == ["d": "A", "b": .null, "c": "B"])
        #expect(try apply(file(("e", "c"), ("d", nil), ("b", nil))).status == 0)
        #expect(try apply(file(("d", "e"), ("c", "d"), ("b", nil))).status == 0)
        #expect(try row() == ["c": "A", "b": .null, "d": "B"])
        try expectIntact(folder.path)
    }

    @Test func entitiesThatReferToEachOtherAreRemovedTogether() throws {
        let circle = """
            {"entities": [
              {"name": "A", "attributes": [
                {"name": "b", "type": "object", "target": "B"}, {"name": "n", "type": "int"}],
               "keys": [{"attributes": ["b", "n"]}]},
              {"name": "B", "attributes": [{"name": "a", "type": "objects", "target": "A"}]},
              {"name": "C", "attributes": [{"name": "c", "type": "object", "target": "C"}]}]}
            """
        #expect(try apply(circle).status == 0)
        let run = try apply(#"{"entities": [{"name": "D", "attributes": [{"name": "d", "type": "int"}]}]}"#, "--prune")
        #expect(run.status == 0, "\(run.errors)")
        #expect(try entities().map(\.name) == ["D"])
        try expectIntact(folder.path)
    }

    /// Each with what the message names.
    @Test(arguments: [
        (#"{"name": "title", "type": "int"}"#, ["“title” of “Clip”", "the type string", "another name"]),
        (
            #"{"name": "title", "type": "string", "optional": false}"#,
            ["“title” of “Clip”", "default", "another name"]
        ),
        (#"{"name": "rank", "type": "int", "optional": false}"#, ["“rank” of “Clip”", "is optional", "another name"]),
        (
            #"{"name": "folder", "type": "object", "target": "Clip"}"#,
            ["“folder” of “Clip”", "“Folder”", "another name"]
        ),
        (#"{"name": "folder", "type": "object", "target": "Folder"}"#, ["“folder” of “Clip”", "inverse “clips”"]),
        (#"{"name": "new", "type": "int", "optional": false}"#, ["“new” of “Clip”", "default"]),
        (#"{"name": "new", "type": "number"}"#, ["“new” of “Clip”", "decimal"]),
        (#"{"name": "new", "type": "int", "default": "x"}"#, ["“new” of “Clip”", "not of the type int"]),
        (#"{"name": "new", "type": "int", "deleteRule": "cascade"}"#, ["“new” of “Clip”", "delete rule"]),
        (#"{"name": "new", "type": "object", "deleteRule": "drop"}"#, ["“new” of “Clip”", "cascade"]),
        (#"{"name": "new", "type": "object", "target": "Nothing"}"#, ["Nothing"]),
        (#"{"name": "new", "type": "int", "size": 3}"#, ["Attribute 1 of “Clip”", "“size”", "preservedOnDeletion"]),
        (#"{"type": "int"}"#, ["Attribute 1 of “Clip”", "“name”"]),
        (#"{"name": "new", "type": "int", "unique": 1}"#, ["“new” of “Clip”", "“unique”"]),
        (#"{"name": "a", "type": "int"}, {"name": "a", "type": "int"}"#, ["“a” of “Clip”", "twice"]),
        (#"7"#, ["“Clip”", "“attributes”"]),
        (#"{"name": "", "type": "int"}"#, ["1 to 255 bytes"]),
    ])
    func aRefusalNamesEntityAttributeAndFix(attribute: String, words: [String]) throws {
        #expect(try apply(Self.first).status == 0)
        let before = try entities()
        let json = #"{"entities": [{"name": "Clip", "attributes": [\#(attribute)]}]}"#
        for options in [["--dry-run"], []] {
            try folder.temporary.write(json, to: "schema.json")
            let run = try runTool(
                ["schema", folder.path, "--apply", folder.temporary.path("schema.json")] + options)
            #expect(run.status == 1 && run.output.isEmpty, "\(run)")
            for word in words { #expect(run.errors.contains(word), "\(word): \(run.errors)") }
        }
        #expect(try entities() == before)
        try expectIntact(folder.path)
    }

    @Test func aBadFileCreatesNoStore() throws {
        for json in ["", "[]", "{", "{}", #"{"entities": 3}"#, #"{"entities": [3]}"#, "\u{0}", #"{"entities": [{}]}"#] {
            let run = try apply(json)
            #expect(run.status == 1 && run.errors.hasPrefix("annals: "), "\(json): \(run)")
            #expect(folder.temporary.names == ["schema.json"])
        }
        for options in [["--dry-run"], ["--prune"], ["--swift", "--format", "json"], ["--apply", "-", "--swift"]] {
            #expect(try runTool(["schema", folder.path] + options).status == 64)
        }
    }

    @Test func duplicatesRefuseUniquenessAndChangeNothing() throws {
        #expect(try apply(Self.first).status == 0)
        let store = try Store(at: folder.path)
        try store.writeOptimistically { transaction in for _ in 0..<2 { try transaction.insert("Clip", ["rank": 1]) } }
        try store.close()
        let json = #"{"entities": [{"name": "Clip", "attributes": [{"name": "rank", "type": "int", "unique": true}]}]}"#
        let run = try apply(json)
        #expect(run.status == 1 && run.errors.contains("“rank”"), "\(run)")
        #expect(try entities()[1]["rank"]?.isUnique == false)
        try expectIntact(folder.path)
    }

    @Test func swiftNamesTheOtherSidesAndRules() throws {
        #expect(try apply(Self.first).status == 0)
        #expect(
            try runTool(["schema", folder.path, "--swift"]).output == """
                import Annals
                import FoundationEssentials

                // let store = try Store(at: path, entities: [Folder.self, Clip.self])

                struct Folder: Entity {
                    var name: String?
                    var clips = ToMany<Clip>()

                    static let schema = Schema<Folder> {
                        Attribute(\\.name, .unique)
                    }
                }

                struct Clip: Entity {
                    var title: String = "untitled"
                    var rank: Int?
                    var folder: Reference<Folder>?

                    static let schema = Schema<Clip>(indexed: [[\\.rank, \\.title]]) {
                        Relationship(\\.folder, inverse: \\.clips, whenTargetIsDeleted: .cascade)
                    }
                }

                """)
    }
}
