// Many objects in one transaction, without keeping them in memory.

public import FoundationEssentials

/// The result of a batch.
public struct BatchResult<E: Entity>: Sendable {
    /// The objects that were inserted, changed or deleted, in the order in which it happened.
    public let references: [Reference<E>]
    /// The transaction's token; nil if nothing was to be done.
    public let token: HistoryToken?

    /// The number of objects.
    public var count: Int { references.count }
}

extension Store {
    /// Changes all objects that satisfy a predicate, in one transaction.
    ///
    /// `change` gets each object once, as of the state before the transaction. Validation, derived properties and
    /// constraints hold as for every transaction. `change` may be called again for all objects, if another writer was
    /// faster.
    ///
    /// - Parameters:
    ///   - type: The entity.
    ///   - predicate: The condition; nil for all objects.
    ///   - author: The author of the change, for the history.
    ///   - contextName: The author's activity, or the part of the program.
    ///   - durability: The condition to wait for; nil for the store's setting.
    ///   - change: Changes one object.
    ///
    /// Throws `StoreError`, as `write` and `Snapshot.fetch`; and errors of `change`. Then nothing has changed.
    @discardableResult
    public func update<E: Entity>(
        _ type: E.Type, where predicate: Predicate<Object<E>>? = nil, author: String? = nil,
        contextName: String? = nil, durability: Durability? = nil, _ change: (inout E) throws -> Void
    ) throws -> BatchResult<E> {
        let (references, token) = try writeOptimistically(
            author: author, contextName: contextName, durability: durability
        ) {
            transaction in
            let (binding, layout) = try transaction.binding(E.self)
            return try transaction.forEachMatch(predicate) { reference, value in
                let read = transaction.mayReadOtherValues(reference.id, binding) ? value : nil
                try change(&value)
                return try transaction.write(&value, to: reference.id, binding, layout, asRead: read)
            }
        }
        return BatchResult(references: references, token: token)
    }

    /// Deletes all objects that satisfy a predicate, in one transaction, and applies the delete rules of relationships
    /// to the objects that refer to them. The result has only the objects that satisfy the predicate.
    ///
    /// Parameters and errors are those of `update(_:where:author:contextName:durability:_:)`; also throws
    /// `deleteDenied`.
    @discardableResult
    public func delete<E: Entity>(
        _ type: E.Type, where predicate: Predicate<Object<E>>? = nil, author: String? = nil,
        contextName: String? = nil, durability: Durability? = nil
    ) throws -> BatchResult<E> {
        let (references, token) = try writeOptimistically(
            author: author, contextName: contextName, durability: durability
        ) {
            transaction in
            var fetch = try Fetch<E>(transaction.snapshot, predicate)
            let references = try fetch.references()
            for reference in references { try transaction.delete(reference) }
            return references
        }
        return BatchResult(references: references, token: token)
    }

    /// Inserts all values of a sequence, in one transaction.
    ///
    /// The values of a collection are encoded before any other writer has to wait. A sequence that can be read only
    /// once is read under the writer lock. Memory grows by the references only.
    ///
    /// Throws `StoreError`, as `write` and `Transaction.insert`. Then nothing has changed.
    @discardableResult
    public func insert<E: Entity>(
        contentsOf values: some Sequence<E>, author: String? = nil, contextName: String? = nil,
        durability: Durability? = nil
    ) throws -> BatchResult<E> {
        try batch(values, author, contextName, durability) { transaction, references in
            try transaction.insert(contentsOf: values, &references)
        }
    }

    /// Inserts or updates an object for each value of a sequence, in one transaction: see `Transaction.upsert`. An
    /// existing object gets all properties of the value. As
    /// `insert(contentsOf:author:contextName:durability:)`.
    @discardableResult
    public func upsert<E: Entity>(
        contentsOf values: some Sequence<E>, author: String? = nil, contextName: String? = nil,
        durability: Durability? = nil
    ) throws -> BatchResult<E> {
        try batch(values, author, contextName, durability) { transaction, references in
            for value in values { references.append(try transaction.upsert(value)) }
        }
    }

    /// Inserts an object for each value of a sequence, or sets some properties of the existing one, in one transaction:
    /// see `Transaction.upsert(_:updating:)`. As `insert(contentsOf:author:contextName:durability:)`.
    @discardableResult
    public func upsert<E: Entity>(
        contentsOf values: some Sequence<E>, updating properties: [any PartialKeyPath<E> & Sendable],
        author: String? = nil, contextName: String? = nil, durability: Durability? = nil
    ) throws -> BatchResult<E> {
        try batch(values, author, contextName, durability) { transaction, references in
            let slots = try transaction.slots(properties)
            for value in values { references.append(try transaction.upsert(value, slots: slots)) }
        }
    }

    private func batch<E: Entity, Values: Sequence<E>>(
        _ values: Values, _ author: String?, _ contextName: String?, _ durability: Durability?,
        _ run: (Transaction, _ references: inout [Reference<E>]) throws -> Void
    ) throws -> BatchResult<E> {
        var references: [Reference<E>] = []
        references.reserveCapacity(values.underestimatedCount)
        var isRunning = false
        do {
            let body = { (transaction: Transaction) throws in
                references.removeAll(keepingCapacity: true)
                isRunning = true
                try run(transaction, &references)
                isRunning = false
            }
            let token =
                values is any Collection
                ? try writeOptimistically(author: author, contextName: contextName, durability: durability, body).token
                : try write(author: author, contextName: contextName, durability: durability, body).token
            return BatchResult(references: references, token: token)
        } catch let error as StoreError {
            throw isRunning ? error.of([references.count]) : error.naming(references)
        }
    }
}

extension Transaction {
    /// Inserts all values. The facts about their type are looked up once.
    fileprivate func insert<E: Entity>(
        contentsOf values: some Sequence<E>, _ references: inout [Reference<E>]
    ) throws {
        let (binding, layout) = try binding(E.self)
        guard !binding.model.hasRules else {
            for value in values { references.append(try insert(value)) }
            return
        }
        let draft = draft
        var objects: [ObjectID] = []
        objects.reserveCapacity(values.underestimatedCount)
        // An error is about the element after these.
        defer { references = [Reference<E>](objects, of: binding.storeMark) }
        for value in values {
            // Nothing is noted for later upserts: the transaction consists of this.
            let object = try withUnsafePointer(to: value) { (value) throws(StoreError) in
                try draft.insert(layout) { (row) throws(StoreError) in
                    try binding.write(UnsafeRawPointer(value), to: &row)
                }
            }
            objects.append(object)
        }
    }

    /// Passes to `body` all objects of the state before the transaction that satisfy a predicate. Returns the
    /// references of those for which `body` returns true.
    func forEachMatch<E: Entity>(
        _ predicate: Predicate<Object<E>>?, _ body: (Reference<E>, inout E) throws -> Bool
    ) throws -> [Reference<E>] {
        var fetch = try Fetch<E>(snapshot, predicate)
        var references: [Reference<E>] = []
        var failure: (any Error)?
        try fetch.forEachValue { (reference, value) in
            var value = value
            do {
                if try body(reference, &value) { references.append(reference) }
                return true
            } catch { failure = error }
            return false
        }
        if let failure { throw failure }
        return references
    }
}

extension StoreError {
    /// The same about elements of a batch.
    fileprivate func of(_ elements: [Int]) -> StoreError {
        guard let first = elements.first else { return self }
        var error = self
        let numbers = elements.prefix(10).map(String.init).joined(separator: ", ")
        let more = elements.count > 10 ? " and more" : ""
        let named = elements.count == 1 ? "Element \(first)" : "Elements \(numbers)\(more)"
        error.message = "\(named) of the batch (the first is 0): \(message)"
        error.elements = elements
        return error
    }

    /// The same error about elements: those that became the objects of the error.
    fileprivate func naming<E: Entity>(_ references: [Reference<E>]) -> StoreError {
        let failures = validationFailures
        let objects = Set(self.objects + failures.compactMap(\.object))
        if objects.isEmpty { return self }
        let elements = references.indices.filter { objects.contains(references[$0].id) }
        var error = of(elements)
        if !failures.isEmpty {
            let places = Dictionary(elements.map { (references[$0].id, $0) }) { _, last in last }
            error.facts = ValidationFacts(
                failures: failures.map { failure in failure.of(element: failure.object.flatMap { places[$0] }) })
        }
        return error
    }
}
