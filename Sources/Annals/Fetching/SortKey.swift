// The order of fetched objects.

internal import FoundationEssentials

/// The keys to sort by: one property in one direction, such as `.descending(\.rank)`, or several in order of
/// importance: an array literal of keys, or `SortKey(keys)` of an array that a program holds.
///
/// ```swift
/// var order: [SortKey<Clip>] = [.ascending(\.folder), .descending(\.rank)]
/// order.swapAt(0, 1)
/// try snapshot.fetch(Clip.self, sortedBy: SortKey(order))
/// ```
///
/// Nil comes first, as in an index; so it is last in descending order. NaN comes after all other numbers. Text is
/// ordered by its bytes, which is the order of Unicode scalars. Objects with equal keys come in the order in which they
/// were inserted, or in the opposite one if all keys descend.
public struct SortKey<E: Entity>: Sendable, ExpressibleByArrayLiteral {
    let parts: [SortPart<E>]

    /// The keys of an array, the first of which counts first. Without keys, the order is that of insertion.
    public init(_ keys: some Sequence<SortKey>) {
        // Without a key path: in generic code one is made for each use.
        parts = keys.flatMap { $0.parts }
    }

    /// The parts of the keys of a fetch, which usually has none.
    static func parts(of keys: [SortKey]) -> [SortPart<E>] { keys.isEmpty ? [] : SortKey(keys).parts }

    public init(arrayLiteral keys: SortKey...) { self.init(keys) }

    private init(_ path: any PartialKeyPath<E> & Sendable, isDescending: Bool) {
        parts = [SortPart(path: path, isDescending: isDescending)]
    }

    /// The smallest value first.
    public static func ascending<V>(_ path: any KeyPath<E, V> & Sendable) -> SortKey {
        SortKey(path, isDescending: false)
    }

    /// The largest value first.
    public static func descending<V>(_ path: any KeyPath<E, V> & Sendable) -> SortKey {
        SortKey(path, isDescending: true)
    }
}

/// One property to sort by, in one direction.
struct SortPart<E: Entity>: Sendable {
    let path: any PartialKeyPath<E> & Sendable
    let isDescending: Bool
}

/// A sort key in rows.
package struct SortColumn {
    let name: String
    let position: Int
    let attribute: UInt16
    let isDescending: Bool
    /// The value that a row without one counts as: null, unless the property always has a value.
    var absent = Value.null

    /// Whether an index over the attribute has the order of the values as read.
    func isOrderOfIndex(_ layout: RowLayout) -> Bool {
        let attribute = layout.entity.attributes[position]
        // An index keeps references to deleted objects, which read as none.
        if attribute.type.isReference, attribute.deleteRule == .noAction { return false }
        return absent.isNull || !layout.slots[position].isOptional
    }
}

extension [SortColumn] {
    /// Whether objects with equal keys come in the opposite order of their insertion.
    var areDescending: Bool { allSatisfy(\.isDescending) }

    /// The places of objects in their order by their keys, which `EntityBinding.key(of:_:)` makes.
    func order(of objects: [(key: [UInt8], id: ObjectID)]) -> [Int] {
        let areDescending = areDescending
        return objects.indices.inOrder { left, right in
            let (left, right) = (objects[left], objects[right])
            if left.key != right.key { return left.key.lexicographicallyPrecedes(right.key) }
            return (left.id < right.id) != areDescending
        }
    }
}

extension EntityBinding {
    /// The property that a key path of values leads to. Throws `invalidArgument`.
    func requireProperty<E: Entity>(
        _ path: any PartialKeyPath<E> & Sendable, for purpose: String
    ) throws(StoreError) -> Int {
        let offset = model.index(of: path).map { model.properties[$0].offset }
        guard let offset, let index = properties.firstIndex(where: { $0.offset == offset }) else {
            let isPart = MemoryLayout<E>.offset(of: path) != nil
            let type = TypeText.of(Swift.type(of: path).valueType)
            throw StoreError(
                .invalidArgument,
                (isPart
                    ? "\(path) is not a whole property of “\(model.name)”"
                    : "A property of “\(model.name)” of the type \(type) is computed, or has willSet or didSet")
                    + ", so nothing can be \(purpose) it in the store: do it in the program.")
        }
        return index
    }

    /// Throws `invalidArgument` if a key is no stored property, or its values have no order.
    func columns<E: Entity>(_ keys: [SortPart<E>]) throws(StoreError) -> [SortColumn] {
        var columns: [SortColumn] = []
        for key in keys {
            let index = try requireProperty(key.path, for: "sorted by")
            let property = properties[index]
            let type = property.codec.attributeType
            guard !type.isObjectList, type != .json else {
                throw StoreError(
                    .invalidArgument,
                    "“\(property.name)” of “\(model.name)” has no order: sort by another property.",
                    ObjectFacts(model.name, [property.name]))
            }
            columns.append(
                SortColumn(
                    name: property.name, position: position(of: index), attribute: attributes[index],
                    isDescending: key.isDescending, absent: property.codec.isOptional ? .null : property.initial))
        }
        return columns
    }
}

/// Sorts objects by keys of bytes. Of many it keeps only as many as are wanted.
struct SortedObjects: ~Copyable {
    private struct Entry {
        let start: Int
        let count: Int
        let object: ObjectID
    }

    private let limit: Int
    private let isDescending: Bool
    private var keys = ByteWriter(capacity: 4096)
    private var entries: [Entry] = []

    /// Only the first `limit` of all are wanted. Equal keys are in the opposite order if `isDescending`.
    init(limit: Int, isDescending: Bool) {
        self.limit = limit
        self.isDescending = isDescending
    }

    /// Adds an object. `append` appends its key.
    mutating func add(
        _ object: ObjectID, _ append: (inout ByteWriter) throws(StoreError) -> Void
    ) throws(StoreError) {
        let start = keys.count
        try append(&keys)
        entries.append(Entry(start: start, count: keys.count - start, object: object))
        if limit < Int.max / 8, entries.count > 4 * limit + 1024 { cut() }
    }

    /// The wanted objects in their order.
    mutating func objects() -> [ObjectID] {
        cut()
        return entries.map(\.object)
    }

    private mutating func cut() {
        let bytes = keys.bytes
        let isDescending = isDescending
        entries.putInOrder { left, right in
            let (a, b) = (bytes.slice(left.start, left.count), bytes.slice(right.start, right.count))
            if a.isBefore(b) { return true }
            if b.isBefore(a) { return false }
            return isDescending ? right.object < left.object : left.object < right.object
        }
        if entries.count > limit { entries.removeLast(entries.count - limit) }
        var kept = ByteWriter(capacity: 4096)
        for index in entries.indices {
            let entry = entries[index]
            let start = kept.count
            kept.append(bytes.slice(entry.start, entry.count))
            entries[index] = Entry(start: start, count: entry.count, object: entry.object)
        }
        keys = kept
    }
}
