// Object numbers of one handle: each goes to one draft at a time, whatever the order and the number of threads.

import Annals
import Synchronization
import TestSupport
import Testing

@Suite struct ObjectNumberSupplyTests {
    private let supply = ObjectNumberSupply()

    @Test func numbersOfAnEntityFollowEachOther() {
        #expect(supply.draw(7, count: 1, from: 1) == 1)
        #expect(supply.draw(7, count: 4, from: 1) == 2)
        #expect(supply.draw(7, count: 1, from: 3) == 6)
        #expect(supply.draw(7, count: 1, from: 100) == 100)
    }

    @Test func entitiesHaveNumbersOfTheirOwn() {
        for round in UInt64(1)...5 {
            for entity in [UInt16(1), 65_535, 2] { #expect(supply.draw(entity, count: 1, from: 1) == round) }
        }
    }

    @Test func returnedNumbersAreDrawnAgainUnlessLaterOnesWereDrawn() {
        #expect(supply.draw(1, count: 8, from: 1) == 1)
        supply.returnNumbers(1, from: 3, end: 9)
        #expect(supply.draw(1, count: 2, from: 1) == 3)
        #expect(supply.draw(1, count: 1, from: 1) == 5)
        supply.returnNumbers(1, from: 3, end: 5)
        #expect(supply.draw(1, count: 1, from: 1) == 6)
        // Another entity was drawn in between.
        #expect(supply.draw(2, count: 1, from: 1) == 1)
        supply.returnNumbers(1, from: 6, end: 7)
        #expect(supply.draw(1, count: 1, from: 1) == 6)
        #expect(supply.draw(2, count: 1, from: 1) == 2)
    }

    /// The number after the last possible one does not fit in the word of an ID.
    @Test func theLastNumbersAreNotDrawnAgain() {
        let last = FormatLimits.maximumObjectNumber
        #expect(supply.draw(3, count: 1, from: last - 1) == last - 1)
        #expect(supply.draw(3, count: 1, from: 1) == last)
        #expect(supply.draw(3, count: 1, from: 1) == last + 1)
        #expect(supply.draw(4, count: 1, from: 1) == 1)
        #expect(supply.draw(3, count: 1, from: 1) == last + 2)
        #expect(supply.draw(4, count: 1, from: 1) == 2)
    }

    @Test func noNumberIsDrawnTwiceByThreads() throws {
        let drawn = Guarded<[UInt64]>([])
        let threads = try (0..<4).map { thread in
            try BackgroundThread(name: "numbers") { [supply] in
                var own: [UInt64] = []
                for round in 0..<3000 {
                    let entity = UInt16(1 + (round / 7 + thread) % 2)
                    let first = supply.draw(entity, count: 4, from: 1)
                    let kept = UInt64(round % 5)
                    own += (first..<first + kept).map { UInt64(entity) << 48 | $0 }
                    supply.returnNumbers(entity, from: first + kept, end: first + 4)
                }
                drawn.withLock { [own] in $0 += own }
            }
        }
        for thread in threads { thread.join() }
        let all = drawn.withLock { $0 }
        #expect(all.count == 4 * 3000 * 2 && Set(all).count == all.count)
    }
}
