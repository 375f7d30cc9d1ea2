// Reads the JSON form of a schema, which `annals schema --format json` prints and `--apply` takes.

internal import Annals

struct SchemaFile {
    /// An entity, with the former names of itself and its attributes.
    struct Entity {
        var description: EntityDescription
        var formerName: String?
        var formerNames: [String: String] = [:]
    }

    var entities: [Entity] = []

    init(_ bytes: [UInt8]) throws {
        let file = try SchemaObject(bytes, "The file", ["version", "entities"])
        guard file["entities"] != nil else { throw file.wrong("has no member “entities”: add it") }
        for (number, text) in try file.objects("entities").enumerated() {
            let entity = try Self.entity(text, "Entity \(number + 1)")
            if entities.contains(where: { $0.description.name.isExactly(entity.description.name) }) {
                throw SchemaObject.wrong("“\(entity.description.name)”", "exists twice: remove one")
            }
            entities.append(entity)
        }
    }

    private static func entity(_ text: [UInt8], _ title: String) throws -> Entity {
        var object = try SchemaObject(text, title, ["name", "history", "attributes", "keys", "renamedFrom"])
        let name = try object.requiredText("name")
        object.title = "“\(name)”"
        var entity = Entity(description: EntityDescription(name, attributes: []))
        if object["history"] != nil {
            entity.description.history = try object.choice(
                "history", "has a “history” that is neither \"full\" nor \"off\"")
        }
        entity.formerName = try object.text("renamedFrom")
        for (number, text) in try object.objects("attributes").enumerated() {
            let (attribute, former) = try self.attribute(text, "Attribute \(number + 1) of \(object.title)", of: name)
            if entity.description[attribute.name] != nil {
                throw SchemaObject.wrong("“\(attribute.name)” of \(object.title)", "exists twice: remove one")
            }
            entity.description.attributes.append(attribute)
            entity.formerNames[attribute.name] = former
        }
        for (number, text) in try object.objects("keys").enumerated() {
            entity.description.keys.append(try key(text, "Key \(number + 1) of \(object.title)"))
        }
        return entity
    }

    private static func attribute(
        _ text: [UInt8], _ title: String, of entity: String
    ) throws -> (AttributeDescription, formerName: String?) {
        var object = try SchemaObject(
            text, title,
            [
                "name", "type", "optional", "indexed", "unique", "preservedOnDeletion", "default", "target", "inverse",
                "deleteRule", "renamedFrom",
            ])
        let name = try object.requiredText("name")
        object.title = "“\(name)” of “\(entity)”"
        let types = AttributeType.allCases.map(\.rawValue).joined(separator: ", ")
        let type: AttributeType = try object.choice("type", "needs a “type” that is one of " + types)
        var attribute = AttributeDescription(name, type)
        attribute.isOptional = try object.flag("optional") ?? true
        attribute.isIndexed = try object.flag("indexed") ?? false
        attribute.isUnique = try object.flag("unique") ?? false
        attribute.isPreservedOnDeletion = try object.flag("preservedOnDeletion") ?? false
        if let json = object["default"] {
            guard let value = ValueConversion.value(json, as: type) else {
                throw object.wrong("has a “default” that is not of the type \(type.rawValue)")
            }
            attribute.defaultValue = value
        }
        attribute.target = try object.text("target")
        attribute.inverse = try object.text("inverse")
        if object["deleteRule"] != nil {
            let rules = DeleteRule.allCases.map(\.rawValue).joined(separator: ", ")
            attribute.whenTargetIsDeleted = try object.choice(
                "deleteRule", "has a “deleteRule” that is not one of " + rules)
        }
        return (attribute, try object.text("renamedFrom"))
    }

    private static func key(_ text: [UInt8], _ title: String) throws -> IndexDescription {
        let object = try SchemaObject(text, title, ["attributes", "unique"])
        guard case .structure(let list)? = object["attributes"], let elements = try? JSONReader.elements(list) else {
            throw object.wrong("needs a member “attributes”, which is a list of names")
        }
        let names = try elements.map { try object.text($0, "attributes") }
        return IndexDescription(names, isUnique: try object.flag("unique") ?? false)
    }
}

/// An object of the file, all of whose members are known.
private struct SchemaObject {
    /// Its name in failures.
    var title: String
    private var members: [String: JSONValue] = [:]

    init(_ bytes: [UInt8], _ title: String, _ known: [String]) throws {
        self.title = title
        let list: [JSONMember]
        do throws(JSONError) {
            list = try JSONReader.object(bytes)
        } catch { throw wrong("is not a JSON object: \(error.message) (byte \(error.column))") }
        for member in list {
            guard known.contains(where: { $0.isExactly(member.name) }) else {
                throw wrong("has an unknown member “\(member.name)”: known are \(known.joined(separator: ", "))")
            }
            members[member.name] = member.value
        }
    }

    subscript(name: String) -> JSONValue? { members[name] }

    /// Nil if the member is missing, as for the other types.
    func text(_ name: String) throws -> String? { members[name] == nil ? nil : try requiredText(name) }
    func requiredText(_ name: String) throws -> String { try text(members[name], name) }

    func text(_ json: JSONValue?, _ name: String) throws -> String {
        guard case .string(let text)? = json else { throw wrong("needs a member “\(name)”, which is a text") }
        return text
    }

    func flag(_ name: String) throws -> Bool? {
        guard let json = members[name] else { return nil }
        guard case .bool(let flag) = json else { throw wrong("needs true or false for “\(name)”") }
        return flag
    }

    /// One of several texts. Throws if it is another one, or missing.
    func choice<Choice: RawRepresentable<String>>(_ name: String, _ problem: String) throws -> Choice {
        guard case .string(let text)? = members[name], let choice = Choice(rawValue: text) else { throw wrong(problem) }
        return choice
    }

    /// The texts of a list of objects.
    func objects(_ name: String) throws -> [[UInt8]] {
        guard let json = members[name] else { return [] }
        guard case .structure(let list) = json, let elements = try? JSONReader.elements(list) else {
            throw wrong("has a member “\(name)” that is not a list")
        }
        return try elements.map { element in
            guard case .structure(let text) = element else {
                throw wrong("has a member “\(name)” with an element that is not a JSON object")
            }
            return Array(text.utf8)
        }
    }

    func wrong(_ problem: String) -> ToolFailure { Self.wrong(title, problem) }

    static func wrong(_ title: String, _ problem: String) -> ToolFailure {
        ToolFailure(
            .failed, "\(title) \(problem).", hint: "“annals schema STORE --format json” prints the form of the file.")
    }
}
