// The entities of WrongEntities.swift, with the fix that the message about each proposes.

// swift-format-ignore-file: IdentifiersMustBeASCII, AlwaysUseLowerCamelCase

import Annals
import FoundationEssentials

enum Right {
    struct TwoOptionals: Entity {
        var title: Int?
    }
    struct OptionalList: Entity {
        var others: [Reference<Piece.Other>] = []
    }
    struct OptionalSet: Entity {
        var others: Set<Reference<Piece.Other>> = []
    }
    struct WholeEntity: Entity {
        var other: Reference<Piece.Other>?
    }
    struct WholeEntities: Entity {
        var others: [Reference<Piece.Other>] = []
    }
    struct NeededReference: Entity {
        var other: Reference<Piece.Other>?
    }
    struct Wrapped: Entity {
        var title = 1
    }
    struct WrappedLine: Entity {
        @Piece.Wrapper var title = 1
        var number = 1
        static let schema = Schema<WrappedLine> { Transient(\._title) }
    }
    struct Lazy: Entity {
        var title = "x"
        var length: Int { title.count }
    }
    struct Observed: Entity {
        var title = "x"
        static let schema = Schema<Observed> { Attribute(\.title, .indexed) }
    }
    struct WillBeSet: Entity {
        var title = "x" { willSet {} }
    }
    struct Computed: Entity {
        var number = 1
        var twice = 0
        static let schema = Schema<Computed> { Attribute(\.twice, .indexed, .derived { $0.number * 2 }) }
    }
    struct KeyOfComputed: Entity {
        var number = 1
        var title = ""
        var twice: Int { number * 2 }
        static let schema = Schema<KeyOfComputed>(unique: [[\.title, \.number]])
    }
    struct FirstPart: Entity {
        var place = Piece.Place()
        static let schema = Schema<FirstPart> { Attribute(\.place, .indexed) }
    }
    struct LaterPart: Entity {
        var place = Piece.Place()
        var street = ""
        static let schema = Schema<LaterPart> { Attribute(\.street, .indexed) }
    }
    struct KeyOfPart: Entity {
        var city = ""
        var number = 1
        static let schema = Schema<KeyOfPart>(unique: [[\.city, \.number]])
    }
    struct KeyOfSelf: Entity {
        var number = 1
        static let schema = Schema<KeyOfSelf> { Attribute(\.number, .unique) }
    }
    struct KeyOfTransient: Entity {
        var number = 1
        var cache = 2
        static let schema = Schema<KeyOfTransient> {
            Attribute(\.number, .indexed)
            Transient(\.cache)
        }
    }
    struct AnyThing: Entity {
        var first = 1
        var title: any Piece.Shape = Piece.Circle()
        var last: any Piece.Shape & Codable = Piece.Square()
        var after = ""
        static let schema = Schema<AnyThing> {
            Transient(\.title)
            Transient(\.last)
        }
    }
    struct AnyShape: Entity {
        var first = ""
        var title = Piece.AnyOf.circle(Piece.Circle())
        var last = 2
    }
    struct AnyError: Entity {
        var first = 1
        var title: any Error = CancellationError()
        var last = 2
        static let schema = Schema<AnyError> { Transient(\.title) }
    }
    struct MaybeAny: Entity {
        var title: Piece.AnyOf?
    }
    struct Closure: Entity {
        var title: @Sendable () -> Void = {}
        var number = 1
        static let schema = Schema<Closure> { Transient(\.title) }
    }
    struct MaybeClosure: Entity {
        func title(_ number: Int) -> Int { number }
        var number = 1
    }
    struct Pair: Entity {
        var title = Piece.Place()
    }
    struct Instance: Entity {
        var title = Piece.Plain()
        var number = 1
        static let schema = Schema<Instance> { Transient(\.title) }
    }
    struct CodedInstance: Entity {
        var title = Piece.Place()
    }
    struct WeakInstance: Entity {
        weak let title: Piece.Coded? = nil
        var number = 1
        static let schema = Schema<WeakInstance> { Transient(\.title) }
    }
    struct Uncoded: Entity {
        var title = Piece.Unkept()
        var number = 1
        static let schema = Schema<Uncoded> { Transient(\.title) }
    }
    struct UncodedList: Entity {
        var title: [Piece.Place] = []
    }
    struct UncodedValues: Entity {
        var title: [String: Piece.Place] = [:]
    }
    struct Cases: Entity {
        var title = Piece.CodedSide.left
    }
    struct CasesWithValues: Entity {
        var title = Piece.CodedEvent.other(1)
    }
    struct OddRawValues: Entity {
        var title = Piece.Word.a
    }
    struct OneCase: Entity {
        var title = Piece.Word.a
    }
    struct Letters: Entity {
        var title = "x"
    }
    struct Slices: Entity {
        var title: [String] = []
    }
    struct Largest: Entity {
        var title = Decimal(UInt64.max)
    }
    struct LargestDefault: Entity {
        var title: UInt64 = 1
        static let schema = Schema<LargestDefault> { Attribute(\.title, .valueForOlderObjects(2)) }
    }
    struct Underscore: Entity {
        var title = ""
        var last_ = 1
    }
    struct Underscores: Entity {
        var title = Piece.Place()
        var __ = 1
        static let schema = Schema<Underscores> { Transient(\.__) }
    }
    struct TwoForms: Entity {
        var café = 1
        var cafe = 2
        var Café = 3
    }
    struct SchemaOfEach: Entity {
        var title = ""
        static let schema = Schema<SchemaOfEach> { Attribute(\.title, .unique) }
    }
    struct SchemaOfAnother: Entity {
        var title = ""
        static let schema = Schema<SchemaOfAnother> { Attribute(\.title, .unique) }
    }
    struct Hidden: Entity {
        var plan = ""
        var status = 1
        static let schema = Schema<Hidden> { Attribute(\.plan, .renamed(from: "schema")) }
    }
    struct Mirrored: Entity {
        var title = ""
    }
    struct Nameless: Entity {
        var title = ""
        static let schema = Schema<Nameless>("Named")
    }
    struct Undeclared: Entity {
        var other: Reference<Piece.Other>?
    }
    struct NotRequired: Entity {
        var title: String? = ""
        static let schema = Schema<NotRequired> { Attribute(\.title, .required) }
    }
    struct RenamedFromOne: Entity {
        var title = ""
        var name = ""
        static let schema = Schema<RenamedFromOne> { Attribute(\.title, .renamed(from: "label")) }
    }
    struct TwoDerivations: Entity {
        var title = ""
        var length = 0
        static let schema = Schema<TwoDerivations> { Attribute(\.length, .derived { $0.title.count }) }
    }
    struct TwoDefaults: Entity {
        var title = ""
        static let schema = Schema<TwoDefaults> { Attribute(\.title, .valueForOlderObjects("a")) }
    }
    struct ListIndex: Entity {
        var others: [Reference<Piece.Other>] = []
        static let schema = Schema<ListIndex> { Attribute(\.others, .count(0...3)) }
    }
    struct TwoLines: Entity {
        var title = ""
        static let schema = Schema<TwoLines> { Attribute(\.title, .unique, .length(0...3)) }
    }
    struct ShortKey: Entity {
        var title = ""
        var number = 1
        static let schema = Schema<ShortKey> { Attribute(\.title, .unique) }
    }
    struct ShortestKey: Entity {
        var title = ""
        static let schema = Schema<ShortestKey> { Attribute(\.title, .indexed) }
    }
    struct KeyTwice: Entity {
        var title = ""
        var number = 1
        static let schema = Schema<KeyTwice>(unique: [[\.title, \.number]], indexed: [[\.number, \.title]])
    }
    struct EmptyRange: Entity {
        var title = ""
        var number = 1
        var optional: Double?
        var others: [Reference<Piece.Other>] = []
        static let schema = Schema<EmptyRange> {
            Attribute(\.title, .length(0..<2))
            Attribute(\.number, .range(1..<2))
            Attribute(\.optional, .range(0..<1))
            Attribute(\.others, .count(0..<3))
        }
    }
    struct TwoRanges: Entity {
        var number = 3
        static let schema = Schema<TwoRanges> { Attribute(\.number, .range(3...5)) }
    }
    struct Pattern: Entity {
        var title = ""
        static let schema = Schema<Pattern> { Attribute(\.title, .pattern(".*")) }
    }
    struct NumberAsReference: Entity {
        var marker = Wrong.Marker()
        static let schema = Schema<NumberAsReference> { Attribute(\.marker) }
    }
    struct Fallback: Entity {
        var title = Piece.Word.a
        static let schema = Schema<Fallback> { Attribute(\.title, .fallback(.b)) }
    }
    struct Empty: Entity {
        var number = 1
    }
}
