// Entities that refer to each other under every rule, and what transactions over them come to, in memory.

import Annals

/// A team has a home. Its members belong to it under several rules.
enum ReferenceSample {
    static let entities = [
        EntityDescription("Home", attributes: [AttributeDescription("name", .string)]),
        EntityDescription(
            "Team",
            attributes: [
                AttributeDescription("name", .string),
                AttributeDescription("home", .object, target: "Home", whenTargetIsDeleted: .deny),
                AttributeDescription("parent", .object, target: "Team", whenTargetIsDeleted: .cascade),
                AttributeDescription("rival", .object, target: "Team", whenTargetIsDeleted: .nullify),
            ]),
        EntityDescription(
            "Member",
            attributes: [
                AttributeDescription("name", .string),
                AttributeDescription(
                    "team", .object, isPreservedOnDeletion: true, target: "Team", whenTargetIsDeleted: .cascade),
                AttributeDescription("friends", .objects, target: "Member", whenTargetIsDeleted: .nullify),
                AttributeDescription("visited", .orderedObjects, target: "Home", whenTargetIsDeleted: .nullify),
                AttributeDescription("seen", .object, whenTargetIsDeleted: .noAction),
            ]),
    ]
}

/// What objects refer to, by attribute.
struct ReferenceModel: Equatable {
    struct Attribute: Hashable {
        let entity: String
        let name: String
        let rule: DeleteRule
        let isList: Bool
    }

    static let attributes = ReferenceSample.entities.flatMap { entity in
        entity.attributes.filter { $0.type.isReference }.map {
            Attribute(entity: entity.name, name: $0.name, rule: $0.whenTargetIsDeleted, isList: $0.type != .object)
        }
    }

    /// By object: its entity, and what it refers to in each attribute.
    var objects: [ObjectID: (entity: String, references: [String: [ObjectID]])] = [:]

    static func == (left: ReferenceModel, right: ReferenceModel) -> Bool {
        left.objects.count == right.objects.count
            && left.objects.allSatisfy { object, mine in
                guard let other = right.objects[object], other.entity == mine.entity else { return false }
                return attributes.filter { $0.entity == mine.entity }.allSatisfy {
                    mine.references[$0.name, default: []] == other.references[$0.name, default: []]
                }
            }
    }

    /// Deletes objects as the rules say; false, and nothing changes, if a rule denies it.
    mutating func delete(_ wanted: Set<ObjectID>) -> Bool {
        var gone = wanted
        var isGrowing = true
        while isGrowing {
            isGrowing = false
            forEachReference { (object, attribute, targets) in
                guard attribute.rule == .cascade, !gone.contains(object), !gone.isDisjoint(with: targets) else {
                    return
                }
                gone.insert(object)
                isGrowing = true
            }
        }
        var isDenied = false
        forEachReference { (object, attribute, targets) in
            if attribute.rule == .deny, !gone.contains(object), !gone.isDisjoint(with: targets) { isDenied = true }
        }
        if isDenied { return false }
        for object in gone { objects[object] = nil }
        // Under `noAction` a reference stays in the row and reads as null.
        for object in objects.keys {
            for (name, targets) in objects[object]?.references ?? [:] {
                objects[object]?.references[name] = targets.filter { !gone.contains($0) }
            }
        }
        return true
    }

    private func forEachReference(_ body: (ObjectID, Attribute, [ObjectID]) -> Void) {
        for (object, content) in objects {
            for attribute in Self.attributes where attribute.entity == content.entity {
                body(object, attribute, content.references[attribute.name] ?? [])
            }
        }
    }

    /// What a snapshot shows. Expects both sides of each reference to agree.
    init(_ snapshot: Snapshot) throws {
        for description in ReferenceSample.entities {
            let entity = try snapshot.entity(description.name)
            let mine = Self.attributes.filter { $0.entity == description.name }
            try snapshot.forEachRow(of: entity) { (row) throws(StoreError) in
                var references: [String: [ObjectID]] = [:]
                for attribute in mine {
                    guard let position = entity.position(of: attribute.name) else { continue }
                    switch try row.value(at: position) {
                    case .object(let object): references[attribute.name] = [object]
                    case .objects(let objects), .orderedObjects(let objects): references[attribute.name] = objects
                    default: break
                    }
                }
                objects[row.id] = (description.name, references)
                return true
            }
        }
    }

    init() {}

    /// How often the index of an attribute names objects that refer to one.
    func referring(to target: ObjectID, _ attribute: Attribute) -> Set<ObjectID> {
        Set(
            objects.filter {
                $0.value.entity == attribute.entity && $0.value.references[attribute.name, default: []].contains(target)
            }.keys)
    }
}
