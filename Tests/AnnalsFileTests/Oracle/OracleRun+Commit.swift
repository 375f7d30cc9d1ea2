// Random transactions: what the engine makes of them must be what the oracle makes of them.

import Annals
import SimulatedDisk

extension OracleRun {
    struct ThrownByBody: Error {}

    enum CommitOutcome { case committed, nothing, refused, died }

    func commit() throws {
        if random.chance(1, in: 150) { return try dieInCommit() }
        guard let handle = random.element(handles) else {
            _ = try open()
            return
        }
        _ = try commit(with: handle)
    }

    func changeSchema() throws {
        guard let handle = random.element(handles.filter { !$0.isReadOnly }) else {
            _ = try open()
            return
        }
        _ = try commit(with: handle, changesSchema: true)
    }

    /// One transaction by a handle, perhaps with another one of somebody else in between.
    func commit(
        with handle: OracleHandle, changesSchema: Bool = false, mayDie: Bool = false, isNested: Bool = false,
        mayBeFull: Bool = false
    ) throws -> CommitOutcome {
        let author = random.chance(1, in: 3) ? nil : "author \(random.below(4))"
        let context = random.chance(1, in: 2) ? nil : "context \(random.below(3))"
        let durability: Durability = random.chance(1, in: 4) ? .full : .relaxed
        let inWrite = random.chance(1, in: 4)
        let throwsAtEnd = random.chance(1, in: 40)
        var draft = OracleDraft(model, base: 0, inlineBytes: random.inlineBytes)
        var runs = 0
        let body: (Draft) throws -> Void = { [self] pending in
            runs += 1
            if runs > 1 { counts.conflicts += 1 }
            draft = OracleDraft(model, base: Int(pending.base.number), inlineBytes: random.inlineBytes)
            // Its references are values like others. `ReferenceOracleTests` is about what they lead to.
            pending.checksReferences = false
            try make(&draft, pending, changesSchema: changesSchema, handle)
            if runs == 1, !inWrite, !isNested, !mayDie, !mayBeFull, random.chance(1, in: 6) {
                try commitOfAnother(than: handle)
            }
            if throwsAtEnd { throw ThrownByBody() }
        }
        counts.operations += 1
        do {
            let appended =
                inWrite
                ? try handle.engine.write(author: author, context: context, durability: durability, body).transaction
                : try handle.engine.commit(author: author, context: context, durability: durability, body).transaction
            return try take(appended, draft, (author, context), handle, durability)
        } catch is ThrownByBody {
            guard throwsAtEnd else { throw OracleFailure("an error out of nowhere") }
            return .refused
        } catch let error as StoreError {
            return try take(error, draft, (author, context), handle, mayDie: mayDie, mayBeFull: mayBeFull)
        }
    }

    private func commitOfAnother(than handle: OracleHandle) throws {
        guard let other = random.element(handles.filter { !$0.isReadOnly }) else { return }
        _ = try commit(with: other, changesSchema: random.chance(1, in: 8), isNested: true)
    }

    private func take(
        _ appended: AppendedTransaction?, _ draft: OracleDraft, _ names: (String?, String?), _ handle: OracleHandle,
        _ durability: Durability
    ) throws -> CommitOutcome {
        guard let appended else {
            guard draft.isEmpty else { throw OracleFailure("a transaction with changes was not written") }
            return .nothing
        }
        guard !draft.isEmpty else { throw OracleFailure("an empty transaction was written") }
        guard !model.violates(draft) else { throw OracleFailure("two objects have one unique key") }
        guard !draft.hasLargeKey(model) else { throw OracleFailure("a value in an index stands in value frames") }
        guard appended.number == UInt64(model.number + 1) else {
            throw OracleFailure("transaction \(model.number + 1) has the number \(appended.number)")
        }
        record(draft, names, tag: appended.tag)
        handle.hasAppended = true
        if durability == .full { model.durable = model.number }
        return .committed
    }

    private func record(_ draft: OracleDraft, _ names: (String?, String?), tag: UInt64?) {
        model.append(
            ModelTransaction(
                tag: tag, author: names.0, context: names.1, changes: draft.changes,
                schema: draft.changesSchema ? draft.schema : nil, cursor: draft.advance?.to.number))
        counts.transactions += 1
    }

    private func take(
        _ error: StoreError, _ draft: OracleDraft, _ names: (String?, String?), _ handle: OracleHandle, mayDie: Bool,
        mayBeFull: Bool
    ) throws -> CommitOutcome {
        counts.refusals += 1
        if mayDie, error.message.contains(StoreError.simulatedProcessDeath.message) {
            // It may be there or not.
            record(draft, names, tag: nil)
            return .died
        }
        let isExpected =
            switch error.code {
            case .readOnly: handle.isReadOnly
            case .uniqueViolation: model.violates(draft)
            case .tooLarge: draft.hasLargeKey(model)
            case .noSpace: mayBeFull
            case .consumerConflict: draft.advance.map { $0.from.number != model.cursor } ?? false
            case .consumerLost: draft.advance.map { $0.from.number < model.horizon } ?? false
            default: false
            }
        guard isExpected else { throw OracleFailure("a commit was refused: \(error)") }
        let view = try handle.engine.view()
        guard view.number == UInt64(model.number) else { throw OracleFailure("a refused transaction is there") }
        return .refused
    }

    // MARK: What a transaction does

    private func make(
        _ draft: inout OracleDraft, _ pending: Draft, changesSchema: Bool, _ handle: OracleHandle
    ) throws {
        if changesSchema {
            let definitions = random.schemaChange(draft.schema)
            try pending.changeSchema(definitions)
            draft.change(definitions)
            counts.operations += 1
        }
        let most = random.chance(1, in: 25) ? 120 : random.chance(1, in: 3) ? 1 : 12
        let changes = random.below(most + 1)
        for _ in 0..<changes {
            let isCrowded = model.live.count > Self.maximumLive
            counts.operations += 1
            switch random.below(100) {
            case 0..<(isCrowded ? 20 : 45): try insert(&draft, pending)
            case (isCrowded ? 20 : 45)..<75: try update(&draft, pending)
            case 75..<92: try delete(&draft, pending)
            default: try read(draft, pending)
            }
        }
        if !draft.isEmpty, random.chance(1, in: 4) { try advance(&draft, pending, handle) }
    }

    /// The consumer has seen all that the transaction began from, once this is committed.
    private func advance(_ draft: inout OracleDraft, _ pending: Draft, _ handle: OracleHandle) throws {
        let from = try compareConsumer(handle).place
        guard from.number <= pending.base.number else { return }
        let to = TransactionPlace(number: pending.base.number, tag: pending.base.tag)
        try pending.advance(Self.consumer, from: from, to: to)
        draft.advance = ConsumerAdvance(name: Self.consumer, from: from, to: to)
    }

    /// Where the consumer stands is what transactions have said, and what a lost one said is not there.
    @discardableResult
    func compareConsumer(_ handle: OracleHandle) throws -> ConsumerRecord {
        _ = try handle.engine.view()
        guard let record = handle.engine.tracking.consumer(Self.consumer), record.cursor == model.cursor else {
            throw OracleFailure("the consumer does not stand at \(model.cursor): \(handle.engine.tracking.consumers)")
        }
        return record
    }

    private func insert(_ draft: inout OracleDraft, _ pending: Draft) throws {
        guard let number = random.element(draft.schema.entities.keys.sorted()),
            let entity = draft.schema.entities[number]
        else { return }
        let indexed = Set(IndexID.all(of: entity).flatMap(\.attributes))
        var values: [StoredValue] = []
        for attribute in entity.attributes {
            values.append(random.value(for: attribute, isInIndex: indexed.contains(attribute.number)))
        }
        let row = draft.rowToInsert(entity, values)
        do {
            let object = try pending.insert(entity: number, values)
            guard let row else { throw OracleFailure("a row without a required value was inserted") }
            guard model.row(object, asOf: draft.base) == nil, !draft.isChangedHere(object) else {
                throw OracleFailure("an object number was given twice")
            }
            draft.insert(object, row)
        } catch let error as StoreError where error.code == .requiredMissing && row == nil {
            counts.refusals += 1
        }
    }

    /// An object to change: mostly one that there is, often one that the transaction has changed already.
    private func object(_ draft: OracleDraft) -> ObjectID? {
        if random.chance(1, in: 6), let object = random.element(draft.changes.keys.sorted()) { return object }
        if random.chance(1, in: 30), let entity = random.element(draft.schema.entities.keys.sorted()) {
            return ObjectID(entityNumber: entity, number: UInt64(1 + random.below(3000)))
        }
        guard let object = random.element(model.live), draft.schema.entities[object.entityNumber] != nil else {
            return nil
        }
        return object
    }

    private func update(_ draft: inout OracleDraft, _ pending: Draft) throws {
        guard let object = object(draft), let entity = draft.schema.entities[object.entityNumber] else { return }
        let indexed = Set(IndexID.all(of: entity).flatMap(\.attributes))
        let positions = Array(entity.attributes.indices).shuffled(using: &random.generator)
            .prefix(random.below(4))
        var values: [(position: Int, value: StoredValue)] = []
        for position in positions {
            let attribute = entity.attributes[position]
            values.append(
                (position, random.value(for: attribute, isInIndex: indexed.contains(attribute.number))))
        }
        let (expected, change) = draft.update(object, values, model)
        let outcome = try outcome { try pending.update(object, values) }
        try settle(outcome, expected, draft.changes[object] != nil, "an update of \(object) with \(values)")
        if case .done = outcome { draft.take(object, change) }
    }

    private func delete(_ draft: inout OracleDraft, _ pending: Draft) throws {
        guard let object = object(draft) else { return }
        let expected = draft.canDelete(object, model)
        let outcome = try outcome {
            try pending.delete(object)
            return true
        }
        try settle(outcome, expected, draft.changes[object] != nil, "a deletion of \(object)")
        if case .done = outcome { draft.delete(object, model) }
    }

    private func outcome(_ body: () throws -> Bool) throws -> OracleOutcome {
        do {
            return try body() ? .done : .nothing
        } catch let error as StoreError {
            counts.refusals += 1
            return .refused(error.code)
        }
    }

    private func settle(
        _ outcome: OracleOutcome, _ expected: OracleOutcome, _ isAgain: Bool, _ what: String
    ) throws {
        if outcome == expected { return }
        if case .nothingOr(let code) = expected, outcome == .nothing || outcome == .refused(code) { return }
        // A change whose frame is complete cannot be changed.
        if isAgain, outcome == .refused(.tooLarge) { return }
        throw OracleFailure("\(what) came to \(outcome) instead of \(expected)")
    }

    private func read(_ draft: OracleDraft, _ pending: Draft) throws {
        guard let object = object(draft), draft.schema.entities[object.entityNumber] != nil else { return }
        let expected = draft.row(object, model)
        var difference: String?
        let isThere = try pending.withRow(object) { (row) throws(StoreError) in
            guard let expected else { return }
            for (position, value) in expected.values.enumerated() {
                let found = try row.value(at: position)
                if case .large = found { continue }
                if found != value { difference = "\(object) has \(found) instead of \(value)" }
            }
        }
        counts.comparisons += 1
        guard isThere == (expected != nil), difference == nil else {
            throw OracleFailure("in its transaction: \(difference ?? "\(object) is there: \(isThere)")")
        }
    }
}
