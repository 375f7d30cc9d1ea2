// Finding objects by a condition that a program receives as data: the names of attributes, comparisons and values.
// Typed fetching decides in the same way and uses the same indexes.

internal import FoundationEssentials

/// A condition on an object, by the names of its attributes.
package indirect enum UntypedCondition: Sendable {
    /// All of these hold. Without any, it always holds.
    case all([UntypedCondition])
    /// At least one of these holds. Without any, it never holds.
    case any([UntypedCondition])
    case not(UntypedCondition)
    /// An attribute compares so with these values: as many as the comparison takes.
    ///
    /// The path is the name of an attribute, or of a reference and an attribute of its target. If the reference leads
    /// to several objects, at least one of them must satisfy the comparison.
    case test(path: [String], UntypedComparison, [Value])
}

/// How a condition compares an attribute. Null differs from every value, and is neither less nor greater.
package enum UntypedComparison: Sendable, Hashable, CaseIterable {
    case equal, notEqual, less, lessOrEqual, greater, greaterOrEqual, oneOf, contains, startsWith, isNull, isNotNull

    /// The comparison as people write it.
    package var title: String {
        switch self {
        case .equal: "="
        case .notEqual: "!="
        case .less: "<"
        case .lessOrEqual: "<="
        case .greater: ">"
        case .greaterOrEqual: ">="
        case .oneOf: "in"
        case .contains: "contains"
        case .startsWith: "starts with"
        case .isNull: "is null"
        case .isNotNull: "is not null"
        }
    }

    /// Whether it is for attributes of that type.
    package func fits(_ type: AttributeType) -> Bool {
        switch self {
        case .isNull, .isNotNull: true
        case .equal, .notEqual, .oneOf: type != .json && !type.isObjectList
        case .less, .lessOrEqual, .greater, .greaterOrEqual:
            switch type {
            case .int, .double, .decimal, .date, .string: true
            default: false
            }
        case .contains: type == .string || type.isObjectList
        case .startsWith: type == .string
        }
    }
}

/// What to find.
package struct UntypedQuery: Sendable {
    /// The name of the entity.
    package var entity: String
    package var condition = UntypedCondition.all([])
    /// The attributes to sort by, the most significant first. Without any, objects come in the order in which they were
    /// inserted, or in that of the index through which they are found.
    package var sort: [(attribute: String, isDescending: Bool)] = []
    /// How many objects to find at most; nil for all.
    package var limit: Int?
    /// How many objects to skip first.
    package var offset = 0

    package init(_ entity: String) { self.entity = entity }
}

/// A query, planned for one state.
package struct UntypedFetch {
    private let snapshot: Snapshot
    private let plan: FetchPlan
    private let limit: Int
    private let offset: Int
    private var touched = 0

    /// Throws `StoreError`: `unknownEntity`; `unknownAttribute`; `invalidArgument` if an attribute does not have such a
    /// comparison or order, or a path does not lead to objects; `typeMismatch`; `valueOutOfRange`; `historyGap`;
    /// `damaged`; `closed`.
    package init(_ snapshot: Snapshot, _ query: UntypedQuery) throws(StoreError) {
        let translator = try UntypedTranslator(snapshot, try snapshot.handle(ofEntity: query.entity))
        let layout = translator.entity.layout
        self.snapshot = snapshot
        limit = max(0, query.limit ?? .max)
        offset = max(0, query.offset)
        var plan = try FetchPlan(
            try translator.condition(query.condition), try translator.columns(query.sort), layout, snapshot.view)
        try plan.sortRanges()
        self.plan = plan
    }

    /// How many objects satisfy the condition until the last wanted one, at most.
    private var wanted: Int {
        let (sum, overflow) = limit.addingReportingOverflow(offset)
        return overflow ? .max : sum
    }

    /// Lends the wanted rows in their order, until `body` returns false. Memory grows with the number of objects only
    /// if they must be sorted. Throws `StoreError`: `damaged`, `closed`, and what `body` throws.
    package mutating func forEachRow(
        _ body: (borrowing RowView) throws(StoreError) -> Bool
    ) throws(StoreError) {
        let (snapshot, layout) = (snapshot, plan.layout)
        try forEachImage { (object, row) throws(StoreError) in try snapshot.lend(object, row, layout, body) }
    }

    private mutating func forEachImage(
        _ body: (ObjectID, RowImage) throws(StoreError) -> Bool
    ) throws(StoreError) {
        if limit == 0 { return }
        guard plan.isInOrder else {
            for object in try sortedObjects().dropFirst(offset) {
                var goesOn = true
                _ = try snapshot.view.withRow(object) { (row) throws(StoreError) in goesOn = try body(object, row) }
                if !goesOn { return }
            }
            return
        }
        var (passed, left) = (offset, limit)
        try forEachMatch { (object, row) throws(StoreError) in
            if passed > 0 {
                passed -= 1
                return true
            }
            left -= 1
            return try body(object, row) && left > 0
        }
    }

    private mutating func forEachMatch(
        _ body: (ObjectID, RowImage) throws(StoreError) -> Bool
    ) throws(StoreError) {
        let reader = ConditionReader(view: snapshot.view)
        let (condition, layout) = (plan.condition, plan.layout)
        var touched = 0
        defer { self.touched += touched }
        try plan.forEachCandidate(snapshot.view) { (object, row) throws(StoreError) in
            touched += 1
            guard try reader.matches(condition, row, object, layout) else { return true }
            return try body(object, row)
        }
    }

    private mutating func sortedObjects() throws(StoreError) -> [ObjectID] {
        let (columns, snapshot, layout) = (plan.sort, snapshot, plan.layout)
        var sorted = SortedObjects(limit: wanted, isDescending: columns.allSatisfy(\.isDescending))
        try forEachMatch { (object, row) throws(StoreError) in
            try sorted.add(object) { (key) throws(StoreError) in
                for column in columns {
                    let value = try snapshot.lend(object, row, layout) { (row) throws(StoreError) in
                        try row.value(at: column.position)
                    }
                    column.append(try value.storedValue(), to: &key)
                }
            }
            return true
        }
        return sorted.objects()
    }

    /// How many objects satisfy the condition, as far as they are wanted. Constant time if every object does. Throws as
    /// `forEachRow`.
    package mutating func count() throws(StoreError) -> Int {
        if case .constant(true) = plan.condition {
            let count = Int(clamping: try snapshot.view.count(entity: plan.layout.number))
            return max(0, min(limit, count - offset))
        }
        if limit == 0 { return 0 }
        var count = 0
        let wanted = wanted
        try forEachMatch { (_, _) in
            count += 1
            return count < wanted
        }
        return max(0, count - offset)
    }

    /// Finds the objects, and says how. Throws as `forEachRow`.
    package mutating func explain() throws(StoreError) -> FetchExplanation {
        var results = 0
        touched = 0
        try forEachImage { (_, _) in
            results += 1
            return true
        }
        return FetchExplanation(
            access: plan.title, translated: "\(plan.condition)", isPartlyEvaluated: !plan.condition.isTranslated,
            unindexed: plan.unindexed(snapshot.view), isSorted: !plan.isInOrder, rowsTouched: touched,
            results: results)
    }
}

extension FetchPlan {
    /// Puts several ranges into the order of the index, so that the same fetch always finds objects in the same order.
    fileprivate mutating func sortRanges() throws(StoreError) {
        guard case .ranges(let index, let ranges) = access, ranges.count > 1 else { return }
        var keyed: [(key: [UInt8], range: FetchRange)] = []
        for range in ranges {
            var writer = ByteWriter()
            for value in range.lower.values { IndexRange.append(try value.storedValue(), to: &writer) }
            keyed.append((Array(writer.bytes), range))
        }
        keyed.sort { $0.key.lexicographicallyPrecedes($1.key) }
        access = .ranges(index, keyed.map(\.range))
    }
}

extension Snapshot {
    /// The type of the attribute that a path of a condition leads to. Throws `StoreError`: `unknownEntity`,
    /// `unknownAttribute`, `invalidArgument`.
    package func attributeType(of path: [String], in entity: String) throws(StoreError) -> AttributeType {
        let (owner, position) = try UntypedTranslator(self, try handle(ofEntity: entity)).attribute(at: path)
        return owner.types[position]
    }
}

// MARK: Translation

/// Translates conditions on the objects of one entity.
private struct UntypedTranslator {
    let snapshot: Snapshot
    let entity: EntityHandle

    init(_ snapshot: Snapshot, _ entity: EntityHandle) throws(StoreError) {
        try snapshot.require(entity)
        self.snapshot = snapshot
        self.entity = entity
    }

    func condition(_ condition: UntypedCondition) throws(StoreError) -> Condition {
        switch condition {
        case .all(let parts):
            var all = Condition.constant(true)
            for part in parts { all = .both(all, try self.condition(part)) }
            return all
        case .any(let parts):
            if parts.isEmpty { return .constant(false) }
            var any: [Condition] = []
            for part in parts { any.append(try self.condition(part)) }
            return .any(any)
        case .not(let part): return .not(try self.condition(part))
        case .test(let path, let comparison, let values): return try test(path[...], comparison, values)
        }
    }

    private func test(
        _ path: ArraySlice<String>, _ comparison: UntypedComparison, _ values: [Value]
    ) throws(StoreError) -> Condition {
        guard let name = path.first, path.count <= 2 else { throw Self.wrongPath(path) }
        let position = try self.position(of: name)
        guard path.count > 1 else { return try test(position, comparison, values) }
        let (step, target) = try step(position)
        let rest = path.dropFirst()
        if entity.types[position].isObjectList {
            return .anyOf(step, try target.test(rest, comparison, values))
        }
        // What is compared with no object is null.
        switch comparison {
        case .isNull: return .step(step, try target.test(rest, .isNull, values), isMissing: true)
        case .isNotNull: return .not(.step(step, try target.test(rest, .isNull, values), isMissing: true))
        case .notEqual: return .not(.step(step, try target.test(rest, .equal, values), isMissing: false))
        default: return .step(step, try target.test(rest, comparison, values), isMissing: false)
        }
    }

    // MARK: Paths

    func attribute(at path: [String]) throws(StoreError) -> (entity: EntityHandle, position: Int) {
        guard let name = path.first, path.count <= 2 else { throw Self.wrongPath(path[...]) }
        let position = try self.position(of: name)
        if path.count == 1 { return (entity, position) }
        return try step(position).target.attribute(at: [path[1]])
    }

    private func position(of name: String) throws(StoreError) -> Int {
        guard let position = entity.position(of: name) else {
            throw StoreError(
                .unknownAttribute,
                "“\(entity.name)” has no attribute “\(name)”: it has \(entity.attributes.joined(separator: ", ")).",
                ObjectFacts(entity.name, [name]))
        }
        return position
    }

    private func step(_ position: Int) throws(StoreError) -> (step: RelationshipStep, target: UntypedTranslator) {
        let attribute = entity.layout.entity.attributes[position]
        let name = attribute.name.text
        guard attribute.type.isReference else {
            throw refusal("“\(name)” of “\(entity.name)” refers to no objects: nothing can follow its name.", name)
        }
        let catalog = snapshot.view.catalog
        guard attribute.target != 0,
            let layout = catalog.layout(version: catalog.newestVersion, entity: attribute.target)
        else {
            throw refusal(
                "“\(name)” of “\(entity.name)” refers to objects of any entity, so it is not known which attributes "
                    + "they have: compare the reference itself.", name)
        }
        let step = RelationshipStep(name: name, way: .property(position: position), target: layout)
        return (step, try UntypedTranslator(snapshot, EntityHandle(layout)))
    }

    private static func wrongPath(_ path: ArraySlice<String>) -> StoreError {
        StoreError(
            .invalidArgument,
            "“\(path.joined(separator: "."))” is no attribute and no attribute of an object that one refers to: a "
                + "condition follows one reference.")
    }

    private func refusal(_ message: String, _ attribute: String) -> StoreError {
        StoreError(.invalidArgument, message, ObjectFacts(entity.name, [attribute]))
    }

    // MARK: Comparisons

    private func test(
        _ position: Int, _ comparison: UntypedComparison, _ values: [Value]
    ) throws(StoreError) -> Condition {
        let (name, type) = (entity.attributes[position], entity.types[position])
        guard comparison.fits(type) else {
            let others = UntypedComparison.allCases.filter { $0.fits(type) }.map(\.title).joined(separator: ", ")
            throw refusal(
                "“\(name)” of “\(entity.name)” is of the type \(type), which has no “\(comparison.title)”. It has: "
                    + "\(others).", name)
        }
        let isForNull = comparison == .isNull || comparison == .isNotNull
        guard isForNull ? values.isEmpty : comparison == .oneOf ? !values.isEmpty : values.count == 1 else {
            throw refusal("“\(comparison.title)” takes another number of values.", name)
        }
        for value in values {
            guard value.type == (type.isObjectList ? .object : type) else {
                throw StoreError(
                    .typeMismatch, "“\(name)” of “\(entity.name)” is of the type \(type), but the value is not.",
                    ObjectFacts(entity.name, [name]))
            }
            _ = try value.storedValue()
        }
        func made(_ comparison: PropertyTest.Comparison) -> Condition {
            if type == .decimal, comparison != .isNull { return decimalTest(position, comparison, values) }
            return .test(PropertyTest(position, type, name, comparison, values))
        }
        switch comparison {
        case .equal: return made(.equal)
        case .notEqual: return .not(made(.equal))
        case .less: return made(.less)
        case .lessOrEqual: return made(.lessOrEqual)
        case .greater: return made(.greater)
        case .greaterOrEqual: return made(.greaterOrEqual)
        case .oneOf: return made(.oneOf)
        case .contains: return made(type.isObjectList ? .hasElement : .contains)
        case .startsWith: return made(.startsWith)
        case .isNull: return made(.isNull)
        case .isNotNull: return .not(made(.isNull))
        }
    }

    /// Decimals are compared as numbers, which rows do not decide.
    private func decimalTest(
        _ position: Int, _ comparison: PropertyTest.Comparison, _ values: [Value]
    ) -> Condition {
        let (snapshot, entity) = (snapshot, entity)
        let constants = ConstantSet(values)
        let constant = values.first?.decimal
        return .evaluated(
            Condition.Evaluation { object in
                var value: Decimal?
                _ = try snapshot.lendRow(object, in: entity) { (row) throws(StoreError) in
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
            })
    }

    // MARK: Order

    func columns(_ keys: [(attribute: String, isDescending: Bool)]) throws(StoreError) -> [SortColumn] {
        var columns: [SortColumn] = []
        for key in keys {
            let position = try self.position(of: key.attribute)
            let type = entity.types[position]
            guard !type.isObjectList, type != .json else {
                throw refusal(
                    "“\(key.attribute)” of “\(entity.name)” has no order: sort by another attribute.", key.attribute)
            }
            columns.append(
                SortColumn(
                    name: key.attribute, position: position,
                    attribute: entity.layout.entity.attributes[position].number, isDescending: key.isDescending))
        }
        return columns
    }
}
