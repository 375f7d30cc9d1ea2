// The objects of a group after some of its transactions, each applied in the group's order.
//
// Every peer computes the same state from the same transactions, because applying a transaction uses nothing but the
// state before it. A peer that gets a transaction late computes again from the place where it belongs (`MergeReplay`).
//
// Invariants:
// MS1  No two existing objects of a key have the same values in it, and `holders` has the object of each.
// MS2  `referrers` has each reference of an existing object, by the object that it leads to.
// MS3  An existing object has a value for each required attribute.
// MS4  The name to which an alias leads was an object when it was added. Names lead from later to earlier ones, so a
//      name never leads to itself.

package import Annals
internal import FoundationEssentials

/// An object, or what is left of a deleted one.
package struct MergeObject: Hashable, Sendable {
    package var entity: String
    package var exists = true
    /// Attributes without an entry are null.
    package var values: [String: MergeValue]

    package init(_ entity: String, _ values: [String: MergeValue]) {
        (self.entity, self.values) = (entity, values)
    }

    package subscript(attribute: String) -> MergeValue {
        get { values[attribute] ?? .null }
        set { values[attribute] = newValue == .null ? nil : newValue }
    }
}

/// A state to begin with: usually a store at some place of its history. Names are those under which it has objects.
package protocol MergeBase: AnyObject {
    /// An object with its content; nil if the name was never used.
    func object(_ name: GroupObject) -> MergeObject?
    /// The name under which it has an object that is also known by this one.
    func name(ofAlias alias: GroupObject) -> GroupObject?
    /// The existing object with these unique values.
    func holder(of key: MergeState.KeyValue) -> GroupObject?
    /// The existing objects that refer to an object.
    func referrers(to name: GroupObject) -> Set<MergeState.Referrer>
}

package struct MergeState {
    let schema: MergeSchema
    private let base: (any MergeBase)?
    /// The objects that differ from the base, and others that were put here, by the names of MS4.
    package private(set) var objects: [GroupObject: MergeObject] = [:]
    /// Further names: objects that were inserted concurrently with the same unique values are one object.
    package private(set) var aliases: [GroupObject: GroupObject] = [:]
    /// Of `objects`.
    private var holders: [KeyValue: GroupObject] = [:]
    /// Of `objects`.
    private var referrers: [GroupObject: Set<Referrer>] = [:]
    /// The resources that the transactions applied here have read and changed.
    package private(set) var resources = MergeResources()

    /// The values of a unique key. An object with a null in it has no key.
    package struct KeyValue: Hashable, Sendable {
        package var key: MergeSchema.Key
        package var values: [Part]

        /// Values are equal if a store's index has the same key for them.
        package enum Part: Hashable, Sendable {
            case text(String)
            case number(AttributeType?, UInt64)
            case other(MergeValue)
        }
    }

    /// An attribute of an object that refers to another.
    package struct Referrer: Hashable, Sendable {
        package var object: GroupObject
        package var attribute: String

        package init(object: GroupObject, attribute: String) { (self.object, self.attribute) = (object, attribute) }
    }

    package init(_ schema: MergeSchema, on base: (any MergeBase)? = nil) { (self.schema, self.base) = (schema, base) }

    // MARK: Reading

    /// The name under which an object is known here.
    package func name(_ object: GroupObject) -> GroupObject {
        var name = object
        while let next = aliases[name] ?? (objects[name] == nil ? base?.name(ofAlias: name) : nil) { name = next }
        return name
    }

    /// The object under a name, also a deleted one; nil if the name was never used.
    package func object(_ name: GroupObject) -> MergeObject? { objects[name] ?? base?.object(name) }

    package func exists(_ object: GroupObject) -> Bool { self.object(name(object))?.exists ?? false }

    /// The value as programs read it: without references to deleted objects.
    package func shown(_ object: GroupObject, _ attribute: String) -> MergeValue {
        guard let found = self.object(name(object)), found.exists else { return .null }
        return found[attribute].mapped { exists($0) ? name($0) : nil }
    }

    /// The existing object with these unique values.
    package func holder(of key: KeyValue) -> GroupObject? {
        if let holder = holders[key] { return holder }
        return base?.holder(of: key).flatMap { objects[$0] == nil ? $0 : nil }
    }

    /// The existing objects that refer to an object.
    package func referring(to name: GroupObject) -> Set<Referrer> {
        let stored: Set<Referrer> = base?.referrers(to: name) ?? []
        return stored.filter { objects[$0.object] == nil }.union(referrers[name] ?? [])
    }

    // MARK: Changing

    /// Puts an object into the state, or changes it.
    package mutating func put(_ name: GroupObject, _ object: MergeObject) {
        assert(aliases[name] == nil || !object.exists, "MS4: a further name has an object of its own.")
        if let old = objects[name], old.exists { forget(name, old) }
        objects[name] = object
        guard object.exists else { return }
        for key in keys(of: object) {
            assert(holder(of: key) == nil, "MS1: two objects have the same unique values.")
            holders[key] = name
        }
        for (attribute, value) in object.values {
            for target in value.references {
                referrers[target, default: []].insert(Referrer(object: name, attribute: attribute))
            }
        }
    }

    private mutating func forget(_ name: GroupObject, _ object: MergeObject) {
        for key in keys(of: object) where holders[key] == name { holders[key] = nil }
        for (attribute, value) in object.values {
            for target in value.references {
                referrers[target]?.remove(Referrer(object: name, attribute: attribute))
            }
        }
    }

    package mutating func addAlias(_ alias: GroupObject, of object: GroupObject) {
        assert(objects[alias]?.exists != true && self.object(object) != nil, "MS4: an alias has an object of its own.")
        aliases[alias] = object
    }

    /// Applies the next transaction of the group's order. Returns the changes that had to be left out.
    @discardableResult
    package mutating func apply(_ transaction: MergeTransaction) -> [MergeLoss] {
        resources.formUnion(stated(by: transaction))
        var limits = MergePlan.Limits()
        while true {
            var plan = MergePlan(transaction, limits)
            let refusal = plan.work(on: self)
            for name in plan.read { resources.read.insert(.object(name)) }
            for name in plan.deleting { resources.addExistence(of: name) }
            if let refusal {
                if !limits.add(refusal) { limits.leaveOutAll(transaction.changes.count) }
                continue
            }
            carryOut(plan)
            return plan.losses
        }
    }

    mutating func takeResources() -> MergeResources {
        defer { resources = MergeResources() }
        return resources
    }

    mutating func add(_ resources: MergeResources) { self.resources.formUnion(resources) }

    private mutating func carryOut(_ plan: MergePlan) {
        for (alias, object) in plan.newAliases {
            addAlias(alias, of: object)
            // Both names of an object lead to it.
            resources.addExistence(of: alias)
            resources.addExistence(of: object)
        }
        // Keys move between objects of one transaction: all are free before any is taken.
        for name in plan.written {
            let before = object(name).flatMap { $0.exists ? $0 : nil }
            let after = plan.rows[name].flatMap { $0.exists ? $0 : nil }
            resources.formUnion(self.resources(of: name, from: before, to: after))
            // Also if its values are the same.
            resources.addContent(of: name)
            guard var old = before else { continue }
            if objects[name] != nil { forget(name, old) }
            old.exists = false
            objects[name] = old
        }
        for name in plan.written { if let row = plan.rows[name] { put(name, row) } }
    }

    // MARK: Keys

    func keys(of object: MergeObject) -> [KeyValue] {
        schema.keys(of: object.entity).compactMap { key in
            var parts: [KeyValue.Part] = []
            for attribute in key.attributes {
                guard let part = KeyValue.Part(object[attribute]) else { return nil }
                parts.append(part)
            }
            return KeyValue(key: key, values: parts)
        }
    }
}

extension MergeState.KeyValue.Part {
    private static func bits(of number: Double) -> UInt64 {
        number.isNaN ? Double.nan.bitPattern : (number == 0 ? 0 : number.bitPattern)
    }

    /// Nil for null.
    init?(_ value: MergeValue) {
        switch value {
        case .null: return nil
        case .plain(let exported):
            switch exported.value {
            // Texts are compared as Swift compares strings.
            case .string(let text)?: self = .text(text)
            // An index has one key for both zeros, and one for all that are no numbers.
            case .double(let number)?: self = .number(exported.type, Self.bits(of: number))
            case .date(let date)?: self = .number(exported.type, Self.bits(of: date.timeIntervalSinceReferenceDate))
            default: self = .other(value)
            }
        case .object, .ordered, .objects: self = .other(value)
        }
    }
}

/// A part of a transaction that could not be applied.
package struct MergeLoss: Hashable, Sendable {
    package enum Reason: Hashable, Sendable {
        /// The object was deleted, or its insertion was left out.
        case objectIsGone
        /// Another object has the unique values.
        case keyTaken
        /// The attributes refer to objects that are gone, or would be null although they are required.
        case referenceIsGone
        /// Another object refers to the object, and must not lose the reference.
        case stillReferred
        /// A transaction that its writer did not know has written the attribute, too.
        case overwritten
    }

    package var object: GroupObject
    package var reason: Reason
    /// Empty for the whole change.
    package var attributes: [String]

    package init(object: GroupObject, reason: Reason, attributes: [String]) {
        (self.object, self.reason, self.attributes) = (object, reason, attributes)
    }
}
