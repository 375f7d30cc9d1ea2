// Finding objects in a transaction, including its own changes.

public import FoundationEssentials

extension Transaction {
    /// The objects that satisfy a predicate, as this transaction sees them, with its own changes.
    ///
    /// Parameters and errors are those of `Snapshot.fetch`. While the transaction has changed nothing, it takes as
    /// long. Afterwards all results are in memory. Its own changes are found through the same indexes: the first search
    /// that uses one takes time for all changes of the transaction, and later ones for those since. A predicate that
    /// crosses a relationship is evaluated on every object that the other parts of the predicate leave.
    public func fetch<E: Entity>(
        _ type: E.Type, where predicate: Predicate<Object<E>>? = nil, sortedBy sort: SortKey<E>..., limit: Int? = nil,
        offset: Int = 0
    ) throws -> [E] {
        try found(predicate, SortKey.parts(of: sort), limit: limit, offset: offset).map { $0.value }
    }

    /// The references of the objects that satisfy a predicate. As `fetch`.
    public func references<E: Entity>(
        to type: E.Type, where predicate: Predicate<Object<E>>? = nil, sortedBy sort: SortKey<E>...,
        limit: Int? = nil, offset: Int = 0
    ) throws -> [Reference<E>] {
        try found(predicate, SortKey.parts(of: sort), limit: limit, offset: offset).map { $0.reference }
    }

    /// The first object that satisfies a predicate; nil without one. As `fetch`.
    public func first<E: Entity>(
        _ type: E.Type, where predicate: Predicate<Object<E>>? = nil, sortedBy sort: SortKey<E>...
    ) throws -> E? {
        try found(predicate, SortKey.parts(of: sort), limit: 1, offset: 0).first?.value
    }

    /// The number of objects that satisfy a predicate. As `fetch`.
    public func count<E: Entity>(_ type: E.Type, where predicate: Predicate<Object<E>>? = nil) throws -> Int {
        guard draft.hasChanges else { return try snapshot.count(type, where: predicate) }
        return try found(predicate, [], limit: nil, offset: 0).count
    }

    fileprivate typealias Found<E: Entity> = (reference: Reference<E>, value: E)

    private func found<E: Entity>(
        _ predicate: Predicate<Object<E>>?, _ sort: [SortPart<E>], limit: Int?, offset: Int
    ) throws -> [Found<E>] {
        let (binding, layout) = try binding(E.self)
        guard draft.hasChanges else {
            var fetch = try Fetch(snapshot, predicate, sort, limit: limit, offset: offset)
            var found: [Found<E>] = []
            try fetch.forEachValue { (reference, value) in
                found.append((reference, value))
                return true
            }
            return found
        }
        let search = try TransactionSearch(self, predicate, binding, layout)
        var found = try search.unchanged() + search.own()
        let columns = try binding.columns(sort)
        if columns.isEmpty {
            found.putInOrder { $0.reference < $1.reference }
        } else {
            var keyed: [(key: [UInt8], id: ObjectID)] = []
            for one in found { keyed.append((try binding.key(of: one.value, columns), one.reference.id)) }
            found = columns.order(of: keyed).map { found[$0] }
        }
        return FetchPage(limit: limit, offset: offset).of(found)
    }
}

/// One search in a transaction that has changed something.
private struct TransactionSearch<E: Entity> {
    let transaction: Transaction
    let draft: Draft
    let predicate: Predicate<Object<E>>?
    let binding: EntityBinding
    let layout: RowLayout
    /// Over the state before the transaction. Nil if the entity, or its schema, is as new as the transaction.
    private let overlay: Overlay?

    init(
        _ transaction: Transaction, _ predicate: Predicate<Object<E>>?, _ binding: EntityBinding, _ layout: RowLayout
    ) throws(StoreError) {
        (self.transaction, self.predicate, self.binding, self.layout) = (transaction, predicate, binding, layout)
        draft = transaction.draft
        guard let before = draft.base.shape.newestLayout(layout.number), before === layout else {
            overlay = nil
            return
        }
        let snapshot = transaction.snapshot
        let condition = predicate.map { PredicateTranslator.condition($0, snapshot, binding) }
        overlay = try Overlay(
            condition ?? .constant(true), snapshot, draft, binding, layout,
            // Conditions may depend on references to objects that this transaction has deleted.
            dependsOnOthers: condition.map { transaction.draft.deletesAnything || $0.dependsOnOthers } ?? false)
    }

    // MARK: Before the transaction

    /// Those that this transaction has not touched.
    func unchanged() throws -> [Transaction.Found<E>] {
        guard let overlay else {
            guard draft.base.shape.has(layout.number) else { return [] }
            return try matching(try all())
        }
        var found: [Transaction.Found<E>] = []
        try overlay.forEachRow { (object, row) throws(StoreError) in found.append(try read(row, object)) }
        return overlay.dependsOnOthers ? try matching(found) : found
    }

    private func all() throws(StoreError) -> [Transaction.Found<E>] {
        let draft = draft
        var all: [Transaction.Found<E>] = []
        try draft.base.scan(entity: layout.number) { (object, row) throws(StoreError) in
            if !draft.isChangedHere(object) { all.append(try read(row, object)) }
            return true
        }
        return all
    }

    // MARK: Its own changes

    /// Those that this transaction has inserted or changed.
    func own() throws -> [Transaction.Found<E>] {
        var found: [Transaction.Found<E>] = []
        switch overlay?.plan.access ?? .scan {
        case .nothing: return []
        case .scan:
            try draft.forEachOwnRow(of: layout.number) { (object, row) throws(StoreError) in
                found.append(try read(row, object))
                return true
            }
        case .objects(let objects): try readOwn(objects, into: &found)
        case .ranges(let index, let ranges):
            let own = try transaction.ownIndex(draft.base.shape.indexes[index].id, layout)
            try readOwn(own.objects(ranges), into: &found)
        }
        return try matching(found)
    }

    private func readOwn(
        _ objects: some Sequence<ObjectID>, into found: inout [Transaction.Found<E>]
    ) throws(StoreError) {
        for object in objects where object.entityNumber == layout.number && draft.isChangedHere(object) {
            _ = try draft.withRow(object) { (row) throws(StoreError) in found.append(try read(row, object)) }
        }
    }

    private func read(_ row: RowImage, _ object: ObjectID) throws(StoreError) -> Transaction.Found<E> {
        var value = E()
        try withUnsafeMutablePointer(to: &value) { (value) throws(StoreError) in
            try transaction.readDraft(row, object, binding, layout, into: UnsafeMutableRawPointer(value))
        }
        return (Reference(object, of: binding.storeMark), value)
    }

    // MARK: Asking

    private func matching(_ all: [Transaction.Found<E>]) throws -> [Transaction.Found<E>] {
        guard let predicate else { return all }
        let source = TransactionSource(transaction)
        return try all.filter { reference, value in
            if let isMatch = overlay?.decided(reference.id, value) { return isMatch }
            let isMatch: Bool
            do {
                isMatch = try predicate.evaluate(Object(reference, value, source))
            } catch {
                throw ConditionReader.undecided(error)
            }
            if let failure = source.failure { throw failure }
            return isMatch
        }
    }
}

extension EntityBinding {
    /// Bytes that order as values of the type do by these columns.
    func key<E: Entity>(of value: E, _ columns: [SortColumn]) throws(StoreError) -> [UInt8] {
        var key = ByteWriter()
        try withUnsafePointer(to: value) { (value) throws(StoreError) in
            for column in columns {
                guard let index = properties.indices.first(where: { position(of: $0) == column.position }) else {
                    continue
                }
                column.append(try self.value(of: UnsafeRawPointer(value), index).storedValue(), to: &key)
            }
        }
        return Array(key.bytes)
    }
}

/// Reads objects as a transaction sees them.
private final class TransactionSource: ObjectSource {
    private let transaction: Transaction

    init(_ transaction: Transaction) { self.transaction = transaction }

    override func read<E: Entity>(_ reference: Reference<E>, into value: inout E) -> Bool {
        do {
            guard let found = try transaction[reference] else { return false }
            value = found
            return true
        } catch {
            note(error)
            return false
        }
    }

    override func referring<E: Entity>(to reference: Reference<E>, _ type: E.Type, _ offset: Int?) -> [ObjectID] {
        do { return try transaction.referring(to: reference, offset) } catch { note(error) }
        return []
    }

    private func note(_ error: any Error) {
        note(
            error as? StoreError
                ?? StoreError(.invalidArgument, "A property cannot be read: \(StoreError.sentence(error))"))
    }
}

extension Transaction {
    /// The objects that refer to an object through a relationship, named by its other side, as this transaction sees
    /// them. As `Snapshot.references(_:of:)`. The first call for a relationship is also linear in the transaction's own
    /// changes.
    public func references<E: Entity, T: Entity>(
        _ path: any KeyPath<E, ToMany<T>> & Sendable, of reference: Reference<E>
    ) throws -> [Reference<T>] {
        let mark = snapshot.mark
        return try referring(to: reference, MemoryLayout<E>.offset(of: path)).map { Reference($0, of: mark) }
    }

    /// The one object that refers to an object through a unique relationship, as this transaction sees it; nil if none
    /// does. As `references(_:of:)`.
    public func reference<E: Entity, T: Entity>(
        _ path: any KeyPath<E, ToOne<T>> & Sendable, of reference: Reference<E>
    ) throws -> Reference<T>? {
        try referring(to: reference, MemoryLayout<E>.offset(of: path)).first.map { Reference($0, of: snapshot.mark) }
    }

    fileprivate func referring<E: Entity>(to reference: Reference<E>, _ offset: Int?) throws -> [ObjectID] {
        guard try self[reference] != nil else { return [] }
        let (target, name) = try E.model.relationship(otherSideAt: offset)
        guard let number = draft.catalog.number(ofEntity: target.name), let layout = draft.newestLayout(number),
            let position = layout.position(ofProperty: name, draft.catalog)
        else { throw target.undeclared }
        var objects: [ObjectID] = []
        let attribute = layout.entity.attributes[position].number
        // By number: the transaction may have changed names.
        if let index = draft.base.shape.index(of: number, over: [attribute]) {
            try draft.base.forEachReferring(to: reference.id, index: index) { (referrer) in
                if !draft.isChangedHere(referrer) { objects.append(referrer) }
                return true
            }
        }
        let index = IndexID(entity: number, attributes: [attribute], isUnique: false)
        for object in try ownIndex(index, layout).objects([KeyRange(element: reference.id)]) {
            // It may have referred before and no longer do.
            _ = try draft.withRow(object) { (row) throws(StoreError) in
                guard let place = row.layout.position(ofAttribute: attribute) else { return }
                let value = try Value(try draft.value(row, at: place))
                let named = value.object.map { [$0] } ?? value.orderedObjects ?? value.objects ?? []
                if named.contains(reference.id) { objects.append(object) }
            }
        }
        return objects.sorted()
    }
}
