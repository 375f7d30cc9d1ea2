// A state of a store as a base for merging.

internal import Annals
internal import FoundationEssentials

/// For one thread. Merging cannot throw, so the first error is kept: what was computed before it is looked at is void.
final class StoreBase: MergeBase {
    let view: ExchangeView
    private let store: UUID
    private let schema: MergeSchema
    private(set) var failure: StoreError?
    private var known: [GroupObject: MergeObject?] = [:]
    private var knownAliases: [GroupObject: GroupObject?] = [:]

    /// - Parameter schema: Of the present: objects of the past have the defaults of attributes that came later.
    convenience init(_ snapshot: Snapshot, _ schema: MergeSchema) throws(StoreError) {
        self.init(try ExchangeView(snapshot), schema)
    }

    init(_ view: ExchangeView, _ schema: MergeSchema) {
        (self.view, self.schema) = (view, schema)
        store = view.snapshot.token.storeIdentifier
    }

    /// Throws the first error that was met.
    func requireWhole() throws(StoreError) { if let failure { throw failure } }

    private func attempt<Result>(_ otherwise: Result, _ body: () throws(StoreError) -> Result) -> Result {
        do throws(StoreError) {
            return try body()
        } catch {
            if failure == nil { failure = error }
            return otherwise
        }
    }

    // MARK: Names

    func local(_ name: GroupObject) -> ObjectID? {
        attempt(nil) { () throws(StoreError) in try view.object(named: ExportedObject(name)) }
    }

    func name(_ object: ObjectID) throws(StoreError) -> GroupObject {
        GroupObject(try view.name(of: object), from: store)
    }

    func name(ofAlias alias: GroupObject) -> GroupObject? {
        if let found = knownAliases[alias] { return found }
        let found = attempt(nil) { () throws(StoreError) in try main(of: alias) }
        knownAliases[alias] = .some(found)
        return found
    }

    private func main(of alias: GroupObject) throws(StoreError) -> GroupObject? {
        let name: GroupObject?
        if let object = try view.object(named: ExportedObject(alias)) {
            name = try self.name(object)
        } else {
            name = try view.namesOfGone(ExportedObject(alias)).first.map { GroupObject($0, from: store) }
        }
        return name == alias ? nil : name
    }

    // MARK: Objects

    func object(_ name: GroupObject) -> MergeObject? {
        if let found = known[name] { return found }
        let found = attempt(nil) { () throws(StoreError) in try read(name) }
        known[name] = found
        return found
    }

    private func read(_ name: GroupObject) throws(StoreError) -> MergeObject? {
        guard let object = try view.object(named: ExportedObject(name)), try self.name(object) == name else {
            return nil
        }
        let names = schema.presentNames
        guard let insertion = try view.insertion(of: object)?.renamed(names) else {
            var gone = MergeObject(names.entity(try view.entityName(of: object)), [:])
            gone.exists = false
            return gone
        }
        var found = MergeObject(insertion.entity, [:])
        for (attribute, value) in zip(insertion.attributes, insertion.values) {
            found[attribute] = MergeValue(value, from: store)
        }
        for attribute in schema.attributes(of: insertion.entity) where !insertion.attributes.contains(attribute) {
            found[attribute] = schema.attribute(attribute, of: insertion.entity)?.defaultValue ?? .null
        }
        return found
    }

    func holder(of key: MergeState.KeyValue) -> GroupObject? {
        attempt(nil) { () throws(StoreError) in
            var values: [StoredValue] = []
            for part in key.values {
                guard let value = try stored(part) else { return nil }
                values.append(value)
            }
            let holder = try view.holder(
                of: values, in: key.key.entity, by: key.key.attributes, schema.presentNames)
            return try holder.map { (object) throws(StoreError) in try name(object) }
        }
    }

    /// Nil if no object here can have the value.
    private func stored(_ part: MergeState.KeyValue.Part) throws(StoreError) -> StoredValue? {
        switch part {
        case .text(let text): return .string(text)
        case .number(let type, let bits):
            return type == .date ? .date(Double(bitPattern: bits)) : .double(Double(bitPattern: bits))
        case .other(.plain(let value)):
            guard case .plain(let stored) = value.content else { return nil }
            return stored
        case .other(.object(let name)):
            return try view.object(named: ExportedObject(name)).map { .object($0) }
        case .other: return nil
        }
    }

    func referrers(to name: GroupObject) -> Set<MergeState.Referrer> {
        attempt([]) { () throws(StoreError) in
            guard let object = try view.object(named: ExportedObject(name)), try self.name(object) == name else {
                return []
            }
            var referrers: Set<MergeState.Referrer> = []
            for (referrer, attribute) in try view.referring(to: object) {
                let entity = schema.presentNames.entity(try view.entityName(of: referrer))
                referrers.insert(
                    MergeState.Referrer(
                        object: try self.name(referrer),
                        attribute: schema.presentNames.attribute(attribute, of: entity)))
            }
            return referrers
        }
    }
}

extension ExportedObject {
    init(_ name: GroupObject) { self.init(name.id, of: name.store) }
}
