// The one sort for all types: in order, and equal elements as they came.

import Annals
import TestSupport
import Testing

@Suite struct OrderTests {
    private struct Element: Equatable {
        var key: Int
        var place: Int
    }

    /// Puts each element after those that are not greater.
    private func inserted(_ elements: [Element]) -> [Element] {
        var result: [Element] = []
        for element in elements {
            let place = result.firstIndex { element.key < $0.key } ?? result.count
            result.insert(element, at: place)
        }
        return result
    }

    @Test(arguments: 1...8 as ClosedRange<UInt64>)
    func equalElementsKeepTheirOrder(seed: UInt64) {
        var random = SeededRandom(seed)
        for count in [0, 1, 2, 3, 31, 32, 33, 64, 65, 200, 700] {
            for keys in [1, 2, 5, 1000] {
                let elements = (0..<count).map { Element(key: Int.random(in: 0..<keys, using: &random), place: $0) }
                let expected = inserted(elements)
                #expect(elements.inOrder { $0.key < $1.key } == expected, "seed \(seed), \(count) of \(keys)")
                var changed = elements
                changed.putInOrder { $0.key < $1.key }
                #expect(changed == expected, "seed \(seed), \(count) of \(keys)")
            }
        }
    }
}
