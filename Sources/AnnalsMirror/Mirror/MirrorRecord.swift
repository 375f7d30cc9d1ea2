// The state of a mirror as its store keeps it: for its next run, and for other processes that show it.

package import Annals
package import FoundationEssentials

package struct MirrorRecord: Equatable, Sendable, Codable {
    package static let version = 1
    static let mostInstances = 64

    /// An error of the mirror.
    package struct Failure: Equatable, Sendable, Codable {
        package var code: String
        package var message: String

        package init(code: String, message: String) { (self.code, self.message) = (code, message) }
    }

    package struct Remaking: Equatable, Sendable, Codable {
        package var after: UInt64
        package var end: UInt64
    }

    package var version = MirrorRecord.version
    /// A new mirror reads history from here.
    package var floor: MergePlace
    /// The place with which the store began in the group: the beginning of its history, or a state of another store.
    package var first: MergePlace
    /// Whether the store is in the group: it has founded it, or knows what it lacked.
    var isAdmitted = false
    /// Own transactions have numbers in the group's order above this one.
    package var lowest: UInt64
    /// The store's own transactions from before it took a state, which are to be made again: after the first number,
    /// up to the second.
    var remaking: Remaking?
    /// Nil for none.
    private var localEntities: LocalEntities?
    /// The place in the courier to read on from.
    package var place: String?
    package var members: [UUID: MirrorMembers.Member] = [:]
    /// The last transactions of other stores that were merged.
    package var merged = VersionVector()
    /// The numbers of its last mirrors: messages of them may come late.
    package var instances: [UInt64] = []
    /// The facts by which the store is distinguished from its copies.
    package var mark: StoreMark?
    /// The store has left its group, or was declared lost: it takes part no more.
    package var hasLeft = false
    package var published: UInt64 = 0
    package var conflicts = 0
    /// Nil if none is parked.
    var parked: [ParkedTransaction]?
    package var error: Failure?

    package init(first: MergePlace, lowest: UInt64 = 0) {
        (self.first, floor, self.lowest) = (first, first, lowest)
    }

    /// Nil if the store was never mirrored. Throws `unsupportedVersion` for the record of a later version.
    package static func load(_ store: Store) throws -> MirrorRecord? {
        guard let record = try store.mergeState() else { return nil }
        return try MirrorRecord(record)
    }
}

extension MirrorRecord {
    package var local: LocalEntities {
        get { localEntities ?? LocalEntities() }
        set { localEntities = newValue.isEmpty ? nil : newValue }
    }

    /// MO3. Throws `groupConflict`.
    mutating func setLocalEntities(_ names: [String], in store: Store) throws {
        let snapshot = try store.snapshot()
        let wanted = try names.map { (name: $0, number: try snapshot.number(ofEntity: $0)) }
        var next = isAdmitted ? local : LocalEntities()
        if isAdmitted {
            for (name, number) in try existing(in: snapshot) where !wanted.contains(where: { $0.number == number }) {
                // A command line may still have the name from before a renaming.
                if local.name(of: number).map({ chosen in names.contains { $0.utf8.elementsEqual(chosen.utf8) } })
                    == true
                {
                    continue
                }
                throw StoreError(
                    .groupConflict,
                    "“\(name)” was a local entity until now, so the group lacks its objects: keep it local, or join "
                        + "with a new store.", path: store.path)
            }
        }
        for (name, number) in wanted {
            // Its own entity may have been renamed, or removed.
            if number == nil, next.hasName(name) { continue }
            if let number, isAdmitted, !next.numbers.contains(number), try mayBePublished(number, of: store, snapshot) {
                throw StoreError(
                    .groupConflict,
                    "“\(name)” cannot become a local entity, because the group has objects of it, or may have: delete "
                        + "them, and try again when all stores have confirmed that, or join with a new store.",
                    path: store.path)
            }
            if number.map({ !next.numbers.contains($0) }) ?? true { next.add(name, number) }
        }
        local = next
    }

    /// The local entities that the store has.
    private func existing(in snapshot: Snapshot) throws -> [(name: String, number: UInt16)] {
        let numbers = local.numbers
        return try snapshot.entities.map { ($0.name, try snapshot.entity($0.name).number) }
            .filter { numbers.contains($0.1) }
    }

    /// Whether the settled state has objects of an entity, or a transaction after it changes any. A mirror that was
    /// killed may have published later ones than it has noted.
    private func mayBePublished(_ entity: UInt16, of store: Store, _ snapshot: Snapshot) throws -> Bool {
        let settled = try store.snapshot(asOf: floor.number)
        let then = try settled.entities.first { try settled.entity($0.name).number == entity }
        if let then, try settled.count(of: then.name) > 0 { return true }
        var isFound = false
        try store.forEachTransaction(after: floor.number, in: snapshot) { (transaction) throws(StoreError) in
            try transaction.forEachChange { (change) throws(StoreError) in
                isFound = change.object.entityNumber == entity
                return !isFound
            }
            return !isFound
        }
        return isFound
    }

    /// The other stores of the group, by identifier.
    func known(_ me: UUID) -> [MirrorMember] {
        members.sorted { VersionVector.isBefore($0.key, $1.key) }.map { peer, member in
            MirrorMember(peer, member, merged: merged[peer], confirmed: member.applied[me])
        }
    }

    /// Whether the group has other members than the record, or others have left.
    func hasOtherGroup(than members: MirrorMembers) -> Bool {
        members.all.count != self.members.count
            || members.all.contains { peer, member in self.members[peer]?.hasLeft != member.hasLeft }
    }

    package init(_ record: MergeRecord) throws(StoreError) {
        struct Version: Decodable { var version: Int }
        let content = Data(record.content ?? [])
        let decoder = JSONDecoder()
        guard let version = try? decoder.decode(Version.self, from: content), version.version == Self.version,
            let decoded = try? decoder.decode(Self.self, from: content)
        else {
            throw StoreError(
                .unsupportedVersion,
                "The store's mirror was of a version that this one does not know: use the newer version.")
        }
        self = decoded
    }

    /// As the store keeps it.
    package func stored() throws(StoreError) -> MergeRecord {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        do {
            return MergeRecord(order: floor.lamport, content: Array(try encoder.encode(self)))
        } catch {
            throw StoreError(.invalidArgument, "The state of the mirror cannot be encoded: \(error)")
        }
    }
}
