// Finds the stored properties of a struct in memory: their names, types and places.

/// A stored property of any type.
struct StoredField {
    /// As the struct calls it. The storage of a property wrapper begins with “_”.
    let name: String
    let type: Any.Type
    let offset: Int
    let size: Int
    var isTransient = false
}

/// The stored properties of a type of entities.
struct StoredFields<E: Entity> {
    private(set) var fields: [StoredField] = []
    /// The reason for which they cannot be found; nil if they are found.
    private(set) var problem: String?

    private let title: String

    /// The layout of structs is documented: in the order of their declaration, each at the next multiple of its
    /// alignment (Swift's “Type Layout”).
    init(_ schema: Schema<E>) {
        title = "“\(schema.name)”"
        let value = E()
        let mirror = Mirror(reflecting: value)
        if value is any CustomReflectable {
            problem = "\(title) has a mirror of its own, which hides its properties: remove CustomReflectable."
            return
        }
        guard mirror.displayStyle == .struct else {
            problem = "\(title) must be a struct: write struct instead of class, actor or enum."
            return
        }
        let paths = schema.items.map(\.path)
        var offset = 0
        for child in mirror.children {
            let label = child.label ?? ""
            var type = Swift.type(of: child.value)
            // The mirror knows the type of the value only, which a protocol or a base class can hide.
            if let declared = Self.declaredType(label, after: offset, paths) { type = declared }
            let (size, alignment) = Self.layout(type)
            offset = Self.aligned(offset, alignment)
            fields.append(StoredField(name: Self.name(label), type: type, offset: offset, size: size))
            offset += size
        }
        if offset != MemoryLayout<E>.size { problem = problem(value, offset) }
    }

    /// The type of a property that a key path of the schema leads to; nil if none does.
    private static func declaredType(
        _ label: String, after end: Int, _ paths: [any PartialKeyPath<E> & Sendable]
    ) -> Any.Type? {
        for path in paths {
            let type = Swift.type(of: path).valueType
            if let offset = MemoryLayout<E>.offset(of: path), offset == aligned(end, layout(type).alignment),
                "\(path)" == "\\\(E.self).\(label)"
            {
                return type
            }
        }
        return nil
    }

    /// A name that is no identifier, such as `my name`, has its backticks in the mirror, and other spaces.
    private static func name(_ label: String) -> String {
        guard label.count > 2, label.hasPrefix("`"), label.hasSuffix("`") else { return label }
        return String(label.dropFirst().dropLast().map { $0 == "\u{A0}" ? " " : $0 })
    }

    private static func layout<T>(_ type: T.Type) -> (size: Int, alignment: Int) {
        (MemoryLayout<T>.size, MemoryLayout<T>.alignment)
    }

    private static func aligned(_ offset: Int, _ alignment: Int) -> Int {
        (offset + alignment - 1) / alignment * alignment
    }

    /// The property that has another size in the struct than its value has: one whose type is a protocol.
    private func problem(_ value: E, _ bytes: Int) -> String {
        let advice =
            "a protocol as its type (any …), which a store cannot keep: write a type that is Codable, such as an "
            + "enumeration with a case for each type, or write Transient"
        if let name = fields.first(where: { Self.isBoxed($0, in: value) })?.name {
            return "“\(name)” of \(title) has \(advice)(\\.\(name)) in the schema."
        }
        let unknown = fields.filter { propertyCodec(of: $0.type) == nil }
        let names = (unknown.isEmpty ? fields : unknown).map { "“\($0.name)”" }.joined(separator: " or ")
        return "\(names) of \(title) has \(advice)(\\.…) in the schema."
    }

    /// Whether a property holds its value as `any P` does: after three words for the value comes its type.
    private static func isBoxed(_ field: StoredField, in value: E) -> Bool {
        let word = MemoryLayout<Int>.size
        let place = aligned(field.offset, word) + 3 * word
        guard place + word <= MemoryLayout<E>.size else { return false }
        let type = withUnsafeBytes(of: value) { $0.load(fromByteOffset: place, as: UInt.self) }
        return type == UInt(bitPattern: unsafeBitCast(field.type, to: Int.self))
    }
}
