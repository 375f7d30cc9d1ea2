// The renames of a store's attributes, from `.renamed(from:)` in types: alone, in chains and in rings.
//
// A ring exchanges names: all of them are in the store before and after. So a store notes a ring in the transaction
// that renames, or in the one that adds the entity, which then needs no ring.

/// The former names of the properties of one type.
struct DeclaredRenames {
    struct Rename: Hashable {
        let from: String
        let to: String
    }

    /// Renames that a store has still to do. They are simultaneous: in a chain, a name becomes free when another
    /// attribute takes its new one.
    private(set) var renames: [Rename] = []
    /// The rings in it, under the keys by which a store notes them.
    private(set) var rings: [String: [Rename]] = [:]

    /// - Parameters:
    ///   - present: The names of the attributes in the store.
    ///   - wasNamed: Whether the attribute that has the first name now ever had the second.
    init(_ model: EntityModel, present: [String], wasNamed: (String, String) -> Bool) {
        func isPresent(_ name: String) -> Bool { present.contains { isSameName($0, name) } }
        var found: [Rename] = []
        for property in model.properties {
            let name = property.name
            let former = property.formerNames.first { former in
                isPresent(former) && !isSameName(former, name) && !found.contains { isSameName($0.from, former) }
            }
            guard let former, !isPresent(name) || !wasNamed(name, former) else { continue }
            found.append(Rename(from: former, to: name))
        }
        self.init(found, model.name, present: Set(found.map(\.to).filter(isPresent)))
    }

    /// - Parameter present: Which of the new names are attributes in the store.
    private init(_ candidates: [Rename], _ model: String, present: Set<String>) {
        var found = candidates
        // A name that is taken must become free.
        while let stuck = found.firstIndex(where: { rename in
            present.contains(rename.to) && !found.contains { isSameName($0.from, rename.to) }
        }) {
            found.remove(at: stuck)
        }
        var left = found
        while let last = left.first(where: { rename in !left.contains { isSameName($0.from, rename.to) } }) {
            left.removeAll { $0 == last }
        }
        while let first = left.first {
            var ring: [Rename] = []
            var next: Rename? = first
            while let rename = next {
                ring.append(rename)
                left.removeAll { $0 == rename }
                next = left.first { isSameName($0.from, rename.to) }
            }
            let names = ring.map { "\($0.from) \($0.to)" }.inOrder()
            rings["\(model): \(names.joined(separator: ", "))"] = ring
        }
        renames = found
    }

    /// Without rings that the store has noted.
    mutating func leaveOut(_ noted: Set<String>) {
        for (key, ring) in rings where noted.contains(key) {
            rings[key] = nil
            renames.removeAll { ring.contains($0) }
        }
    }

    /// The name that an attribute has afterwards.
    func newName(of name: String) -> String { renames.first { isSameName($0.from, name) }?.to ?? name }
}

extension EntityDeclaration {
    /// The keys of all rings, under which stores note them.
    var rings: Set<String> {
        var keys: Set<String> = []
        for model in models where model.properties.contains(where: { !$0.formerNames.isEmpty }) {
            let renames = DeclaredRenames(model, present: model.properties.map(\.name)) { (_, _) in false }
            keys.formUnion(renames.rings.keys)
        }
        return keys
    }
}

extension SchemaCatalog {
    /// Whether an attribute of the newest version ever had another name.
    func wasAttribute(_ name: String, ofEntity entity: UInt16, everNamed other: String) -> Bool {
        let definitions = definitions(ofEntity: entity)
        guard let last = definitions.last, let position = last.position(of: name) else { return false }
        let number = last.attributes[position].number
        return definitions.contains { definition in
            definition.position(of: other).map { definition.attributes[$0].number == number } ?? false
        }
    }
}
