// Recreates a store from a dump of all its objects: `annals load STORE FILE` without `--entity`.
//
// Invariants:
// TL5  One transaction inserts all objects, or none.
// TL6  Each object has the number that it has in the dump, and each reference leads to the same object.

internal import Annals

final class LoadDump {
    private struct Target {
        let entity: EntityHandle
        let defaults: [Value]
        let positions: [IdentifierName: Int]
        /// By position: the entity that an attribute refers to; nil for any.
        let targets: [String?]
    }

    private let file: String
    private let reader: LineReader
    private var counts = LoadCounts()
    private var targets: [IdentifierName: Target] = [:]
    private var descriptions: [IdentifierName: EntityDescription] = [:]
    /// The names of the dump's entities, by their numbers there.
    private var names: [UInt16: String] = [:]
    private var knowsAllNames = false

    init(_ file: String) throws {
        self.file = file
        reader = try LineReader(file)
    }

    func load(into path: String, author: String, context: String?) throws -> LoadCounts {
        guard var line = try reader.nextObject(wrong) else {
            throw LoadCommand.command.refusal(
                "\(reader.name) has no lines, so it is no dump: give the entity of the objects with “--entity”.")
        }
        var schema: SchemaFile?
        if line.count == 1, line[0].name == DumpCommand.schemaMember, case .structure(let text) = line[0].value {
            schema = try SchemaFile(Array(text.utf8))
            line = []
        } else {
            _ = try identity(of: line)
        }
        let store = try StoreAccess.open(path, .readWrite, creates: true)
        let progress = Progress("objects")
        try StoreAccess.change(store) {
            // TL5.
            let token = try store.write(author: author, contextName: context) { transaction in
                try prepare(transaction, schema)
                if !line.isEmpty { try add(line, to: transaction) }
                while let line = try reader.nextObject(wrong) {
                    try add(line, to: transaction)
                    progress.show(counts.inserted, part: reader.part)
                }
            }.token
            if token != nil { counts.transactions = 1 }
            counts.token = try store.currentToken
        }
        return counts
    }

    private func prepare(_ transaction: Transaction, _ schema: SchemaFile?) throws {
        let present = try transaction.snapshot.entities
        if let schema {
            let changes = try SchemaDifference(schema, to: present, prunes: false).changes
            if !changes.isEmpty { try transaction.changeSchema(changes) }
        }
        for description in present + (schema?.entities ?? []).map(\.description) {
            descriptions[IdentifierName(description.name)] = description
        }
    }

    private func wrong(_ reason: String) -> ToolFailure {
        ToolFailure("Line \(reader.number) of \(reader.name) is wrong: \(reason). Nothing was written.")
    }

    private func identity(of line: [JSONMember]) throws -> (entity: String, object: ObjectID) {
        func text(_ name: String) -> String? { line.first { $0.name == name }?.value.text }
        guard let entity = text("_entity"), let object = text("_id").flatMap({ ObjectID($0) }) else {
            throw LoadCommand.command.refusal(
                "Line \(reader.number) of \(reader.name) has no “_entity” and “_id”, so it is no line of a dump: give "
                    + "the entity of the objects with “--entity”.")
        }
        return (entity, object)
    }

    private func add(_ line: [JSONMember], to transaction: Transaction) throws {
        let (name, id) = try identity(of: line)
        if names.updateValue(name, forKey: id.entityNumber).map({ !$0.hasSameBytes(as: name) }) ?? false {
            throw wrong("“\(name)” and another entity have IDs that begin with \(id.entityNumber)")
        }
        do {
            let target = try target(name, transaction)
            var values = target.defaults
            for member in line {
                guard let attribute = MemberNames.loaded(member.name) else { continue }
                let position = try target.positions[IdentifierName(attribute)].orThrow(
                    wrong("“\(name)” has no attribute “\(attribute)”: dump with --schema, or add it"))
                let type = target.entity.types[position]
                let value = try ValueConversion.value(member.value, as: type).orThrow(
                    wrong("“\(attribute)” has the type \(type), but the value does not"))
                values[position] = try translated(value, target.targets[position], transaction)
            }
            let object = try transaction.reserveID(of: target.entity, number: id.number)
            try transaction.insert(target.entity, values, as: object)
            counts.inserted += 1
        } catch let error as StoreError {
            throw wrong(error.reason)
        }
    }

    private func target(_ name: String, _ transaction: Transaction) throws -> Target {
        if let target = targets[IdentifierName(name)] { return target }
        let entity = try transaction.entity(name)
        let attributes = entity.attributes.map { descriptions[IdentifierName(name)]?[$0] }
        let target = Target(
            entity: entity, defaults: attributes.map { $0?.defaultValue ?? .null },
            positions: Dictionary(entity.attributes.enumerated().map { (IdentifierName($1), $0) }) { $1 },
            targets: attributes.map { $0?.target })
        targets[IdentifierName(name)] = target
        return target
    }

    /// The value with the IDs of this store: TL6.
    private func translated(_ value: Value, _ target: String?, _ transaction: Transaction) throws -> Value {
        func translated(_ object: ObjectID) throws -> ObjectID {
            let name = try target ?? name(of: object)
            return ObjectID(entityNumber: try transaction.entity(name).number, number: object.number) ?? object
        }
        return switch value {
        case .object(let object): .object(try translated(object))
        case .objects(let objects): .objects(try objects.map(translated))
        case .orderedObjects(let objects): .orderedObjects(try objects.map(translated))
        default: value
        }
    }

    /// The name of an object's entity. Its lines may come later.
    private func name(of object: ObjectID) throws -> String {
        if names[object.entityNumber] == nil, reader.isRegularFile, !knowsAllNames {
            knowsAllNames = true
            let ahead = try LineReader(file)
            while let line = try ahead.nextObject(wrong) {
                guard let (name, id) = try? identity(of: line) else { continue }
                names[id.entityNumber] = name
            }
        }
        return try names[object.entityNumber].orThrow(
            wrong(
                "it refers to \(object), and no line before it has an object of that entity"
                    + (reader.isRegularFile ? "" : ": load from a file")))
    }
}
