// Finds the type of an attribute that fits all values seen so far exactly.

package import Annals

/// The values of one attribute seen so far.
package struct TypeGuess: Equatable, Sendable {
    private var (sawBool, sawInt, sawDouble, sawString) = (false, false, false, false)
    /// Objects, arrays, and numbers that are neither integers nor doubles.
    private var sawOther = false
    /// Whether they are fields of CSV, which are texts if they are not all of another type.
    private var isOfFields = false
    /// Whether every integer is also a double without rounding.
    private var integersAreDoubles = true

    package init() {}
    package init(_ values: [JSONValue]) { for value in values { add(value) } }

    package mutating func add(_ value: JSONValue) {
        switch value {
        case .null: break
        case .bool: sawBool = true
        case .int(let int):
            sawInt = true
            if Double(exactly: int) == nil { integersAreDoubles = false }
        case .double: sawDouble = true
        case .string: sawString = true
        case .number, .structure: sawOther = true
        case .field(let text):
            isOfFields = true
            switch try? JSONReader.value(text) {
            case .bool?, .int?, .double?: if let json = try? JSONReader.value(text) { add(json) }
            default: sawString = true
            }
        }
    }

    /// The narrowest type; nil without any value.
    package var type: AttributeType? {
        switch (sawBool, sawInt, sawDouble, sawString, sawOther) {
        case (false, false, false, false, false): nil
        case (true, false, false, false, false): .bool
        case (false, true, false, false, false): .int
        case (false, _, true, false, false) where integersAreDoubles: .double
        case (false, false, false, true, false): .string
        default: isOfFields ? .string : .json
        }
    }

    /// The type that an existing attribute must get; its own type if that can stay.
    ///
    /// `existingIntegersAreDoubles` is about the existing values. Types that no JSON value has by itself (dates and so
    /// on) stay: a value either is the text of one, or is refused.
    package func widened(
        _ existing: AttributeType, existingIntegersAreDoubles: () throws -> Bool
    ) throws -> AttributeType {
        guard let type, type != existing else { return existing }
        switch (existing, type) {
        case (.double, .int): return integersAreDoubles ? .double : .json
        case (.int, .double): return try existingIntegersAreDoubles() ? .double : .json
        case (.string, _) where isOfFields: return .string
        case (.bool, _), (.int, _), (.double, _), (.string, _): return isOfFields ? .string : .json
        default: return existing
        }
    }
}

/// The guesses for all attributes, in the order of their first appearance.
package struct TypeGuesses: Sendable {
    package private(set) var names: [String] = []
    private var guesses: [TypeGuess] = []
    private var places: [ExactText: Int] = [:]

    package init() {}

    package mutating func add(_ members: [JSONMember]) {
        for (index, member) in members.enumerated() {
            // Most lines have the same names in the same order.
            let isInOrder = index < names.count && names[index].isExactly(member.name)
            guesses[isInOrder ? index : place(of: member.name)].add(member.value)
        }
    }

    private mutating func place(of name: String) -> Int {
        if let place = places[ExactText(name)] { return place }
        places[ExactText(name)] = names.count
        names.append(name)
        guesses.append(TypeGuess())
        return names.count - 1
    }

    package subscript(name: String) -> TypeGuess { places[ExactText(name)].map { guesses[$0] } ?? TypeGuess() }
}
