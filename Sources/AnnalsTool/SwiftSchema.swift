// Prints the structs of a program that opens a store: `annals schema STORE --swift`.

internal import Annals
internal import FoundationEssentials

struct SwiftSchema {
    private let entities: [EntityDescription]
    /// By entity, the name of its struct. Entities without attributes that a struct can have are missing.
    private var types: [String: String] = [:]
    /// By entity, the properties that read the other sides of relationships.
    private var otherSides: [String: [OtherSide]] = [:]
    private var lines: [String] = []
    private var helpers: Set<AttributeType> = []

    /// `isOne` is whether at most one object refers to each.
    private typealias OtherSide = (name: String, entity: String, attribute: String, isOne: Bool)

    /// Types that a program needs for values without a type in the library, and the property of each.
    private static let helperTypes: [(type: AttributeType, name: String, property: String)] = [
        (.json, "JSONText", "text = \"null\""), (.object, "AnyObjectID", "id: ObjectID"),
        (.orderedObjects, "AnyObjectList", "ids: [ObjectID] = []"), (.objects, "AnyObjectSet", "ids: [ObjectID] = []"),
    ]

    private static func declaration(_ type: AttributeType, _ name: String, _ property: String) -> [String] {
        let member = property.prefix(while: \.isLetter)
        let comment =
            type == .json
            ? "/// A JSON text. A Codable type of your own, which the text is decoded into, can take its place."
            : "/// The ID of \(type == .object ? "an object" : "objects") of any entity."
        return [
            comment, "struct \(name): AttributeValue, \(type == .json ? "" : "ReferenceValue, ")Hashable {",
            "    static let attributeType = AttributeType.\(type)", "    var \(property)", "",
            type == .object ? "    init(id: ObjectID) { self.id = id }" : "    init() {}",
            "    init?(attributeValue: Value) {",
            "        guard let value = attributeValue.\(type) else { return nil }",
            "        \(member) = value", "    }", "",
            "    func attributeValue() -> Value { .\(type)(\(member)) }", "}", "",
        ]
    }

    init(_ entities: [EntityDescription]) {
        self.entities = entities
        nameTypes()
        nameOtherSides()
    }

    /// The lines of the program. It declares all entities that a struct can represent.
    consuming func text() -> [String] {
        for entity in entities { declare(entity) }
        let declared = entities.compactMap { types[$0.name] }
        let head = [
            "import Annals", "import FoundationEssentials", "",
            "// let store = try Store(at: path, entities: [" + declared.map { $0 + ".self" }.joined(separator: ", ")
                + "])", "",
        ]
        let helped = Self.helperTypes.filter { helpers.contains($0.type) }
        lines = head + lines + helped.flatMap(Self.declaration)
        if lines.last == "" { lines.removeLast() }
        return lines
    }

    // MARK: Names

    private mutating func nameTypes() {
        var taken = Set(Self.helperTypes.map(\.name))
        for entity in entities where entity.attributes.contains(where: { Self.canBeProperty($0.name) }) {
            let name = Self.typeName(entity.name)
            // By Swift's equality: names that differ only in their Unicode form would be one for the compiler.
            types[entity.name] = (1...).lazy.map { $0 == 1 ? name : "\(name)\($0)" }.first { taken.insert($0).inserted }
        }
    }

    /// The name of the struct: the entity's name if that is an identifier which is not used otherwise here.
    private static func typeName(_ name: String) -> String {
        if isIdentifier(name), !typeNames.contains(name), !keywords.contains(name) { return name }
        var words = name.unicodeScalars.map { isPartOfIdentifier($0) ? String($0) : "_" }.joined()
        if !isIdentifier(words) { words = "Entity" + words }
        return typeNames.contains(words) || keywords.contains(words) ? words + "Entity" : words
    }

    /// A store knows the other side of a relationship by its name. If an attribute has that name, both sides are kept,
    /// and no property can read one of them.
    private mutating func nameOtherSides() {
        for entity in entities {
            for attribute in entity.attributes {
                guard let target = attribute.target, types[target] != nil, let type = types[entity.name],
                    Self.canBeProperty(attribute.name), let name = attribute.inverse, Self.canBeProperty(name)
                else { continue }
                let there = entities.first { $0.name.hasSameBytes(as: target) }?.attributes ?? []
                let taken = there.map(\.name) + otherSides[target, default: []].map(\.name)
                if taken.contains(name) { continue }
                let isOne = attribute.type == .object && attribute.isUnique
                otherSides[target, default: []].append((name, type, attribute.name, isOne))
            }
        }
    }

    private static func isPartOfIdentifier(_ scalar: Unicode.Scalar) -> Bool {
        scalar == "_" || scalar.isASCII && (scalar.properties.isAlphabetic || scalar.properties.numericType != nil)
    }

    private static func isIdentifier(_ name: String) -> Bool {
        guard let first = name.unicodeScalars.first, first.properties.numericType == nil else { return false }
        return name != "_" && name.unicodeScalars.allSatisfy(isPartOfIdentifier)
    }

    /// Whether a property can have the name. The library leaves out names that begin like those of property wrappers,
    /// and those of the members of every object.
    private static func canBeProperty(_ name: String) -> Bool {
        if name.hasPrefix("_") || name.hasPrefix("$") || reserved.contains(name) { return false }
        if ReservedNames.owner(of: name) != nil { return false }
        // Inside backticks, Swift allows all but these. A name that consists only of blanks or of operators is not
        // allowed either.
        let isAllowed = name.unicodeScalars.allSatisfy { scalar in
            scalar != "`" && scalar != "\\" && ![.control, .format].contains(scalar.properties.generalCategory)
                && !scalar.properties.isNoncharacterCodePoint && (!scalar.properties.isWhitespace || scalar == " ")
        }
        return isAllowed && name.unicodeScalars.contains { $0.properties.isAlphabetic || $0.properties.isEmoji }
    }

    private static func property(_ name: String) -> String {
        isIdentifier(name) && !keywords.contains(name) ? name : "`" + name + "`"
    }

    private static let reserved: Set<String> = ["Type", "Protocol", "Self"]

    /// Types that the program names, and some that it would be unwise to hide.
    private static let typeNames: Set<String> = [
        "Any", "AnyObject", "Array", "Attribute", "AttributeType", "AttributeValue", "Bool", "Data", "Date", "Decimal",
        "Double", "Entity", "Float", "Hashable", "Int", "Object", "ObjectID", "Optional", "Predicate", "Protocol",
        "Reference", "ReferenceValue", "Relationship", "Schema", "SchemaItem", "Self", "Sendable", "Set", "Snapshot",
        "Store", "String", "Swift", "ToMany", "ToOne", "Transaction", "Transient", "Type", "URL", "UUID", "Value",
    ]

    private static let keywords: Set<String> = [
        "Any", "Self", "actor", "as", "associatedtype", "async", "await", "break", "case", "catch", "class", "continue",
        "default", "defer", "deinit", "do", "else", "enum", "extension", "fallthrough", "false", "fileprivate", "for",
        "func", "guard", "if", "import", "in", "init", "inout", "internal", "is", "let", "nil", "operator",
        "precedencegroup", "private", "protocol", "public", "repeat", "rethrows", "return", "self", "static", "struct",
        "subscript", "super", "switch", "throw", "throws", "true", "try", "typealias", "var", "where", "while",
    ]

    // MARK: Entities

    private mutating func declare(_ entity: EntityDescription) {
        guard let type = types[entity.name] else {
            let name = Self.comment(entity.name)
            lines += ["// “\(name)” has no attribute that a struct can have: it is left alone.", ""]
            return
        }
        lines.append("struct \(type): Entity {")
        for attribute in entity.attributes { declare(attribute) }
        for side in otherSides[entity.name, default: []] {
            lines.append("    var \(Self.property(side.name)) = \(side.isOne ? "ToOne" : "ToMany")<\(side.entity)>()")
        }
        let schema = schema(of: entity, type)
        if !schema.isEmpty { lines += [""] + schema.map { "    " + $0 } }
        lines += ["}", ""]
    }

    private mutating func declare(_ attribute: AttributeDescription) {
        guard Self.canBeProperty(attribute.name) else {
            lines.append(
                "    // “\(Self.comment(attribute.name))” (\(attribute.type.rawValue)) cannot be a property here: "
                    + "rename the attribute. Until then the program keeps its values."
                    + (attribute.isOptional || attribute.defaultValue != nil ? "" : " It is required."))
            return
        }
        let (type, initial) = typeAndInitial(of: attribute)
        let showsType =
            attribute.isOptional || ![.bool, .int, .string].contains(attribute.type)
            || !["false", "true", "0", "\"\""].contains(initial)
        lines.append(
            "    var \(Self.property(attribute.name))" + (showsType ? ": \(type)" : "")
                + (initial == "nil" ? "" : " = \(initial)"))
    }

    /// The property's type, and the value that it has in a new struct.
    private mutating func typeAndInitial(of attribute: AttributeDescription) -> (String, String) {
        let target = attribute.target.flatMap { types[$0] }.map { "Reference<\($0)>" }
        let (type, empty) =
            switch attribute.type {
            case .bool: ("Bool", "false")
            case .int: ("Int", "0")
            case .double: ("Double", "0")
            case .string: ("String", "\"\"")
            case .data: ("Data", "Data()")
            case .date: ("Date", "Date(timeIntervalSince1970: 0)")
            case .uuid: ("UUID", "UUID()")
            case .decimal: ("Decimal", "0")
            case .json: (helped(.json), "JSONText()")
            case .object: (target ?? helped(.object), "nil")
            case .orderedObjects: target.map { ("[\($0)]", "[]") } ?? (helped(.orderedObjects), "AnyObjectList()")
            case .objects: target.map { ("Set<\($0)>", "[]") } ?? (helped(.objects), "AnyObjectSet()")
            }
        let isTypedList = attribute.type.isObjectList && target != nil
        let isOptional = attribute.type == .object || attribute.isOptional && !isTypedList
        let initial = attribute.type.isReference ? nil : attribute.defaultValue.map(literal)
        return isOptional ? (type + "?", initial ?? "nil") : (type, initial ?? empty)
    }

    private mutating func helped(_ type: AttributeType) -> String {
        helpers.insert(type)
        return Self.helperTypes.first { $0.type == type }?.name ?? ""
    }

    // MARK: Schemas

    private func schema(of entity: EntityDescription, _ type: String) -> [String] {
        let items = entity.attributes.filter { Self.canBeProperty($0.name) }.compactMap { item($0, of: entity.name) }
        var arguments: [String] = []
        if !type.hasSameBytes(as: entity.name) { arguments.append(Self.text(entity.name)) }
        var notes: [String] = []
        for isUnique in [true, false] {
            let keys = entity.keys.filter { $0.isUnique == isUnique }
            let possible = keys.filter { $0.attributes.count > 1 && $0.attributes.allSatisfy(Self.canBeProperty) }
            for key in keys where !possible.contains(key) {
                notes.append(
                    "// The store also has a \(isUnique ? "unique " : "")key over "
                        + key.attributes.map(Self.comment).joined(separator: ", ") + ".")
            }
            if possible.isEmpty { continue }
            let paths = possible.map { "[" + $0.attributes.map(Self.path).joined(separator: ", ") + "]" }
            arguments.append((isUnique ? "unique" : "indexed") + ": [" + paths.joined(separator: ", ") + "]")
        }
        if entity.history == .off { arguments.append("history: .off") }
        if items.isEmpty, arguments.isEmpty { return notes }
        let call = "static let schema = Schema<\(type)>"
        let head = arguments.isEmpty ? call : call + "(" + arguments.joined(separator: ", ") + ")"
        if items.isEmpty { return notes + [head] }
        return notes + [head + " {"] + items.map { "    " + $0 } + ["}"]
    }

    private static func path(_ name: String) -> String { "\\." + property(name) }

    /// The line of an attribute; nil if it needs none.
    private func item(_ attribute: AttributeDescription, of entity: String) -> String? {
        var parts = [Self.path(attribute.name)]
        let isReference = attribute.type.isReference
        if attribute.isUnique { parts.append(".unique") }
        if attribute.isIndexed { parts.append(".indexed") }
        if attribute.isPreservedOnDeletion { parts.append(".preservedOnDeletion") }
        if attribute.type == .object, !attribute.isOptional { parts.append(".required") }
        if !isReference, attribute.isOptional, let value = attribute.defaultValue {
            parts.append(".valueForOlderObjects(\(literal(value)))")
        }
        guard isReference else { return parts.count == 1 ? nil : "Attribute(" + parts.joined(separator: ", ") + ")" }
        let type = types[entity]
        let side = attribute.target.flatMap { target in
            otherSides[target, default: []].first { $0.entity == type && $0.attribute == attribute.name }
        }
        if let side { parts.append("inverse: " + Self.path(side.name)) }
        parts.append("whenTargetIsDeleted: .\(attribute.whenTargetIsDeleted.rawValue)")
        return "Relationship(" + parts.joined(separator: ", ") + ")"
    }

    // MARK: Literals

    private static func comment(_ name: String) -> String { JSONText.string(name).dropFirst().dropLast().description }

    private static func text(_ text: String) -> String {
        let parts = text.unicodeScalars.map { scalar in
            if invisible.contains(scalar.properties.generalCategory) {
                return "\\u{" + String(scalar.value, radix: 16) + "}"
            }
            return (["\"", "\\"].contains(scalar) ? "\\" : "") + String(scalar)
        }
        return "\"" + parts.joined() + "\""
    }

    private static let invisible: [Unicode.GeneralCategory] = [
        .control, .lineSeparator, .paragraphSeparator, .format, .privateUse, .unassigned, .nonspacingMark,
        .enclosingMark,
    ]

    private static func text(_ double: Double) -> String {
        double.isNaN ? ".nan" : double.isInfinite ? (double < 0 ? "-Double.infinity" : ".infinity") : "\(double)"
    }

    private func literal(_ value: Value) -> String {
        switch value {
        case .null: "nil"
        case .bool(let bool): bool ? "true" : "false"
        case .int(let int): String(int)
        case .double(let double): Self.text(double)
        case .string(let text): Self.text(text)
        case .data(let data): "Data([" + data.map(String.init).joined(separator: ", ") + "])"
        case .date(let date): "Date(timeIntervalSinceReferenceDate: \(Self.text(date.timeIntervalSinceReferenceDate)))"
        case .uuid(let uuid): "UUID(uuidString: \"\(uuid.uuidString)\") ?? UUID()"
        case .decimal(let decimal): decimal.isNaN ? ".nan" : "Decimal(string: \"\(decimal)\") ?? 0"
        case .json(let text): "JSONText(attributeValue: .json(\(Self.text(text)))) ?? JSONText()"
        case .object, .orderedObjects, .objects: "nil"
        }
    }
}
