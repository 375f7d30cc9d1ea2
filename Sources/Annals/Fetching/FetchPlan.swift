// The way to objects: the index to use, and the condition that is decided for each row.
//
// Invariants:
// FP1  The access finds every object that satisfies the condition; then each row is tested.
// FP2  Parts that the access decides are not tested again: comparisons of integers whose keys all lie in the range.

/// The source of a fetch's rows.
enum FetchAccess {
    case scan
    /// No object can satisfy the condition.
    case nothing
    case objects([ObjectID])
    /// Ranges of the index with this number, one after the other.
    case ranges(Int, [KeyRange])
}

/// The kind of the access, for explanations.
private enum FetchWay {
    case scan
    case nothing
    case references(Int)
    case index([String])
    /// The order of an index.
    case order([SortColumn])
    /// The index on a reference, after another plan has found its targets.
    case step(String, after: FetchPlan)
}

/// A fetch, planned for one state. A class: the run and each loop hold it without copying its parts.
final class FetchPlan {
    let layout: RowLayout
    let condition: Condition
    private(set) var access: FetchAccess
    let sort: [SortColumn]
    /// Whether the access has the order that is wanted, perhaps read from its end.
    private(set) var isInOrder: Bool
    private(set) var isReversed = false
    private var way = FetchWay.scan
    /// The tests of each row (FP2), if the condition consists of comparisons only.
    private(set) var tests: [RowTest]?
    /// Whether the access is one key of an index in which each key has one object.
    private var isOfOneObject = false

    /// Whether every object satisfies the condition, and all are read in the order of their numbers.
    var isOfAllRows: Bool {
        if case .scan = access { tests?.isEmpty == true } else { false }
    }

    init(_ condition: Condition, _ sort: [SortColumn], _ layout: RowLayout, _ view: View) throws(StoreError) {
        (self.layout, self.condition, self.sort) = (layout, condition, sort)
        access = .scan
        isInOrder = sort.isEmpty
        let rowTests = condition.rowTests
        tests = rowTests
        let conjuncts = condition.conjuncts
        var best = IndexUse.Rank.none
        for part in conjuncts {
            switch part {
            case .constant(false):
                (access, way) = (.nothing, .nothing)
                return
            case .isOne(let objects) where best > .objects:
                best = .objects
                (access, way) = (.objects(objects.sorted()), .references(objects.count))
            default: continue
            }
        }
        // A state of the past has no indexes.
        guard view.totals != nil else { return }
        let indexes = view.shape.indexes(of: layout.number)
        var use: (index: Int, IndexUse)?
        for number in indexes where Self.finds(number, view) {
            // Of indexes with the same rank, the one that decides more is better.
            guard let found = IndexUse(view.shape.indexes[number], conjuncts, layout),
                (found.rank, -found.names.count) < (best, -(use?.1.names.count ?? 0))
            else { continue }
            (best, use) = (found.rank, (number, found))
        }
        if let (number, use) = use {
            let index = view.shape.indexes[number]
            let ranges = try use.ranges(index)
            access = .ranges(number, ranges)
            way = .index(use.names)
            tests = rowTests?.filter { test in !use.decided.contains { $0 === test.test } }
            isOfOneObject = use.isOfWholeKeys(index) && index.id.isUnique && ranges.count == 1
            if ranges.count == 1 { orderBy(index, equalities: use.equal.count) }
        }
        if best > .step { try useStep(conjuncts, view) }
        guard case .scan = access, !sort.isEmpty else { return }
        // An index that has the order is read from end to end.
        for number in indexes where !isInOrder && Self.finds(number, view) {
            orderBy(view.shape.indexes[number], equalities: 0)
            guard isInOrder else { continue }
            access = .ranges(number, [KeyRange()])
            way = .order(sort)
        }
    }

    /// The access as text for explanations.
    var title: String {
        switch way {
        case .scan: "scan of all objects"
        case .nothing: "nothing: the predicate is never true"
        case .references(let count): "\(count) objects by their references"
        case .index(let names): "index on \(names.joined(separator: ", "))"
        case .order(let columns): "index on \(columns.map { $0.name }.joined(separator: ", ")), in its order"
        case .step(let name, let plan): "index on \(name), after \(plan.title) of “\(plan.layout.entity.name)”"
        }
    }

    /// Whether an index finds objects by their values.
    static func finds(_ index: Int, _ view: View) -> Bool {
        !view.shape.indexes[index].isOfList && view.hasBuilt(index)
    }

    /// Whether one range of an index has the order that is wanted.
    private func orderBy(_ index: IndexShape, equalities: Int) {
        guard !sort.isEmpty, Set(sort.map(\.isDescending)).count == 1 else { return }
        guard sort.allSatisfy({ $0.isOrderOfIndex(layout) }) else { return }
        // Attributes that are equal in all objects do not matter.
        guard index.id.attributes.dropFirst(equalities).elementsEqual(sort.map(\.attribute)) else { return }
        isInOrder = true
        isReversed = sort[0].isDescending
    }

    /// The objects that a step leads to may be few and found by an index: then those that refer to them are read.
    private func useStep(_ conjuncts: [Condition], _ view: View) throws(StoreError) {
        for part in conjuncts {
            guard case .step(let step, let inner, false) = part, case .property(let position) = step.way,
                layout.slots[position].type == .object
            else { continue }
            let plan = try FetchPlan(inner, [], step.target, view)
            let attribute = layout.entity.attributes[position].number
            guard plan.isOfOneObject, let index = view.shape.index(of: layout.number, over: [attribute]) else {
                continue
            }
            var found: [KeyRange] = []
            try plan.forEachCandidate(view) { (object, _) in
                found.append(KeyRange(element: object))
                return true
            }
            tests = condition.rowTests
            access = .ranges(index, found)
            way = .step(step.name, after: plan)
            isInOrder = sort.isEmpty
            return
        }
    }

    // MARK: Reading

    /// Lends the rows that the access finds (FP1), until `body` returns false.
    ///
    /// - Parameters:
    ///   - isWhole: Whether `body` wants all of them, so that the first step may be a large one.
    ///   - readsAll: Whether `body` reads all of each row.
    func forEachCandidate(
        _ view: View, isWhole: Bool = false, readsAll: Bool = false,
        _ body: (ObjectID, RowImage) throws(StoreError) -> Bool
    ) throws(StoreError) {
        try withoutActuallyEscaping(body) { (body) throws(StoreError) in
            try forEachCandidate(view, isWhole: isWhole, readsAll: readsAll, RowVisitor(body))
        }
    }

    private func forEachCandidate(
        _ view: View, isWhole: Bool, readsAll: Bool, _ visitor: RowVisitor
    ) throws(StoreError) {
        switch access {
        case .nothing: return
        case .scan: try view.scan(entity: layout.number, visitor.visit)
        case .objects(let objects):
            for object in objects where object.entityNumber == layout.number {
                var goesOn = true
                _ = try view.withRow(object) { (row) throws(StoreError) in goesOn = try visitor.visit(object, row) }
                if !goesOn { return }
            }
        case .ranges(let index, let ranges):
            for range in ranges {
                var goesOn = true
                try view.range(index, range, reversed: isReversed, isWhole: isWhole, readsAll: readsAll) {
                    (object, row) throws(StoreError) in
                    goesOn = try visitor.visit(object, row)
                    return goesOn
                }
                if !goesOn { return }
            }
        }
    }
}
