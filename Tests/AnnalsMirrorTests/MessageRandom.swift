// Random messages by seed, with every type of value and the corner cases of each.

import Annals
import AnnalsMirror
import Foundation
import TestSupport

struct MessageRandom {
    var random: SeededRandom

    init(_ seed: UInt64) { random = SeededRandom(seed) }

    private static let texts = [
        "", "a", "name", "e\u{301}", "\u{e9}", "\u{0}", "日本語", "👩‍👩‍👧", "\u{feff}", "\u{10ffff}", "\u{1e69}",
        "s\u{323}\u{307}",
        "s\u{307}\u{323}", "line\nline", "“quoted”", String(repeating: "ü", count: 200),
    ]
    private static let numbers: [UInt64] = [
        0, 1, 127, 128, 255, 16383, 16384, 1 << 21, 1 << 28, 1 << 35, 1 << 42, 1 << 49, 1 << 56, 1 << 63, .max - 1,
        .max,
    ]

    private mutating func happens() -> Bool { random.next(below: 2) == 0 }

    private mutating func some<Thing>(_ most: Int, _ make: (inout MessageRandom) -> Thing) -> [Thing] {
        (0..<random.next(below: most + 1)).map { _ in make(&self) }
    }

    private mutating func maybe<Thing>(_ make: (inout MessageRandom) -> Thing) -> Thing? {
        happens() ? make(&self) : nil
    }

    mutating func number() -> UInt64 {
        happens() ? random.one(of: Self.numbers) : random.next() >> random.next(below: 64 as UInt64)
    }

    private mutating func text() -> String {
        if random.next(below: 4) > 0 { return random.one(of: Self.texts) }
        return String(
            String.UnicodeScalarView(
                (0..<random.next(below: 40)).compactMap { _ in
                    Unicode.Scalar(UInt32(random.next(below: 0x11_0000)))
                }))
    }

    private mutating func name() -> String {
        random.one(of: ["Item", "Person", "name", "e\u{301}", "\u{e9}"])
            + (happens() ? "" : "\(random.next(below: 20))")
    }

    private mutating func store() -> UUID { MessageSamples.uuid(UInt8(random.next(below: 20))) }

    private mutating func id() -> ObjectID {
        ObjectID(rawValue: number() | 1 << 48 | 1) ?? MessageSamples.object(1, 1).id
    }

    private mutating func object() -> ExportedObject { ExportedObject(id(), of: maybe { $0.store() }) }

    private mutating func token(of store: UUID, _ number: UInt64) -> HistoryToken {
        HistoryToken(storeIdentifier: store, number: number, tag: random.next())
    }

    private mutating func double() -> Double {
        random.one(of: [
            0, -0.0, 1.5, .nan, .infinity, -.infinity, .leastNonzeroMagnitude, Double(bitPattern: random.next()),
            Double(bitPattern: 0x7ff0_0000_0000_0001),
        ])
    }

    private mutating func decimal() -> DecimalValue {
        let mantissa = UInt128(number()) << UInt128(random.next(below: 65)) | UInt128(number())
        return DecimalValue(
            isNegative: happens(), mantissa: mantissa, exponent: random.next(below: 256) - 128)
            ?? random.one(of: [.zero, .notANumber])
    }

    mutating func value() -> ExportedValue {
        switch random.next(below: 16) {
        case 0, 1: ExportedValue(.plain(.absent))
        case 2: ExportedValue(.plain(.bool(happens())))
        case 3: ExportedValue(.plain(.int(Int64(bitPattern: happens() ? number() : ~number()))))
        case 4: ExportedValue(.plain(.double(double())))
        case 5: ExportedValue(.plain(.string(text())))
        case 6: ExportedValue(.plain(.data(some(300) { UInt8(truncatingIfNeeded: $0.random.next()) })))
        case 7: ExportedValue(.plain(.date(double())))
        case 8: ExportedValue(.plain(.uuid(UUIDBytes(high: random.next(), low: random.next()))))
        case 9: ExportedValue(.plain(.decimal(decimal())))
        case 10: ExportedValue(.plain(.json(text())))
        case 11: ExportedValue(.object(object()))
        case 12: ExportedValue(.orderedObjects(some(20) { $0.object() }))
        default: ExportedValue(.objects(some(20) { $0.object() }))
        }
    }

    private mutating func change() -> ExportedChange {
        let attributes = some(random.next(below: 20) == 0 ? 60 : 7) { $0.name() }
        let values = attributes.map { _ in value() }
        switch random.next(below: 3) {
        case 0:
            return ExportedChange(
                kind: .insert, object: object(), entity: name(), attributes: attributes, values: values, before: nil)
        case 1:
            return ExportedChange(
                kind: .update, object: object(), entity: name(), attributes: attributes, values: values,
                before: maybe { random in attributes.map { _ in random.value() } })
        default:
            return ExportedChange(
                kind: .delete, object: object(), entity: name(), attributes: [], values: [], before: nil)
        }
    }

    private mutating func defaultValue() -> Value {
        random.one(of: [
            .null, .bool(true), .int(-1), .double(.nan), .string(text()), .data(Data([1, 2])), .uuid(store()),
            .date(Date(timeIntervalSinceReferenceDate: double())), .decimal(Decimal(string: "-12.50") ?? 0),
            .decimal(.nan), .json("{}"), .object(id()), .orderedObjects([id()]), .objects([id(), id()]),
        ])
    }

    private mutating func entity() -> EntityDescription {
        EntityDescription(
            name(),
            attributes: some(8) { random in
                AttributeDescription(
                    random.name(), random.random.one(of: AttributeType.allCases), isOptional: random.happens(),
                    isIndexed: random.happens(), isUnique: random.happens(), isPreservedOnDeletion: random.happens(),
                    defaultValue: random.maybe { $0.defaultValue() }, target: random.maybe { $0.name() },
                    inverse: random.maybe { $0.name() },
                    whenTargetIsDeleted: random.random.one(of: DeleteRule.allCases))
            }, keys: some(3) { random in IndexDescription(random.some(3) { $0.name() }, isUnique: random.happens()) },
            history: happens() ? .full : .off)
    }

    mutating func transaction() -> ExportedTransaction {
        let number = max(2, self.number())
        let origin = maybe { $0.token(of: MessageSamples.other, max(2, $0.number())) }
        return ExportedTransaction(
            token: token(of: MessageSamples.store, number),
            previous: maybe { $0.token(of: MessageSamples.store, number - 1) },
            microseconds: Int64(bitPattern: random.next()), author: maybe { $0.text() },
            contextName: maybe { $0.text() }, origin: origin,
            originPrevious: origin.flatMap { origin in maybe { $0.token(of: MessageSamples.other, origin.number - 1) }
            },
            holds: nil, schema: random.next(below: 8) == 0 ? some(4) { $0.entity() } : nil,
            renames: some(2) { random in
                ExportedRename(entity: random.name(), attribute: random.maybe { $0.name() }, name: random.name())
            }, changes: some(8) { $0.change() })
    }

    private mutating func vector() -> VersionVector {
        MessageSamples.vector(some(8) { ($0.store(), max(1, $0.number())) })
    }

    private mutating func peer() -> PeerMessage {
        PeerMessage(peer: store(), name: text(), versions: 1...UInt8(1 + random.next(below: 255)), instance: number())
    }

    private mutating func stretch() -> ExportedStretch {
        let first = MessageSamples.object(1, 1 + number() % 1_000_000, of: maybe { $0.store() })
        return ExportedStretch(entity: name(), first: first, count: 1 + number() % 1_000_000)
    }

    mutating func message() -> MirrorMessage {
        let content: MirrorMessage.Content
        switch random.next(below: 14) {
        case 0:
            content = .state(StateMessage(name: text(), knowledge: vector(), lamport: number() >> 2))
        case 1:
            let applied = vector()
            content = .receipt(
                ReceiptMessage(
                    applied: applied, tags: applied.entries.map { _ in number() }, lamport: number() >> 2,
                    microseconds: Int64(bitPattern: number()),
                    settled: vector(), members: PeerSet(some(4) { $0.store() }),
                    departed: PeerSet(some(4) { $0.store() })))
        case 2:
            content = .request(
                some(8) { random in
                    let numbers = [max(1, random.number()), max(1, random.number())].sorted()
                    return RequestedNumbers(peer: random.store(), numbers: numbers[0]...numbers[1])
                })
        case 3: content = .join(peer())
        case 4:
            var message = peer()
            message.lost = maybe { $0.store() }
            content = .leave(message)
        case 5: content = .statePart(.stretches(some(8) { $0.stretch() }))
        case 6: content = .statePart(.end(objects: number()))
        case 7: content = .skipped(kind: UInt8(13 + random.next(below: 200)), bytes: some(40) { _ in 7 })
        case 8:
            content = .statePart(
                .aliases(
                    some(8) { random in
                        let stretch = random.stretch()
                        return ExportedAlias(
                            first: stretch.first, of: MessageSamples.object(2, 1 + random.number() % 1_000),
                            count: stretch.count)
                    }))
        case 9: content = .stateRequest(of: store())
        default:
            content = .transaction(
                TransactionMessage(
                    lamport: number() >> 2, knowledge: vector(), isKnowledgeComplete: happens(),
                    transaction: transaction()))
        }
        var message = MirrorMessage(published: number(), content)
        if random.next(below: 8) == 0 { message.rest = [1, 2, 3] }
        if random.next(below: 8) == 0 { message.optional = .init(rawValue: UInt8(random.next(below: 256))) }
        if case .skipped = content { message.optional.insert(.skippable) }
        return message
    }
}
