// Random schemas and values: few enough distinct ones that they meet, and now and then very long ones.

import Annals
import SimulatedDisk
import TestSupport

/// Makes schemas and values from a seed.
struct OracleRandom {
    var generator: SeededRandom
    /// The longest value that stands in its row.
    let inlineBytes: Int
    private var nextName = 1
    private var nextAttribute: UInt16 = 1
    private var nextEntity: UInt16 = 1
    private static let maximumAttributes = 9
    private static let longPrefix = String(repeating: "0123456789", count: 25)

    init(seed: UInt64, inlineBytes: Int) {
        generator = SeededRandom(seed)
        self.inlineBytes = inlineBytes
    }

    mutating func below(_ limit: Int) -> Int { Int.random(in: 0..<limit, using: &generator) }

    mutating func chance(_ numerator: Int, in denominator: Int) -> Bool { below(denominator) < numerator }

    mutating func element<Element>(_ list: [Element]) -> Element? { list.isEmpty ? nil : list[below(list.count)] }

    // MARK: Values

    /// A value for an attribute, or none if it may have none.
    mutating func value(for attribute: AttributeDefinition, isInIndex: Bool, canBeAbsent: Bool = true) -> StoredValue {
        if canBeAbsent, chance(1, in: attribute.isOptional ? 5 : 150) { return .absent }
        return value(of: attribute.type, span: attribute.flags.contains(.unique) ? 8000 : 60, isInIndex: isInIndex)
    }

    private mutating func value(of type: AttributeType, span: Int, isInIndex: Bool) -> StoredValue {
        switch type {
        case .bool: .bool(chance(1, in: 2))
        case .int: .int(number(span))
        case .date: .date(double(span))
        case .double: .double(double(span))
        case .string: .string(text(span, isInIndex))
        case .json: .json(text(span, isInIndex))
        case .data: .data(Array(text(span, isInIndex).utf8))
        case .uuid: .uuid(UUIDBytes(high: UInt64(below(3)), low: UInt64(below(span))))
        case .decimal: .decimal(decimal(span))
        case .object: .object(object())
        case .orderedObjects: .orderedObjects(objects().shuffled(using: &generator))
        case .objects: .objectSet(objects())
        }
    }

    private mutating func number(_ span: Int) -> Int64 {
        switch below(20) {
        case 0: Int64.min + Int64(below(3))
        case 1: Int64.max - Int64(below(3))
        default: Int64(below(span)) - Int64(span / 4)
        }
    }

    private mutating func double(_ span: Int) -> Double {
        switch below(20) {
        case 0: .infinity
        case 1: -.infinity
        case 2: -0.0
        case 3: .nan
        default: Double(below(span)) / 8 - 2
        }
    }

    private mutating func decimal(_ span: Int) -> DecimalValue {
        if chance(1, in: 20) { return .notANumber }
        let value = DecimalValue(
            isNegative: chance(1, in: 3), mantissa: UInt128(below(span)), exponent: below(6) - 3)
        return value ?? .zero
    }

    private mutating func text(_ span: Int, _ isInIndex: Bool) -> String {
        let short = "k\(below(span))"
        // Long keys that differ after the point where they are cut.
        if chance(1, in: 25) { return Self.longPrefix + short }
        if chance(1, in: isInIndex ? 800 : 40) {
            return String(repeating: short + "\u{e9}", count: inlineBytes / (short.utf8.count + 2) + 1 + below(60))
        }
        return chance(1, in: 30) ? "" : chance(1, in: 10) ? short + "\0" + short : short
    }

    private mutating func object() -> ObjectID {
        guard let object = ObjectID(entityNumber: UInt16(1 + below(4)), number: UInt64(1 + below(80))) else {
            preconditionFailure("Neither number is zero.")
        }
        return object
    }

    private mutating func objects() -> [ObjectID] {
        var objects: [ObjectID] = []
        for _ in 0..<below(6) { objects.append(object()) }
        return ObjectList.set(objects)
    }

    // MARK: Schemas

    mutating func entity() -> EntityDefinition {
        nextEntity += 1
        var attributes: [AttributeDefinition] = []
        for _ in 0..<(2 + below(6)) { attributes.append(attribute(isNew: true)) }
        var entity = EntityDefinition(number: nextEntity - 1, name: name("e"), attributes: attributes)
        if chance(1, in: 2) { addKey(&entity) }
        return entity
    }

    private mutating func name(_ start: String) -> String {
        nextName += 1
        return "\(start)\(nextName)"
    }

    private mutating func attribute(isNew: Bool) -> AttributeDefinition {
        let type = AttributeType.allCases[below(AttributeType.allCases.count)]
        var flags = AttributeFlags()
        if chance(2, in: 3) { flags.insert(.optional) }
        if chance(1, in: 3) { flags.insert(.preservedOnDeletion) }
        if !type.isObjectList, chance(1, in: 3) { flags.insert(.indexed) }
        if !type.isObjectList, type != .bool, type != .object, chance(1, in: isNew ? 5 : 40) { flags.insert(.unique) }
        var content: [UInt8]?
        if chance(1, in: 3), !flags.contains(.unique) { content = defaultContent(type) }
        nextAttribute += 1
        return AttributeDefinition(
            number: nextAttribute - 1, type: type, flags: flags, name: name("a"), defaultValue: content)
    }

    private mutating func defaultContent(_ type: AttributeType) -> [UInt8] {
        var writer = ByteWriter(capacity: 64)
        value(of: type, span: 9, isInIndex: false).appendContent(to: &writer)
        return writer.count > 300 ? [] : Array(writer.bytes)
    }

    private mutating func addKey(_ entity: inout EntityDefinition) {
        let indexable = entity.attributes.filter { !$0.type.isObjectList }.map(\.number).shuffled(using: &generator)
        guard indexable.count >= 2 else { return }
        entity.keys.append(KeyDefinition(isUnique: chance(1, in: 6), attributes: Array(indexable.prefix(2 + below(2)))))
    }

    /// What a schema change defines: one entity or two, new ones or others than before.
    mutating func schemaChange(_ schema: ModelSchema) -> [EntityDefinition] {
        if schema.entities.isEmpty { return [entity(), entity()] }
        if schema.entities.count < 4, chance(1, in: 6) { return [entity()] }
        let numbers = schema.entities.keys.sorted()
        if numbers.count > 2, chance(1, in: 14) { return [.removal(of: numbers[below(numbers.count)])] }
        guard let number = element(numbers), var changed = schema.entities[number] else { return [entity()] }
        change(&changed)
        return [changed]
    }

    private mutating func change(_ entity: inout EntityDefinition) {
        let place = below(max(entity.attributes.count, 1))
        let keyed = Set(entity.keys.flatMap(\.attributes))
        switch below(10) {
        case 9: entity.attributes[place].defaultValue = defaultContent(entity.attributes[place].type)
        case 0, 1:
            if entity.attributes.count < Self.maximumAttributes {
                entity.attributes.insert(attribute(isNew: false), at: below(entity.attributes.count + 1))
            }
        case 2:
            if entity.attributes.count > 2, !keyed.contains(entity.attributes[place].number) {
                entity.attributes.remove(at: place)
            }
        case 3: entity.attributes[place].name = IdentifierName(name("a"))
        case 4: entity.name = IdentifierName(name("e"))
        case 5, 6: toggle(&entity.attributes[place])
        case 7: entity.attributes.swapAt(place, below(entity.attributes.count))
        default: if entity.keys.isEmpty { addKey(&entity) } else { entity.keys.removeLast() }
        }
    }

    private mutating func toggle(_ attribute: inout AttributeDefinition) {
        let isIndexable = !attribute.type.isObjectList
        let all: [AttributeFlags] = isIndexable ? [.optional, .preservedOnDeletion, .indexed, .unique] : [.optional]
        let flag = all[below(all.count)]
        if attribute.flags.contains(flag) { attribute.flags.remove(flag) } else { attribute.flags.insert(flag) }
    }
}
