// Every disk that a power cut may leave, from one moment of a simulated disk.

import TestSupport

extension SimulatedDisk {
    /// Goes through the disks that a power cut at this moment may leave; see `CrashImages`.
    package func forEachCrashImage<Failure: Error>(
        _ options: CrashOptions, _ body: (CrashImage) throws(Failure) -> Void
    ) throws(Failure) {
        try CrashImages(of: self, options).visit(body)
    }
}

/// The legal outcomes of a power cut at one moment.
///
/// What is durable is in all of them. Of each file any of the pending sectors may be there, in any of the contents they
/// have had since they were last durable, one of them torn; the size may be any that the file has had since, or
/// between; holes hold a fill. Of each directory the changes up to some point are there, or any of them. Files without
/// a name are gone.
///
/// The order, and so the number of an image, depends only on the state of the disk and the options.
package struct CrashImages: Sendable {
    /// The moment: the disk's `changeCount`.
    package let crashPoint: Int
    package let options: CrashOptions
    private let inodes: [Inode]
    private let directories: [Directory]
    private let configuration: SimulatedDiskConfiguration

    package init(of disk: SimulatedDisk, _ options: CrashOptions) {
        precondition(!options.fills.isEmpty, "Crash images need at least one fill.")
        precondition((1...100).contains(options.maximumVersions), "A sector has from 1 to 100 versions.")
        let machine = disk.withMachine { $0 }
        crashPoint = machine.changeCount
        self.options = options
        inodes = machine.inodes
        directories = machine.directories
        configuration = machine.configuration
    }

    /// Calls `body` for each image; repetitions among them are for the caller to leave out, by `CrashImage.hash`.
    package func visit<Failure: Error>(_ body: (CrashImage) throws(Failure) -> Void) throws(Failure) {
        let outcomes = directories.map { nameOutcomes(of: $0, options: options) }
        let combinations = sizeCombinations(outcomes.map { Array($0.indices) })
        var layouts: [Int: CrashLayout] = [:]
        var number = 0
        for combination in combinations {
            let names = zip(outcomes, combination).map { $0[$1] }
            let reachable = Set(names.flatMap { $0.entries.map(\.inode) }).sorted()
            let files = reachable.map { inode in
                let layout = layouts[inode] ?? CrashLayout(inodes[inode], index: inode, options: options)
                layouts[inode] = layout
                return layout
            }
            let state = CrashState(files: files, names: names, options: options)
            try visit(state, &number, body)
        }
    }

    private func visit<Failure: Error>(
        _ state: CrashState, _ number: inout Int, _ body: (CrashImage) throws(Failure) -> Void
    ) throws(Failure) {
        let sectors = state.files.flatMap(\.sectors)
        let choices = SectorChoices(
            versionCounts: sectors.map(\.versions.count), ordinals: sectors.map(\.ordinals), options: options)
        let isExhaustive = choices.exhaustiveCount != nil
        let sizes = sizeCombinations(state.files.map(\.sizes))
        var generator = SeededRandom(options.seed &+ UInt64(crashPoint))
        try choices.visit { choice throws(Failure) in
            for combination in sizes {
                state.choose(choice, sizes: combination)
                // The same image comes with that sector not chosen.
                if isExhaustive, state.hasChoiceBeyondSizes { continue }
                // Without a hole, all fills give the same image.
                for fill in 0..<(state.hasHole ? options.fills.count : 1) {
                    state.choose(fill: fill)
                    try emit(state, &number, body)
                }
                for tear in tears(of: state, &generator) {
                    state.choose(fill: options.fills.count == 1 ? 0 : generator.next(below: options.fills.count))
                    state.tear = tear
                    try emit(state, &number, body)
                }
                state.tear = nil
            }
        }
    }

    private func emit<Failure: Error>(
        _ state: CrashState, _ number: inout Int, _ body: (CrashImage) throws(Failure) -> Void
    ) throws(Failure) {
        number += 1
        try body(
            CrashImage(
                crashPoint: crashPoint, number: number, hash: state.hash(), state: state, configuration: configuration))
    }

    /// The torn sectors to go through for the current choice.
    private func tears(of state: CrashState, _ generator: inout SeededRandom) -> [CrashTear] {
        let limit: Int
        switch options.tearing {
        case .never: return []
        case .everywhere: limit = Int.max
        case .sampled(let count): limit = count
        }
        let torn = state.chosenSectors
        guard !torn.isEmpty, limit > 0 else { return [] }
        let steps = sectorBytes / 8 - 1
        if limit == Int.max {
            return torn.flatMap { sector in
                (1...steps).flatMap { step in
                    [true, false].map { CrashTear(sector: sector, bytes: step * 8, newComesFirst: $0) }
                }
            }
        }
        return (0..<limit).map { _ in
            CrashTear(
                sector: torn[generator.next(below: torn.count)], bytes: 8 * (1 + generator.next(below: steps)),
                newComesFirst: generator.next() & 1 == 1)
        }
    }

    /// The disk of the image with this number, as `visit` counted it; nil if there is none.
    package func makeDisk(number: Int) -> SimulatedDisk? {
        do throws(Found) {
            try visit { image throws(Found) in
                if image.number == number { throw Found(disk: image.makeDisk()) }
            }
            return nil
        } catch {
            return error.disk
        }
    }

    private struct Found: Error { let disk: SimulatedDisk }
}

/// One disk that a power cut may leave. Valid only while the body that it was given to runs.
package struct CrashImage {
    package let crashPoint: Int
    /// Counts the images of this crash point, from 1.
    package let number: Int
    /// Of the names and the bytes of the files: equal for images with equal content.
    package let hash: UInt64
    private let state: CrashState
    private let configuration: SimulatedDiskConfiguration

    init(
        crashPoint: Int, number: Int, hash: UInt64, state: CrashState, configuration: SimulatedDiskConfiguration
    ) {
        self.crashPoint = crashPoint
        self.number = number
        self.hash = hash
        self.state = state
        self.configuration = configuration
    }

    /// A machine that starts with this disk, of the same configuration: everything on it is durable, nothing is open.
    package func makeDisk() -> SimulatedDisk {
        var machine = Machine(configuration)
        state.fill(&machine)
        return SimulatedDisk(machine: machine)
    }

    /// The bytes that the file with this name has in the image; nil if there is no such name.
    package func contents(of path: String) -> [UInt8]? { makeDisk().contents(of: path) }
}

extension CrashImage: CustomStringConvertible {
    /// How to find it again (crash point and number), and what was chosen.
    package var description: String { "crash point \(crashPoint), image \(number): \(state.description)" }
}
