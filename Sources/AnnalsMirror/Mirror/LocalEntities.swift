// Entities that stay in their store: the group gets nothing of them.
//
// Invariants:
// MO1  Nothing of a local entity leaves the store, in a transaction or in a state, and nothing of one comes in.
// MO2  No relation leads from a local entity to a mirrored one, or back. So what the group has is the same whether a
//      store has local entities or not.
// MO3  An entity becomes local while the group has no objects of it, and stays local, also if it is renamed or removed,
//      and another one gets its name.

internal import Annals

package struct LocalEntities: Equatable, Sendable, Codable {
    private struct Entity: Equatable, Sendable, Codable {
        /// The one by which it was chosen.
        var name: String
        /// Nil while the store has no such entity. Numbers never change.
        var number: UInt16?
    }

    private var entities: [Entity] = []

    package init() {}

    var isEmpty: Bool { entities.isEmpty }

    /// The names by which they were chosen.
    var names: [String] { entities.map(\.name) }

    var numbers: Set<UInt16> { Set(entities.compactMap(\.number)) }

    /// The name by which an entity was chosen.
    func name(of number: UInt16) -> String? { entities.first { $0.number == number }?.name }

    /// Whether an entity was chosen by this name.
    func hasName(_ name: String) -> Bool { entities.contains { $0.name.utf8.elementsEqual(name.utf8) } }

    mutating func add(_ name: String, _ number: UInt16?) {
        let isKnown = entities.contains { $0.number == number && $0.name.utf8.elementsEqual(name.utf8) }
        if !isKnown { entities.append(Entity(name: name, number: number)) }
    }

    /// Finds the entities that have come to exist.
    mutating func find(in snapshot: Snapshot) throws {
        guard entities.contains(where: { $0.number == nil }) else { return }
        let present = try ExchangeView(snapshot).schema().presentNames
        for index in entities.indices where entities[index].number == nil {
            entities[index].number = try snapshot.number(ofEntity: present.entity(entities[index].name))
        }
    }
}

extension Snapshot {
    /// Nil if there is no such entity.
    func number(ofEntity name: String) throws -> UInt16? {
        try entities.contains { $0.name.utf8.elementsEqual(name.utf8) } ? try entity(name).number : nil
    }
}

/// The names that lead to local entities in a state.
struct LocalNames {
    static let none = LocalNames(names: [], present: PresentNames())

    private let names: [String]
    private let present: PresentNames

    private init(names: [String], present: PresentNames) { (self.names, self.present) = (names, present) }

    init(_ local: LocalEntities, in snapshot: Snapshot) throws {
        let numbers = local.numbers
        let found = try snapshot.entities.map(\.name).filter { numbers.contains(try snapshot.entity($0).number) }
        // Those that do not exist yet keep the name by which they were chosen.
        let missing = try local.names.filter { try snapshot.number(ofEntity: $0) == nil }
        self.init(names: found + missing, present: try ExchangeView(snapshot).schema().presentNames)
    }

    /// - Parameter entity: A present name, or a former one, also as another store uses it.
    func contains(_ entity: String) -> Bool {
        if names.isEmpty { return false }
        let entity = present.entity(entity)
        return names.contains { $0.utf8.elementsEqual(entity.utf8) }
    }

    /// A transaction of another store, without the local entities in its schema. Throws `groupConflict` for a change of
    /// one.
    func admitted(_ transaction: ExportedTransaction) throws(StoreError) -> ExportedTransaction {
        if names.isEmpty { return transaction }
        for change in transaction.changes { try requireMirrored(change.entity) }
        return transaction.with(
            schema: transaction.schema?.filter { !contains($0.name) },
            renames: transaction.renames.filter { !contains($0.entity) && !contains($0.name) })
    }

    /// The same for a part of a state.
    func admitted(_ part: ExportedStatePart) throws(StoreError) -> ExportedStatePart {
        switch part {
        case .beginning(let beginning): return .beginning(try admitted(beginning))
        case .stretches(let stretches): for stretch in stretches { try requireMirrored(stretch.entity) }
        // Objects and further names have a stretch.
        case .objects, .aliases, .end: break
        }
        return part
    }

    private func requireMirrored(_ entity: String) throws(StoreError) {
        guard contains(entity) else { return }
        throw StoreError(
            .groupConflict,
            "The group has objects of “\(entity)”, which is a local entity of this store: make it local in all stores "
                + "of the group, or join with a new store in which it is not local.")
    }

    /// MO2. Throws `invalidArgument`.
    func requireSeparate(_ entities: [EntityDescription]) throws(StoreError) {
        if names.isEmpty { return }
        for entity in entities {
            let isLocal = contains(entity.name)
            for attribute in entity.attributes where attribute.type.isReference {
                guard let target = attribute.target else {
                    throw StoreError(
                        .invalidArgument,
                        "“\(attribute.name)” of “\(entity.name)” may refer to objects of any entity, so the mirror "
                            + "cannot keep entities local: give the attribute a target.")
                }
                guard contains(target) != isLocal else { continue }
                throw StoreError(
                    .invalidArgument,
                    "“\(attribute.name)” leads from “\(entity.name)” to “\(target)”, and one of them is local: make "
                        + "both local, or none.")
            }
        }
    }
}

extension ExportedTransaction {
    fileprivate func with(schema: [EntityDescription]?, renames: [ExportedRename]) -> ExportedTransaction {
        ExportedTransaction(
            token: token, previous: previous, microseconds: microseconds, author: author, contextName: contextName,
            origin: origin, originPrevious: originPrevious, holds: holds, schema: schema, renames: renames,
            changes: changes)
    }
}
