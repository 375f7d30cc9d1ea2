// Advice for properties that a store cannot keep. Each advice was tried: see ModellingMistakeTests.

internal import FoundationEssentials

/// Advice about one property.
struct PropertyAdvice {
    /// Of an entity: “title” of “Clip”.
    let title: String
    let name: String
    let type: Any.Type

    /// Whether the type surely belongs to no property wrapper.
    private var isPlain: Bool {
        let wrapped = (type as? any OptionalProperty.Type)?.wrapped ?? type
        if wrapped is any SpelledType.Type || wrapped is any AnyReference.Type { return true }
        return wrapped is Data.Type || wrapped is UUID.Type || wrapped is URL.Type || wrapped is Decimal.Type
            || propertyCodec(of: wrapped)?.form != .other && propertyCodec(of: wrapped) != nil
    }

    // MARK: Names

    /// About the storage that the compiler makes for another property; nil if this is none.
    func aboutStorage(of entity: String) -> String? {
        let lazyPrefix = "$__lazy_storage_$_"
        if name.hasPrefix(lazyPrefix) {
            return "“\(name.dropFirst(lazyPrefix.count))” of “\(entity)” is lazy, but a store keeps plain properties "
                + "only: remove `lazy`, or make it a computed property."
        }
        guard name.hasPrefix("_") else { return nil }
        let rest = name.drop { $0 == "_" }
        if isPlain || rest.count != name.count - 1 {
            let other = rest.isEmpty ? "choose another name" : "call it “\(rest)”"
            return "\(title) begins with “_”, like the storage of a property wrapper: \(other), or write "
                + "Transient(\\.\(name)) in the schema."
        }
        return "“\(rest)” of “\(entity)” has a property wrapper, or is named “\(name)”, and a store keeps neither: "
            + "make it a plain property named “\(rest)”, or write Transient(\\.\(name)) in the schema."
    }

    // MARK: Types

    /// About a type that takes no memory.
    var aboutNothing: String {
        "\(title) has the type \(TypeText.of(type)), which has only one value, so there is nothing to store: remove "
            + "the property, give the type another case or a property, or write Transient(\\.\(name)) in the schema."
    }

    /// About a type that a store has no form for.
    var aboutType: String {
        "\(title) has the type \(TypeText.of(type)), which a store cannot keep: \(instead), or write "
            + "Transient(\\.\(name)) in the schema."
    }

    /// Whether it is an entity, or a list of them: a store keeps references, and no copies.
    var isEntity: Bool { Self.entity(in: type) != nil }

    private static func entity(in type: Any.Type) -> Any.Type? {
        if type is any Entity.Type { return type }
        return (type as? any SpelledType.Type)?.parts.lazy.compactMap { entity(in: $0) }.first
    }

    private var instead: String {
        if let optional = type as? any OptionalProperty.Type {
            var wrapped = optional.wrapped
            if wrapped is any OptionalProperty.Type {
                while let next = wrapped as? any OptionalProperty.Type { wrapped = next.wrapped }
                return "an optional of an optional has no stored form: write \(TypeText.ofOptional(wrapped))"
            }
            if wrapped is any ReferenceList.Type {
                return "a list without objects is empty: write \(TypeText.of(wrapped)) = []"
            }
            if wrapped is any AnyOtherSide.Type {
                return "it stores nothing: write var \(name) = \(TypeText.of(wrapped))()"
            }
        }
        let part = Self.entity(in: type) ?? Self.unknownPart(of: type)
        let text = TypeText.of(part)
        if part is any AnyOtherSide.Type {
            return "it is the whole other side: write var \(name) = \(text)()"
        }
        if part is any Entity.Type {
            let isMany = type is any SpelledType.Type && !(type is any OptionalProperty.Type)
            return "an object refers to other objects: write \(isMany ? "[Reference<\(text)>]" : "Reference<\(text)>?")"
        }
        if part is Character.Type || part is Substring.Type || part is StaticString.Type {
            return "write String instead of \(text)"
        }
        if TypeText.isProtocol(part) {
            return "\(text) is a protocol: write a type that is Codable, such as an enumeration with a case for each "
                + "type"
        }
        if text.hasPrefix("(") || text.hasPrefix("@") {
            return isFunction(text) ? "it is code: make it a method" : "write a struct that is Codable"
        }
        if part is AnyClass { return "\(text) is a class: write a struct that is Codable" }
        if let raw = Self.rawType(of: part) {
            return "its raw values have the type \(raw): use raw values of the type String or Int"
        }
        return "make \(text) Codable, conform it to AttributeValue"
    }

    /// The part of a type that keeps it from being stored.
    private static func unknownPart(of type: Any.Type) -> Any.Type {
        if let optional = type as? any OptionalProperty.Type { return unknownPart(of: optional.wrapped) }
        let parts = (type as? any SpelledType.Type)?.parts ?? []
        return parts.first { !($0 is any Codable.Type) }.map { unknownPart(of: $0) } ?? type
    }

    /// The type of raw values that cannot be stored; nil without any.
    private static func rawType(of type: Any.Type) -> Any.Type? {
        func raw<R: RawRepresentable>(_ type: R.Type) -> Any.Type { R.RawValue.self }
        guard let type = type as? any RawRepresentable.Type else { return nil }
        let found = raw(type)
        return found is any AttributeValue.Type ? nil : found
    }
}

// MARK: Types as programs write them

/// A type with a short form.
protocol SpelledType {
    static var spelled: String { get }
    static var parts: [Any.Type] { get }
}

enum TypeText {
    /// A type as a program writes it.
    static func of(_ type: Any.Type) -> String {
        if let short = type as? any SpelledType.Type { return short.spelled }
        return isProtocol(type) ? "any \(type)" : "\(type)"
    }

    static func ofOptional(_ wrapped: Any.Type) -> String {
        let text = of(wrapped)
        return text.hasPrefix("any ") || text.contains(" -> ") ? "(\(text))?" : text + "?"
    }

    static func isProtocol(_ type: Any.Type) -> Bool { "\(Swift.type(of: type))".hasSuffix(".Protocol") }
}

/// Whether the text of a type that begins with “(” or “@” is that of a function, and not of a tuple.
private func isFunction(_ text: String) -> Bool {
    var depth = 0
    for (index, character) in zip(text.indices, text) {
        if character == "(" { depth += 1 }
        if character == ")" { depth -= 1 }
        if character == ")", depth == 0 { return text.index(after: index) < text.endIndex }
    }
    return false
}

extension Optional: SpelledType {
    static var spelled: String { TypeText.ofOptional(Wrapped.self) }
    static var parts: [Any.Type] { [Wrapped.self] }
}

extension Array: SpelledType {
    static var spelled: String { "[\(TypeText.of(Element.self))]" }
    static var parts: [Any.Type] { [Element.self] }
}

extension Set: SpelledType {
    static var spelled: String { "Set<\(TypeText.of(Element.self))>" }
    static var parts: [Any.Type] { [Element.self] }
}

extension Dictionary: SpelledType {
    static var spelled: String { "[\(TypeText.of(Key.self)): \(TypeText.of(Value.self))]" }
    static var parts: [Any.Type] { [Key.self, Value.self] }
}
