// From schema changes to definitions: what comes out, and everything that is refused.

import Annals
import Testing

@Suite struct SchemaPlanTests {
    static let folder = EntityDescription(
        "Folder",
        attributes: [
            AttributeDescription("name", .string),
            AttributeDescription("clips", .objects, target: "Clip", inverse: "folder"),
        ])
    static let clip = EntityDescription(
        "Clip",
        attributes: [
            AttributeDescription("title", .string, isOptional: false),
            AttributeDescription("rank", .int, isIndexed: true, defaultValue: 5),
            AttributeDescription("folder", .object, target: "Folder", inverse: "clips", whenTargetIsDeleted: .cascade),
            AttributeDescription("state", .string),
        ], keys: [IndexDescription(["rank", "state"], isUnique: true)])

    /// A catalog with the changes of each step as one version.
    static func catalog(_ steps: [[SchemaChange]]) throws -> SchemaCatalog {
        var catalog = SchemaCatalog()
        for changes in steps {
            let entities = try SchemaPlan.definitions(for: changes, catalog: catalog)
            try catalog.apply(SchemaDefinition(version: catalog.newestVersion + 1, entities: entities))
        }
        return catalog
    }

    static let start: [[SchemaChange]] = [[.addEntity(folder), .addEntity(clip)]]

    func plan(_ changes: SchemaChange..., after steps: [[SchemaChange]] = start) throws -> [EntityDefinition] {
        try SchemaPlan.definitions(for: changes, catalog: try Self.catalog(steps))
    }

    @Test func entitiesThatReferToEachOtherAreAddedTogether() throws {
        let definitions = try plan(.addEntity(Self.folder), .addEntity(Self.clip), after: [])
        #expect(definitions.map(\.number) == [1, 2] && definitions.map(\.name.text) == ["Folder", "Clip"])
        let clips = definitions[0].attributes[1]
        #expect(clips.target == 2 && clips.inverse?.text == "folder")
        let folder = definitions[1].attributes[2]
        #expect(folder.target == 1 && folder.inverse?.text == "clips" && folder.deleteRule == .cascade)
        #expect(
            definitions[1].attributes[0].flags == [] && definitions[1].attributes[1].flags == [.optional, .indexed])
        #expect(definitions[1].attributes[1].defaultValue == [5, 0, 0, 0, 0, 0, 0, 0])
        #expect(definitions[1].keys == [KeyDefinition(isUnique: true, attributes: [2, 4])])
    }

    @Test func onlyDifferencesAreDefined() throws {
        #expect(try plan() == [])
        #expect(try plan(.renameEntity("Clip", to: "Clip")) == [])
        #expect(try plan(.changeAttribute("rank", of: "Clip", isIndexed: true)) == [])
        #expect(try plan(.addEntity(EntityDescription("A", attributes: [])), .removeEntity("A")) == [])
        let renamed = try plan(.renameAttribute("name", of: "Folder", to: "title"))
        #expect(renamed.map(\.number) == [1] && renamed[0].attributes.map(\.name.text) == ["title", "clips"])
    }

    @Test func numbersAreNeverReused() throws {
        let steps = Self.start + [[.removeAttribute("name", from: "Folder")]]
        #expect(
            try plan(.addAttribute(.init("name", .int), to: "Folder"), after: steps)[0].attributes.map(\.number) == [
                2, 3,
            ])
        let both = try plan(.removeAttribute("name", from: "Folder"), .addAttribute(.init("name", .int), to: "Folder"))
        #expect(both[0].attributes.map(\.number) == [2, 3])
        // An attribute that came and went within the plan has used its number too.
        let passing = try plan(
            .addAttribute(.init("a", .int), to: "Folder"), .removeAttribute("a", from: "Folder"),
            .addAttribute(.init("b", .int), to: "Folder"))
        #expect(passing[0].attributes.map(\.number) == [1, 2, 4])
        let without =
            Self.start + [[.removeAttribute("clips", from: "Folder"), .removeAttribute("folder", from: "Clip")]]
        _ = without
        let gone = try plan(
            .addEntity(.init("A", attributes: [])), .removeEntity("A"), .addEntity(.init("B", attributes: [])))
        #expect(gone.map(\.number) == [4])
    }

    @Test func replacedAttributesKeepTheirPlaceAndName() throws {
        let definitions = try plan(.replaceAttribute("title", of: "Clip", by: .init("title", .json)))
        #expect(definitions[0].attributes.map(\.number) == [5, 2, 3, 4])
        #expect(definitions[0].attributes.map(\.name.text) == ["title", "rank", "folder", "state"])
    }

    @Test func inversesAreNamesThatFollowTheirAttribute() throws {
        let renamed = try plan(.renameAttribute("clips", of: "Folder", to: "items"))
        #expect(renamed.map(\.number) == [1, 2] && renamed[1].attributes[2].inverse?.text == "items")
        #expect(renamed[0].attributes[1].inverse?.text == "folder")
        // Also those that the same plan adds, whose targets are not known by number yet.
        let added = try plan(
            .addEntity(Self.folder), .addEntity(Self.clip), .renameAttribute("clips", of: "Folder", to: "items"),
            after: [])
        #expect(added[1].attributes[2].inverse?.text == "items" && added[1].attributes[2].target == 1)
        // An attribute of that name in another entity is not meant.
        let other = EntityDescription("Other", attributes: [.init("clips", .int)])
        let apart = try plan(.addEntity(other), .renameAttribute("clips", of: "Other", to: "items"))
        #expect(apart.map(\.number) == [3])
        // Without its attribute it is the name of a side to read from.
        let removed = try plan(.removeAttribute("clips", from: "Folder"))
        #expect(removed.map(\.number) == [1])
        let changed = try plan(.changeAttribute("folder", of: "Clip", inverse: "all", whenTargetIsDeleted: .deny))
        #expect(changed[0].attributes[2].inverse?.text == "all" && changed[0].attributes[2].deleteRule == .deny)
        #expect(changed[0].attributes.map(\.number) == [1, 2, 3, 4])
    }

    @Test func requiredAttributesCanBecomeOptional() throws {
        let definitions = try plan(.changeAttribute("title", of: "Clip", isOptional: true, isUnique: true))
        #expect(definitions[0].attributes[0].flags == [.optional, .unique])
        let added = try plan(.addAttribute(.init("n", .int, isOptional: false, defaultValue: 0), to: "Clip"))
        #expect(added[0].attributes.last?.flags == [])
    }

    static let refused: [(SchemaChange, StoreError.Code, String)] = [
        (.addEntity(.init("Clip", attributes: [])), .schemaRefused, "another name"),
        (.addEntity(.init("", attributes: [])), .schemaRefused, "1 to 255 bytes"),
        (.addEntity(.init(String(repeating: "x", count: 256), attributes: [])), .schemaRefused, "1 to 255 bytes"),
        (.addEntity(.init("A", attributes: [.init("x", .int), .init("x", .int)])), .schemaRefused, "already"),
        (
            .addEntity(.init("A", attributes: (0..<100_000).map { .init("x\($0)", .int) })), .schemaRefused,
            "at most 1000 attributes"
        ),
        (
            .addEntity(.init("A", attributes: [.init("x", .int, target: "Clip")])), .schemaRefused,
            "does not refer to objects"
        ),
        (.addEntity(.init("A", attributes: [.init("x", .object, inverse: "a")])), .schemaRefused, "name the target"),
        (.addEntity(.init("A", attributes: [.init("x", .object, target: "No")])), .unknownEntity, "“No”"),
        (
            .addEntity(.init("A", attributes: [.init("x", .object, target: "Clip", inverse: "")])), .schemaRefused,
            "1 to 255 bytes"
        ),
        (.changeAttribute("rank", of: "Clip", inverse: "clips"), .schemaRefused, "“rank” of “Clip” does not refer"),
        (
            .changeAttribute("rank", of: "Clip", whenTargetIsDeleted: .deny), .schemaRefused,
            "“rank” of “Clip” does not refer"
        ),
        (.changeAttribute("folder", of: "Clip", inverse: ""), .schemaRefused, "1 to 255 bytes"),
        (.addEntity(.init("A", attributes: [.init("x", .int, defaultValue: "a")])), .typeMismatch, "default"),
        (.addEntity(.init("A", attributes: [], keys: [.init(["x"])])), .unknownAttribute, "“x”"),
        (.addEntity(.init("A", attributes: [.init("x", .int)], keys: [.init([])])), .schemaRefused, "key"),
        (.addEntity(.init("A", attributes: [.init("x", .int)], keys: [.init(["x", "x"])])), .schemaRefused, "key"),
        (.removeEntity("No"), .unknownEntity, "“No”"),
        (.removeEntity("Folder"), .schemaRefused, "“folder” of “Clip”"),
        (.renameEntity("Clip", to: "Folder"), .schemaRefused, "already"),
        (.renameEntity("No", to: "A"), .unknownEntity, "“No”"),
        (.addAttribute(.init("rank", .int), to: "Clip"), .schemaRefused, "already"),
        (.addAttribute(.init("x", .int), to: "No"), .unknownEntity, "“No”"),
        (.addAttribute(.init("x", .int, isOptional: false), to: "Clip"), .schemaRefused, "give it a default"),
        (
            .addAttribute(
                .init("x", .string, defaultValue: .string(String(repeating: "x", count: 65_537))), to: "Clip"),
            .tooLarge, "shorten"
        ),
        (.removeAttribute("no", from: "Clip"), .unknownAttribute, "“no”"),
        (.removeAttribute("rank", from: "Clip"), .schemaRefused, "remove the key first"),
        (.renameAttribute("title", of: "Clip", to: "rank"), .schemaRefused, "already"),
        (.replaceAttribute("title", of: "Clip", by: .init("rank", .int)), .schemaRefused, "already"),
        (.changeAttribute("rank", of: "Clip", isOptional: false), .schemaRefused, "carry the values over"),
        (.changeAttribute("no", of: "Clip", isIndexed: true), .unknownAttribute, "“no”"),
        (.addKey(.init(["rank", "state"]), to: "Clip"), .schemaRefused, "already"),
        (.removeKey(.init(["rank"]), from: "Clip"), .schemaRefused, "no key"),
    ]

    @Test(arguments: refused)
    func impossibleChangesAreRefused(change: SchemaChange, code: StoreError.Code, words: String) throws {
        let error = #expect(throws: StoreError.self) { try plan(change) }
        #expect(error?.code == code && error?.message.contains(words) == true, "\(error?.description ?? "")")
    }

    // MARK: Declared entities

    func additions(_ declared: EntityDescription...) throws -> [SchemaChange] {
        try SchemaPlan.additions(of: declared, to: try Self.catalog(Self.start))
    }

    @Test func existingDeclarationsAddNothing() throws {
        #expect(try additions(Self.clip, Self.folder) == [])
        #expect(try additions(.init("Clip", attributes: [.init("title", .string, isOptional: false)])) == [])
    }

    @Test func missingDeclarationsAreAdded() throws {
        let title = AttributeDescription("title", .string, isOptional: false, isIndexed: true, isUnique: true)
        let note = AttributeDescription("note", .data)
        let key = IndexDescription(["rank", "title"])
        let page = EntityDescription("Page", attributes: [])
        #expect(
            try additions(.init("Clip", attributes: [title, note], keys: [key]), page) == [
                .changeAttribute("title", of: "Clip", isIndexed: true, isUnique: true), .addAttribute(note, to: "Clip"),
                .addKey(key, to: "Clip"), .addEntity(page),
            ])
    }

    @Test func anInverseThatTheStoreDoesNotHaveIsAdded() throws {
        var clip = Self.clip
        clip.attributes[2].inverse = nil
        let catalog = try Self.catalog([[.addEntity(Self.folder), .addEntity(clip)]])
        #expect(
            try SchemaPlan.additions(of: [Self.clip], to: catalog) == [
                .changeAttribute("folder", of: "Clip", inverse: "clips")
            ])
    }

    static let mismatches: [(AttributeDescription, [String])] = [
        (.init("rank", .double), ["type int", "type double"]),
        (.init("title", .string), ["is required", "optional", "changeAttribute"]),
        (.init("title", .string, isOptional: false, defaultValue: "x"), ["no default", "string(\"x\")"]),
        (.init("rank", .int, defaultValue: 6), ["int(5)", "int(6)"]),
        (.init("rank", .int, defaultValue: .some(.null)), ["int(5)", "null"]),
        (.init("folder", .object, target: "Clip"), ["refers to “Folder”", "“Clip”"]),
        (.init("folder", .object, target: "Folder", inverse: "name"), ["“clips”", "“name”"]),
        (.init("folder", .object, target: "Folder", whenTargetIsDeleted: .deny), ["cascade", "deny"]),
        (.init("folder", .object, target: "Folder"), ["cascade", "noAction"]),
    ]

    @Test(arguments: mismatches) func anotherDeclarationIsAMismatch(_ declared: AttributeDescription, _ words: [String])
    {
        do {
            _ = try additions(.init("Clip", attributes: [declared]))
            Issue.record("\(declared) was ignored")
        } catch let error as StoreError {
            #expect(error.code == .schemaMismatch)
            for word in ["“\(declared.name)”", "“Clip”"] + words {
                #expect(error.message.contains(word), "\(error.message) does not say \(word)")
            }
        } catch {
            Issue.record(error)
        }
    }

    @Test func aDeclarationWithFewerOptionsIsNoMismatch() throws {
        let declared: [AttributeDescription] = [
            .init("title", .string, isOptional: false), .init("rank", .int), .init("rank", .int, isOptional: false),
            .init("folder", .object),
        ]
        for attribute in declared { #expect(try additions(.init("Clip", attributes: [attribute])) == []) }
    }
}
