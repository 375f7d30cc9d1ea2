// Entities with one mistake each, for ModellingMistakeTests.

// swift-format-ignore-file: IdentifiersMustBeASCII, AlwaysUseLowerCamelCase

import Annals
import FoundationEssentials

/// Types that the properties have.
enum Piece {
    struct Other: Entity {
        var name = ""
    }
    struct Owner: Entity {
        var name = ""
    }
    struct Stranger: Entity {
        var name = ""
    }
    struct CodedOther: Entity, Codable {
        var name = ""
    }
    @propertyWrapper struct Wrapper: Sendable {
        var wrappedValue: Int
    }
    struct Place: Codable, Equatable, Sendable {
        var city = ""
        var street = ""
    }
    protocol Shape: Sendable {}
    struct Circle: Shape, Codable {
        var radius = 1
    }
    struct Square: Shape, Codable {
        var side = 1.5
        var angle = 0.5
    }
    enum AnyOf: Codable, Sendable {
        case circle(Circle)
        case square(Square)
    }
    final class Plain: Sendable {}
    final class Coded: Codable, Sendable {}
    struct Unkept: Sendable {
        var number = 1
    }
    enum Side: Sendable { case left, right }
    enum CodedSide: Codable { case left, right }
    enum Event: Sendable {
        case none
        case other(Int)
    }
    enum CodedEvent: Codable {
        case none
        case other(Int)
    }
    enum Letter: Character {
        case a = "a"
        case b = "b"
    }
    enum Word: String { case a, b }
    enum Single: String { case only }
}

enum Wrong {
    struct TwoOptionals: Entity {
        var title: Int?? = nil
    }
    struct OptionalList: Entity {
        var others: [Reference<Piece.Other>]? = nil
    }
    struct OptionalSet: Entity {
        var others: Set<Reference<Piece.Other>>? = nil
    }
    struct OptionalSide: Entity {
        var owners: ToMany<Piece.Owner>? = nil
    }
    struct WholeEntity: Entity {
        var other: Piece.Other?
    }
    struct WholeEntities: Entity {
        var others: [Piece.Other] = []
    }
    struct NeededReference: Entity {
        var other = Reference<Piece.Other>(ObjectID(entityNumber: 1, number: 1)!)
    }
    struct Wrapped: Entity {
        @Piece.Wrapper var title = 1
    }
    struct WrappedLine: Entity {
        @Piece.Wrapper var title = 1
        var number = 1
        static let schema = Schema<WrappedLine> { Attribute(\.title, .indexed) }
    }
    struct Lazy: Entity {
        lazy var title = "x"
    }
    struct Observed: Entity {
        var title = "x" { didSet {} }
        static let schema = Schema<Observed> { Attribute(\.title, .indexed) }
    }
    struct WillBeSet: Entity {
        var title = "x" { willSet {} }
        static let schema = Schema<WillBeSet> { Transient(\.title) }
    }
    struct Computed: Entity {
        var number = 1
        var twice: Int {
            get { number * 2 }
            set { number = newValue / 2 }
        }
        static let schema = Schema<Computed> { Attribute(\.twice, .indexed) }
    }
    struct KeyOfComputed: Entity {
        var number = 1
        var title = ""
        var twice: Int { number * 2 }
        static let schema = Schema<KeyOfComputed>(unique: [[\.title, \.twice]])
    }
    struct FirstPart: Entity {
        var place = Piece.Place()
        static let schema = Schema<FirstPart> { Attribute(\.place.city, .indexed) }
    }
    struct LaterPart: Entity {
        var place = Piece.Place()
        static let schema = Schema<LaterPart> { Attribute(\.place.street, .indexed) }
    }
    struct KeyOfPart: Entity {
        var place = Piece.Place()
        var number = 1
        static let schema = Schema<KeyOfPart>(unique: [[\.place.city, \.number]])
    }
    struct KeyOfSelf: Entity {
        var number = 1
        static let schema = Schema<KeyOfSelf>(unique: [[\.self, \.number]])
    }
    struct KeyOfTransient: Entity {
        var number = 1
        var cache = 2
        static let schema = Schema<KeyOfTransient>(indexed: [[\.cache, \.number]]) { Transient(\.cache) }
    }
    struct AnyThing: Entity {
        var first = 1
        var title: any Piece.Shape = Piece.Circle()
    }
    struct AnyShape: Entity {
        var first = ""
        var title: any Codable & Sendable = 1
        var last = 2
    }
    struct AnyError: Entity {
        var first = 1
        var title: any Error = CancellationError()
        var last = 2
    }
    struct MaybeAny: Entity {
        var title: (any Piece.Shape)?
    }
    struct Closure: Entity {
        var title: @Sendable () -> Void = {}
        var number = 1
    }
    struct MaybeClosure: Entity {
        var title: (@Sendable (Int) -> Int)?
        var number = 1
    }
    struct Pair: Entity {
        var title = (1, "a")
    }
    struct Instance: Entity {
        var title = Piece.Plain()
    }
    struct CodedInstance: Entity {
        var title = Piece.Coded()
    }
    struct WeakInstance: Entity {
        weak let title: Piece.Coded? = nil
    }
    struct Uncoded: Entity {
        var title = Piece.Unkept()
    }
    struct UncodedList: Entity {
        var title: [Piece.Unkept] = []
    }
    struct UncodedValues: Entity {
        var title: [String: Piece.Unkept] = [:]
    }
    struct Cases: Entity {
        var title = Piece.Side.left
    }
    struct CasesWithValues: Entity {
        var title = Piece.Event.other(1)
    }
    struct OddRawValues: Entity {
        var title = Piece.Letter.a
    }
    struct OneCase: Entity {
        var title = Piece.Single.only
    }
    struct Letters: Entity {
        var title: Character = "x"
    }
    struct Slices: Entity {
        var title: [Substring] = []
    }
    struct Largest: Entity {
        var title = UInt64.max
    }
    struct LargestDefault: Entity {
        var title: UInt64 = 1
        static let schema = Schema<LargestDefault> { Attribute(\.title, .valueForOlderObjects(.max)) }
    }
    struct Underscore: Entity {
        var _title = ""
    }
    struct Underscores: Entity {
        var _title = Piece.Place()
        var __ = 1
    }
    struct TwoForms: Entity {
        var café = 1
        var café = 2
    }
    struct SchemaOfEach: Entity {
        var title = ""
        let schema = Schema<SchemaOfEach> { Attribute(\.title, .unique) }
    }
    struct SchemaOfAnother: Entity {
        var title = ""
        static let schema = Schema<Piece.Other> { Attribute(\.name, .unique) }
    }
    struct Hidden: Entity {
        var schema = ""
        var objectStatus = 1
    }
    struct Mirrored: Entity, CustomReflectable {
        var title = ""
        var customMirror: Mirror { Mirror(self, children: [:]) }
    }
    struct Nameless: Entity {
        var title = ""
        static let schema = Schema<Nameless>("")
    }
    struct OtherSideOptions: Entity {
        var others = ToMany<Piece.Owner>()
        static let schema = Schema<OtherSideOptions> { Attribute(\.others, .indexed) }
    }
    struct Undeclared: Entity {
        var other: Reference<Piece.Stranger>?
    }
    struct NotRequired: Entity {
        var title = ""
        static let schema = Schema<NotRequired> { Attribute(\.title, .required) }
    }
    struct RenamedFromOne: Entity {
        var title = ""
        var name = ""
        static let schema = Schema<RenamedFromOne> {
            Attribute(\.title, .renamed(from: "label"))
            Attribute(\.name, .renamed(from: "label"))
        }
    }
    struct TwoDerivations: Entity {
        var title = ""
        var length = 0
        static let schema = Schema<TwoDerivations> {
            Attribute(\.length, .derived { $0.title.count }, .derived { $0.title.utf8.count })
        }
    }
    struct TwoDefaults: Entity {
        var title = ""
        static let schema = Schema<TwoDefaults> {
            Attribute(\.title, .valueForOlderObjects("a"), .valueForOlderObjects("b"))
        }
    }
    struct ListIndex: Entity {
        var others: [Reference<Piece.Other>] = []
        static let schema = Schema<ListIndex> { Attribute(\.others, .indexed) }
    }
    struct TwoLines: Entity {
        var title = ""
        static let schema = Schema<TwoLines> {
            Attribute(\.title, .unique)
            Attribute(\.title, .length(1...3))
        }
    }
    struct ShortKey: Entity {
        var title = ""
        var number = 1
        static let schema = Schema<ShortKey>(unique: [[\.title, \.title]])
    }
    struct ShortestKey: Entity {
        var title = ""
        static let schema = Schema<ShortestKey>(indexed: [[\.title], []])
    }
    struct KeyTwice: Entity {
        var title = ""
        var number = 1
        static let schema = Schema<KeyTwice>(
            unique: [[\.title, \.number]], indexed: [[\.number, \.title], [\.title, \.number]])
    }
    struct EmptyRange: Entity {
        var title = ""
        var number = 1
        var optional: Double?
        var others: [Reference<Piece.Other>] = []
        static let schema = Schema<EmptyRange> {
            Attribute(\.title, .length(2..<2))
            Attribute(\.number, .range(1..<1))
            Attribute(\.optional, .range(0..<0))
            Attribute(\.others, .count(3..<3))
        }
    }
    struct TwoRanges: Entity {
        var number = 1
        static let schema = Schema<TwoRanges> { Attribute(\.number, .range(0...5), .range(3...9)) }
    }
    struct CodedEntity: Entity {
        var piece = Piece.CodedOther()
        var perhaps: Piece.CodedOther?
        var more: [Piece.CodedOther] = []
        var byName: [String: Piece.CodedOther] = [:]
    }
    struct ListOfSides: Entity {
        var number = 1
        var owners: [ToMany<Piece.Owner>] = []
    }
    struct OnlySides: Entity {
        var owners = ToMany<Piece.Stranger>()
    }
    struct Pattern: Entity {
        var title = ""
        static let schema = Schema<Pattern> { Attribute(\.title, .pattern("([")) }
    }
    struct Fallback: Entity {
        var title = 1
        static let schema = Schema<Fallback> { Attribute(\.title, .fallback(2)) }
    }
    /// Adopts `ReferenceValue`, which the compiler believes, although its values are numbers.
    struct Marker: AttributeValue, ReferenceValue, Hashable {
        var number = 1
        static var attributeType: AttributeType { .int }
        func attributeValue() throws -> Value { .int(Int64(number)) }
        init() {}
        init?(attributeValue: Value) { number = Int(attributeValue.int ?? 0) }
    }
    struct NumberAsReference: Entity {
        var marker = Marker()
        static let schema = Schema<NumberAsReference> { Relationship(\.marker) }
    }
    struct Empty: Entity {
        static let number = 1
    }
    final class ClassEntity: Entity {}
    actor ActorEntity: Entity {}
    enum EnumEntity: Entity {
        case one
        init() { self = .one }
    }
}
