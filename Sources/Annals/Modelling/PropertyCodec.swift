// From a property in memory to the stored value and back, for a type that is known only when the program runs.

internal import FoundationEssentials

/// Reads and writes the values of one type in memory.
protocol PropertyCodec: Sendable {
    var attributeType: AttributeType { get }
    /// Whether the property may have no value.
    var isOptional: Bool { get }
    /// The entity that the values refer to; nil if they do not refer.
    var target: (any Entity.Type)? { get }
    /// The form that a loop over many objects handles without calling the codec.
    var form: PropertyForm { get }

    /// The value to store of a property at an address; null for none.
    func value(at address: UnsafeRawPointer) throws -> Value
    /// Replaces a property at an address by a stored value. False if its type does not have the value. References get
    /// the mark of the value's store (`UUIDBytes.mark`); 0 if it is not known.
    func store(_ value: Value, of mark: UInt32, at address: UnsafeMutableRawPointer) -> Bool
    /// Replaces a property at an address by the one at another.
    func copy(_ address: UnsafeRawPointer, to other: UnsafeMutableRawPointer)
    /// Makes a copy of a property at an address that is not initialized.
    func initialize(at address: UnsafeMutableRawPointer, from other: UnsafeRawPointer)
    /// Ends a property at an address.
    func deinitialize(at address: UnsafeMutableRawPointer)
    /// The value to store of a value of the property's type, optional or not; nil for a value of another type.
    func value(of any: Any) throws -> Value?
    /// An object that a list refers to in another store than the one with a mark; nil if none is.
    func foreignReference(at address: UnsafeRawPointer, to mark: UInt32) -> ObjectID?
    /// The mark of the references of a property at an address; 0 without any, or if it is not known.
    func mark(at address: UnsafeRawPointer) -> UInt32
    /// The property of a value of the store with a mark, as `Any`; nil if the type has none.
    func property(of value: Value, in mark: UInt32) -> Any?
    /// The form in which a stored value would be stored now. Equal properties have the same one. An older version of
    /// the library stored sets in any order, and other programs may write JSON in another form.
    func canonical(_ value: Value) -> Value
    /// The value of the property for stored values that its type does not have; nil without one.
    var fallback: Value? { get }
    /// Whether the type does not have a stored value, so that the fallback replaces it.
    func isUnknown(_ value: Value) -> Bool
}

extension PropertyCodec {
    var fallback: Value? { nil }
    func isUnknown(_ value: Value) -> Bool { false }
    func foreignReference(at address: UnsafeRawPointer, to mark: UInt32) -> ObjectID? { nil }
    func property(of value: Value) -> Any? { property(of: value, in: 0) }
}

/// A codec that reads stored values that the type lacks as a value that it has.
struct FallbackCodec: PropertyCodec {
    private let base: any PropertyCodec
    private let value: Value

    init(_ base: any PropertyCodec, _ value: Value) { (self.base, self.value) = (base, value) }

    var attributeType: AttributeType { base.attributeType }
    var isOptional: Bool { base.isOptional }
    var target: (any Entity.Type)? { base.target }
    var form: PropertyForm { base.form }
    var fallback: Value? { value }

    func isUnknown(_ value: Value) -> Bool { !value.isNull && base.property(of: value) == nil }

    func value(at address: UnsafeRawPointer) throws -> Value { try base.value(at: address) }

    func store(_ value: Value, of mark: UInt32, at address: UnsafeMutableRawPointer) -> Bool {
        base.store(value, of: mark, at: address) || (!value.isNull && base.store(self.value, of: mark, at: address))
    }

    func mark(at address: UnsafeRawPointer) -> UInt32 { base.mark(at: address) }

    func copy(_ address: UnsafeRawPointer, to other: UnsafeMutableRawPointer) { base.copy(address, to: other) }

    func initialize(at address: UnsafeMutableRawPointer, from other: UnsafeRawPointer) {
        base.initialize(at: address, from: other)
    }

    func deinitialize(at address: UnsafeMutableRawPointer) { base.deinitialize(at: address) }

    func value(of any: Any) throws -> Value? { try base.value(of: any) }

    func property(of value: Value, in mark: UInt32) -> Any? {
        base.property(of: value, in: mark) ?? (value.isNull ? nil : base.property(of: self.value, in: mark))
    }

    func canonical(_ value: Value) -> Value { base.canonical(value) }
}

/// Types of properties that loops know by themselves.
enum PropertyForm: UInt8, Sendable {
    case bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, double, float, string, date, reference
    case other
}

/// The stored form of the values of one type.
private protocol PropertyType {
    associatedtype Property
    static func encode(_ property: Property) throws -> Value
    /// References get the mark of a store.
    static func decode(_ value: Value, of mark: UInt32) -> Property?
    /// The mark of its references; 0 without any, or if it is not known.
    static func mark(of property: Property) -> UInt32
    /// Whether the same property may be stored in several forms.
    static var hasForms: Bool { get }
    /// An object that a property refers to in another store than the one with a mark; nil if none is.
    static func foreign(_ property: Property, to mark: UInt32) -> ObjectID?
}

extension PropertyType {
    static var hasForms: Bool { false }
    static func mark(of property: Property) -> UInt32 { 0 }
    static func foreign(_ property: Property, to mark: UInt32) -> ObjectID? { nil }
}

/// The codec of a type, or of its optional.
private struct ValueCodec<Form: PropertyType>: PropertyCodec {
    typealias V = Form.Property

    let attributeType: AttributeType
    let isOptional: Bool
    let target: (any Entity.Type)?
    let form: PropertyForm

    init(
        _ form: Form.Type, _ attributeType: AttributeType, isOptional: Bool, target: (any Entity.Type)? = nil,
        _ property: PropertyForm = .other
    ) {
        (self.attributeType, self.isOptional, self.target, self.form) = (attributeType, isOptional, target, property)
    }

    func value(at address: UnsafeRawPointer) throws -> Value {
        guard isOptional else { return try Form.encode(address.assumingMemoryBound(to: V.self).pointee) }
        guard let value = address.assumingMemoryBound(to: V?.self).pointee else { return .null }
        return try Form.encode(value)
    }

    func mark(at address: UnsafeRawPointer) -> UInt32 {
        guard isOptional else { return Form.mark(of: address.assumingMemoryBound(to: V.self).pointee) }
        return address.assumingMemoryBound(to: V?.self).pointee.map { Form.mark(of: $0) } ?? 0
    }

    func store(_ value: Value, of mark: UInt32, at address: UnsafeMutableRawPointer) -> Bool {
        if isOptional, value.isNull {
            address.assumingMemoryBound(to: V?.self).pointee = nil
            return true
        }
        guard let decoded = Form.decode(value, of: mark) else { return false }
        if isOptional {
            address.assumingMemoryBound(to: V?.self).pointee = decoded
        } else {
            address.assumingMemoryBound(to: V.self).pointee = decoded
        }
        return true
    }

    func copy(_ address: UnsafeRawPointer, to other: UnsafeMutableRawPointer) {
        if isOptional {
            other.assumingMemoryBound(to: V?.self).pointee = address.assumingMemoryBound(to: V?.self).pointee
        } else {
            other.assumingMemoryBound(to: V.self).pointee = address.assumingMemoryBound(to: V.self).pointee
        }
    }

    func initialize(at address: UnsafeMutableRawPointer, from other: UnsafeRawPointer) {
        if isOptional {
            address.initializeMemory(as: V?.self, from: other.assumingMemoryBound(to: V?.self), count: 1)
        } else {
            address.initializeMemory(as: V.self, from: other.assumingMemoryBound(to: V.self), count: 1)
        }
    }

    func deinitialize(at address: UnsafeMutableRawPointer) {
        if isOptional {
            address.assumingMemoryBound(to: V?.self).deinitialize(count: 1)
        } else {
            address.assumingMemoryBound(to: V.self).deinitialize(count: 1)
        }
    }

    func foreignReference(at address: UnsafeRawPointer, to mark: UInt32) -> ObjectID? {
        if isOptional { return nil }
        return Form.foreign(address.assumingMemoryBound(to: V.self).pointee, to: mark)
    }

    func value(of any: Any) throws -> Value? {
        if let value = any as? V { return try Form.encode(value) }
        if let optional = any as? any OptionalProperty { return optional.isNone ? .null : nil }
        return nil
    }

    func property(of value: Value, in mark: UInt32) -> Any? {
        if isOptional, value.isNull { return V?.none as Any }
        guard let decoded = Form.decode(value, of: mark) else { return nil }
        return isOptional ? V?.some(decoded) as Any : decoded
    }

    func canonical(_ value: Value) -> Value {
        guard Form.hasForms, let decoded = Form.decode(value, of: 0) else { return value }
        return (try? Form.encode(decoded)) ?? value
    }
}

// MARK: Which codec a type has

/// Finds the codec of a type. Nil if its values cannot be stored.
func propertyCodec(of type: Any.Type) -> (any PropertyCodec)? {
    if let optional = type as? any OptionalProperty.Type {
        return optional.wrapped is any OptionalProperty.Type ? nil : propertyCodec(of: optional.wrapped, true)
    }
    return propertyCodec(of: type, false)
}

private func propertyCodec(of type: Any.Type, _ isOptional: Bool) -> (any PropertyCodec)? {
    // A change of an object is no change of the value that refers to it. And a weak reference has another form.
    if type is AnyClass { return nil }
    if let reference = type as? any (AttributeValue & AnyReference).Type {
        return referenceCodec(reference, isOptional)
    }
    if let value = type as? any AttributeValue.Type { return attributeCodec(value, isOptional) }
    if let list = type as? any ReferenceList.Type { return isOptional ? nil : listCodec(list) }
    if let raw = type as? any RawRepresentable.Type, let codec = rawCodec(raw, isOptional) { return codec }
    if let coded = type as? any Codable.Type { return jsonCodec(coded, isOptional) }
    return nil
}

private func attributeCodec<V: AttributeValue>(_ type: V.Type, _ isOptional: Bool) -> any PropertyCodec {
    ValueCodec(AttributeForm<V>.self, type.attributeType, isOptional: isOptional, PropertyForm(type))
}

private enum AttributeForm<V: AttributeValue>: PropertyType {
    static func encode(_ property: V) throws -> Value { try property.attributeValue() }
    static func decode(_ value: Value, of mark: UInt32) -> V? { V(attributeValue: value) }
}

private func referenceCodec<V: AttributeValue & AnyReference>(_ type: V.Type, _ isOptional: Bool) -> any PropertyCodec {
    ValueCodec(ReferenceForm<V>.self, type.attributeType, isOptional: isOptional, target: type.target, .reference)
}

private enum ReferenceForm<V: AttributeValue & AnyReference>: PropertyType {
    static func encode(_ property: V) throws -> Value { try property.attributeValue() }
    static func decode(_ value: Value, of mark: UInt32) -> V? { value.object.map { V($0, of: mark) } }
    static func mark(of property: V) -> UInt32 { property.store }
}

private func listCodec<V: ReferenceList>(_ type: V.Type) -> any PropertyCodec {
    ValueCodec(ListForm<V>.self, type.listType, isOptional: false, target: type.target)
}

private enum ListForm<V: ReferenceList>: PropertyType {
    static func encode(_ property: V) -> Value { property.listValue }
    /// A list that is null is an empty one.
    static func decode(_ value: Value, of mark: UInt32) -> V? {
        V(list: value.orderedObjects ?? value.objects ?? [], of: mark)
    }
    static func mark(of property: V) -> UInt32 { property.mark }
    static func foreign(_ property: V, to mark: UInt32) -> ObjectID? { property.foreign(to: mark) }
}

private func rawCodec<V: RawRepresentable>(_ type: V.Type, _ isOptional: Bool) -> (any PropertyCodec)? {
    guard let raw = V.RawValue.self as? any AttributeValue.Type else { return nil }
    return rawCodec(type, raw, isOptional)
}

private func rawCodec<V: RawRepresentable, R: AttributeValue>(
    _ type: V.Type, _ raw: R.Type, _ isOptional: Bool
) -> any PropertyCodec {
    ValueCodec(RawForm<V, R>.self, raw.attributeType, isOptional: isOptional)
}

/// `R` is the type of the raw values, which only a cast can establish.
private enum RawForm<V: RawRepresentable, R: AttributeValue>: PropertyType {
    static func encode(_ property: V) throws -> Value {
        guard let raw = property.rawValue as? R else { preconditionFailure("R must be the type of the raw values.") }
        return try raw.attributeValue()
    }

    static func decode(_ value: Value, of mark: UInt32) -> V? {
        (R(attributeValue: value) as? V.RawValue).flatMap { V(rawValue: $0) }
    }
}

private func jsonCodec<V: Codable>(_ type: V.Type, _ isOptional: Bool) -> any PropertyCodec {
    ValueCodec(JSONForm<V>.self, .json, isOptional: isOptional)
}

private enum JSONForm<V: Codable>: PropertyType {
    static var hasForms: Bool { true }

    static func encode(_ property: V) throws -> Value { .json(try CanonicalJSON.text(property)) }

    static func decode(_ value: Value, of mark: UInt32) -> V? {
        guard let text = value.json else { return nil }
        return try? CanonicalJSON.decoder(of: mark).decode(V.self, from: Data(text.utf8))
    }
}

extension PropertyForm {
    fileprivate init(_ type: any AttributeValue.Type) {
        self =
            switch type {
            case is Bool.Type: .bool
            case is Int.Type, is Int64.Type: .int64
            case is Int8.Type: .int8
            case is Int16.Type: .int16
            case is Int32.Type: .int32
            case is UInt.Type, is UInt64.Type: .uint64
            case is UInt8.Type: .uint8
            case is UInt16.Type: .uint16
            case is UInt32.Type: .uint32
            case is Double.Type: .double
            case is Float.Type: .float
            case is String.Type: .string
            case is Date.Type: .date
            default: .other
            }
    }
}

// MARK: Recognizing types

/// Any optional.
protocol OptionalProperty {
    static var wrapped: Any.Type { get }
    var isNone: Bool { get }
    /// The value in it, of any type.
    var content: Any? { get }
}

extension Optional: OptionalProperty {
    static var wrapped: Any.Type { Wrapped.self }
    var isNone: Bool { self == nil }
    var content: Any? { self }
}

/// Any reference.
protocol AnyReference: Sendable {
    static var target: any Entity.Type { get }
    /// Refers to an object of the store with that mark.
    init(_ id: ObjectID, of store: UInt32)
    var id: ObjectID { get }
    var store: UInt32 { get }
}

extension Reference: AnyReference {
    static var target: any Entity.Type { E.self }
}

/// The two collections of references that a property can have.
protocol ReferenceList: Sendable {
    static var target: any Entity.Type { get }
    static var listType: AttributeType { get }
    /// Refers to objects of the store with that mark.
    init(list: [ObjectID], of store: UInt32)
    var listValue: Value { get }
    /// The mark of the first reference that has one; 0 if none has.
    var mark: UInt32 { get }
    /// An object that is of another store than the one with a mark; nil if none is.
    func foreign(to mark: UInt32) -> ObjectID?
}

extension Sequence where Element: AnyReference {
    fileprivate func foreignReference(to mark: UInt32) -> ObjectID? {
        mark == 0 ? nil : first { $0.store != mark && $0.store != 0 }?.id
    }

    fileprivate var firstMark: UInt32 { first { $0.store != 0 }?.store ?? 0 }
}

extension Array: ReferenceList where Element: AnyReference {
    static var target: any Entity.Type { Element.target }
    static var listType: AttributeType { .orderedObjects }
    init(list: [ObjectID], of store: UInt32) { self = list.map { Element($0, of: store) } }
    var listValue: Value { .orderedObjects(map { $0.id }) }
    var mark: UInt32 { firstMark }
    func foreign(to mark: UInt32) -> ObjectID? { foreignReference(to: mark) }
}

extension Set: ReferenceList where Element: AnyReference {
    static var target: any Entity.Type { Element.target }
    static var listType: AttributeType { .objects }
    init(list: [ObjectID], of store: UInt32) { self = Set(list.map { Element($0, of: store) }) }
    var listValue: Value { .objects(map { $0.id }.sorted()) }
    var mark: UInt32 { firstMark }
    func foreign(to mark: UInt32) -> ObjectID? { foreignReference(to: mark) }
}

/// The other side of a relationship, to any entity.
protocol AnyOtherSide {
    static var target: any Entity.Type { get }
    static var isOne: Bool { get }
}

extension ToMany: AnyOtherSide {
    static var target: any Entity.Type { E.self }
    static var isOne: Bool { false }
}

extension ToOne: AnyOtherSide {
    static var target: any Entity.Type { E.self }
    static var isOne: Bool { true }
}
