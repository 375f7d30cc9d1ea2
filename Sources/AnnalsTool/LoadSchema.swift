// The schema changes that the lines of a batch need: the entity, new attributes, wider types, a unique key. And the
// type of an attribute that fits all values seen so far exactly.

package import Annals

/// An attribute that is replaced by one of a wider type, with the same name, place and values.
struct Widening {
    var name: String
    var type: AttributeType

    func widened(_ value: Value) -> Value {
        if type == .double, case .int(let int) = value { return .double(Double(int)) }
        // The text that was most likely in the line. If the attribute is the key, the same line must find its object
        // again.
        if case .double(let double) = value, double != 0 || double.sign == .plus, abs(double) < 0x1p53,
            let int = Int64(exactly: double)
        {
            return type == .string ? .string("\(int)") : .json("\(int)")
        }
        return type == .string ? .string(ValueConversion.field(value)) : .json(ValueConversion.text(value))
    }
}

struct LoadPlan {
    var changes: [SchemaChange] = []
    var widenings: [Widening] = []

    /// The names of the new attributes.
    var added: [String] {
        changes.compactMap { if case .addAttribute(let attribute, _) = $0 { attribute.name } else { nil } }
    }

    /// Must be the first action of the transaction.
    func apply(to transaction: Transaction, entity: String) throws {
        let before = transaction.snapshot
        try transaction.changeSchema(changes)
        guard !widenings.isEmpty else { return }
        let old = try before.entity(entity)
        try before.forEachRow(of: old) { (row) throws(StoreError) in
            var values: [(key: String, value: Value)] = []
            for widening in widenings {
                guard let position = old.position(of: widening.name), row.isPresent(at: position) else { continue }
                values.append((widening.name, widening.widened(try row.value(at: position))))
            }
            if !values.isEmpty { try transaction.update(row.id, pairs: values) }
            return true
        }
    }
}

extension LoadRun {
    private var entity: String { options.entity }

    /// The schema changes that a batch needs. A new or wider attribute gets the type that fits the whole file, if that
    /// is known.
    func plan(_ lines: [LoadedLine], _ guesses: TypeGuesses, _ snapshot: Snapshot) throws -> LoadPlan {
        let present = try snapshot.entities.first { $0.name.hasSameBytes(as: entity) }
        var plan = LoadPlan()
        if present == nil { plan.changes.append(.addEntity(EntityDescription(entity, attributes: []))) }
        for name in guesses.names {
            let isKey = options.key.map { $0.hasSameBytes(as: name) } ?? false
            let guess = known[name].type == nil ? guesses[name] : known[name]
            guard let there = present?[name] else {
                guard let guessed = guess.type else { continue }
                // Later lines of a stream may have any text.
                var attribute = options.attribute(name, options.isCSV && known.names.isEmpty ? .string : guessed)
                (attribute.isIndexed, attribute.isUnique) = (isKey, isKey)
                plan.changes.append(.addAttribute(attribute, to: entity))
                continue
            }
            if let chosen = options.types[IdentifierName(name)], chosen.type != there.type {
                throw LineError(
                    line: lines.first?.number ?? 0,
                    reason: "“\(name)” of “\(entity)” has the type \(there.type) already, and not \(chosen.type): "
                        + "leave --type out, or change the schema first")
            }
            let needed = try guesses[name].widened(there.type) { true }
            if needed != there.type,
                let misfit = lines.values(of: name).first(where: {
                    ValueConversion.value($0.value, as: there.type) == nil
                })
            {
                // TL4.
                guard options.widens || own.contains(IdentifierName(name)) && options.types[IdentifierName(name)] == nil
                else {
                    throw LineError(
                        line: misfit.line,
                        reason: "“\(name)” of “\(entity)” has the type \(there.type), but a value of the type "
                            + "\(TypeGuess([misfit.value]).type ?? .json) was given",
                        hint: "Correct the line, or add “--widen” to give the attribute a wider type. A program that "
                            + "declares the attribute then cannot open the store until it declares the wider type.")
                }
                let type = try guess.widened(there.type) { try integersAreDoubles(name, snapshot) }
                let wider = AttributeDescription(
                    name, type, isIndexed: isKey || there.isIndexed, isUnique: isKey || there.isUnique,
                    isPreservedOnDeletion: there.isPreservedOnDeletion)
                plan.changes.append(.replaceAttribute(name, of: entity, by: wider))
                plan.widenings.append(Widening(name: name, type: type))
            } else if isKey && !there.isUnique {
                plan.changes.append(.changeAttribute(name, of: entity, isIndexed: true, isUnique: true))
            }
        }
        return plan
    }

    private func integersAreDoubles(_ name: String, _ snapshot: Snapshot) throws -> Bool {
        let handle = try snapshot.entity(entity)
        guard let position = handle.position(of: name) else { return true }
        var areDoubles = true
        try snapshot.forEachRow(of: handle) { row in
            if let int = row.int(at: position), Double(exactly: int) == nil { areDoubles = false }
            return areDoubles
        }
        return areDoubles
    }
}

package struct TypeGuess: Equatable, Sendable {
    /// The types of the values: json for objects, arrays, and numbers that are neither integers nor doubles.
    private var types: Set<AttributeType> = []
    /// Whether they are fields of CSV, which are texts if they are not all of another type.
    private var isOfFields = false
    /// Whether every integer is also a double without rounding.
    private var integersAreDoubles = true

    package init() {}
    package init(_ values: [JSONValue]) { for value in values { add(value) } }

    package mutating func add(_ value: JSONValue) {
        switch value {
        case .null: break
        case .bool: types.insert(.bool)
        case .int(let int):
            types.insert(.int)
            if Double(exactly: int) == nil { integersAreDoubles = false }
        case .double: types.insert(.double)
        case .string: types.insert(.string)
        case .number, .structure: types.insert(.json)
        case .field(let text):
            isOfFields = true
            let json = (try? JSONReader.value(text)) ?? .null
            switch json {
            case .bool, .int, .double: add(json)
            default: types.insert(.string)
            }
        }
    }

    package var type: AttributeType? {
        if types.count <= 1 { return types.first }
        if types == [.int, .double], integersAreDoubles { return .double }
        return isOfFields ? .string : .json
    }

    /// The type that an existing attribute must get; its own type if that can stay.
    ///
    /// `existingIntegersAreDoubles` is about the existing values. Types that no JSON value has by itself (dates and so
    /// on) stay: a value either is the text of one, or is refused.
    package func widened(
        _ existing: AttributeType, existingIntegersAreDoubles: () throws -> Bool
    ) throws -> AttributeType {
        guard let type, type != existing else { return existing }
        switch (existing, type) {
        case (.double, .int): return integersAreDoubles ? .double : .json
        case (.int, .double): return try existingIntegersAreDoubles() ? .double : .json
        case (.string, _) where isOfFields: return .string
        case (.bool, _), (.int, _), (.double, _), (.string, _): return isOfFields ? .string : .json
        default: return existing
        }
    }
}

/// The guesses for all attributes, in the order of their first appearance.
struct TypeGuesses {
    private(set) var names: [String] = []
    private var guesses: [TypeGuess] = []
    private var places: [IdentifierName: Int] = [:]

    mutating func add(_ members: [JSONMember]) {
        for (index, member) in members.enumerated() {
            // Most lines have the same names in the same order.
            let isInOrder = index < names.count && names[index].hasSameBytes(as: member.name)
            guesses[isInOrder ? index : place(of: member.name)].add(member.value)
        }
    }

    private mutating func place(of name: String) -> Int {
        if let place = places[IdentifierName(name)] { return place }
        places[IdentifierName(name)] = names.count
        names.append(name)
        guesses.append(TypeGuess())
        return names.count - 1
    }

    subscript(name: String) -> TypeGuess { places[IdentifierName(name)].map { guesses[$0] } ?? TypeGuess() }
}
