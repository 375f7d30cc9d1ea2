// The choices that are gone through: of sectors with their versions, of sizes, and of names.

import TestSupport

/// For each pending sector 0 (it keeps what was durable), or the number of a version from 1.
typealias SectorChoice = [UInt8]

/// Goes through choices of sectors in an order that depends on the inputs and the seed alone.
struct SectorChoices {
    /// By sector: how many versions it has.
    let versionCounts: [Int]
    /// By sector and version: which of the pending operations made it.
    let ordinals: [[Int]]
    let options: CrashOptions

    /// The number of all choices, if they are to be gone through exhaustively.
    var exhaustiveCount: Int? {
        var count = 1
        for versions in versionCounts {
            count *= versions + 1
            if count > 1 << options.exhaustiveBits { return nil }
        }
        return count
    }

    func visit<Failure: Error>(_ body: (SectorChoice) throws(Failure) -> Void) throws(Failure) {
        if exhaustiveCount != nil {
            try visitAll(onlyNewest: false, body)
        } else if versionCounts.count <= options.exhaustiveBits {
            try visitAll(onlyNewest: true, body)
            try visitInOrder(body)
            try visitRandom(body)
        } else {
            try visitListed(body)
            try visitInOrder(body)
            try visitRandom(body)
        }
    }

    /// Counts up, each sector a digit: which version, or only whether it has the newest one.
    private func visitAll<Failure: Error>(
        onlyNewest: Bool, _ body: (SectorChoice) throws(Failure) -> Void
    ) throws(Failure) {
        var choice = SectorChoice(repeating: 0, count: versionCounts.count)
        while true {
            try body(choice)
            guard let position = choice.indices.first(where: { choice[$0] < versionCounts[$0] }) else { return }
            for lower in 0..<position { choice[lower] = 0 }
            choice[position] = onlyNewest ? UInt8(versionCounts[position]) : choice[position] + 1
        }
    }

    private func visitListed<Failure: Error>(_ body: (SectorChoice) throws(Failure) -> Void) throws(Failure) {
        let count = versionCounts.count
        let newest = versionCounts.map { UInt8($0) }
        let none = SectorChoice(repeating: 0, count: count)
        try body(none)
        try body(newest)
        for end in sample(1..<count) { try body(Array(newest[..<end] + none[end...])) }
        for start in sample(1..<count) { try body(Array(none[..<start] + newest[start...])) }
        for position in sample(0..<count) {
            var choice = newest
            choice[position] = 0
            try body(choice)
        }
        for position in sample(0..<count) {
            var choice = none
            choice[position] = newest[position]
            try body(choice)
        }
    }

    /// What the disk holds after each operation, if it writes in order.
    private func visitInOrder<Failure: Error>(_ body: (SectorChoice) throws(Failure) -> Void) throws(Failure) {
        let last = ordinals.reduce(0) { max($0, $1.last ?? 0) }
        for ordinal in sample(0..<last) {
            try body(ordinals.map { made in UInt8(made.prefix { $0 <= ordinal }.count) })
        }
    }

    private func visitRandom<Failure: Error>(_ body: (SectorChoice) throws(Failure) -> Void) throws(Failure) {
        var generator = SeededRandom(options.seed &+ UInt64(versionCounts.count))
        for _ in 0..<options.randomChoices {
            // Sparse, even and dense choices find different faults.
            let density = 1 + generator.next(below: 7)
            try body(
                versionCounts.map { versions in
                    generator.next(below: 8) < density ? UInt8(1 + generator.next(below: versions)) : 0
                })
        }
    }

    /// At most as many of a range as a list may have, evenly spread, the first and the last among them.
    private func sample(_ range: Range<Int>) -> [Int] {
        let limit = options.maximumOfEachList
        guard range.count > limit, limit > 1 else { return Array(range.prefix(limit)) }
        return (0..<limit).map { range.lowerBound + $0 * (range.count - 1) / (limit - 1) }
    }
}

/// The combinations of sizes of several files: all of them if they are few, otherwise one file varies while the others
/// have their last size.
func sizeCombinations(_ sizes: [[Int]]) -> [[Int]] {
    let count = sizes.reduce(1) { min($0 * $1.count, 1 << 20) }
    if count <= 64 {
        return sizes.reduce([[]]) { combinations, ofOne in
            combinations.flatMap { combination in ofOne.map { combination + [$0] } }
        }
    }
    let last = sizes.map { $0[$0.count - 1] }
    var combinations = [sizes.map { $0[0] }, last]
    for file in sizes.indices {
        for size in sizes[file] where size != last[file] {
            var combination = last
            combination[file] = size
            if combination != combinations[0] { combinations.append(combination) }
        }
    }
    return combinations
}

/// What the names of a directory may be after a power cut, without repetition: first what was durable, then after each
/// change in their order, and then, if any are allowed, other subsets.
func nameOutcomes(of directory: Directory, options: CrashOptions) -> [NameTable] {
    let pending = directory.pending
    var subsets: [[Bool]] = (0...pending.count).map { end in pending.indices.map { $0 < end } }
    if options.anyNames, pending.count <= 6 {
        subsets += (0..<1 << pending.count).map { bits in pending.indices.map { bits >> $0 & 1 == 1 } }
    } else if options.anyNames {
        subsets += pending.indices.map { one in pending.indices.map { $0 != one } }
        subsets += pending.indices.map { one in pending.indices.map { $0 == one } }
        var generator = SeededRandom(options.seed &+ UInt64(pending.count))
        subsets += (0..<16).map { _ in pending.map { _ in generator.next() & 1 == 1 } }
    }
    var outcomes: [NameTable] = []
    for subset in subsets {
        var names = directory.durable
        for (operation, isChosen) in zip(pending, subset) where isChosen { names.apply(operation) }
        if !outcomes.contains(names) { outcomes.append(names) }
    }
    return outcomes
}
