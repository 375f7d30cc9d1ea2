// One value of one attribute, as the file layer passes it around.

/// The 16 bytes of a UUID, as the two halves of its text form.
package struct UUIDBytes: Hashable, Sendable {
    package var high: UInt64
    package var low: UInt64

    package init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// A few bits that distinguish references of different stores; never 0.
    var mark: UInt32 {
        let folded = high ^ low
        return max(1, UInt32(truncatingIfNeeded: folded ^ folded >> 32))
    }
}

/// Offsets of the fields of a reference.
package enum ReferenceField {
    package static let offset = 0
    package static let valueBytes = 8
    package static let checksum = 16
    package static let bytes = 24
}

/// A reference to a value in value frames.
package struct LargeValueReference: Hashable, Sendable {
    /// Of the value's first frame.
    package let offset: UInt64
    package let valueBytes: UInt64
    /// The checksum of that frame's header.
    package let checksum: UInt64

    /// Nil if no frame can begin at that offset, or no value has that size.
    package init?(offset: UInt64, valueBytes: UInt64, checksum: UInt64) {
        guard offset >= UInt64(FormatLimits.pageBytes), offset <= FormatLimits.maximumFileBytes,
            offset % UInt64(FormatLimits.frameAlignment) == 0,
            valueBytes >= 1, valueBytes <= UInt64(FormatLimits.maximumValueBytes)
        else { return nil }
        (self.offset, self.valueBytes, self.checksum) = (offset, valueBytes, checksum)
    }
}

/// A value of any type, or none.
///
/// Equality is that of the bytes in the file: doubles and dates by their bits (so every NaN equals itself, and -0 is
/// not 0), texts by their UTF-8 (so differently composed letters differ).
package enum StoredValue: Sendable {
    case absent
    case bool(Bool)
    case int(Int64)
    case double(Double)
    case string(String)
    case data([UInt8])
    /// Seconds since 2001-01-01T00:00:00Z.
    case date(Double)
    case uuid(UUIDBytes)
    case decimal(DecimalValue)
    case json(String)
    case object(ObjectID)
    /// No two are equal.
    case orderedObjects([ObjectID])
    /// Strictly ascending; `Value.objectSet` makes them so, and encoding does if they are not.
    case objects([ObjectID])
    /// A value of a variable type in value frames.
    case large(LargeValueReference)

    /// The `objects` value of these, sorted and each once.
    package static func objectSet(_ objects: [ObjectID]) -> StoredValue { .objects(ObjectList.set(objects)) }

    /// Whether an attribute of that type can have this value, apart from being optional.
    package func fits(_ type: AttributeType) -> Bool {
        switch self {
        case .absent: true
        case .bool: type == .bool
        case .int: type == .int
        case .double: type == .double
        case .string: type == .string
        case .data: type == .data
        case .date: type == .date
        case .uuid: type == .uuid
        case .decimal: type == .decimal
        case .json: type == .json
        case .object: type == .object
        case .orderedObjects: type == .orderedObjects
        case .objects: type == .objects
        case .large(let reference): type.isVariable && (!type.isObjectList || reference.valueBytes % 8 == 0)
        }
    }

    /// The number of bytes of the value in the variable part of a row.
    package var variableBytes: Int {
        switch self {
        case .string(let text), .json(let text): text.utf8.count
        case .data(let bytes): bytes.count
        case .orderedObjects(let objects): objects.count * 8
        case .objects(let objects): ObjectList.set(objects).count * 8
        case .large: ReferenceField.bytes
        default: 0
        }
    }
}

extension StoredValue: Equatable {
    package static func == (left: StoredValue, right: StoredValue) -> Bool {
        switch (left, right) {
        case (.absent, .absent): true
        case (.bool(let a), .bool(let b)): a == b
        case (.int(let a), .int(let b)): a == b
        case (.double(let a), .double(let b)), (.date(let a), .date(let b)): a.bitPattern == b.bitPattern
        case (.string(let a), .string(let b)), (.json(let a), .json(let b)): a.hasSameBytes(as: b)
        case (.data(let a), .data(let b)): a == b
        case (.uuid(let a), .uuid(let b)): a == b
        case (.decimal(let a), .decimal(let b)): a == b
        case (.object(let a), .object(let b)): a == b
        case (.orderedObjects(let a), .orderedObjects(let b)), (.objects(let a), .objects(let b)): a == b
        case (.large(let a), .large(let b)): a == b
        default: false
        }
    }
}

extension StoredValue {
    /// Whether the values are equal in Swift, where texts that differ only in their form are equal. Writers compare
    /// bytes instead, so that rows keep texts as they were given.
    package func isSame(as other: StoredValue) -> Bool {
        switch (self, other) {
        case (.string(let a), .string(let b)), (.json(let a), .json(let b)): a == b
        default: self == other
        }
    }
}

extension StoredValue {
    /// The objects that it refers to.
    var targets: [ObjectID] {
        switch self {
        case .object(let object): [object]
        case .orderedObjects(let objects), .objects(let objects): objects
        default: []
        }
    }

    /// The value without the references for which `isKept` is false: null if it was one reference, a shorter list if it
    /// was a list.
    @inline(never)
    func keepingReferences(
        where isKept: (ObjectID) throws(StoreError) -> Bool
    ) throws(StoreError) -> StoredValue {
        func kept(_ objects: [ObjectID]) throws(StoreError) -> [ObjectID] {
            var kept: [ObjectID] = []
            for object in objects where try isKept(object) { kept.append(object) }
            return kept
        }
        switch self {
        case .object(let object): return try isKept(object) ? self : .absent
        case .orderedObjects(let objects): return .orderedObjects(try kept(objects))
        case .objects(let objects): return .objects(try kept(objects))
        default: return self
        }
    }
}

/// The two shapes of lists of objects.
package enum ObjectList {
    package static func isStrictlyAscending(_ objects: [ObjectID]) -> Bool {
        var last: UInt64 = 0
        for object in objects {
            if object.rawValue <= last { return false }
            last = object.rawValue
        }
        return true
    }

    /// Sorted, and each once.
    package static func set(_ objects: [ObjectID]) -> [ObjectID] {
        if isStrictlyAscending(objects) { return objects }
        var set = objects.sorted()
        var kept = 1
        for object in set.dropFirst() where object != set[kept - 1] {
            set[kept] = object
            kept += 1
        }
        set.removeSubrange(kept...)
        assert(isStrictlyAscending(set), "A set of objects does not ascend.")
        return set
    }

    /// Throws `tooLarge` or `invalidArgument` if an attribute cannot hold the list.
    static func require(_ value: StoredValue) throws(StoreError) {
        switch value {
        case .orderedObjects(let objects):
            try requireCount(objects)
            guard isDistinct(objects) else {
                throw StoreError(.invalidArgument, "An ordered list contains an object twice: list each object once.")
            }
        case .objects(let objects): try requireCount(objects)
        default: break
        }
    }

    private static func requireCount(_ objects: [ObjectID]) throws(StoreError) {
        guard objects.count <= FormatLimits.maximumListElements else {
            throw StoreError(
                .tooLarge,
                "A list may have at most \(FormatLimits.maximumListElements) objects, and this one has "
                    + "\(objects.count): let the other objects refer to this object instead.")
        }
    }

    package static func isDistinct(_ objects: [ObjectID]) -> Bool {
        isStrictlyAscending(objects) || set(objects).count == objects.count
    }
}
