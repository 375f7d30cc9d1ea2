// Every mistake in the declaration of an entity, with what opening a store says of it, and the entity with the fix that
// is proposed. What the compiler says of others is in Tests/Messages.

// swift-format-ignore-file: IdentifiersMustBeASCII, AlwaysUseLowerCamelCase

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct ModellingMistakeTests {
    struct Mistake: Sendable, CustomTestStringConvertible {
        let wrong: any Entity.Type
        let right: (any Entity.Type)?
        let message: String

        init(_ wrong: any Entity.Type, _ right: (any Entity.Type)?, _ message: String) {
            (self.wrong, self.right, self.message) = (wrong, right, message)
        }

        var testDescription: String { "\(wrong)" }
    }

    static let mistakes: [Mistake] = [
        .init(
            Wrong.TwoOptionals.self, Right.TwoOptionals.self,
            "“title” of “TwoOptionals” has the type Int??, which a store cannot keep: an optional of an optional has "
                + "no stored form: write Int?, or write Transient(\\.title) in the schema."),
        .init(
            Wrong.OptionalList.self, Right.OptionalList.self,
            "“others” of “OptionalList” has the type [Reference<Other>]?, which a store cannot keep: a "
                + "list without objects is empty: write [Reference<Other>] = [], or write Transient(\\.others) "
                + "in the schema."),
        .init(
            Wrong.OptionalSet.self, Right.OptionalSet.self,
            "“others” of “OptionalSet” has the type Set<Reference<Other>>?, which a store cannot keep: a "
                + "list without objects is empty: write Set<Reference<Other>> = [], or write "
                + "Transient(\\.others) in the schema."),
        .init(
            Wrong.OptionalSide.self, nil,
            "“owners” of “OptionalSide” has the type ToMany<Owner>?, which a store cannot keep: it stores nothing: "
                + "write var owners = ToMany<Owner>(), or write Transient(\\.owners) in the schema."),
        .init(
            Wrong.WholeEntity.self, Right.WholeEntity.self,
            "“other” of “WholeEntity” has the type Other?, which a store cannot keep: an object refers to other "
                + "objects: write Reference<Other>?, or write Transient(\\.other) in the schema."),
        .init(
            Wrong.WholeEntities.self, Right.WholeEntities.self,
            "“others” of “WholeEntities” has the type [Other], which a store cannot keep: an object refers to other "
                + "objects: write [Reference<Other>], or write Transient(\\.others) in the schema."),
        .init(
            Wrong.CodedEntity.self, nil,
            [
                ("piece", "CodedOther", "Reference<CodedOther>?"), ("perhaps", "CodedOther?", "Reference<CodedOther>?"),
                ("more", "[CodedOther]", "[Reference<CodedOther>]"),
                ("byName", "[String: CodedOther]", "[Reference<CodedOther>]"),
            ].map { name, type, instead in
                "“\(name)” of “CodedEntity” has the type \(type), which a store cannot keep: an object refers to other "
                    + "objects: write \(instead), or write Transient(\\.\(name)) in the schema."
            }.joined(separator: "\n")),
        .init(
            Wrong.ListOfSides.self, nil,
            "“owners” of “ListOfSides” has the type [ToMany<Owner>], which a store cannot keep: it is the whole other "
                + "side: write var owners = ToMany<Owner>(), or write Transient(\\.owners) in the schema."),
        .init(
            Wrong.NeededReference.self, Right.NeededReference.self,
            "“other” of “NeededReference” must be optional, because a new value refers to no object: write "
                + "Reference<…>?, and add the option .required if it must be set when it is saved."),
        .init(
            Wrong.Wrapped.self, Right.Wrapped.self,
            "“title” of “Wrapped” has a property wrapper, or is named “_title”, and a store keeps neither: make it a "
                + "plain property named “title”, or write Transient(\\._title) in the schema."),
        .init(
            Wrong.WrappedLine.self, Right.WrappedLine.self,
            "A property of “WrappedLine” of the type Int (LINE) is computed, or has willSet or didSet (is it "
                + "“number”?), or a property wrapper (is it “title”?): only plain stored properties have a line in the "
                + "schema. Make it a plain stored property, or remove it there.\n“title” of “WrappedLine” has a "
                + "property wrapper, or is named “_title”, and a store keeps neither: make it a plain property named "
                + "“title”, or write Transient(\\._title) in the schema."),
        .init(
            Wrong.Lazy.self, Right.Lazy.self,
            "“title” of “Lazy” is lazy, but a store keeps plain properties only: remove `lazy`, or make it a computed "
                + "property."),
        .init(
            Wrong.Observed.self, Right.Observed.self,
            "A property of “Observed” of the type String (LINE) is computed, or has willSet or didSet (is it "
                + "“title”?), or a property wrapper: only plain stored properties have a line in the schema. Make it a "
                + "plain stored property, or remove it there."),
        .init(
            Wrong.WillBeSet.self, Right.WillBeSet.self,
            "A property of “WillBeSet” of the type String (LINE) is computed, or has willSet or didSet (is it "
                + "“title”?), or a property wrapper: only plain stored properties have a line in the schema. Make it a "
                + "plain stored property, or remove it there."),
        .init(
            Wrong.Computed.self, Right.Computed.self,
            "A property of “Computed” of the type Int (LINE) is computed, or has willSet or didSet (is it “number”?), "
                + "or a property wrapper: only plain stored properties have a line in the schema. Make it a plain "
                + "stored property, or remove it there."),
        .init(
            Wrong.KeyOfComputed.self, Right.KeyOfComputed.self,
            "A property of “KeyOfComputed” of the type Int in a key (LINE) is computed, or has willSet or didSet (is "
                + "it “number”?), or a property wrapper: only plain stored properties are part of a key. Make it a "
                + "plain stored property, or remove it there."),
        .init(
            Wrong.FirstPart.self, Right.FirstPart.self,
            "“place.city” of “FirstPart” (LINE) is a part of “place”, and only whole properties have a line in the "
                + "schema: name “place”, or make the part its own property."),
        .init(
            Wrong.LaterPart.self, Right.LaterPart.self,
            "“place.street” of “LaterPart” (LINE) is a part of “place”, and only whole properties have a line in the "
                + "schema: name “place”, or make the part its own property."),
        .init(
            Wrong.KeyOfPart.self, Right.KeyOfPart.self,
            "“place.city” of “KeyOfPart” in a key (LINE) is a part of “place”, and only whole properties are part of a "
                + "key: name “place”, or make the part its own property."),
        .init(
            Wrong.KeyOfSelf.self, Right.KeyOfSelf.self,
            "\\KeyOfSelf.self in a key (LINE) is not a property of “KeyOfSelf”: name a property."),
        .init(
            Wrong.KeyOfTransient.self, Right.KeyOfTransient.self,
            "“cache” of “KeyOfTransient” cannot be part of a key: remove it from the key."),
        .init(
            Wrong.AnyThing.self, Right.AnyThing.self,
            "“title” of “AnyThing” has a protocol as its type (any …), which a store cannot keep: write a "
                + "type that is Codable, such as an enumeration with a case for each type, or write "
                + "Transient(\\.title) in the schema."),
        .init(
            Wrong.AnyShape.self, Right.AnyShape.self,
            "“title” of “AnyShape” has a protocol as its type (any …), which a store cannot keep: write a "
                + "type that is Codable, such as an enumeration with a case for each type, or write "
                + "Transient(\\.title) in the schema."),
        .init(
            Wrong.AnyError.self, Right.AnyError.self,
            "“title” of “AnyError” has a protocol as its type (any …), which a store cannot keep: write a "
                + "type that is Codable, such as an enumeration with a case for each type, or write "
                + "Transient(\\.…) in the schema."),
        .init(
            Wrong.MaybeAny.self, Right.MaybeAny.self,
            "“title” of “MaybeAny” has the type (any Shape)?, which a store cannot keep: any Shape is a "
                + "protocol: write a type that is Codable, such as an enumeration with a case for each type, or "
                + "write Transient(\\.title) in the schema."),
        .init(
            Wrong.Closure.self, Right.Closure.self,
            "“title” of “Closure” has the type @Sendable () -> (), which a store cannot keep: it is code: "
                + "make it a method, or write Transient(\\.title) in the schema."),
        .init(
            Wrong.MaybeClosure.self, Right.MaybeClosure.self,
            "“title” of “MaybeClosure” has the type (@Sendable (Int) -> Int)?, which a store cannot keep: "
                + "it is code: make it a method, or write Transient(\\.title) in the schema."),
        .init(
            Wrong.Pair.self, Right.Pair.self,
            "“title” of “Pair” has the type (Int, String), which a store cannot keep: write a struct that "
                + "is Codable, or write Transient(\\.title) in the schema."),
        .init(
            Wrong.Instance.self, Right.Instance.self,
            "“title” of “Instance” has the type Plain, which a store cannot keep: Plain is a class: write "
                + "a struct that is Codable, or write Transient(\\.title) in the schema."),
        .init(
            Wrong.CodedInstance.self, Right.CodedInstance.self,
            "“title” of “CodedInstance” has the type Coded, which a store cannot keep: Coded is a class: "
                + "write a struct that is Codable, or write Transient(\\.title) in the schema."),
        .init(
            Wrong.WeakInstance.self, Right.WeakInstance.self,
            "“title” of “WeakInstance” has the type Coded?, which a store cannot keep: Coded is a class: "
                + "write a struct that is Codable, or write Transient(\\.title) in the schema."),
        .init(
            Wrong.Uncoded.self, Right.Uncoded.self,
            "“title” of “Uncoded” has the type Unkept, which a store cannot keep: make Unkept Codable, "
                + "conform it to AttributeValue, or write Transient(\\.title) in the schema."),
        .init(
            Wrong.UncodedList.self, Right.UncodedList.self,
            "“title” of “UncodedList” has the type [Unkept], which a store cannot keep: make Unkept "
                + "Codable, conform it to AttributeValue, or write Transient(\\.title) in the schema."),
        .init(
            Wrong.UncodedValues.self, Right.UncodedValues.self,
            "“title” of “UncodedValues” has the type [String: Unkept], which a store cannot keep: make "
                + "Unkept Codable, conform it to AttributeValue, or write Transient(\\.title) in the schema."),
        .init(
            Wrong.Cases.self, Right.Cases.self,
            "“title” of “Cases” has the type Side, which a store cannot keep: make Side Codable, conform "
                + "it to AttributeValue, or write Transient(\\.title) in the schema."),
        .init(
            Wrong.CasesWithValues.self, Right.CasesWithValues.self,
            "“title” of “CasesWithValues” has the type Event, which a store cannot keep: make Event "
                + "Codable, conform it to AttributeValue, or write Transient(\\.title) in the schema."),
        .init(
            Wrong.OddRawValues.self, Right.OddRawValues.self,
            "“title” of “OddRawValues” has the type Letter, which a store cannot keep: its raw values have the type "
                + "Character: use raw values of the type String or Int, or write Transient(\\.title) in the schema."),
        .init(
            Wrong.OneCase.self, Right.OneCase.self,
            "“title” of “OneCase” has the type Single, which has only one value, so there is nothing to store: remove "
                + "the property, give the type another case or a property, or write Transient(\\.title) in the "
                + "schema."),
        .init(
            Wrong.Letters.self, Right.Letters.self,
            "“title” of “Letters” has the type Character, which a store cannot keep: write String instead "
                + "of Character, or write Transient(\\.title) in the schema."),
        .init(
            Wrong.Slices.self, Right.Slices.self,
            "“title” of “Slices” has the type [Substring], which a store cannot keep: write String "
                + "instead of Substring, or write Transient(\\.title) in the schema."),
        .init(
            Wrong.Largest.self, Right.Largest.self,
            "“title” of “Largest” has an initial value that cannot be stored: A store keeps integers from -2^63 to "
                + "2^63 - 1, and this integer is outside that range: store it as a decimal or a string."),
        .init(
            Wrong.LargestDefault.self, Right.LargestDefault.self,
            "“title” of “LargestDefault” has a value for older objects that cannot be stored: A store keeps integers "
                + "from -2^63 to 2^63 - 1, and this integer is outside that range: store it as a decimal or a string."),
        .init(
            Wrong.Underscore.self, Right.Underscore.self,
            "“_title” of “Underscore” begins with “_”, like the storage of a property wrapper: call it “title”, or "
                + "write Transient(\\._title) in the schema."),
        .init(
            Wrong.Underscores.self, Right.Underscores.self,
            "“title” of “Underscores” has a property wrapper, or is named “_title”, and a store keeps neither: make it "
                + "a plain property named “title”, or write Transient(\\._title) in the schema.\n“__” of “Underscores” "
                + "begins with “_”, like the storage of a property wrapper: choose another name, or write "
                + "Transient(\\.__) in the schema."),
        .init(
            Wrong.TwoForms.self, Right.TwoForms.self,
            "“café” of “TwoForms” exists twice, because the names are different forms of the same text: rename one of "
                + "them."),
        .init(
            Wrong.SchemaOfEach.self, Right.SchemaOfEach.self,
            "“schema” of “SchemaOfEach” is an instance property: write static let schema."),
        .init(
            Wrong.SchemaOfAnother.self, Right.SchemaOfAnother.self,
            "“schema” of “SchemaOfAnother” has the type Schema<Other>: write static let schema = "
                + "Schema<SchemaOfAnother> { … }."),
        .init(
            Wrong.Hidden.self, Right.Hidden.self,
            "“schema” of “Hidden” has the name of a member of the entity's type, which hides it: choose another "
                + "name, with .renamed(from: \"schema\") if a store has it already.\n“objectStatus” of “Hidden” has "
                + "the name of a member of every object, which hides it: choose another name, with .renamed(from: "
                + "\"objectStatus\") if a store has it already."),
        .init(
            Wrong.Mirrored.self, Right.Mirrored.self,
            "“Mirrored” has a mirror of its own, which hides its properties: remove CustomReflectable."),
        .init(
            Wrong.Nameless.self, Right.Nameless.self,
            "The name “” of an entity must have 1 to 255 bytes: choose another name."),
        .init(
            Wrong.OtherSideOptions.self, nil,
            "“others” of “OtherSideOptions” is the other side of a relationship: set its options, except for .count, "
                + "on that relationship.\n“others” of “OtherSideOptions” is not the other side of any relationship: "
                + "write Relationship(\\.…, inverse: \\.others) in the schema of Owner."),
        .init(
            Wrong.Undeclared.self, Right.Undeclared.self,
            "“other” of “Undeclared” refers to Stranger, which is not in `entities:`: add it there."),
        .init(
            Wrong.NotRequired.self, Right.NotRequired.self,
            "“title” of “NotRequired” is not optional, so it always has a value: remove .required."),
        .init(
            Wrong.RenamedFromOne.self, Right.RenamedFromOne.self,
            "“name” of “RenamedFromOne” and “title” are both renamed from “label”: remove one of the options."),
        .init(
            Wrong.TwoDerivations.self, Right.TwoDerivations.self,
            "“length” of “TwoDerivations” has 2 ways to be derived: keep one."),
        .init(
            Wrong.TwoDefaults.self, Right.TwoDefaults.self,
            "“title” of “TwoDefaults” has 2 values for older objects: keep one."),
        .init(
            Wrong.ListIndex.self, Right.ListIndex.self,
            "“others” of “ListIndex” is a list of objects, which already has an index: remove .unique or .indexed."),
        .init(
            Wrong.TwoLines.self, Right.TwoLines.self,
            "“title” of “TwoLines” has 2 lines in the schema: combine them into one."),
        .init(
            Wrong.ShortKey.self, Right.ShortKey.self,
            "The key “title”, “title” of “ShortKey” contains “title” twice: remove one."),
        .init(
            Wrong.ShortestKey.self, Right.ShortestKey.self,
            "The key “title” of “ShortestKey” has fewer than two properties: use the option .indexed instead.\nAn "
                + "empty key of “ShortestKey” has fewer than two properties: use the option .indexed instead."),
        .init(
            Wrong.KeyTwice.self, Right.KeyTwice.self,
            "The key “title”, “number” of “KeyTwice” is in the schema twice: remove one."),
        .init(
            Wrong.EmptyRange.self, Right.EmptyRange.self,
            [
                "“title” of “EmptyRange” has the range 2..<2", "“number” of “EmptyRange” has the range 1..<1",
                "“optional” of “EmptyRange” has the range 0.0..<0.0", "“others” of “EmptyRange” has the range 3..<3",
            ].map { $0 + ", which is empty, so nothing could be saved: write another range." }
                .joined(separator: "\n")),
        .init(
            Wrong.TwoRanges.self, Right.TwoRanges.self,
            "“number” of “TwoRanges” has 2 ranges: keep one."),
        .init(
            Wrong.Pattern.self, Right.Pattern.self,
            "“title” of “Pattern” has the pattern “([”, which is not a regular expression: correct it."),
        .init(
            Wrong.Fallback.self, Right.Fallback.self,
            "“title” of “Fallback” has a type whose stored values are all valid: remove .fallback."),
        .init(
            Wrong.NumberAsReference.self, Right.NumberAsReference.self,
            "“marker” of “NumberAsReference” does not refer to objects: write Attribute instead of Relationship."),
        .init(
            Wrong.Empty.self, Right.Empty.self,
            "“Empty” has no stored property: add a stored property, or remove the entity."),
        .init(
            Wrong.OnlySides.self, nil,
            "“OnlySides” has no stored property but other sides of relationships (“owners”), which store nothing: add "
                + "a stored property, or remove the entity.\n“owners” of “OnlySides” reads Stranger, which is not in "
                + "`entities:`: add it there."),
        .init(
            Wrong.ClassEntity.self, nil,
            "“ClassEntity” must be a struct: write struct instead of class, actor or enum."),
        .init(
            Wrong.ActorEntity.self, nil,
            "“ActorEntity” must be a struct: write struct instead of class, actor or enum."),
        .init(
            Wrong.EnumEntity.self, nil,
            "“EnumEntity” must be a struct: write struct instead of class, actor or enum."),
    ]

    // MARK: Tests

    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    @Test(arguments: mistakes) func aMistakeIsNamedWithAFixThatWorks(_ mistake: Mistake) throws {
        let error = expect(.modelInvalid) {
            try Store(at: folder.path, entities: [mistake.wrong, Piece.Other.self, Piece.Owner.self])
        }
        let line = /\(AnnalsTests\/WrongEntities\.swift:[0-9]+\)/
        #expect(error?.message.replacing(line, with: "(LINE)") == mistake.message)
        guard let right = mistake.right else { return }
        try keep(right)
    }

    private func keep<E: Entity>(_ type: E.Type) throws {
        let store = try Store(at: folder.path, entities: [type, Piece.Other.self, Piece.Owner.self])
        let value = E()
        let reference = try store.writeOptimistically { try $0.insert(value) }.result
        let read = try #require(try store.snapshot()[reference])
        // A derived value is worked out when it is saved.
        if E.self != Right.Computed.self { #expect("\(read)" == "\(value)") }
        try store.close()
        try folder.expectIntact()
    }

    @Test func aMessageNamesTheLine() throws {
        struct Lined: Entity {
            var title = "" { didSet {} }
            static let line = #line + 1
            static let schema = Schema<Lined> { Attribute(\.title) }
        }
        let error = expect(.modelInvalid) { try Store(at: folder.path, entities: [Lined.self]) }
        #expect(error?.message.contains("(AnnalsTests/ModellingMistakeTests.swift:\(Lined.line))") == true)
    }

    @Test func aLongNameIsRefused() throws {
        struct Long: Entity {
            var 🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈🎈 = 1
        }
        struct Named: Entity {
            var title = 1
            static let schema = Schema<Named>(String(repeating: "x", count: 256))
        }
        let error = expect(.modelInvalid) { try Store(at: folder.path, entities: [Long.self, Named.self]) }
        let lines = error?.message.split(separator: "\n") ?? []
        #expect(lines.count == 2 && lines[0].hasSuffix("” of “Long” has more than 255 bytes: choose a shorter name."))
        #expect(lines.last?.hasSuffix("x” of an entity must have 1 to 255 bytes: choose another name.") == true)
    }
}
