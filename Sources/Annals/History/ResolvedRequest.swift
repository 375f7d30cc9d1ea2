// A request whose names and places were looked up in one state of a store.

internal import FoundationEssentials

/// The selection of a request in a view. For one thread.
struct ResolvedRequest {
    let engine: Engine
    let view: View
    let range: HistoryRange
    let transactions: TransactionFilter
    private let condition: TransactionCondition?
    /// The author whose steps of an index are left out; nil to take them.
    private let indexAuthor: UInt32?
    /// The filter of shown changes; nil for all.
    let changes: ChangeFilter?
    /// Whether the request selects no changes. Then transactions without changes belong to it.
    private let takesAnyChanges: Bool
    /// For a request from the beginning of history: transactions cleaned since, which are left out. Nil without any.
    private let cleaned: HistoryCoverage?
    let limit: Int

    /// Throws the five token errors, `historyGap`, `unknownEntity`, `unknownAttribute`, and `invalidArgument` for an
    /// invalid date.
    ///
    /// `named` are the entities requested by name, if the request alone does not contain them.
    init(
        _ request: HistoryRequest, _ store: Store, _ snapshot: Snapshot?, named: Set<UInt16>? = nil,
        takesIndexSteps: Bool = false
    ) throws(StoreError) {
        // A snapshot from before a compaction continues with its own file.
        let engine = snapshot?.engine ?? store.engine
        try engine.requireNotForked()
        let (view, coverage) = try store.reading(snapshot, engine)
        self.engine = engine
        self.view = view
        range = HistoryRange(
            after: try store.number(directlyAfter: request.after, engine, view),
            before: try store.number(before: request.before, engine, view),
            isNewestFirst: request.order == .newestFirst)
        transactions = TransactionFilter(request, engine)
        let isNamed = request.authors?.contains(ReservedEntity.indexAuthor) ?? false
        indexAuthor = isNamed || takesIndexSteps ? nil : engine.number(ofName: ReservedEntity.indexAuthor)
        condition = request.predicate.map { TransactionCondition($0, engine) }
        let isFromBeginning = request.after == nil || request.after == .oldest
        cleaned = isFromBeginning && !coverage.hidden.isEmpty ? coverage : nil
        let filter = try ChangeFilter(request, view.catalog)
        try store.requireWhole(
            range, coverage, engine, view, named: named ?? filter.namedEntities,
            filter: isFromBeginning ? nil : transactions)
        filter.hide(view.reservedEntities, coverage.gaps)
        takesAnyChanges = filter.isEmpty
        changes = filter.isEmpty && !filter.hidesAnything ? nil : filter
        limit = max(0, request.limit ?? .max)
    }

    /// Whether the request selects the transaction without its changes.
    func selects(_ transaction: TransactionView) throws(StoreError) -> Bool {
        if let cleaned, cleaned.isCleaned(transaction.number, author: transaction.authorNumber) { return false }
        guard transactions.matches(transaction), try !transaction.isIndexStep(by: indexAuthor, view.reservedEntities)
        else { return false }
        return try condition?.isTrue(of: transaction) ?? true
    }

    /// Whether the request selects the transaction.
    func contains(_ transaction: TransactionView) throws(StoreError) -> Bool {
        guard try selects(transaction) else { return false }
        guard let changes, !takesAnyChanges else { return true }
        var isFound = false
        try transaction.forEachChange { (change) throws(StoreError) in
            isFound = changes.matches(change, version: transaction.schemaVersion, view.catalog)
            return !isFound
        }
        return isFound
    }
}

extension Store {
    /// The state from which history is read, by default the newest, and the part of history that can be requested now.
    func reading(
        _ snapshot: Snapshot?, _ engine: Engine
    ) throws(StoreError) -> (view: View, coverage: HistoryCoverage) {
        if let snapshot, !handle.has(snapshot.engine) {
            throw StoreError(
                .invalidArgument, "The snapshot and the history belong to different stores.", path: path)
        }
        let newest = try engine.viewOfThisFile()
        return (snapshot?.view ?? newest, engine.tracked(newest).coverage)
    }

    /// The number of the transaction that a place is directly after.
    func number(
        directlyAfter place: HistoryRequest.Place?, _ engine: Engine, _ view: View
    ) throws(StoreError) -> UInt64 {
        switch place {
        case nil, .oldest: return engine.oldestNumber
        case .now: return view.number
        case .number(let number):
            try require(number, engine, view)
            return number
        case .token(let token):
            try require(token, engine)
            try require(token.number, engine, view)
            return token.number
        case .date(let date): return try number(through: try microseconds(date), engine, view)
        }
    }

    /// The number of the first transaction that is not before a place.
    fileprivate func number(
        before place: HistoryRequest.Place?, _ engine: Engine, _ view: View
    ) throws(StoreError) -> UInt64 {
        switch place {
        case nil, .now: return view.number + 1
        // An end beyond the newest transaction is valid.
        case .number(let number) where number > view.number: return view.number + 1
        case .date(let date):
            let moment = try microseconds(date)
            return moment == .min ? engine.oldestNumber : try number(through: moment - 1, engine, view) + 1
        default: return try number(directlyAfter: place, engine, view)
        }
    }

    private func number(through moment: Int64, _ engine: Engine, _ view: View) throws(StoreError) -> UInt64 {
        let number = try engine.tracked(view).lastNumber(through: moment)
        // Cleaned transactions are in the file until compaction. All transactions before the oldest one are gone.
        let oldest = try engine.oldest()
        guard oldest.number == 0 || number > oldest.number || number == oldest.number && moment >= oldest.time else {
            throw expired("History does not reach back to that date", engine)
        }
        return number
    }

    /// Dates that are too far away for the store become its earliest or latest moment.
    func microseconds(_ date: Date) throws(StoreError) -> Int64 {
        if let microseconds = Microseconds.from(date) { return microseconds }
        let seconds = date.timeIntervalSinceReferenceDate
        guard !seconds.isNaN else { throw StoreError(.invalidArgument, "A date is not a number: pass another date.") }
        return seconds < 0 ? .min : .max
    }
}

extension TransactionFilter {
    fileprivate init(_ request: HistoryRequest, _ engine: Engine) {
        func numbers(_ names: Set<String?>) -> Set<UInt32> { Set(names.compactMap(engine.number(ofName:))) }
        self.init()
        authors = request.authors.map(numbers)
        excludedAuthors = numbers(request.excludedAuthors)
        contexts = request.contextNames.map(numbers)
        excludedContexts = numbers(request.excludedContextNames)
        anyOf = request.anyOf?.map { ($0.authors.map(numbers), $0.contextNames.map(numbers)) }
    }
}

extension ChangeFilter {
    fileprivate convenience init(_ request: HistoryRequest, _ catalog: SchemaCatalog) throws(StoreError) {
        self.init()
        kinds = request.kinds.map { Set($0.map(\.file)) }
        objects = request.objects.map { Set($0) }
        if let names = request.entities {
            var numbers: Set<UInt16> = []
            for name in names.inOrder() { numbers.formUnion(try Self.entities(name, catalog)) }
            entities = numbers
        }
        guard let named = request.changedAttributes else { return }
        var found: [UInt16: Set<UInt16>] = [:]
        for (entity, names) in named.inOrder(by: { $0.key < $1.key }) {
            let entities = try Self.entities(entity, catalog)
            for name in names.inOrder() {
                var isKnown = false
                for number in entities {
                    let attributes = catalog.numbers(ofAttributeEverNamed: name, entity: number)
                    isKnown = isKnown || !attributes.isEmpty
                    found[number, default: []].formUnion(attributes)
                }
                guard isKnown else { throw .unknownAttribute(name, of: entity) }
            }
        }
        attributes = found
    }

    private static func entities(_ name: String, _ catalog: SchemaCatalog) throws(StoreError) -> [UInt16] {
        let numbers = IdentifierName(name).isReserved ? [] : catalog.numbers(ofEntityEverNamed: name)
        guard !numbers.isEmpty else { throw .unknownEntity(name) }
        return numbers
    }
}

extension HistoryChange.Kind {
    fileprivate var file: ChangeKind {
        switch self {
        case .insert: .insert
        case .update: .update
        case .delete: .delete
        }
    }

    init(_ kind: ChangeKind) {
        switch kind {
        case .base, .insert: self = .insert
        case .update: self = .update
        case .delete: self = .delete
        }
    }
}
