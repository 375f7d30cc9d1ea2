// Constants that a property is compared with: the cost does not depend on their number.
//
// Invariants:
// CO1  Values are equal as Swift compares them: both zeros are equal, NaN equals nothing, texts are equal if they look
//      the same, decimals are compared as numbers. Null is equal to null.

internal import FoundationEssentials

/// A set of values as predicates compare them (CO1). (`Set<Value>` compares stored values.)
package struct ConstantSet: Sendable {
    private var hasNull = false
    private var ints: Set<Int64> = []
    private var doubles: Set<Double> = []
    private var dates: Set<Date> = []
    private var texts: Set<String> = []
    private var decimals: Set<DecimalValue> = []
    private var others: Set<Value> = []

    package init(_ constants: [Value]) {
        for constant in constants {
            switch constant {
            case .null: hasNull = true
            case .int(let int): ints.insert(int)
            // A set would keep each NaN, and find none; the same is true of dates.
            case .double(let double): if !double.isNaN { doubles.insert(double) }
            case .date(let date): if date == date { dates.insert(date) }
            case .string(let text): texts.insert(text)
            case .decimal(let decimal): if let key = DecimalValue(decimal) { decimals.insert(key) }
            default: others.insert(constant)
            }
        }
    }

    func contains(_ int: Int64) -> Bool { ints.contains(int) }

    package func contains(_ value: Value) -> Bool {
        switch value {
        case .null: hasNull
        case .int(let int): ints.contains(int)
        case .double(let double): doubles.contains(double)
        case .date(let date): dates.contains(date)
        case .string(let text): texts.contains(text)
        case .decimal(let decimal): DecimalValue(decimal).map { decimals.contains($0) } ?? false
        default: others.contains(value)
        }
    }
}
