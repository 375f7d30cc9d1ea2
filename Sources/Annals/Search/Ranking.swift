// The order of matches, by BM25F. The same arithmetic in the same order everywhere: a match found through the index
// and one read from its row have scores with equal bits.
//
// Invariants:
// RK1  A score is finite and not negative, if the weights are.
// RK2  Matches have one order: the higher score first, and among equal scores the newer object.

/// The facts about all objects that a score depends on.
package struct SearchStatistics: Equatable {
    /// The number of objects of the entity.
    package var objects: UInt64
    /// The number of terms of all objects, by attribute.
    package var totalLengths: [UInt64]
    /// The number of objects in which a leaf occurs in an attribute that it allows, by leaf.
    package var containing: [UInt64]

    package init(objects: UInt64, totalLengths: [UInt64], containing: [UInt64]) {
        (self.objects, self.totalLengths, self.containing) = (objects, totalLengths, containing)
    }
}

/// Computes scores.
///
/// For each scored leaf, in order:
///
///     f = sum over attributes of weight * frequency / (1 - b + b * length / average length)
///     idf = ln(1 + (N - n + 0.5) / (n + 0.5))
///     score += idf * f * (k1 + 1) / (k1 + f)
///
/// N is the number of objects, n that of objects with the leaf, k1 is 1.2 and b is 0.75.
package struct Ranking {
    package static let k1 = 1.2
    package static let b = 0.75

    private let weights: [Double]
    private let averageLengths: [Double]
    /// The factors of short texts, by attribute: `knownLengths` of each.
    private let lengthFactors: [Double]
    private static let knownLengths = 512
    /// By leaf; nil for leaves that do not count.
    private let rarities: [Double?]

    /// `weights` by attribute.
    package init(_ plan: SearchPlan, _ statistics: SearchStatistics, weights: [Double]) {
        self.weights = weights
        averageLengths = statistics.totalLengths.map { total in
            statistics.objects == 0 ? 0 : Double(total) / Double(statistics.objects)
        }
        lengthFactors = averageLengths.flatMap { average in
            (0..<Self.knownLengths).map { Self.lengthFactor(UInt32($0), average) }
        }
        rarities = zip(plan.leaves, statistics.containing).map { leaf, containing in
            leaf.isScored ? Self.rarity(containing, of: statistics.objects) : nil
        }
    }

    /// The score of an object with these frequencies by leaf and attribute, and these lengths by attribute.
    @inline(__always)
    package func score(
        frequency: (_ leaf: Int, _ attribute: Int) -> UInt32, length: (_ attribute: Int) -> UInt32
    ) -> Double {
        var score = 0.0
        for (leaf, rarity) in rarities.enumerated() {
            guard let rarity else { continue }
            var weighted = 0.0
            for attribute in weights.indices {
                let frequency = frequency(leaf, attribute)
                if frequency == 0 { continue }
                weighted += weights[attribute] * Double(frequency) / lengthFactor(attribute, length(attribute))
            }
            score += rarity * weighted * (Self.k1 + 1) / (Self.k1 + weighted)
        }
        return score
    }

    @inline(__always)
    private func lengthFactor(_ attribute: Int, _ length: UInt32) -> Double {
        if length < Self.knownLengths { return lengthFactors[attribute &* Self.knownLengths &+ Int(length)] }
        return Self.lengthFactor(length, averageLengths[attribute])
    }

    private static func lengthFactor(_ length: UInt32, _ average: Double) -> Double {
        average == 0 ? 1 : 1 - b + b * Double(length) / average
    }

    private static func rarity(_ containing: UInt64, of objects: UInt64) -> Double {
        assert(containing <= objects, "A leaf occurs in at most all objects.")
        return naturalLogarithm(1 + (Double(objects) - Double(containing) + 0.5) / (Double(containing) + 0.5))
    }

    /// The natural logarithm of a positive normal number, at most one unit in the last place away. It is computed here,
    /// from exact operations, because the logarithms of C libraries differ in their last bits.
    ///
    /// The number is 2^e * (1 + f) with 1 + f between the roots of 1/2 and 2. With s = f / (2 + f) the logarithm of
    /// 1 + f is 2 artanh(s) = f - f²/2 + s * (f²/2 + r), where r = 2 (s²/3 + s⁴/5 + s⁶/7 + …).
    package static func naturalLogarithm(_ number: Double) -> Double {
        assert(number.isNormal && number > 0)
        var exponent = Double(number.exponent)
        var significand = number.significand
        if significand > 2.0.squareRoot() { (exponent, significand) = (exponent + 1, significand / 2) }
        let f = significand - 1
        let s = f / (2 + f)
        // s² is below 0.03, so the terms from s²⁴ on are too small to count.
        var r = 0.0
        for power in stride(from: 25.0, through: 3, by: -2) { r = s * s * (r + 2 / power) }
        let half = f * f / 2
        return exponent * lnOf2High - ((half - (s * (half + r) + exponent * lnOf2Low)) - f)
    }

    /// The logarithm of 2 in two parts. The high one has so few bits that its product with an exponent is exact.
    private static let lnOf2High = 0x1.62e42feep-1
    private static let lnOf2Low = 0x1.a39ef35793c76p-33
}
