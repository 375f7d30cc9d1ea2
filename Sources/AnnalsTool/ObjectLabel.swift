// Labels of objects: the first unique text of an object, by which people know it.

internal import Annals

struct Labels {
    private static let longest = 40
    private let snapshot: Snapshot
    private let known: [UInt16: (entity: EntityHandle, position: Int)]

    init(_ snapshot: Snapshot) throws {
        self.snapshot = snapshot
        var known: [UInt16: (EntityHandle, Int)] = [:]
        for description in try snapshot.entities {
            let entity = try snapshot.entity(description.name)
            if let position = entity.labelPosition(description) { known[entity.number] = (entity, position) }
        }
        self.known = known
    }

    /// Such as `swift (1:12)`, or the ID alone without a label. `row` has the object's values at another time.
    func text(_ object: ObjectID, _ row: Row? = nil) -> String {
        guard let label = label(object, row) else { return object.description }
        return "\(Terminal.cut(label, to: Self.longest)) (\(object))"
    }

    func label(_ object: ObjectID, _ row: Row? = nil) -> String? {
        guard let (entity, position) = known[object.entityNumber] else { return nil }
        var label = row?[entity.attributes[position]]?.string
        if row == nil {
            // An object that cannot be read has no label.
            _ = try? snapshot.withRow(object, in: entity) { (row) throws(StoreError) in
                label = try row.value(at: position).string
            }
        }
        return label
    }

    /// A value as people read it: references by labels.
    func text(_ value: Value) -> String {
        switch value {
        case .object(let object): text(object)
        case .objects(let objects), .orderedObjects(let objects):
            "[" + objects.map { text($0) }.joined(separator: ", ") + "]"
        default: ValueConversion.text(value)
        }
    }
}

extension EntityHandle {
    /// The sentence for an attribute that does not exist.
    func lacks(_ attribute: some StringProtocol) -> String {
        "“\(name)” has no attribute “\(attribute)”: it has \(attributes.joined(separator: ", "))."
    }

    fileprivate func labelPosition(_ description: EntityDescription) -> Int? {
        description.attributes.first { $0.isUnique && $0.type == .string }.flatMap { position(of: $0.name) }
    }

    /// The object that a text of the command line names: by its ID, only its number, or its label.
    func object(_ text: String, in snapshot: Snapshot) throws -> ObjectID {
        let position = try snapshot.entities.first { $0.name.hasSameBytes(as: name) }.flatMap(labelPosition)
        if let object = try named(text, position, in: snapshot) { return object }
        guard let position else {
            throw ToolFailure(
                .usage, "“\(text)” is not an object ID: an ID looks like “\(number):42”, or “42” for short.")
        }
        throw ToolFailure(
            "“\(name)” has no object whose \(attributes[position]) is “\(text)”. An ID looks like “\(number):42”.")
    }

    /// The same if the object exists in the state. Nil if it does not, or nothing has that name.
    func existing(_ text: String, in snapshot: Snapshot) throws -> ObjectID? {
        let position = try snapshot.entities.first { $0.name.hasSameBytes(as: name) }.flatMap(labelPosition)
        return try named(text, position, in: snapshot).flatMap { try snapshot.row($0) == nil ? nil : $0 }
    }

    private func named(_ text: String, _ position: Int?, in snapshot: Snapshot) throws -> ObjectID? {
        let labelled = try position.flatMap { try self.labelled(text, $0, in: snapshot) }
        let identified = try identified(text)
        if let one = identified, let other = labelled, one != other, try snapshot.row(one) != nil {
            throw ToolFailure("“\(text)” is the ID of \(one) and the label of \(other): use \(one) or \(other).")
        }
        return labelled ?? identified
    }

    private func identified(_ text: String) throws(ToolFailure) -> ObjectID? {
        guard let object = ObjectID(text) else {
            guard text.utf8.allSatisfy(\.isDigit), let number = UInt64(text) else { return nil }
            return ObjectID(entityNumber: self.number, number: number)
        }
        guard object.entityNumber == number else {
            throw ToolFailure(
                .usage, "The object \(object) is not an object of “\(name)”, whose IDs begin with \(number).")
        }
        return object
    }

    private func labelled(_ text: String, _ position: Int, in snapshot: Snapshot) throws -> ObjectID? {
        try snapshot.objects(of: self, where: attributes[position], equals: .string(text)).first
    }

    /// The object of any entity that an ID or a label names.
    static func object(_ text: String, in snapshot: Snapshot) throws -> ObjectID {
        if let object = ObjectID(text) { return object }
        let found = try snapshot.entities.compactMap { description in
            let entity = try snapshot.entity(description.name)
            return try entity.labelPosition(description).flatMap { try entity.labelled(text, $0, in: snapshot) }
        }
        guard let object = found.first, found.count == 1 else {
            throw ToolFailure(
                found.isEmpty ? .usage : .failed,
                found.isEmpty
                    ? "No object has the label “\(text)”, and it is not an ID, such as “1:42”."
                    : "Several objects have the label “\(text)”: \(found.map(\.description).joined(separator: ", ")).")
        }
        return object
    }
}
