// The generator of every random choice in simulations: equal seeds give equal runs, on every machine.

/// SplitMix64 (Steele, Lea and Flood, 2014): one addition and three mixing steps a number, full period.
package struct SplitMix64: RandomNumberGenerator, Sendable {
    private var state: UInt64

    package init(seed: UInt64) { state = seed }

    package mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        return SplitMix64.mix(state)
    }

    /// A number below `bound`, which is not zero. The bias of the simple remainder does not matter to simulations.
    package mutating func next(below bound: Int) -> Int {
        precondition(bound > 0, "A random number below zero or less was asked for.")
        return Int(next() % UInt64(bound))
    }

    /// The finishing steps alone: spreads every bit of `value` over the whole word.
    package static func mix(_ value: UInt64) -> UInt64 {
        var mixed = value
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }
}
