// Finding objects in a transaction, with what it has changed itself.

public import FoundationEssentials

extension Transaction {
    /// The objects that satisfy a predicate, as this transaction sees them, with its own changes.
    ///
    /// Parameters and errors are those of `Snapshot.fetch`. While the transaction has changed nothing, it takes as
    /// long. Afterwards all results are in memory, its own changes are looked through, and a predicate that crosses a
    /// relationship reads all objects of the entity.
    public func fetch<E: Entity>(
        _ type: E.Type, where predicate: Predicate<Object<E>>? = nil, sortedBy sort: SortKey<E>..., limit: Int? = nil,
        offset: Int = 0
    ) throws -> [E] {
        try found(predicate, sort, limit: limit, offset: offset).map(\.value)
    }

    /// The references of the objects that satisfy a predicate. As `fetch`.
    public func references<E: Entity>(
        to type: E.Type, where predicate: Predicate<Object<E>>? = nil, sortedBy sort: SortKey<E>...,
        limit: Int? = nil, offset: Int = 0
    ) throws -> [Reference<E>] {
        try found(predicate, sort, limit: limit, offset: offset).map(\.reference)
    }

    /// The number of objects that satisfy a predicate. As `fetch`.
    public func count<E: Entity>(_ type: E.Type, where predicate: Predicate<Object<E>>? = nil) throws -> Int {
        guard draft.hasChanges else { return try snapshot.count(type, where: predicate) }
        return try found(predicate, [], limit: nil, offset: 0).count
    }

    private typealias Found<E: Entity> = (reference: Reference<E>, value: E)

    private func found<E: Entity>(
        _ predicate: Predicate<Object<E>>?, _ sort: [SortKey<E>], limit: Int?, offset: Int
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
        var found = try unchanged(predicate, binding, layout) + own(predicate, binding, layout)
        let columns = try binding.columns(sort, layout)
        if !columns.isEmpty {
            var keyed: [(key: [UInt8], found: Found<E>)] = []
            for found in found { keyed.append((try binding.key(of: found.value, columns), found)) }
            let isDescending = columns.allSatisfy(\.isDescending)
            keyed.sort { left, right in
                if left.key != right.key { return left.key.lexicographicallyPrecedes(right.key) }
                return (left.found.reference < right.found.reference) != isDescending
            }
            found = keyed.map(\.found)
        } else {
            found.sort { $0.reference < $1.reference }
        }
        return Array(found.dropFirst(max(0, offset)).prefix(max(0, limit ?? .max)))
    }

    /// Those that this transaction has not touched.
    private func unchanged<E: Entity>(
        _ predicate: Predicate<Object<E>>?, _ binding: EntityBinding, _ layout: RowLayout
    ) throws -> [Found<E>] {
        let draft = draft
        guard let before = draft.base.shape.newestLayout(layout.number), before === layout else {
            // The entity is as new as its schema: nothing of it was there.
            guard draft.base.shape.has(layout.number) else { return [] }
            return try evaluated(predicate, binding, layout)
        }
        var fetch = try Fetch<E>(snapshot, predicate)
        if draft.deletesAnything || fetch.plan.condition.dependsOnOthers {
            return try evaluated(predicate, binding, layout)
        }
        var found: [Found<E>] = []
        try fetch.forEachMatch { (object, row) throws(StoreError) in
            guard !draft.isChangedHere(object) else { return true }
            var value = E()
            try withUnsafeMutablePointer(to: &value) { (value) throws(StoreError) in
                try binding.read(row, object, draft.base, layout, into: UnsafeMutableRawPointer(value))
            }
            found.append((Reference(object), value))
            return true
        }
        return found
    }

    /// All that it has not touched, each asked as this transaction sees it.
    private func evaluated<E: Entity>(
        _ predicate: Predicate<Object<E>>?, _ binding: EntityBinding, _ layout: RowLayout
    ) throws -> [Found<E>] {
        let draft = draft
        var all: [Found<E>] = []
        try draft.base.scan(entity: layout.number) { (object, row) throws(StoreError) in
            guard !draft.isChangedHere(object) else { return true }
            var value = E()
            try withUnsafeMutablePointer(to: &value) { (value) throws(StoreError) in
                try readDraft(row, object, binding, layout, into: UnsafeMutableRawPointer(value))
            }
            all.append((Reference(object), value))
            return true
        }
        return try matching(all, predicate)
    }

    /// Those that this transaction has inserted or changed.
    private func own<E: Entity>(
        _ predicate: Predicate<Object<E>>?, _ binding: EntityBinding, _ layout: RowLayout
    ) throws -> [Found<E>] {
        var all: [Found<E>] = []
        try draft.forEachOwnRow(of: layout.number) { (object, row) throws(StoreError) in
            var value = E()
            try withUnsafeMutablePointer(to: &value) { (value) throws(StoreError) in
                try readDraft(row, object, binding, layout, into: UnsafeMutableRawPointer(value))
            }
            all.append((Reference(object), value))
            return true
        }
        return try matching(all, predicate)
    }

    private func matching<E: Entity>(_ all: [Found<E>], _ predicate: Predicate<Object<E>>?) throws -> [Found<E>] {
        guard let predicate else { return all }
        let source = TransactionSource(self)
        return try all.filter { reference, value in
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

extension Condition {
    /// Whether other objects than the one that is asked matter.
    var dependsOnOthers: Bool {
        switch self {
        case .constant, .test, .isOne: false
        case .all(let parts), .any(let parts): parts.contains { $0.dependsOnOthers }
        case .not(let part): part.dependsOnOthers
        case .step, .anyOf, .count, .evaluated: true
        }
    }
}

/// Reads objects as a transaction sees them.
private final class TransactionSource: ObjectSource {
    private let transaction: Transaction

    init(_ transaction: Transaction) { self.transaction = transaction }

    override func value<E: Entity>(_ reference: Reference<E>) -> E? {
        do { return try transaction[reference] } catch { note(error) }
        return nil
    }

    override func referring<E: Entity>(to reference: Reference<E>, _ type: E.Type, _ offset: Int?) -> [ObjectID] {
        do { return try transaction.referring(to: reference, offset) } catch { note(error) }
        return []
    }

    private func note(_ error: any Error) {
        note(error as? StoreError ?? StoreError(.invalidArgument, "A property cannot be read: \(error)."))
    }
}

extension Transaction {
    /// The objects that refer to an object through a relationship, named by its other side, as this transaction sees
    /// them. As `Snapshot.references(_:of:)`; also linear in the transaction's own changes.
    public func references<E: Entity, T: Entity>(
        _ path: any KeyPath<E, ToMany<T>> & Sendable, of reference: Reference<E>
    ) throws -> [Reference<T>] {
        try referring(to: reference, MemoryLayout<E>.offset(of: path)).map { Reference($0) }
    }

    /// The one object that refers to an object through a unique relationship, as this transaction sees it; nil if none
    /// does. As `references(_:of:)`.
    public func reference<E: Entity, T: Entity>(
        _ path: any KeyPath<E, ToOne<T>> & Sendable, of reference: Reference<E>
    ) throws -> Reference<T>? {
        try referring(to: reference, MemoryLayout<E>.offset(of: path)).first.map { Reference($0) }
    }

    fileprivate func referring<E: Entity>(to reference: Reference<E>, _ offset: Int?) throws -> [ObjectID] {
        guard try self[reference] != nil else { return [] }
        let (target, name) = try E.model.relationship(otherSideAt: offset)
        guard let number = draft.catalog.number(ofEntity: target.name), let layout = draft.newestLayout(number),
            let position = layout.position(ofProperty: name, draft.catalog)
        else { throw target.undeclared }
        var objects = draft.base.shape.has(number) ? try snapshot.referring(to: reference, offset) : []
        objects.removeAll { draft.isChangedHere($0) }
        try draft.forEachOwnRow(of: number) { (object, row) throws(StoreError) in
            let value = try Value(try draft.value(row, at: position))
            let named = value.object.map { [$0] } ?? value.orderedObjects ?? value.objects ?? []
            if named.contains(reference.id) { objects.append(object) }
            return true
        }
        return objects.sorted()
    }
}
