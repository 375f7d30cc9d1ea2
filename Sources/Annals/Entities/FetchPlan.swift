// How objects are found: through which index, and what is decided of each row.
//
// Invariants:
// FP1  The access finds every object that satisfies the condition; each row is then asked.
// FP2  What the access decides is not asked again: comparisons of integers whose keys all lie in the range.

internal import FoundationEssentials

/// Where the rows of a fetch come from.
enum FetchAccess {
    case scan
    /// No object can satisfy the condition.
    case nothing
    case objects([ObjectID])
    /// Ranges of an index, one after the other.
    case ranges(IndexID, [FetchRange])
}

/// A range of an index: what is before and after it does not count.
struct FetchRange {
    var lower: RangeBound
    var upper: RangeBound
}

/// A fetch, planned for one state.
struct FetchPlan {
    let layout: RowLayout
    let condition: Condition
    var access: FetchAccess
    var sort: [SortColumn]
    /// Whether the access has the order that is wanted, perhaps read from its end.
    var isInOrder: Bool
    var isReversed = false
    /// The access for people.
    var title = "scan of all objects"
    /// What each row is asked, if the condition consists of comparisons only.
    private(set) var tests: [RowTest]?

    init(_ condition: Condition, _ sort: [SortColumn], _ layout: RowLayout, _ view: View) throws(StoreError) {
        self.layout = layout
        self.condition = condition
        self.sort = sort
        access = .scan
        isInOrder = sort.isEmpty
        let rowTests = condition.rowTests
        tests = rowTests
        let conjuncts = condition.conjuncts
        var best = Rank.none
        // Of indexes that are as good, the one that decides more is better.
        var bestNames = 0
        for part in conjuncts {
            switch part {
            case .constant(false):
                use(.nothing, "nothing: the predicate is never true")
                return
            case .isOne(let objects) where best > .objects:
                best = .objects
                use(.objects(objects.sorted()), "\(objects.count) objects by their references")
            default: continue
            }
        }
        // A state of the past has no indexes.
        guard view.totals != nil else { return }
        for number in view.shape.indexes(of: layout.number) {
            let index = view.shape.indexes[number]
            guard !index.isOfList, view.hasBuilt(index.id) else { continue }
            guard let found = Self.ranges(index.id, conjuncts, layout),
                (found.rank, -found.names.count) < (best, -bestNames)
            else { continue }
            (best, bestNames) = (found.rank, found.names.count)
            use(.ranges(index.id, found.ranges), "index over \(found.names.joined(separator: ", "))")
            tests = rowTests?.filter { test in !found.decided.contains { $0 === test.test } }
            isInOrder = sort.isEmpty
            if found.ranges.count == 1 { orderBy(index.id, equalities: found.equalities) }
        }
        if best > .step { try useStep(conjuncts, view) }
        if case .scan = access, !sort.isEmpty { orderByIndex(view) }
    }

    private mutating func use(_ access: FetchAccess, _ title: String) {
        self.access = access
        self.title = title
    }

    // MARK: Ranges

    /// How good an access is.
    private enum Rank: Int, Comparable {
        case objects, unique, equal, step, several, range, half, none

        static func < (left: Rank, right: Rank) -> Bool { left.rawValue < right.rawValue }
    }

    /// The ranges of an index in which all objects are that satisfy the conditions.
    private struct IndexUse {
        var ranges: [FetchRange]
        var rank: Rank
        /// The properties by which the ranges are found.
        var names: [String]
        /// How many attributes of the key are the same in all objects.
        var equalities: Int
        /// The comparisons that every object in the ranges satisfies.
        var decided: [PropertyTest] = []
    }

    /// Nil if the index is of no use.
    private static func ranges(_ index: IndexID, _ conjuncts: [Condition], _ layout: RowLayout) -> IndexUse? {
        var prefix: [Value] = []
        var names: [String] = []
        var decided: [PropertyTest] = []
        for number in index.attributes {
            guard let position = layout.position(ofAttribute: number) else { return nil }
            var tests: [PropertyTest] = []
            for case .test(let test) in conjuncts where test.position == position && test.isIndexable(layout) {
                tests.append(test)
            }
            // Keys of integers are whole, so a range of them has nothing else in it.
            let isDecided = decided.count == prefix.count && layout.slots[position].type == .int
            if let equal = tests.first(where: { $0.comparison == .equal }) {
                prefix.append(equal.constants[0])
                names.append(equal.name)
                if isDecided { decided.append(equal) }
                continue
            }
            if let several = tests.first(where: { $0.comparison == .oneOf }) {
                // Constants with the same key are one range: an object is found once.
                let ranges = Set(several.constants.map(\.withOneZero)).map { constant in
                    FetchRange(lower: .including(prefix + [constant]), upper: .including(prefix + [constant]))
                }
                return IndexUse(
                    ranges: ranges, rank: .several, names: names + [several.name], equalities: prefix.count,
                    decided: decided)
            }
            guard let found = range(tests, after: prefix, isOptional: layout.slots[position].isOptional) else { break }
            return IndexUse(
                ranges: [found.range], rank: found.isWhole ? .range : .half, names: names + [tests[0].name],
                equalities: prefix.count, decided: isDecided ? decided + found.decided : decided)
        }
        guard !prefix.isEmpty else { return nil }
        let isUnique = index.isUnique && prefix.count == index.attributes.count
        return IndexUse(
            ranges: [FetchRange(lower: .including(prefix), upper: .including(prefix))],
            rank: isUnique ? .unique : .equal, names: names, equalities: prefix.count, decided: decided)
    }

    /// The range of the values that satisfy all of the comparisons, and the comparisons that it was made from.
    private static func range(
        _ tests: [PropertyTest], after prefix: [Value], isOptional: Bool
    ) -> (range: FetchRange, isWhole: Bool, decided: [PropertyTest])? {
        var lower: (bound: RangeBound, test: PropertyTest)?
        var upper: (bound: RangeBound, test: PropertyTest)?
        for test in tests {
            switch test.comparison {
            case .startsWith:
                let bound = RangeBound.prefix(prefix + [test.constants[0]])
                return (FetchRange(lower: bound, upper: bound), true, [])
            case .less, .lessOrEqual: upper = upper ?? bound(test, prefix)
            case .greater, .greaterOrEqual: lower = lower ?? bound(test, prefix)
            default: continue
            }
        }
        if lower == nil, upper == nil { return nil }
        let begin = prefix.isEmpty ? RangeBound.unbounded : .including(prefix)
        // Without a lower end, the range also has the objects without a value.
        let decided = lower == nil && isOptional ? [] : [lower, upper].compactMap { $0?.test }
        return (
            FetchRange(lower: lower?.bound ?? begin, upper: upper?.bound ?? begin), lower != nil && upper != nil,
            decided
        )
    }

    private static func bound(_ test: PropertyTest, _ prefix: [Value]) -> (bound: RangeBound, test: PropertyTest)? {
        guard let value = test.constants.first else { return nil }
        let isIncluded = test.type != .int || test.comparison != .less && test.comparison != .greater
        return (isIncluded ? .including(prefix + [value]) : .excluding(prefix + [value]), test)
    }

    // MARK: Order

    /// Whether one range of an index has the order that is wanted.
    private mutating func orderBy(_ index: IndexID, equalities: Int) {
        guard !sort.isEmpty, Set(sort.map(\.isDescending)).count == 1 else { return }
        guard sort.allSatisfy({ $0.isOrderOfIndex(layout) }) else { return }
        let wanted = sort.map(\.attribute)
        // What is equal in all objects does not matter.
        let rest = Array(index.attributes.dropFirst(equalities))
        guard rest.prefix(wanted.count) == wanted[...], rest.count == wanted.count else { return }
        isInOrder = true
        isReversed = sort[0].isDescending
    }

    /// Reads an index from end to end, if it has the order.
    private mutating func orderByIndex(_ view: View) {
        for number in view.shape.indexes(of: layout.number) where !isInOrder {
            let index = view.shape.indexes[number]
            guard !index.isOfList, view.hasBuilt(index.id) else { continue }
            orderBy(index.id, equalities: 0)
            guard isInOrder else { continue }
            use(
                .ranges(index.id, [FetchRange(lower: .unbounded, upper: .unbounded)]),
                "index over \(sort.map(\.name).joined(separator: ", ")), in its order")
        }
    }

    // MARK: Steps

    /// The objects that a step leads to may be few and found by an index: then those that refer to them are read.
    private mutating func useStep(_ conjuncts: [Condition], _ view: View) throws(StoreError) {
        for part in conjuncts {
            guard case .step(let step, let inner, false) = part, case .property(let position) = step.way,
                layout.slots[position].type == .object
            else { continue }
            let plan = try FetchPlan(inner, [], step.target, view)
            guard case .ranges(let targetIndex, let ranges) = plan.access, ranges.count == 1, targetIndex.isUnique,
                case .including(let key) = ranges[0].lower, key.count == targetIndex.attributes.count,
                ranges[0].lower == ranges[0].upper
            else { continue }
            var targets: [ObjectID] = []
            try plan.forEachCandidate(view) { (object, _) in
                targets.append(object)
                return true
            }
            let number = layout.entity.attributes[position].number
            guard let index = view.indexes(entity: layout.number).first(where: { $0.attributes == [number] }) else {
                continue
            }
            let found = targets.map {
                FetchRange(lower: .including([.object($0)]), upper: .including([.object($0)]))
            }
            tests = condition.rowTests
            use(.ranges(index, found), "index over \(step.name), after \(plan.title) of “\(step.target.entity.name)”")
            isInOrder = sort.isEmpty
            return
        }
    }

    // MARK: Reading

    /// Lends the rows that the access finds, until `body` returns false.
    ///
    /// - Parameters:
    ///   - isWhole: Whether `body` wants all of them, so that the first step may be a large one.
    ///   - readsAll: Whether `body` reads all of each row.
    func forEachCandidate(
        _ view: View, isWhole: Bool = false, readsAll: Bool = false,
        _ body: (ObjectID, RowImage) throws(StoreError) -> Bool
    ) throws(StoreError) {
        switch access {
        case .nothing: return
        case .scan: try view.scan(entity: layout.number, body)
        case .objects(let objects):
            for object in objects where object.entityNumber == layout.number {
                var goesOn = true
                _ = try view.withRow(object) { (row) throws(StoreError) in goesOn = try body(object, row) }
                if !goesOn { return }
            }
        case .ranges(let index, let ranges):
            for range in ranges {
                var goesOn = true
                let ends = try IndexRange(index, layout, range.lower, range.upper)
                try view.range(
                    index, from: ends.lower, to: ends.upper, reversed: isReversed, isWhole: isWhole, readsAll: readsAll
                ) { (object, row) throws(StoreError) in
                    goesOn = try body(object, row)
                    return goesOn
                }
                if !goesOn { return }
            }
        }
    }
}

extension Value {
    /// The value as all that are equal to it: doubles and dates have two zeros and many NaNs, which an index has once.
    var withOneZero: Value {
        switch self {
        case .double(let double): double == 0 ? .double(0) : double.isNaN ? .double(.nan) : self
        case .date(let date):
            date.timeIntervalSinceReferenceDate == 0
                ? .date(Date(timeIntervalSinceReferenceDate: 0))
                : date == date ? self : .date(Date(timeIntervalSinceReferenceDate: .nan))
        default: self
        }
    }
}

extension PropertyTest {
    /// Whether an index finds all rows that satisfy the comparison.
    func isIndexable(_ layout: RowLayout) -> Bool {
        guard folding == nil, !constants.contains(where: \.isNull), let first = constants.first else { return false }
        if case .double(let double) = first, double.isNaN { return false }
        if case .date(let date) = first, date != date { return false }
        switch comparison {
        case .isNull, .contains, .hasElement: return false
        default: break
        }
        // Rows without a value stand elsewhere in the index.
        return !layout.slots[position].isOptional || absent.isNull || !matches(absent)
    }

}
