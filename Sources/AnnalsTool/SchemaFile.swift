// Reads the JSON form of a schema, which `annals schema --format json` prints and `--apply` takes.

internal import Annals

/// A schema as a file declares it.
struct SchemaFile {
    /// An entity, with the former names of itself and its attributes.
    struct Entity {
        var description: EntityDescription
        var formerName: String?
        /// By attribute.
        var formerNames: [String: String] = [:]
    }

    var entities: [Entity] = []

    /// Throws a failure that names the entity, the attribute and the member.
    init(_ bytes: [UInt8]) throws(ToolFailure) {
        let members = try Self.members(bytes, of: "The file", ["version", "entities"])
        guard let list = members["entities"] else { throw Self.wrong("The file", "has no member “entities”: add it") }
        for (number, element) in try Self.objects(list, "The file", "entities").enumerated() {
            let entity = try Self.entity(element, "Entity \(number + 1)")
            if entities.contains(where: { Self.isSame($0.description.name, entity.description.name) }) {
                throw Self.wrong("“\(entity.description.name)”", "exists twice: remove one")
            }
            entities.append(entity)
        }
    }

    private static func isSame(_ left: String, _ right: String) -> Bool { left.utf8.elementsEqual(right.utf8) }

    // MARK: Parts

    private static func entity(_ text: String, _ place: String) throws(ToolFailure) -> Entity {
        let members = try members(
            Array(text.utf8), of: place, ["name", "history", "attributes", "keys", "renamedFrom"])
        let name = try string(members["name"], place, "name")
        let title = "“\(name)”"
        var entity = Entity(description: EntityDescription(name, attributes: []))
        if let history = members["history"] {
            guard case .string(let text) = history, let policy = HistoryPolicy(rawValue: text) else {
                throw wrong(title, "has a “history” that is neither \"full\" nor \"off\"")
            }
            entity.description.history = policy
        }
        if let former = members["renamedFrom"] { entity.formerName = try string(former, title, "renamedFrom") }
        for (number, element) in try objects(members["attributes"], title, "attributes").enumerated() {
            let (attribute, former) = try self.attribute(element, "Attribute \(number + 1) of \(title)", of: name)
            if entity.description[attribute.name] != nil {
                throw wrong("“\(attribute.name)” of \(title)", "exists twice: remove one")
            }
            entity.description.attributes.append(attribute)
            entity.formerNames[attribute.name] = former
        }
        for (number, element) in try objects(members["keys"], title, "keys").enumerated() {
            entity.description.keys.append(try key(element, "Key \(number + 1) of \(title)"))
        }
        return entity
    }

    private static func attribute(
        _ text: String, _ place: String, of entity: String
    ) throws(ToolFailure) -> (AttributeDescription, formerName: String?) {
        let members = try members(
            Array(text.utf8), of: place,
            [
                "name", "type", "optional", "indexed", "unique", "preservedOnDeletion", "default", "target", "inverse",
                "deleteRule", "renamedFrom",
            ])
        let name = try string(members["name"], place, "name")
        let title = "“\(name)” of “\(entity)”"
        guard case .string(let typeName)? = members["type"], let type = AttributeType(rawValue: typeName) else {
            throw wrong(
                title,
                "needs a “type” that is one of " + AttributeType.allCases.map(\.rawValue).joined(separator: ", "))
        }
        var attribute = AttributeDescription(name, type)
        attribute.isOptional = try bool(members["optional"], title, "optional") ?? true
        attribute.isIndexed = try bool(members["indexed"], title, "indexed") ?? false
        attribute.isUnique = try bool(members["unique"], title, "unique") ?? false
        attribute.isPreservedOnDeletion =
            try bool(members["preservedOnDeletion"], title, "preservedOnDeletion") ?? false
        if let json = members["default"] {
            guard let value = ValueConversion.value(json, as: type) else {
                throw wrong(title, "has a “default” that is not of the type \(type.rawValue)")
            }
            attribute.defaultValue = value
        }
        if let target = members["target"] { attribute.target = try string(target, title, "target") }
        if let inverse = members["inverse"] { attribute.inverse = try string(inverse, title, "inverse") }
        if let rule = members["deleteRule"] {
            guard case .string(let text) = rule, let deleteRule = DeleteRule(rawValue: text) else {
                throw wrong(
                    title,
                    "has a “deleteRule” that is not one "
                        + "of " + DeleteRule.allCases.map(\.rawValue).joined(separator: ", "))
            }
            attribute.whenTargetIsDeleted = deleteRule
        }
        let former = try members["renamedFrom"].map { (json) throws(ToolFailure) in
            try string(json, title, "renamedFrom")
        }
        return (attribute, former)
    }

    private static func key(_ text: String, _ place: String) throws(ToolFailure) -> IndexDescription {
        let members = try members(Array(text.utf8), of: place, ["attributes", "unique"])
        guard case .structure(let list)? = members["attributes"], let elements = try? JSONReader.elements(list) else {
            throw wrong(place, "needs a member “attributes”, which is a list of names")
        }
        var names: [String] = []
        for element in elements { names.append(try string(element, place, "attributes")) }
        return IndexDescription(names, isUnique: try bool(members["unique"], place, "unique") ?? false)
    }

    // MARK: Members

    /// The members of an object, all of which are known.
    private static func members(
        _ bytes: [UInt8], of place: String, _ known: [String]
    ) throws(ToolFailure) -> [String: JSONValue] {
        let list: [JSONMember]
        do throws(JSONError) {
            list = try JSONReader.object(bytes)
        } catch { throw wrong(place, "is not a JSON object: \(error.message) (byte \(error.column))") }
        var members: [String: JSONValue] = [:]
        for member in list {
            guard known.contains(where: { isSame($0, member.name) }) else {
                throw wrong(place, "has an unknown member “\(member.name)”: known are \(known.joined(separator: ", "))")
            }
            members[member.name] = member.value
        }
        return members
    }

    private static func objects(_ json: JSONValue?, _ place: String, _ member: String) throws(ToolFailure) -> [String] {
        guard let json else { return [] }
        var texts: [String] = []
        guard case .structure(let list) = json, let elements = try? JSONReader.elements(list) else {
            throw wrong(place, "has a member “\(member)” that is not a list")
        }
        for element in elements {
            guard case .structure(let text) = element else {
                throw wrong(place, "has a member “\(member)” with an element that is not a JSON object")
            }
            texts.append(text)
        }
        return texts
    }

    private static func string(_ json: JSONValue?, _ place: String, _ member: String) throws(ToolFailure) -> String {
        guard case .string(let text)? = json else { throw wrong(place, "needs a member “\(member)”, which is a text") }
        return text
    }

    private static func bool(_ json: JSONValue?, _ place: String, _ member: String) throws(ToolFailure) -> Bool? {
        guard let json else { return nil }
        guard case .bool(let bool) = json else { throw wrong(place, "needs true or false for “\(member)”") }
        return bool
    }

    private static func wrong(_ place: String, _ problem: String) -> ToolFailure {
        ToolFailure(
            .failed, "\(place) \(problem).", hint: "“annals schema STORE --format json” prints the form of the file.")
    }
}
