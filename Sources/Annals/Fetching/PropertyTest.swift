// One condition on one property of a row, as Swift itself would decide it, without making a value if possible.
//
// Invariants:
// PT1  `matches` of a value and `matches` of a row that has it agree.
// PT2  One of several constants equals a value exactly if a comparison with that constant alone is true.

internal import FoundationEssentials

/// A comparison of a property with constants.
///
/// Sound although it is shared: nothing changes after `init`, the memory of the text included.
package final class PropertyTest: @unchecked Sendable {
    package enum Comparison: Sendable {
        case equal
        case less
        case lessOrEqual
        case greater
        case greaterOrEqual
        /// The property is one of several constants (PT2).
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
    let constants: [Value]
    /// The value that an absent property counts as.
    let absent: Value
    /// The differences to ignore: the property is folded, and the constant is compared as it is.
    let folding: TextFolding?
    /// UTF-8 of the first constant, if rows are compared with it.
    private let text: UnsafeMutableRawBufferPointer?
    private let set: ConstantSet
    private let fast: Fast

    /// Values that are compared directly in the row.
    private enum Fast {
        case int(Int64)
        case double(Double)
        /// In seconds since 2001.
        case date(Double)
        case bool(Bool)
        case text
        case none
    }

    init(
        _ position: Int, _ type: AttributeType, _ name: String, _ comparison: Comparison, _ constants: [Value],
        absent: Value = .null, folding: TextFolding? = nil
    ) {
        (self.position, self.type, self.name, self.comparison) = (position, type, name, comparison)
        (self.constants, self.absent, self.folding) = (constants, absent, folding)
        set = ConstantSet(comparison == .oneOf ? constants : [])
        var text: UnsafeMutableRawBufferPointer?
        switch (comparison, constants.first) {
        case (.isNull, _), (.hasElement, _): fast = .none
        case (.oneOf, .int): fast = type == .int ? .int(0) : .none
        case (.oneOf, _): fast = .none
        case (_, .int(let int)): fast = .int(int)
        case (_, .double(let double)): fast = .double(double)
        case (_, .date(let date)): fast = .date(date.timeIntervalSinceReferenceDate)
        case (.equal, .bool(let bool)): fast = .bool(bool)
        case (_, .string(let string)) where folding == nil:
            var string = string
            text = string.withUTF8 { utf8 in
                let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: utf8.count, alignment: 1)
                bytes.copyMemory(from: UnsafeRawBufferPointer(utf8))
                return bytes
            }
            fast = text.map { UnsafeRawBufferPointer($0).isPlainText } ?? false ? .text : .none
        default: fast = .none
        }
        self.text = text
    }

    deinit { text?.deallocate() }

    private var constant: Value { constants.first ?? .null }

    // MARK: Any value

    /// Whether a value satisfies the condition, as Swift decides it.
    func matches(_ value: Value) -> Bool {
        var value = value.isNull ? absent : value
        if let folding, let text = value.string { value = .string(folding.folded(text)) }
        switch comparison {
        case .isNull: return value.isNull
        case .equal: return value.isNull ? constant.isNull : Self.areEqual(value, constant)
        case .oneOf: return set.contains(value)
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
        case (.date(let a), .date(let b)): a == b
        case (.string(let a), .string(let b)): a == b
        default: left == right
        }
    }

    private static func isLess(_ left: Value, _ right: Value) -> Bool {
        switch (left, right) {
        case (.int(let a), .int(let b)): a < b
        case (.double(let a), .double(let b)): a < b
        case (.date(let a), .date(let b)): a < b
        case (.string(let a), .string(let b)): NormalForm.isBefore(a, b)
        default: false
        }
    }

    // MARK: A row

    /// Whether a row satisfies the condition (PT1). `layout` is the newest one of its entity.
    func matches(_ row: RowImage, _ object: ObjectID, _ view: View, _ layout: RowLayout) throws(StoreError) -> Bool {
        guard row.isLike(layout) else { return matches(try slowValue(row, object, view, layout)) }
        switch fast {
        case .int(let bound):
            guard let slot = row.cells.slot(position, type: 2) else { break }
            let int = Int64(littleEndian: slot.loadUnaligned(as: Int64.self))
            return comparison == .oneOf ? set.contains(int) : compare(int, bound)
        case .double(let bound):
            guard let slot = row.cells.slot(position, type: 3) else { break }
            return compare(Double(bitPattern: UInt64(littleEndian: slot.loadUnaligned(as: UInt64.self))), bound)
        case .date(let bound):
            guard let slot = row.cells.slot(position, type: 6) else { break }
            return compare(Double(bitPattern: UInt64(littleEndian: slot.loadUnaligned(as: UInt64.self))), bound)
        case .bool(let bound):
            guard let bool = try row.bool(at: position) else { break }
            return bool == bound
        case .text:
            guard let bytes = row.cells.variableBytes(position), let decided = decide(bytes) else { break }
            return decided
        case .none: break
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
    @inline(__always)
    private func decide(_ bytes: UnsafeRawBufferPointer) -> Bool? {
        guard let text else { return nil }
        let constant = UnsafeRawBufferPointer(text)
        if comparison == .equal, bytes.count > 0 {
            // Whatever follows, texts that begin with different ASCII letters are different.
            if constant.isEmpty || bytes[0] < 0x80 && bytes[0] != constant[0] { return false }
        }
        guard bytes.isPlainText else { return nil }
        switch comparison {
        case .equal: return bytes.hasSameBytes(as: constant)
        case .less: return bytes.isBefore(constant)
        case .lessOrEqual: return !constant.isBefore(bytes)
        case .greater: return constant.isBefore(bytes)
        case .greaterOrEqual: return !bytes.isBefore(constant)
        case .startsWith:
            return bytes.count >= constant.count && bytes.slice(0, constant.count).hasSameBytes(as: constant)
        case .contains: return bytes.contains(constant)
        default: return nil
        }
    }

    @inline(never)
    private func slowValue(
        _ row: RowImage, _ object: ObjectID, _ view: View, _ layout: RowLayout
    ) throws(StoreError) -> Value {
        try row.value(position, object, view, layout)
    }
}

extension UnsafeRawBufferPointer {
    /// Whether every byte is a character of its own: ASCII without carriage returns, which a line feed may follow.
    fileprivate var isPlainText: Bool { isASCII && !contains(byte: 13) }
}

extension PropertyTest: CustomStringConvertible {
    package var description: String {
        let title = folding.map { "\(name).\($0.title)" } ?? name
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
