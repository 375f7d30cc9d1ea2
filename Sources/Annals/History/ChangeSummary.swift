// Folds transactions into a signal. Reads only their tables, in little memory for any number of changes.

/// The authors and context names whose transactions are skipped.
struct Exclusion: Sendable {
    private let authors: Set<String>
    private let contextNames: Set<String>

    init(_ authors: Set<String>, _ contextNames: Set<String>) {
        (self.authors, self.contextNames) = (authors, contextNames)
    }

    func contains(_ transaction: TransactionView) -> Bool {
        if !authors.isEmpty, let author = transaction.author, authors.contains(author) { return true }
        if !contextNames.isEmpty, let name = transaction.context, contextNames.contains(name) { return true }
        return false
    }
}

/// The content of one signal. A value for one walk over history.
struct ChangeSummary {
    /// The most transactions in one signal, and the most changes that it reads. The next signal follows at once.
    static let maximumTransactions = 65_536
    static let maximumChanges: UInt64 = 65_536

    private let excluded: Exclusion
    private let own: OwnTransactions
    private let indexAuthor: UInt32?
    private let reserved: Set<UInt16>
    private(set) var first: UInt64 = 0
    private(set) var last: UInt64 = 0
    private(set) var tag: UInt64 = 0
    /// The end of the last transaction in the file.
    private(set) var end: UInt64 = 0
    /// The number of transactions that are not excluded. 0: there is no news.
    private(set) var told = 0
    private var passed = 0
    private var changes: UInt64 = 0
    private var authors = FewValues<String>()
    private var includesUnnamed = false
    private var processIDs = FewValues<UInt32>()
    private var entities = FewValues<UInt16>()
    private var isExact = true
    private var changesSchema = false
    private var isOwn = true

    init(excluding excluded: Exclusion, _ engine: Engine, _ view: View) {
        (self.excluded, own) = (excluded, engine.log.ownTransactions)
        indexAuthor = engine.number(ofName: ReservedEntity.indexAuthor)
        reserved = view.reservedEntities
    }

    /// Adds the next transaction. Returns false if it belongs to the next signal.
    mutating func add(_ transaction: TransactionView) throws(StoreError) -> Bool {
        let author = transaction.author
        let isStep = try transaction.isIndexStep(by: indexAuthor, reserved)
        let isTold = !isStep && !excluded.contains(transaction)
        let nextChanges = changes + (isTold ? transaction.totalChanges : 0)
        if passed > 0, passed == Self.maximumTransactions || nextChanges > Self.maximumChanges { return false }
        if passed == 0 { first = transaction.number }
        passed += 1
        (last, tag, end) = (transaction.number, transaction.tag, transaction.end)
        guard isTold else { return true }
        told += 1
        changes = nextChanges
        if let author { authors.insert(author) } else { includesUnnamed = true }
        processIDs.insert(transaction.processID)
        isOwn = isOwn && own.contains(transaction.number, tag: transaction.tag)
        changesSchema = changesSchema || transaction.changesSchema
        try addEntities(of: transaction)
        return true
    }

    private mutating func addEntities(of transaction: TransactionView) throws(StoreError) {
        guard transaction.totalChanges <= Self.maximumChanges else {
            isExact = false
            return
        }
        var previous: UInt16?
        try transaction.forEachChange { (change) throws(StoreError) in
            let entity = change.object.entityNumber
            if entity != previous { entities.insert(entity) }
            previous = entity
            return true
        }
    }

    func signal(of token: HistoryToken, _ catalog: SchemaCatalog) -> ChangeSignal {
        ChangeSignal(
            numbers: first...last, token: token, authors: authors.sorted, includesUnnamedAuthor: includesUnnamed,
            processIDs: processIDs.sorted, entities: Self.names(of: isExact ? entities.sorted : nil, catalog),
            isExact: isExact, changesSchema: changesSchema, isOwn: isOwn)
    }

    /// The signal for transactions that history no longer has: it assumes every possible change.
    static func signal(
        ofCleaned numbers: ClosedRange<UInt64>, _ token: HistoryToken, _ catalog: SchemaCatalog
    ) -> ChangeSignal {
        ChangeSignal(
            numbers: numbers, token: token, authors: [], includesUnnamedAuthor: true, processIDs: [],
            entities: names(of: nil, catalog), isExact: false, changesSchema: true, isOwn: false)
    }

    /// The names of entities; nil for all entities.
    private static func names(of entities: [UInt16]?, _ catalog: SchemaCatalog) -> [String] {
        // An entity that was removed and added again has two numbers.
        var names = FewValues<String>()
        for entity in entities ?? catalog.entityNumbers {
            guard let name = catalog.lastDefinition(ofEntity: entity)?.name, !name.isReserved else { continue }
            names.insert(name.text)
        }
        return names.sorted
    }
}

/// A set of values. Usually it has one value, which needs no allocation.
private struct FewValues<Value: Hashable & Comparable> {
    private var first: Value?
    private var others: Set<Value> = []

    mutating func insert(_ value: Value) {
        if first == nil {
            first = value
        } else if first != value {
            others.insert(value)
        }
    }

    var sorted: [Value] {
        guard let first else { return [] }
        return others.isEmpty ? [first] : (others + [first]).inOrder()
    }
}
