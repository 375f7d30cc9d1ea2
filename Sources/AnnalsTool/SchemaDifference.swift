// Compares a schema in a file with that of a store: the changes that make the store's like the file's.

internal import Annals

struct SchemaDifference {
    private(set) var changes: [SchemaChange] = []
    private let prunes: Bool
    private var present: [EntityDescription]

    /// Throws a failure for changes that are not possible. It names the entity, the attribute and the remedy.
    init(_ file: SchemaFile, to present: [EntityDescription], prunes: Bool) throws {
        self.present = present
        self.prunes = prunes
        for entity in file.entities { try rename(entity) }
        // References first lose their targets.
        if prunes { for entity in file.entities { removeParts(of: entity) } }
        if prunes { removeEntities(except: file) }
        for entity in file.entities { try add(entity) }
    }

    private func index(of name: String) -> Int? { present.firstIndex { $0.name.hasSameBytes(as: name) } }

    private mutating func forEachAttribute(_ body: (inout AttributeDescription) -> Void) {
        for place in present.indices {
            for position in present[place].attributes.indices { body(&present[place].attributes[position]) }
        }
    }

    private mutating func rename(_ entity: SchemaFile.Entity) throws {
        let name = entity.description.name
        if index(of: name) == nil, let former = entity.formerName, let index = index(of: former) {
            changes.append(.renameEntity(former, to: name))
            present[index].name = name
            forEachAttribute { if $0.target?.hasSameBytes(as: former) == true { $0.target = name } }
        }
        guard let index = index(of: name) else { return }
        try requireNoExchange(entity, present[index])
        // Some names become free only when another attribute has been renamed.
        while let (former, new) = nextRename(entity, present[index]),
            let position = present[index].attributes.firstIndex(where: { $0.name.hasSameBytes(as: former) })
        {
            changes.append(.renameAttribute(former, of: name, to: new))
            present[index].attributes[position].name = new
            forEachAttribute { attribute in
                guard attribute.inverse?.hasSameBytes(as: former) == true,
                    attribute.target?.hasSameBytes(as: name) == true
                else { return }
                attribute.inverse = new
            }
            for place in present[index].keys.indices {
                let names = present[index].keys[place].attributes
                present[index].keys[place].attributes = names.map { $0.hasSameBytes(as: former) ? new : $0 }
            }
        }
    }

    /// An attribute that the store has under its former name, and not under its new one.
    private func nextRename(_ entity: SchemaFile.Entity, _ there: EntityDescription) -> (former: String, new: String)? {
        for attribute in entity.description.attributes where there[attribute.name] == nil {
            if let former = entity.formerNames[attribute.name], there[former] != nil { return (former, attribute.name) }
        }
        return nil
    }

    /// Throws if attributes take their names from each other in a ring, because the store does not record whether they
    /// were exchanged before.
    private func requireNoExchange(_ entity: SchemaFile.Entity, _ there: EntityDescription) throws {
        for attribute in entity.description.attributes {
            var (name, seen) = (attribute.name, Set<String>())
            while let former = entity.formerNames[name], there[former] != nil, there[name] != nil {
                guard seen.insert(name).inserted else { break }
                name = former
                if name.hasSameBytes(as: attribute.name) {
                    throw ToolFailure(
                        "“\(name)” and other attributes of “\(entity.description.name)” take their names from each "
                            + "other (“renamedFrom”), and all of these names exist, so it is unknown whether they were "
                            + "exchanged before. Use two files: one that renames “\(name)” to a new name, and one that "
                            + "gives the attributes their final names.")
                }
            }
        }
    }

    private mutating func removeParts(of entity: SchemaFile.Entity) {
        let declared = entity.description
        guard let index = index(of: declared.name) else { return }
        func isKept(_ key: IndexDescription) -> Bool { declared.keys.contains { $0.attributes == key.attributes } }
        let there = present[index]
        changes += there.keys.filter { !isKept($0) }.map { .removeKey($0, from: declared.name) }
        present[index].keys.removeAll { !isKept($0) }
        let gone = there.attributes.map(\.name).filter { declared[$0] == nil }
        changes += gone.map { .removeAttribute($0, from: declared.name) }
        present[index].attributes.removeAll { declared[$0.name] == nil }
    }

    /// An entity that another one refers to is removed after that one.
    private mutating func removeEntities(except file: SchemaFile) {
        func isKept(_ entity: EntityDescription) -> Bool {
            file.entities.contains { $0.description.name.hasSameBytes(as: entity.name) }
        }
        var doomed = present.filter { !isKept($0) }
        present.removeAll { !isKept($0) }
        while !doomed.isEmpty {
            let free = doomed.firstIndex { entity in
                !doomed.contains { other in
                    other.name != entity.name && other.attributes.contains { $0.target == entity.name }
                }
            }
            let next = doomed.remove(at: free ?? 0)
            // Entities that refer to each other in a circle: the references are removed first.
            for index in doomed.indices where free == nil {
                let other = doomed[index]
                let gone = other.attributes.filter { $0.target == next.name }.map(\.name)
                for attribute in gone {
                    for key in other.keys where key.attributes.contains(attribute) {
                        changes.append(.removeKey(key, from: other.name))
                    }
                    changes.append(.removeAttribute(attribute, from: other.name))
                }
                doomed[index].attributes.removeAll { gone.contains($0.name) }
                doomed[index].keys.removeAll { key in key.attributes.contains { gone.contains($0) } }
            }
            changes.append(.removeEntity(next.name))
        }
    }

    private mutating func add(_ entity: SchemaFile.Entity) throws {
        let declared = entity.description
        guard let index = index(of: declared.name) else {
            changes.append(.addEntity(declared))
            return
        }
        let there = present[index]
        if declared.history != there.history { changes.append(.changeEntity(declared.name, history: declared.history)) }
        for attribute in declared.attributes {
            if let known = there[attribute.name] {
                try change(known, to: attribute, of: declared.name)
            } else {
                changes.append(.addAttribute(attribute, to: declared.name))
            }
        }
        for key in declared.keys {
            let known = there.keys.first { $0.attributes == key.attributes }
            if known?.isUnique == key.isUnique { continue }
            if let known { changes.append(.removeKey(known, from: declared.name)) }
            changes.append(.addKey(key, to: declared.name))
        }
    }

    private mutating func change(
        _ there: AttributeDescription, to declared: AttributeDescription, of entity: String
    ) throws {
        let another = "give the new attribute another name, and copy the values"
        func require(_ isPossible: Bool, _ obstacle: @autoclosure () -> String) throws {
            guard !isPossible else { return }
            throw ToolFailure("“\(declared.name)” of “\(entity)” \(obstacle())")
        }
        try require(
            there.type == declared.type,
            "has the type \(there.type.rawValue), but the type \(declared.type.rawValue) in the file. Types do not "
                + "change: \(another).")
        try require(
            !there.isOptional || declared.isOptional,
            "is optional, but required in the file. Objects may have null: keep it optional, or \(another).")
        try require(
            (there.defaultValue ?? .null) == (declared.defaultValue ?? .null),
            "has another default in the file. Defaults do not change: \(another).")
        try require(
            there.target == declared.target,
            "refers to \(name(there.target)), but to \(name(declared.target)) in the file. Targets do not change: "
                + "\(another).")
        try require(
            there.inverse == nil || declared.inverse != nil,
            "has the inverse “\(there.inverse ?? "")”, but no inverse in the file. An inverse cannot be removed: name "
                + "it in the file.")
        func changed<Part: Equatable>(_ part: KeyPath<AttributeDescription, Part>) -> Part? {
            there[keyPath: part] == declared[keyPath: part] ? nil : declared[keyPath: part]
        }
        guard there != declared else { return }
        changes.append(
            .changeAttribute(
                declared.name, of: entity, isOptional: changed(\.isOptional), isIndexed: changed(\.isIndexed),
                isUnique: changed(\.isUnique), isPreservedOnDeletion: changed(\.isPreservedOnDeletion),
                inverse: changed(\.inverse) ?? nil, whenTargetIsDeleted: changed(\.whenTargetIsDeleted)))
    }

    private func name(_ target: String?) -> String { target.map { "“\($0)”" } ?? "any entity" }

    var lines: [String] { changes.flatMap(Self.lines) }

    private static func lines(_ change: SchemaChange) -> [String] {
        switch change {
        case .addEntity(let entity):
            return ["add entity \(entity.name)" + (entity.history == .off ? ": history off" : "")]
                + SchemaCommand.lines(entity)
        case .removeEntity(let name): return ["remove entity \(name), and hide its objects"]
        case .renameEntity(let name, let newName): return ["rename entity \(name) to \(newName)"]
        case .changeEntity(let name, let history):
            return ["\(name): history \(history.rawValue)" + (history == .off ? ", and remove its history" : "")]
        case .addAttribute(let attribute, let entity):
            return ["\(entity): add \(attribute.name): " + SchemaCommand.words(attribute).joined(separator: ", ")]
        case .removeAttribute(let name, let entity): return ["\(entity): remove \(name), and hide its values"]
        case .renameAttribute(let name, let entity, let newName): return ["\(entity): rename \(name) to \(newName)"]
        case .replaceAttribute(let name, let entity, let other): return ["\(entity): replace \(name) by \(other.name)"]
        case .changeAttribute(
            let name, let entity, let optional, let indexed, let unique, let kept, let inverse, let rule):
            var words: [String] = []
            if let optional { words.append(optional ? "optional" : "required") }
            if let indexed { words.append(indexed ? "indexed" : "not indexed") }
            if let unique { words.append(unique ? "unique" : "not unique") }
            if let kept { words.append(kept ? "preserved on deletion" : "not preserved on deletion") }
            if let inverse { words.append("inverse \(inverse)") }
            if let rule { words.append("delete rule \(rule.rawValue)") }
            return ["\(entity): \(name) becomes " + words.joined(separator: ", ")]
        case .addKey(let key, let entity):
            let kind = key.isUnique ? "unique key" : "key"
            return ["\(entity): add \(kind) on " + key.attributes.joined(separator: ", ")]
        case .removeKey(let key, let entity):
            return ["\(entity): remove the key on " + key.attributes.joined(separator: ", ")]
        }
    }
}
