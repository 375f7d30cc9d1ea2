// How objects are found: through which index, and what is decided of each row.
//
// Invariants:
// FP1  The access finds every object that satisfies the condition; each row is then asked.

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

    init(_ condition: Condition, _ sort: [SortColumn], _ layout: RowLayout, _ view: View) throws(StoreError) {
        self.layout = layout
        self.condition = condition
        self.sort = sort
        access = .scan
        isInOrder = sort.isEmpty
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

    /// The ranges of an index in which all objects are that satisfy the conditions; nil if it is of no use.
    private static func ranges(
        _ index: IndexID, _ conjuncts: [Condition], _ layout: RowLayout
    ) -> (ranges: [FetchRange], rank: Rank, names: [String], equalities: Int)? {
        var prefix: [Value] = []
        var names: [String] = []
        for number in index.attributes {
            guard let position = layout.position(ofAttribute: number) else { return nil }
            let tests = conjuncts.compactMap { part -> PropertyTest? in
                guard case .test(let test) = part, test.position == position, test.isIndexable(layout) else {
                    return nil
                }
                return test
            }
            if let equal = tests.first(where: { $0.comparison == .equal && $0.isExactKey }) {
                prefix.append(equal.constants[0])
                names.append(equal.name)
                continue
            }
            if let several = tests.first(where: { $0.comparison == .oneOf && $0.isExactKey }) {
                // Constants with the same key are one range: an object is found once.
                let ranges = Set(several.constants.map(\.withOneZero)).map { constant in
                    FetchRange(lower: .including(prefix + [constant]), upper: .including(prefix + [constant]))
                }
                return (ranges, .several, names + [several.name], prefix.count)
            }
            guard let range = range(tests, after: prefix) else { break }
            return (
                [range.range], range.isWhole ? .range : .half, names + [tests[0].name], prefix.count
            )
        }
        guard !prefix.isEmpty else { return nil }
        let isUnique = index.isUnique && prefix.count == index.attributes.count
        return (
            [FetchRange(lower: .including(prefix), upper: .including(prefix))], isUnique ? .unique : .equal, names,
            prefix.count
        )
    }

    /// The range of the values that satisfy all of the comparisons.
    private static func range(
        _ tests: [PropertyTest], after prefix: [Value]
    ) -> (range: FetchRange, isWhole: Bool)? {
        var lower: Value?
        var upper: Value?
        for test in tests {
            switch test.comparison {
            case .startsWith:
                let bound = RangeBound.prefix(prefix + [test.constants[0]])
                return (FetchRange(lower: bound, upper: bound), true)
            case .equal:
                // A date: stored ones are rounded.
                (lower, upper) = (test.widened(-1), test.widened(1))
            case .less, .lessOrEqual: upper = upper ?? test.widened(1)
            case .greater, .greaterOrEqual: lower = lower ?? test.widened(-1)
            default: continue
            }
        }
        if lower == nil, upper == nil { return nil }
        let begin = prefix.isEmpty ? RangeBound.unbounded : .including(prefix)
        return (
            FetchRange(
                lower: lower.map { .including(prefix + [$0]) } ?? begin,
                upper: upper.map { .including(prefix + [$0]) } ?? begin), lower != nil && upper != nil
        )
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
            use(.ranges(index, found), "index over \(step.name), after \(plan.title) of “\(step.target.entity.name)”")
            isInOrder = sort.isEmpty
            return
        }
    }

    // MARK: Reading

    /// Lends the rows that the access finds, until `body` returns false.
    func forEachCandidate(
        _ view: View, _ body: (ObjectID, RowImage) throws(StoreError) -> Bool
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
                try view.range(index, from: ends.lower, to: ends.upper, reversed: isReversed) {
                    (object, row) throws(StoreError) in
                    goesOn = try body(object, row)
                    return goesOn
                }
                if !goesOn { return }
            }
        }
    }
}

extension Value {
    /// The value as all that are equal to it: a double has two zeros and many NaNs, which an index has once.
    var withOneZero: Value {
        guard case .double(let double) = self else { return self }
        return double == 0 ? .double(0) : double.isNaN ? .double(.nan) : self
    }
}

extension PropertyTest {
    /// Whether an index finds all rows that satisfy the comparison.
    func isIndexable(_ layout: RowLayout) -> Bool {
        guard !isFolded, !constants.contains(where: \.isNull), let first = constants.first else { return false }
        if case .double(let double) = first, double.isNaN { return false }
        switch comparison {
        case .isNull, .contains, .hasElement: return false
        default: break
        }
        // Rows without a value stand elsewhere in the index.
        return !layout.slots[position].isOptional || absent.isNull || !matches(absent)
    }

    /// Whether the constant is the key: dates are rounded when they are stored.
    var isExactKey: Bool { type != .date }

    /// The constant; a date so many microseconds later.
    func widened(_ microseconds: Int64) -> Value? {
        guard let constant = constants.first else { return nil }
        guard case .date(let date) = constant else { return constant }
        guard let exact = Microseconds.from(date) else { return nil }
        let (sum, overflow) = exact.addingReportingOverflow(microseconds)
        return overflow ? nil : .date(Microseconds.date(sum))
    }
}
