// Sums of numbers of one type: a sum that fits in the end is found, in any order of adding.

internal import FoundationEssentials

/// The sum of numbers of one type. Null does not count.
struct NumberSum {
    private(set) var count = 0
    /// So wide that it holds the sum of all 64-bit integers that fit in memory.
    private var integers: Int128 = 0
    private var doubles = 0.0
    private var decimals = Decimal(0)
    private var type: AttributeType?

    @inline(__always)
    mutating func add(int: Int64) {
        count += 1
        type = .int
        integers += Int128(int)
    }

    @inline(__always)
    mutating func add(double: Double) {
        count += 1
        type = .double
        doubles += double
    }

    /// Counts values that are no numbers, without adding them.
    mutating func add(_ value: Value) {
        switch value {
        case .null: return
        case .int(let int): add(int: int)
        case .double(let double): add(double: double)
        case .decimal(let decimal):
            count += 1
            type = .decimal
            decimals += decimal
        default: count += 1
        }
    }

    /// Null if there were no numbers; nil if 64 bits do not hold the sum.
    var value: Value? {
        switch type {
        case .int: Int64(exactly: integers).map { .int($0) }
        case .double: .double(doubles)
        case .decimal: .decimal(decimals)
        default: .null
        }
    }

    /// Nil if there were no numbers.
    var average: Double? {
        guard count > 0 else { return nil }
        switch type {
        case .int: return Double(integers) / Double(count)
        case .double: return doubles / Double(count)
        case .decimal: return Double("\(decimals)").map { $0 / Double(count) }
        default: return nil
        }
    }
}
