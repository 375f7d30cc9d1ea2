// One condition on one property of a row, as Swift itself would decide it, without making a value if possible.
//
// Invariants:
// PT1  `matches` of a value and `matches` of a row that has it agree.

internal import FoundationEssentials

/// A comparison of a property with constants.
struct PropertyTest: Sendable {
    enum Comparison: Sendable {
        case equal
        case less
        case lessOrEqual
        case greater
        case greaterOrEqual
        /// The property is one of several constants.
        case oneOf
        case startsWith
        case contains
        /// The property, a list of objects, has the constant.
        case hasElement
        /// The property is null.
        case isNull
    }

    /// Of the property, in rows of the newest layout.
    let position: Int
    let type: AttributeType
    let name: String
    let comparison: Comparison
    /// Ascending, if there are several.
    let constants: [Value]
    /// What a property without a value counts as.
    var absent: Value = .null
    /// Whether cases do not count: the property is folded, and the constant is compared as it is.
    var isFolded = false
    /// UTF-8 of the first constant.
    private let text: [UInt8]
    private let isPlainText: Bool
    private let set: Set<Value>

    init(_ position: Int, _ type: AttributeType, _ name: String, _ comparison: Comparison, _ constants: [Value]) {
        self.position = position
        self.type = type
        self.name = name
        self.comparison = comparison
        self.constants = constants
        text = constants.first?.string.map { Array($0.utf8) } ?? []
        isPlainText = text.withUnsafeBytes { $0.isPlainText }
        set = comparison == .oneOf ? Set(constants) : []
    }

    private var constant: Value { constants.first ?? .null }

    // MARK: Any value

    /// Whether a value satisfies the condition, as Swift decides it.
    func matches(_ value: Value) -> Bool {
        var value = value.isNull ? absent : value
        if isFolded, let text = value.string { value = .string(text.caseFolded) }
        switch comparison {
        case .isNull: return value.isNull
        case .equal: return value.isNull ? constant.isNull : Self.areEqual(value, constant)
        case .oneOf: return constants.contains { $0.isNull ? value.isNull : Self.areEqual(value, $0) }
        case .less: return Self.isLess(value, constant)
        case .lessOrEqual: return Self.isLess(value, constant) || Self.areEqual(value, constant)
        case .greater: return Self.isLess(constant, value)
        case .greaterOrEqual: return Self.isLess(constant, value) || Self.areEqual(value, constant)
        case .startsWith: return value.string.map { $0.starts(with: constant.string ?? "") } ?? false
        case .contains: return value.string.map { $0.contains(constant.string ?? "") } ?? false
        case .hasElement:
            guard let object = constant.object else { return false }
            return (value.orderedObjects ?? value.objects ?? []).contains(object)
        }
    }

    private static func areEqual(_ left: Value, _ right: Value) -> Bool {
        switch (left, right) {
        case (.double(let a), .double(let b)): a == b
        case (.string(let a), .string(let b)): a == b
        default: left == right
        }
    }

    private static func isLess(_ left: Value, _ right: Value) -> Bool {
        switch (left, right) {
        case (.int(let a), .int(let b)): a < b
        case (.double(let a), .double(let b)): a < b
        case (.date(let a), .date(let b)): a < b
        case (.string(let a), .string(let b)): a < b
        default: false
        }
    }

    // MARK: A row

    /// Whether a row satisfies the condition. `layout` is the newest one of its entity.
    func matches(_ row: RowImage, _ object: ObjectID, _ view: View, _ layout: RowLayout) throws(StoreError) -> Bool {
        guard row.isLike(layout) else { return matches(try slowValue(row, object, view, layout)) }
        switch type {
        case .int:
            guard comparison != .isNull, let int = row.cells.int(position), case .int(let bound) = constant else {
                break
            }
            if comparison == .oneOf { return set.contains(.int(int)) }
            return compare(int, bound)
        case .double:
            guard comparison != .isNull, comparison != .oneOf, let double = row.cells.double(position),
                case .double(let bound) = constant
            else { break }
            return compare(double, bound)
        case .date:
            guard comparison != .isNull, comparison != .oneOf, let date = row.cells.date(position),
                case .date(let bound) = constant
            else { break }
            return compare(Microseconds.date(date), bound)
        case .bool:
            guard comparison == .equal, let bool = try row.bool(at: position), case .bool(let bound) = constant else {
                break
            }
            return bool == bound
        case .string:
            guard !isFolded, let bytes = row.cells.variableBytes(position), let decided = decide(bytes) else { break }
            return decided
        default: break
        }
        return matches(try slowValue(row, object, view, layout))
    }

    @inline(__always)
    private func compare<Operand: Comparable>(_ value: Operand, _ bound: Operand) -> Bool {
        switch comparison {
        case .equal: value == bound
        case .less: value < bound
        case .lessOrEqual: value <= bound
        case .greater: value > bound
        case .greaterOrEqual: value >= bound
        default: false
        }
    }

    /// Decides by the bytes, if they decide: then both are ASCII, where letters are bytes.
    private func decide(_ bytes: UnsafeRawBufferPointer) -> Bool? {
        guard isPlainText, bytes.isPlainText else { return nil }
        return text.withUnsafeBytes { constant in
            switch comparison {
            case .equal: bytes.hasSameBytes(as: constant)
            case .less: bytes.isBefore(constant)
            case .lessOrEqual: !constant.isBefore(bytes)
            case .greater: constant.isBefore(bytes)
            case .greaterOrEqual: !bytes.isBefore(constant)
            case .startsWith:
                bytes.count >= constant.count && bytes.slice(0, constant.count).hasSameBytes(as: constant)
            case .contains: bytes.contains(constant)
            default: nil
            }
        }
    }

    @inline(never)
    private func slowValue(
        _ row: RowImage, _ object: ObjectID, _ view: View, _ layout: RowLayout
    ) throws(StoreError) -> Value {
        try withUnsafePointer(to: row) { (row) throws(StoreError) in
            try RowView(object, row, view: view, layout: layout, isOfState: true).value(at: position)
        }
    }
}

extension UnsafeRawBufferPointer {
    /// Whether every byte is a character of its own: ASCII without carriage returns, which a line feed may follow.
    fileprivate var isPlainText: Bool { isASCII && !contains(byte: 13) }
}

extension String {
    /// The text in small letters, for comparisons in predicates that leave cases aside:
    /// `$0.title.caseFolded.contains("swift")`. The same in every locale.
    public var caseFolded: String { lowercased() }
}

extension PropertyTest: CustomStringConvertible {
    var description: String {
        let title = isFolded ? "\(name).caseFolded" : name
        // Not the constants: they are values of objects.
        return switch comparison {
        case .equal: constant.isNull ? "\(title) == nil" : "\(title) == …"
        case .less: "\(title) < …"
        case .lessOrEqual: "\(title) <= …"
        case .greater: "\(title) > …"
        case .greaterOrEqual: "\(title) >= …"
        case .oneOf: "\(title) in \(constants.count) values"
        case .startsWith: "\(title) starts with …"
        case .contains: "\(title) contains …"
        case .hasElement: "\(title) contains an object"
        case .isNull: "\(title) == nil"
        }
    }
}
