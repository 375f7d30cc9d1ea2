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
    var added: [String] = []

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

struct LoadSchema {
    let options: LoadOptions
    let lines: ArraySlice<LoadedLine>
    let guesses: TypeGuesses
    /// The types in the whole file, if they are known. A new or wider attribute gets the type that fits them all.
    let known: TypeGuesses
    /// The attributes that this load has added. Only it knows them, so it may widen them.
    let own: Set<IdentifierName>

    private var entity: String { options.entity }

    func plan(_ snapshot: Snapshot) throws -> LoadPlan {
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
                plan.added.append(name)
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
                    throw refusal(name, there.type, misfit)
                }
                let type = try guess.widened(there.type) { try integersAreDoubles(name, snapshot) }
                plan.changes.append(.replaceAttribute(name, of: entity, by: wider(there, type, isKey)))
                plan.widenings.append(Widening(name: name, type: type))
            } else if isKey && !there.isUnique {
                plan.changes.append(.changeAttribute(name, of: entity, isIndexed: true, isUnique: true))
            }
        }
        return plan
    }

    private func wider(_ there: AttributeDescription, _ type: AttributeType, _ isKey: Bool) -> AttributeDescription {
        var wider = there
        wider.type = type
        wider.defaultValue = nil
        wider.isOptional = true
        if isKey { (wider.isIndexed, wider.isUnique) = (true, true) }
        return wider
    }

    private func refusal(
        _ name: String, _ type: AttributeType, _ misfit: (line: UInt64, value: JSONValue)
    ) -> LineError {
        let given = TypeGuess([misfit.value]).type ?? .json
        return LineError(
            line: misfit.line,
            reason: "“\(name)” of “\(entity)” has the type \(type), but a value of the type \(given) was given",
            hint: "Correct the line, or add “--widen” to give the attribute a wider type. A program that declares the "
                + "attribute then cannot open the store until it declares the wider type.")
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
    private var (sawBool, sawInt, sawDouble, sawString) = (false, false, false, false)
    /// Objects, arrays, and numbers that are neither integers nor doubles.
    private var sawOther = false
    /// Whether they are fields of CSV, which are texts if they are not all of another type.
    private var isOfFields = false
    /// Whether every integer is also a double without rounding.
    private var integersAreDoubles = true

    package init() {}
    package init(_ values: [JSONValue]) { for value in values { add(value) } }

    package mutating func add(_ value: JSONValue) {
        switch value {
        case .null: break
        case .bool: sawBool = true
        case .int(let int):
            sawInt = true
            if Double(exactly: int) == nil { integersAreDoubles = false }
        case .double: sawDouble = true
        case .string: sawString = true
        case .number, .structure: sawOther = true
        case .field(let text):
            isOfFields = true
            switch try? JSONReader.value(text) {
            case .bool?, .int?, .double?: if let json = try? JSONReader.value(text) { add(json) }
            default: sawString = true
            }
        }
    }

    package var type: AttributeType? {
        switch (sawBool, sawInt, sawDouble, sawString, sawOther) {
        case (false, false, false, false, false): nil
        case (true, false, false, false, false): .bool
        case (false, true, false, false, false): .int
        case (false, _, true, false, false) where integersAreDoubles: .double
        case (false, false, false, true, false): .string
        default: isOfFields ? .string : .json
        }
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
