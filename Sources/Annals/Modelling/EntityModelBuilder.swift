// Finds the stored properties of a type, and compares them with its schema. All mistakes are found at once.

internal import FoundationEssentials

/// Builds a model.
struct EntityModelBuilder<E: Entity> {
    private let schema: Schema<E>
    private var fields: [StoredField] = []
    private var problems: [String] = []
    private var properties: [EntityModel.Property] = []
    private var otherSides: [EntityModel.OtherSide] = []
    private var keys: [IndexDescription] = []
    private var rules = RulesOf<E>()
    private var derived: [DerivedRule] = []
    private var limits: [SideLimit] = []
    private var lastChange: String?

    init() {
        let declared = E.schema
        schema = declared as? Schema<E> ?? Schema()
        guard declared is Schema<E> else {
            let type = Swift.type(of: declared)
            report("“schema” of “\(E.self)” has the type \(type): write static let schema = Schema<\(E.self)> { … }.")
            return
        }
    }

    consuming func model() -> EntityModel {
        let found = StoredFields(schema)
        fields = found.fields
        if !problems.isEmpty {
            // Without its schema, further mistakes are unknown.
        } else if let problem = found.problem {
            report(problem)
        } else {
            addProperties()
            checkNames()
        }
        return EntityModel(
            type: E.self, name: schema.name, properties: properties, otherSides: otherSides, keys: keys,
            history: schema.history, problems: problems, hasTransients: fields.contains { $0.isTransient },
            rules: rules, derived: derived, limits: limits, lastChange: lastChange,
            slotPaths: Self.slotPaths(properties.count + otherSides.count + 1), initial: Self.initial())
    }

    /// A value that is kept as long as its model, and so never released.
    private static func initial() -> UnsafeRawPointer {
        let initial = UnsafeMutablePointer<E>.allocate(capacity: 1)
        initial.initialize(to: E())
        return UnsafeRawPointer(initial)
    }

    private mutating func addProperties() {
        var items: [Int: [SchemaItem<E>]] = [:]
        for item in schema.items {
            if let index = field(item.path) { items[index, default: []].append(item) } else { addUnnamed(item) }
        }
        for (index, lines) in items {
            if lines.contains(where: { $0.isTransient }) { fields[index].isTransient = true }
            guard lines.count > 1 else { continue }
            report(
                "“\(fields[index].name)” of “\(schema.name)” has \(lines.count) lines in the schema: combine them into "
                    + "one.")
        }
        let values = (E(), E())
        for (index, field) in fields.enumerated() { add(field, items[index]?.first, values) }
        keys = keys(schema.unique, isUnique: true) + keys(schema.indexed, isUnique: false)
        for (index, key) in keys.enumerated() {
            guard keys[..<index].contains(where: { $0.attributes == key.attributes }) else { continue }
            report("\(Self.title(ofKey: key.attributes)) of “\(schema.name)” is in the schema twice: remove one.")
        }
        if properties.count(where: { $0.searchWeight != nil }) > SearchPlan.maximumAttributes {
            report(
                "“\(schema.name)” has more than \(SearchPlan.maximumAttributes) searchable properties: remove "
                    + ".searchable from some.")
        }
        if properties.isEmpty, problems.isEmpty {
            let sides = otherSides.map { "“\($0.name)”" }.joined(separator: ", ")
            let but = sides.isEmpty ? "" : " but other sides of relationships (\(sides)), which store nothing"
            report("“\(schema.name)” has no stored property\(but): add a stored property, or remove the entity.")
        }
    }

    private mutating func checkNames() {
        if IdentifierName(schema.name).isReserved {
            report(
                "“\(schema.name)” begins with “\(EntityDefinition.reservedPrefix)”, which is reserved for the store's "
                    + "own entities: choose another name.")
        }
        let most = FormatLimits.maximumIdentifierBytes
        if !(1...most).contains(schema.name.utf8.count) {
            report("The name “\(schema.name)” of an entity must have 1 to \(most) bytes: choose another name.")
        }
        for (index, field) in fields.enumerated() where !field.isTransient {
            if field.name.utf8.count > most {
                report("“\(field.name)” of “\(schema.name)” has more than \(most) bytes: choose a shorter name.")
            }
            if fields[..<index].contains(where: { $0.name == field.name }) {
                report(
                    "“\(field.name)” of “\(schema.name)” exists twice, because the names are different forms of the "
                        + "same text: rename one of them.")
            }
        }
    }

    private static func slotPaths(_ count: Int) -> [any AnyKeyPath & Sendable] {
        (0..<count).map { slot in
            let path: any KeyPath<Object<E>, Object<E>.ObservedSlot> & Sendable = \Object<E>.[slot: slot]
            return path
        }
    }

    private mutating func report(_ problem: String) { problems.append(problem) }

    // MARK: Lines

    /// The stored property that a key path of the schema leads to.
    private func field(_ path: any PartialKeyPath<E> & Sendable) -> Int? {
        guard let offset = MemoryLayout<E>.offset(of: path) else { return nil }
        let type = Swift.type(of: path).valueType
        // A type that has no size shares its place with the next property.
        let isNamed = { (field: StoredField) in "\(path)".hasSuffix(".\(field.name)") }
        let here = fields.indices.filter { fields[$0].offset == offset && fields[$0].type == type }
        return here.first { fields[$0].size > 0 || isNamed(fields[$0]) }
    }

    /// A line whose key path leads to no stored property.
    private mutating func addUnnamed(_ item: SchemaItem<E>) {
        let type = Swift.type(of: item.path).valueType
        if item.isTransient {
            // The key path to a closure is computed, because a closure is stored in another form than it is called in.
            let closures = fields.indices.filter { fields[$0].type == type && propertyCodec(of: type) == nil }
            for index in closures { fields[index].isTransient = true }
            if !closures.isEmpty { return }
        }
        report(item.path, "have a line in the schema", at: " (\(item.place))")
    }

    /// Explains why a key path leads to no stored property.
    private mutating func report(_ path: any PartialKeyPath<E> & Sendable, _ purpose: String, at place: String) {
        let type = Swift.type(of: path).valueType
        guard let offset = MemoryLayout<E>.offset(of: path) else {
            let named = Set(schema.items.compactMap { field($0.path) })
            let observed = fields.indices.filter { fields[$0].type == type && !named.contains($0) }
            let wrapped = fields.map(\.name).filter { $0.hasPrefix("_") }.map { String($0.dropFirst()) }
            return report(
                "A property of “\(schema.name)” of the type \(TypeText.of(type))\(place) is computed, or has willSet "
                    + "or didSet\(Self.question(observed.map { fields[$0].name })), or a property "
                    + "wrapper\(Self.question(wrapped)): only plain stored properties \(purpose). Make it a plain "
                    + "stored property, or remove it there.")
        }
        let whole = fields.last { offset >= $0.offset && $0.size > 0 }?.name
        guard type != E.self, let whole else {
            return report("\(path)\(place) is not a property of “\(schema.name)”: name a property.")
        }
        let name = "\(path)".split(separator: ".", maxSplits: 1).last ?? ""
        report(
            "“\(name)” of “\(schema.name)”\(place) is a part of “\(whole)”, and only whole properties \(purpose): name "
                + "“\(whole)”, or make the part its own property.")
    }

    /// Asks which property is meant: a key path to a computed one has no name.
    private static func question(_ names: [String]) -> String {
        names.isEmpty ? "" : " (is it \(names.prefix(3).map { "“\($0)”" }.joined(separator: " or "))?)"
    }

    // MARK: Properties

    private mutating func add(_ field: StoredField, _ item: SchemaItem<E>?, _ values: (E, E)) {
        let title = "“\(field.name)” of “\(schema.name)”"
        let advice = PropertyAdvice(title: title, name: field.name, type: field.type)
        if field.type == Schema<E>.self {
            return report(
                "“\(field.name)” of “\(schema.name)” is an instance property: write static let \(field.name).")
        }
        if let owner = ReservedNames.owner(of: field.name) {
            report(
                "\(title) has the name of a member of \(owner), which hides it: choose another name"
                    + (field.isTransient ? "." : ", with .renamed(from: \"\(field.name)\") if a store has it already."))
        }
        if field.isTransient { return }
        if let problem = advice.aboutStorage(of: schema.name) { return report(problem) }
        guard field.size > 0 else { return report(advice.aboutNothing) }
        if let other = field.type as? any AnyOtherSide.Type {
            otherSides.append(
                .init(name: field.name, offset: field.offset, target: other.target, isOne: other.isOne))
            reportRepeated(item?.options ?? [], title)
            for option in item?.options ?? [] {
                if case .sideCount(let count) = option {
                    reportEmpty(count.limit, title)
                    limits.append(SideLimit(name: field.name, side: field.offset, count: count))
                } else {
                    report(
                        "\(title) is the other side of a relationship: set its options, except for .count, on that "
                            + "relationship.")
                }
            }
            return
        }
        guard !advice.isEntity, let codec = propertyCodec(of: field.type) else { return report(advice.aboutType) }
        var property: EntityModel.Property
        do {
            let initial = try (
                Self.value(of: values.0, codec, field.offset), Self.value(of: values.1, codec, field.offset)
            )
            property = EntityModel.Property(
                name: field.name, type: field.type, offset: field.offset, size: field.size, codec: codec,
                initial: initial.0, isInitialStable: Self.isStable(initial))
        } catch {
            return report("\(title) has an initial value that cannot be stored: \(StoreError.sentence(error))")
        }
        if codec.attributeType == .object, !codec.isOptional {
            return report(
                "\(title) must be optional, because a new value refers to no object: write Reference<…>?, and add the "
                    + "option .required if it must be set when it is saved.")
        }
        if codec.attributeType.isReference { property.deleteRule = .nullify }
        if let item { apply(item, to: &property, title) }
        properties.append(property)
    }

    private static func value(of value: E, _ codec: any PropertyCodec, _ offset: Int) throws -> Value {
        try withUnsafePointer(to: value) { try codec.value(at: UnsafeRawPointer($0) + offset) }
    }

    /// Whether the values of two new objects show that all have the same. A date close to now does not: later ones
    /// differ.
    private static func isStable(_ values: (Value, Value)) -> Bool {
        if case .date(let date) = values.0, abs(date.timeIntervalSinceNow) < 60 { return false }
        return values.0 == values.1
    }

    private mutating func apply(_ item: SchemaItem<E>, to property: inout EntityModel.Property, _ title: String) {
        let type = property.codec.attributeType
        if case .relationship(let rule, let inverse) = item.role {
            guard property.codec.attributeType.isReference else {
                return report("\(title) does not refer to objects: write Attribute instead of Relationship.")
            }
            property.deleteRule = rule
            property.inverse = inverse.map { SchemaItemInverse(target: $0.target, offset: $0.offset) }
        }
        reportRepeated(item.options, title)
        for option in item.options {
            switch option {
            case .unique: property.isUnique = true
            case .indexed: property.isIndexed = true
            case .searchable(let weight, let positions):
                (property.searchWeight, property.keepsPositions) = (weight, positions)
                if !(weight > 0 && weight <= 1000) {
                    report("\(title) has the search weight \(weight): write one above 0 and up to 1000.")
                }
            case .preservedOnDeletion: property.isPreserved = true
            case .required:
                property.isRequired = true
                if !property.codec.isOptional {
                    report("\(title) is not optional, so it always has a value: remove .required.")
                }
            case .defaultValue(let value):
                do {
                    property.defaultValue = try property.codec.value(of: value)
                } catch {
                    report(
                        "\(title) has a value for older objects that cannot be stored: \(StoreError.sentence(error))")
                }
            case .fallback(let value): apply(fallback: value, to: &property, title)
            case .renamed(let name):
                if let other = properties.first(where: { $0.formerNames.contains { isSameName($0, name) } }) {
                    report("\(title) and “\(other.name)” are both renamed from “\(name)”: remove one of the options.")
                }
                property.formerNames.append(name)
            case .derived(let compute):
                property.isDerived = true
                rules.add(item.path, compute)
            case .fromOtherSide(var rule):
                property.isDerived = true
                rule.attribute = property.name
                derived.append(rule)
            case .lastChange:
                if let lastChange {
                    report(
                        "\(title) and “\(lastChange)” both contain the time of the last change: remove one of the "
                            + "options.")
                }
                property.isDerived = true
                lastChange = property.name
            case .sideCount: continue
            case .limit(let limit, let isValid):
                reportEmpty(limit, title)
                rules.add(property.name, item.path, limit.message, isValid)
            case .check(let message, let isValid): rules.add(property.name, item.path, message, isValid)
            case .pattern(let pattern, let isValid):
                if (try? Regex(pattern)) == nil {
                    report("\(title) has the pattern “\(pattern)”, which is not a regular expression: correct it.")
                }
                rules.add(property.name, item.path, "must match “\(pattern)”", isValid)
            }
        }
        if type.isObjectList, property.isUnique || property.isIndexed {
            report("\(title) is a list of objects, which already has an index: remove .unique or .indexed.")
        }
    }

    /// Options of which a property can have one.
    private mutating func reportRepeated(_ options: [PropertyOption<E>], _ title: String) {
        var (derivations, defaults, fallbacks, ranges) = (0, 0, 0, 0)
        for option in options {
            switch option {
            case .derived, .fromOtherSide, .lastChange: derivations += 1
            case .defaultValue: defaults += 1
            case .fallback: fallbacks += 1
            case .limit, .sideCount: ranges += 1
            default: continue
            }
        }
        for (count, what) in [
            (derivations, "ways to be derived"), (defaults, "values for older objects"), (fallbacks, "fallbacks"),
            (ranges, "ranges"),
        ] where count > 1 { report("\(title) has \(count) \(what): keep one.") }
    }

    private mutating func reportEmpty(_ limit: RangeLimit, _ title: String) {
        guard let range = limit.emptyRange else { return }
        report("\(title) has the range \(range), which is empty, so nothing could be saved: write another range.")
    }

    private mutating func apply(
        fallback value: any Sendable, to property: inout EntityModel.Property, _ title: String
    ) {
        guard property.codec.form == .other, !property.codec.attributeType.isReference else {
            return report("\(title) has a type whose stored values are all valid: remove .fallback.")
        }
        do {
            guard let stored = try property.codec.value(of: value) else { return }
            property.codec = FallbackCodec(property.codec, stored)
        } catch { report("\(title) has a fallback that cannot be stored: \(StoreError.sentence(error))") }
    }

    // MARK: Keys

    private static func title(ofKey names: [String]) -> String {
        "The key \(names.map { "“\($0)”" }.joined(separator: ", "))"
    }

    private mutating func keys(_ paths: [[Schema<E>.Property]], isUnique: Bool) -> [IndexDescription] {
        var keys: [IndexDescription] = []
        for path in paths {
            let known = problems.count
            var names: [String] = []
            for part in path {
                guard let index = field(part) else {
                    report(part, "are part of a key", at: " in a key (\(schema.place))")
                    continue
                }
                let name = fields[index].name
                guard let property = properties.first(where: { $0.name == name }),
                    !property.codec.attributeType.isObjectList
                else {
                    report("“\(name)” of “\(schema.name)” cannot be part of a key: remove it from the key.")
                    continue
                }
                names.append(name)
            }
            guard problems.count == known else { continue }
            if names.count < 2 {
                let option = isUnique ? ".unique" : ".indexed"
                let key = names.isEmpty ? "An empty key" : Self.title(ofKey: names)
                report("\(key) of “\(schema.name)” has fewer than two properties: use the option \(option) instead.")
            }
            if let (_, name) = names.enumerated().first(where: { names[..<$0.offset].contains($0.element) }) {
                report(
                    "\(Self.title(ofKey: names)) of “\(schema.name)” contains “\(name)” twice: remove one.")
            }
            keys.append(IndexDescription(names, isUnique: isUnique))
        }
        return keys
    }
}

/// Derivations and validations by key path.
private struct RulesOf<E: Entity>: EntityRules {
    private var derivations: [(any PartialKeyPath<E> & Sendable, @Sendable (inout E, PartialKeyPath<E>) -> Void)] = []
    private var checks: [Check] = []

    private struct Check: Sendable {
        let attribute: String
        let path: any PartialKeyPath<E> & Sendable
        let message: String
        let isValid: @Sendable (Any) -> Bool
    }

    var hasRules: Bool { !derivations.isEmpty || !checks.isEmpty }
    var derivesAnything: Bool { !derivations.isEmpty }

    mutating func add(
        _ path: any PartialKeyPath<E> & Sendable, _ compute: @escaping @Sendable (inout E, PartialKeyPath<E>) -> Void
    ) {
        derivations.append((path, compute))
    }

    mutating func add(
        _ attribute: String, _ path: any PartialKeyPath<E> & Sendable, _ message: String,
        _ isValid: @escaping @Sendable (Any) -> Bool
    ) {
        checks.append(Check(attribute: attribute, path: path, message: message, isValid: isValid))
    }

    func derive(_ address: UnsafeMutableRawPointer) {
        let entity = address.assumingMemoryBound(to: E.self)
        for (path, compute) in derivations { compute(&entity.pointee, path) }
    }

    func failures(_ address: UnsafeRawPointer) -> [ValidationFailure] {
        let entity = address.assumingMemoryBound(to: E.self)
        return checks.compactMap { check in
            let value = entity.pointee[keyPath: check.path as PartialKeyPath<E>]
            guard !check.isValid(value) else { return nil }
            return ValidationFailure(
                entity: E.model.name, attribute: check.attribute, value: Self.text(value), message: check.message,
                object: nil)
        }
    }

    /// A value as text, without the optional around it.
    private static func text(_ value: Any) -> String {
        guard let optional = value as? any OptionalProperty else { return (value as? Date)?.text ?? "\(value)" }
        return optional.content.map { ($0 as? Date)?.text ?? "\($0)" } ?? "nil"
    }
}
