// One sort for all types. The standard library's is compiled for each type and each closure that it is used with, some
// 2,400 lines of optimized code each time. Without this sort, a build would take a tenth longer.

/// A comparison in an object, because the optimizer copies a function for each closure that it is passed.
private final class Comparison {
    let isBefore: (Int, Int) -> Bool

    init(_ isBefore: @escaping (Int, Int) -> Bool) { self.isBefore = isBefore }

    @inline(never)
    func sort(_ places: inout [Int]) { places.sort { isBefore($0, $1) } }
}

extension Sequence {
    /// The elements in order; equal ones keep their order. For a few elements, or where their number hardly matters: a
    /// comparison costs a call more than with `sorted(by:)`.
    package func inOrder(by isBefore: (Element, Element) -> Bool) -> [Element] {
        let elements = Array(self)
        if elements.count < 2 { return elements }
        var places = Array(elements.indices)
        withoutActuallyEscaping(isBefore) { isBefore in
            Comparison { isBefore(elements[$0], elements[$1]) }.sort(&places)
        }
        return places.map { elements[$0] }
    }
}

extension Sequence where Element: Comparable {
    /// The elements in ascending order.
    package func inOrder() -> [Element] { inOrder(by: <) }
}

extension Array {
    /// The same in place.
    package mutating func putInOrder(by isBefore: (Element, Element) -> Bool) { self = inOrder(by: isBefore) }
}
