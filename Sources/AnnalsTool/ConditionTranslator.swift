// Translates written conditions: finds the attributes that they name, and gives values the types of these attributes.

internal import Annals
internal import FoundationEssentials

struct ConditionTranslator {
    private let snapshot: Snapshot
    private let entity: EntityHandle

    init(_ snapshot: Snapshot, _ entity: EntityHandle) throws(StoreError) {
        try snapshot.require(entity)
        self.snapshot = snapshot
        self.entity = entity
    }

    func condition(_ written: WrittenCondition) throws -> Condition {
        switch written {
        case .all(let parts): return try parts.reduce(.constant(true)) { .both($0, try condition($1)) }
        case .any(let parts): return .any(try parts.map(condition))
        case .not(let part): return .not(try condition(part))
        case .test(let path, let comparison, let json):
            let position = try position(of: path[0])
            guard path.count > 1 else { return try test(position, comparison, json, entity, path) }
            let target = try target(of: position)
            let step = RelationshipStep(entity, position, to: target.entity)
            let last = try target.position(of: path[1])
            func inner(_ comparison: WrittenComparison) throws -> Condition {
                try target.test(last, comparison, json, entity, path)
            }
            if entity.types[position].isObjectList { return .anyOf(step, try inner(comparison)) }
            // A missing object compares as null.
            return switch comparison {
            case .isNull: .step(step, try inner(.isNull), isMissing: true)
            case .isNotNull: .not(.step(step, try inner(.isNull), isMissing: true))
            case .notEqual: .not(.step(step, try inner(.equal), isMissing: false))
            default: .step(step, try inner(comparison), isMissing: false)
            }
        }
    }

    private func position(of name: String) throws -> Int {
        if let position = entity.position(of: name) { return position }
        throw StoreError(.unknownAttribute, entity.lacks(name), ObjectFacts(entity.name, [name]))
    }

    /// For the objects that an attribute refers to.
    private func target(of position: Int) throws -> ConditionTranslator {
        let name = entity.attributes[position]
        guard entity.types[position].isReference else {
            throw refusal("“\(name)” of “\(entity.name)” does not refer to objects, so no name can follow it.", name)
        }
        guard let target = snapshot.target(of: entity, at: position) else {
            throw refusal(
                "“\(name)” of “\(entity.name)” may refer to objects of any entity, so their attributes are unknown: "
                    + "compare the reference itself.", name)
        }
        return try ConditionTranslator(snapshot, target)
    }

    private func refusal(_ message: String, _ attribute: String) -> StoreError {
        StoreError(.invalidArgument, message, ObjectFacts(entity.name, [attribute]))
    }

    /// - Parameter asked: The entity at which the path begins.
    private func test(
        _ position: Int, _ comparison: WrittenComparison, _ written: [WrittenValue], _ asked: EntityHandle,
        _ path: [String]
    ) throws -> Condition {
        let (name, type) = (entity.attributes[position], entity.types[position])
        guard comparison.fits(type) else {
            let others = WrittenComparison.allCases.filter { $0.fits(type) }.map(\.rawValue).joined(separator: ", ")
            throw refusal(
                "“\(name)” of “\(entity.name)” has the type \(type), which does not support "
                    + "“\(comparison.rawValue)”. It supports: \(others).", name)
        }
        let values = try written.map { try value($0, type.isObjectList ? .object : type, asked, path) }
        func made(_ comparison: PropertyTest.Comparison) -> Condition {
            if type == .decimal, comparison != .isNull { return decimalTest(position, comparison, values) }
            return .test(PropertyTest(of: entity, position, comparison, values))
        }
        return switch comparison {
        case .equal: made(.equal)
        case .notEqual: .not(made(.equal))
        case .less: made(.less)
        case .lessOrEqual: made(.lessOrEqual)
        case .greater: made(.greater)
        case .greaterOrEqual: made(.greaterOrEqual)
        case .oneOf: made(.oneOf)
        case .contains: made(type.isObjectList ? .hasElement : .contains)
        case .startsWith: made(.startsWith)
        case .isNull: made(.isNull)
        case .isNotNull: .not(made(.isNull))
        }
    }

    private func value(
        _ written: WrittenValue, _ type: AttributeType, _ asked: EntityHandle, _ path: [String]
    ) throws -> Value {
        let json = written.json
        if type == .date, case .string(let text) = json, let date = DateText.moment(text) { return .date(date) }
        if let value = ValueConversion.value(json, as: type) { return value }
        // In version=1.20 the word is a text if the attribute is.
        if type == .string, let word = written.word { return .string(word) }
        throw ToolFailure(
            .failed,
            "“\(path.joined(separator: "."))” of “\(asked.name)” has the type \(type), but the value "
                + "\(JSONText.text(json)) does not.")
    }

    /// Decimals are compared as numbers, which rows do not decide.
    private func decimalTest(_ position: Int, _ comparison: PropertyTest.Comparison, _ values: [Value]) -> Condition {
        let (snapshot, entity) = (snapshot, entity)
        let constants = ConstantSet(values)
        let constant = values.first?.decimal
        let test = Condition.Evaluation { object in
            var value: Decimal?
            _ = try snapshot.withRow(object, in: entity) { (row) throws(StoreError) in
                value = try row.value(at: position).decimal
            }
            guard let value, let constant else { return false }
            return switch comparison {
            case .less: value < constant
            case .lessOrEqual: value <= constant
            case .greater: value > constant
            case .greaterOrEqual: value >= constant
            default: constants.contains(.decimal(value))
            }
        } title: {
            entity.attributes[position]
        }
        return .evaluated(test)
    }

    func columns(_ keys: [(attribute: String, isDescending: Bool)]) throws -> [SortColumn] {
        try keys.map { name, isDescending in
            let position = try position(of: name)
            let type = entity.types[position]
            guard !type.isObjectList, type != .json else {
                throw refusal("“\(name)” of “\(entity.name)” has no order: sort by another attribute.", name)
            }
            return SortColumn(of: entity, position, isDescending: isDescending)
        }
    }
}
