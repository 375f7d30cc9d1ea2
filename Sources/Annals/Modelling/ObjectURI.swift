// Objects as URIs, for other programs, settings and drags.

public import FoundationEssentials

extension Store {
    /// The URI of an object: `annals://STORE/Clip/3:42`, with the store's identifier, the name of the entity for people
    /// and the object's ID. It names the same object permanently, also in copies of the store and after the entity was
    /// renamed.
    ///
    /// Whether the object exists does not matter. Throws `StoreError`: `unknownEntity` if the store has no entity of
    /// that number, `closed`.
    public func uri(of object: ObjectID) throws -> URL {
        let catalog = try newest().view.catalog
        let entity = catalog.entity(object.entityNumber, version: catalog.newestVersion)
        guard let entity, !entity.name.isReserved,
            let uri = URL(string: "annals://\(identifier.uuidString)/\(Self.escaped(entity.name.text))/\(object)")
        else {
            throw StoreError(
                .unknownEntity,
                "The store has no entity with the number \(object.entityNumber), so \(object) belongs to another "
                    + "store: check the ID."
            )
        }
        return uri
    }

    /// The URI of an object, from its reference. Also throws `referenceForeign`, and `invalidArgument` if the reference
    /// is of another entity than its type.
    public func uri<E: Entity>(of reference: Reference<E>) throws -> URL {
        try reference.requireStore(try snapshot().mark)
        try require(reference.id, E.self)
        return try uri(of: reference.id)
    }

    /// The ID of the object that a URI names.
    ///
    /// Throws `StoreError`: `invalidArgument` if it is no URI of an object, `referenceForeign` if it names an object of
    /// another store, `unknownEntity` if this store has no such entity any more.
    public func objectID(for uri: URL) throws -> ObjectID { try objectID(for: uri.absoluteString) }

    /// The ID of the object that the text of a URI names. As with a URL.
    public func objectID(for uri: String) throws -> ObjectID {
        let parts = uri.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 5, parts[0].lowercased() == "annals:", parts[1].isEmpty, !parts[3].isEmpty,
            let store = UUID(uuidString: String(parts[2])), let object = ObjectID(String(parts[4]))
        else {
            throw StoreError(
                .invalidArgument,
                "This is not a URI of an object: it must look like annals://\(identifier.uuidString)/Entity/1:42.")
        }
        guard store == identifier else {
            throw StoreError(
                .referenceForeign,
                "The URI names an object of the store \(store), but this store is \(identifier): use the URI with "
                    + "its own store.",
                path: path)
        }
        _ = try self.uri(of: object)
        return object
    }

    /// The reference of the object that a URI names. Whether the object exists is known when it is read.
    ///
    /// Throws as `objectID(for:)`, and `invalidArgument` if the object is of another entity than `type`.
    public func reference<E: Entity>(for uri: URL, as type: E.Type = E.self) throws -> Reference<E> {
        try reference(for: uri.absoluteString, as: type)
    }

    /// The reference of the object that the text of a URI names. As with a URL.
    public func reference<E: Entity>(for uri: String, as type: E.Type = E.self) throws -> Reference<E> {
        let object = try objectID(for: uri)
        try require(object, type)
        return Reference(object, of: try snapshot().mark)
    }

    private func require<E: Entity>(_ object: ObjectID, _ type: E.Type) throws(StoreError) {
        let catalog = try newest().view.catalog
        guard let number = catalog.number(ofEntity: E.model.name) else { throw E.model.undeclared }
        guard number == object.entityNumber else {
            let other = catalog.entity(object.entityNumber, version: catalog.newestVersion)?.name.text
            throw StoreError(
                .invalidArgument,
                "\(object) is an object of “\(other ?? "another entity")”, not of “\(E.model.name)”: use the ID with "
                    + "its own entity.",
                ObjectFacts(E.model.name, object: object))
        }
    }

    /// Everything but letters, digits, and `-._~` as bytes in hexadecimal (RFC 3986).
    private static func escaped(_ name: String) -> String {
        var escaped = ""
        for byte in name.utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
                UInt8(ascii: "~"):
                escaped.unicodeScalars.append(UnicodeScalar(byte))
            default:
                let digits = String(byte, radix: 16, uppercase: true)
                escaped += "%" + (digits.count == 1 ? "0" : "") + digits
            }
        }
        return escaped
    }
}
