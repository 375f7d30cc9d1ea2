// A live list in sections: objects with the same value of a property follow each other.
//
// Invariants:
// LS1  The list is sorted by the property of the sections first. So a section is a range of the list, and its keys
//      begin with the same bytes, with which no other key begins.

internal import FoundationEssentials

/// A live list whose objects are in sections, one for each value of a property.
///
/// ```swift
/// let clips = try context.results(Clip.self, sortedBy: .ascending(\.title), sectionedBy: \.rank)
/// for section in clips.sections {
///     print(section.value, section.map(\.title))
/// }
/// ```
///
/// All sections together are the list itself. An object that gets into another section has moved, as `onChange` and
/// observers see it, even if it keeps its position in the list.
public final class SectionedResults<SectionValue, E: Entity>: Results<E> {
    private let path: any KeyPath<E, SectionValue> & Sendable
    /// The sections of the present list: their values and ranges; nil before their first use.
    private var known: [(value: SectionValue, range: Range<Int>)]?

    init(_ core: ContextCore, _ search: LiveSearch<E>, _ path: any KeyPath<E, SectionValue> & Sendable) throws {
        self.path = path
        try super.init(core, search)
    }

    /// The sections, in order. None is empty. They are found at the first access after a change, by one binary search
    /// for each section.
    public var sections: [ResultsSection<SectionValue, E>] {
        let order = order
        let found = known ?? ranges(order)
        known = found
        return found.map { ResultsSection(value: $0.value, objects: ResultsSlice(self, order[$0.range])) }
    }

    /// The sections are ranges of the list, because it is sorted by their property first (LS1).
    private func ranges(_ order: [ObjectID]) -> [(value: SectionValue, range: Range<Int>)] {
        var found: [(value: SectionValue, range: Range<Int>)] = []
        var start = 0
        while start < order.count {
            let end = endOfSection(startingAt: start)
            found.append((core.any(Reference<E>(order[start])).current[keyPath: path], start..<end))
            start = end
        }
        return found
    }

    override func didShow() { known = nil }
}

/// A section of a live list as it was when it was taken: a value, and the objects that have it. Its indices are those
/// of the list.
public struct ResultsSection<SectionValue, E: Entity>: RandomAccessCollection {
    /// The common value of the section's objects.
    public let value: SectionValue
    private let objects: ResultsSlice<E>

    init(value: SectionValue, objects: ResultsSlice<E>) { (self.value, self.objects) = (value, objects) }

    /// The position of its first object in the list.
    public var startIndex: Int { objects.startIndex }
    /// The position after its last object.
    public var endIndex: Int { objects.endIndex }

    /// The object at a position of the list.
    public subscript(position: Int) -> Object<E> { objects[position] }

    /// A part of it.
    public subscript(bounds: Range<Int>) -> ResultsSlice<E> { objects[bounds] }
}
