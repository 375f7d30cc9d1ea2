// The generator of every random choice in tests: equal seeds give equal runs, on every machine.

/// SplitMix64 (Steele, Lea and Flood, 2014): one addition and three mixing steps a number, full period.
package struct SeededRandom: RandomNumberGenerator, Sendable {
    @usableFromInline var state: UInt64

    @inlinable package init(_ seed: UInt64) { state = seed }

    @inlinable package mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        return Self.mix(state)
    }

    /// A number below `bound`, which is not zero. The bias of the simple remainder does not matter to tests.
    package mutating func next<Bound: FixedWidthInteger>(below bound: Bound) -> Bound {
        precondition(bound > 0, "A random number below zero or less was asked for.")
        return Bound(next() % UInt64(bound))
    }

    /// The finishing steps alone: spreads every bit of `value` over the whole word.
    @inlinable package static func mix(_ value: UInt64) -> UInt64 {
        var mixed = value
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }
}

extension SeededRandom {
    package mutating func one<Element>(of elements: [Element]) -> Element {
        elements[Int.random(in: 0..<elements.count, using: &self)]
    }

    package mutating func happens(_ chance: Double) -> Bool { Double.random(in: 0..<1, using: &self) < chance }

    /// Some of them, mostly few.
    package mutating func some<Element: Hashable>(of elements: [Element]) -> Set<Element> {
        Set((0..<Int.random(in: 0...3, using: &self)).map { _ in one(of: elements) })
    }
}
