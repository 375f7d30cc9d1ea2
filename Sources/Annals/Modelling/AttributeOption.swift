// The options of a property in a schema.

/// A special rule of a property of type `V`.
public struct AttributeOption<E: Entity, V>: Sendable {
    let option: PropertyOption<E>

    init(_ option: PropertyOption<E>) { self.option = option }

    /// No two objects have the same value. Any number of objects may have none. Objects are found fast by it.
    public static var unique: Self { Self(.unique) }
    /// Objects are found fast by ranges of the value, and sorted by it.
    public static var indexed: Self { Self(.indexed) }
    /// The history keeps the value when the object is deleted.
    public static var preservedOnDeletion: Self { Self(.preservedOnDeletion) }
    /// An optional property must have a value when it is saved.
    public static var required: Self { Self(.required) }

    /// The value of objects from before the attribute existed, instead of the property's initial value. New objects
    /// have the initial value. This is the attribute's `defaultValue` in an `AttributeDescription`.
    public static func valueForOlderObjects(_ value: V) -> Self where V: Sendable { Self(.defaultValue(value)) }

    /// The property's value if the store has one that the type does not know. For example, a newer version of the
    /// program has added a case to an enumeration. Without this option, reading such an object throws
    /// `valueOutOfRange`.
    ///
    /// The stored value stays until the property gets another value than the fallback. This also holds for writing a
    /// whole value, with `update(_:to:)` or `upsert`. Predicates use the fallback; one that compares the property with
    /// it uses no index. Sorting uses the stored value.
    public static func fallback(_ value: V) -> Self where V: Sendable { Self(.fallback(value)) }

    /// The attribute was called so before. If the store has it under that name, it is renamed.
    ///
    /// Attributes can take each other's names, in a chain or a ring. Then each has this option.
    public static func renamed(from name: String) -> Self { Self(.renamed(name)) }

    /// Saving computes the value from the object's other properties. Values that are derived from the other sides of
    /// relationships are computed later; this closure gets their old values.
    public static func derived(_ compute: @escaping @Sendable (E) -> V) -> Self {
        Self(
            .derived { entity, path in
                guard let path = path as? WritableKeyPath<E, V> else { return }
                entity[keyPath: path] = compute(entity)
            })
    }
}

// MARK: Search

extension AttributeOption where V: TextProperty {
    /// The words of the text are found by `search`, whichever process wrote it, and without any work of the program.
    ///
    /// The store keeps an index of the words in its own file: see <doc:Searching>. An entity has at most 64 such
    /// properties.
    public static var searchable: Self { searchable(weight: 1) }

    /// The same with a weight, above 0 and up to 1000: in the ranking, a word counts so many times as much as in a text
    /// of weight 1.
    public static func searchable(weight: Double) -> Self { searchable(weight: weight, positions: true) }

    /// The same without the positions of the words, if `positions` is false.
    ///
    /// Then the index takes about half as much space. Every search finds the same; but phrases and words near each
    /// other are looked for in the rows of all objects that have the words. A store that has the positions keeps them,
    /// because another program may want them: to give them up, call `removeSearchIndex(of:)` and open the store again.
    public static func searchable(weight: Double = 1, positions: Bool) -> Self {
        Self(.searchable(weight: weight, positions: positions))
    }
}

// MARK: Validation

extension AttributeOption {
    /// The value must satisfy a condition of your own. The message continues a sentence that begins with the property:
    /// `"must not be negative"` becomes “cost” of “Task” must not be negative.
    public static func check(_ message: String, _ isValid: @escaping @Sendable (V) -> Bool) -> Self {
        Self(.check(message) { value in (value as? V).map(isValid) ?? false })
    }

    private static func limit(_ limit: RangeLimit, _ isValid: @escaping @Sendable (V) -> Bool) -> Self {
        Self(.limit(limit) { value in (value as? V).map(isValid) ?? false })
    }

    /// The value must lie in a range, such as `0...10`, `0..<10` or `0...`. See also the form for optional values.
    public static func range(_ range: some RangeExpression<V> & Sendable) -> Self where V: Comparable & Sendable {
        limit(.value(in: range)) { range.contains($0) }
    }

    /// The value must lie in a range, unless it is nil.
    public static func range<W: Comparable & Sendable>(
        _ range: some RangeExpression<W> & Sendable
    ) -> Self where V == W? {
        limit(.value(in: range)) { $0.map(range.contains) ?? true }
    }

    /// The text must have this number of characters, unless it is nil.
    public static func length(_ range: some RangeExpression<Int> & Sendable) -> Self where V: TextProperty {
        Self(
            .limit(.number(of: "character", in: range)) { value in
                (value as? String).map { range.contains($0.count) } ?? true
            })
    }

    /// The whole text must match a regular expression, in the syntax of Swift's `Regex`, unless it is nil.
    public static func pattern(_ pattern: String) -> Self where V: TextProperty {
        Self(.pattern(pattern) { value in (value as? String)?.wholly(matches: pattern) ?? true })
    }

    /// A relationship must have this number of objects. If deleting one of them leaves too few, the deletion is denied.
    public static func count<T: Entity>(
        _ range: some RangeExpression<Int> & Sendable
    ) -> Self where V == [Reference<T>] {
        limit(.number(of: "object", in: range)) { range.contains($0.count) }
    }

    /// A relationship must have this number of objects. If deleting one of them leaves too few, the deletion is denied.
    public static func count<T: Entity>(
        _ range: some RangeExpression<Int> & Sendable
    ) -> Self where V == Set<Reference<T>> {
        limit(.number(of: "object", in: range)) { range.contains($0.count) }
    }
}

/// A limit for a value, or for a number of characters or objects.
struct RangeLimit: Sendable {
    /// Continues a sentence that begins with the property.
    let message: String
    /// The range as a program writes it, if it is empty.
    let emptyRange: String?

    /// A value must be in the range.
    static func value<Bound>(in range: some RangeExpression<Bound>) -> Self {
        let text =
            switch range {
            case let range as ClosedRange<Bound>: "from \(range.lowerBound) to \(range.upperBound)"
            case let range as Range<Bound>: "at least \(range.lowerBound) and less than \(range.upperBound)"
            case let range as PartialRangeFrom<Bound>: "at least \(range.lowerBound)"
            case let range as PartialRangeThrough<Bound>: "at most \(range.upperBound)"
            case let range as PartialRangeUpTo<Bound>: "less than \(range.upperBound)"
            default: "in \(range)"
            }
        return Self(message: "must be " + text, emptyRange: emptyRange(range))
    }

    /// The number must be in the range.
    static func number(of noun: String, in range: some RangeExpression<Int>) -> Self {
        func nouns(_ number: Int) -> String { "\(number) \(noun)\(number == 1 ? "" : "s")" }
        func text(_ first: Int, _ last: Int) -> String {
            first == last ? "exactly \(nouns(first))" : "\(first) to \(last) \(noun)s"
        }
        let numbers =
            switch range {
            case let range as ClosedRange<Int>: text(range.lowerBound, range.upperBound)
            case let range as Range<Int>: text(range.lowerBound, range.upperBound &- 1)
            case let range as PartialRangeFrom<Int>: "at least \(nouns(range.lowerBound))"
            case let range as PartialRangeThrough<Int>: "at most \(nouns(range.upperBound))"
            case let range as PartialRangeUpTo<Int>: "fewer than \(nouns(range.upperBound))"
            default: "\(range) \(noun)s"
            }
        return Self(message: "must have " + numbers, emptyRange: emptyRange(range))
    }

    private static func emptyRange<Bound>(_ range: some RangeExpression<Bound>) -> String? {
        guard let range = range as? Range<Bound>, range.isEmpty else { return nil }
        return "\(range)"
    }
}

extension String {
    fileprivate func wholly(matches pattern: String) -> Bool {
        guard let regex = try? Regex(pattern) else { return false }
        return (try? regex.wholeMatch(in: self)) != nil
    }
}

/// A property that is a text: `String` or `String?`. Only a constraint for the compiler: do not adopt it.
public protocol TextProperty {}

extension String: TextProperty {}
extension Optional: TextProperty where Wrapped == String {}

/// The number of objects that the other side of a relationship must have.
struct SideCount: Sendable {
    let limit: RangeLimit
    let isValid: @Sendable (Int) -> Bool

    init(_ range: some RangeExpression<Int> & Sendable) {
        limit = .number(of: "object", in: range)
        isValid = { range.contains($0) }
    }
}

/// An option without the type of its property.
enum PropertyOption<E: Entity>: Sendable {
    case unique
    case indexed
    case searchable(weight: Double, positions: Bool)
    case preservedOnDeletion
    case required
    case defaultValue(any Sendable)
    case fallback(any Sendable)
    case renamed(String)
    case derived(@Sendable (inout E, PartialKeyPath<E>) -> Void)
    case fromOtherSide(DerivedRule)
    case lastChange
    case sideCount(SideCount)
    case check(String, @Sendable (Any) -> Bool)
    case limit(RangeLimit, @Sendable (Any) -> Bool)
    case pattern(String, @Sendable (Any) -> Bool)
}
