// How an index serves a condition: which comparisons give its keys, and the ranges of keys that they mean.

internal import FoundationEssentials

/// The comparisons of a condition by which an index finds objects.
struct IndexUse {
    /// The quality of an access.
    enum Rank: Int, Comparable {
        case objects, unique, equal, step, several, range, half, none

        static func < (left: Rank, right: Rank) -> Bool { left.rawValue < right.rawValue }
    }

    private(set) var rank = Rank.equal
    /// The properties by which objects are found.
    private(set) var names: [String] = []
    /// The comparisons that every object found satisfies.
    private(set) var decided: [PropertyTest] = []
    /// The equalities of the first attributes of the key.
    private(set) var equal: [PropertyTest] = []
    /// The comparisons of the next attribute. Both are the same for a list of constants, and for a prefix.
    private var lower: PropertyTest?
    private var upper: PropertyTest?

    /// Nil if the index is of no use.
    init?(_ index: IndexShape, _ conjuncts: [Condition], _ layout: RowLayout) {
        for position in index.positions {
            var tests: [PropertyTest] = []
            for case .test(let test) in conjuncts where test.position == position && test.isIndexable(layout) {
                tests.append(test)
            }
            guard let first = tests.first else { break }
            names.append(first.name)
            // Keys of integers are whole, so a range of them has nothing else in it.
            let isDecided = decided.count == equal.count && layout.slots[position].type == .int
            if let test = tests.first(where: { $0.comparison == .equal }) {
                equal.append(test)
                if isDecided { decided.append(test) }
                continue
            }
            if let several = tests.first(where: { $0.comparison == .oneOf }) {
                (lower, upper, rank) = (several, several, .several)
                return
            }
            rank = .range
            for test in tests {
                switch test.comparison {
                case .less, .lessOrEqual: upper = upper ?? test
                case .greater, .greaterOrEqual: lower = lower ?? test
                default:
                    (lower, upper) = (test, test)
                    return
                }
            }
            if lower == nil || upper == nil { rank = .half }
            // Without a lower end, the range also has the objects without a value.
            if isDecided, lower != nil || !layout.slots[position].isOptional {
                if let lower { decided.append(lower) }
                if let upper { decided.append(upper) }
            }
            return
        }
        if names.isEmpty { return nil }
        if index.id.isUnique, isOfWholeKeys(index) { rank = .unique }
    }

    /// Whether each range is of one key.
    func isOfWholeKeys(_ index: IndexShape) -> Bool {
        names.count == index.positions.count && (upper == nil && lower == nil || rank == .several)
    }

    // MARK: Keys

    /// The ranges, in the order of the index.
    func ranges(_ index: IndexShape) throws(StoreError) -> [KeyRange] {
        var values: [StoredValue] = []
        for test in equal { values.append(try test.constants[0].storedValue()) }
        guard let test = lower ?? upper else { return [try IndexKey.range(of: values, types: index.types).range] }
        switch test.comparison {
        case .oneOf: return try ranges(test.constants, after: values, index)
        case .startsWith:
            let values = values + [try test.constants[0].storedValue()]
            let bound = try IndexKey.prefixBound(values: values, types: index.types).bound
            return [KeyRange(from: bound, to: bound)]
        default:
            // A missing end is that of the keys with equal values.
            var whole = KeyRange()
            if !values.isEmpty, lower == nil || upper == nil {
                whole = try IndexKey.range(of: values, types: index.types).range
            }
            let from = try lower.map { (test) throws(StoreError) in try Self.bound(test, after: values, index) }
            let to = try upper.map { (test) throws(StoreError) in try Self.bound(test, after: values, index) }
            return [KeyRange(from: from ?? whole.lower, to: to ?? whole.upper)]
        }
    }

    private static func bound(
        _ test: PropertyTest, after values: [StoredValue], _ index: IndexShape
    ) throws(StoreError) -> IndexBound {
        let isIncluded = test.type != .int || test.comparison != .less && test.comparison != .greater
        var values = values
        values.append(try test.constants[0].storedValue())
        return try IndexKey.bound(values: values, types: index.types, isIncluded: isIncluded).bound
    }

    /// Constants with the same key are one range, and so are long ones whose keys are cut after the same beginning: an
    /// object is found once.
    private func ranges(
        _ constants: [Value], after values: [StoredValue], _ index: IndexShape
    ) throws(StoreError) -> [KeyRange] {
        var keys: [[UInt8]] = []
        for constant in constants {
            keys.append(try IndexKey.wholeKey(of: values + [try constant.storedValue()], types: index.types))
        }
        keys.putInOrder(by: IndexBound.isBefore)
        var ranges: [KeyRange] = []
        for key in keys {
            let range = IndexKey.range(ofWhole: key, isComplete: values.count + 1 == index.types.count)
            if range != ranges.last { ranges.append(range) }
        }
        return ranges
    }
}

extension Value {
    /// The same value for all equal ones: doubles and dates have two zeros and many NaNs, but an index has one of each.
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
        // Rows without a value are elsewhere in the index.
        return !layout.slots[position].isOptional || absent.isNull || !matches(absent)
    }
}
