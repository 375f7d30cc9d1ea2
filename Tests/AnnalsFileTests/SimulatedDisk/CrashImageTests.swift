// The legal outcomes of a power cut: that all of them come, and no others.

internal import Annals
internal import Glibc
internal import SimulatedDisk
import TestSupport
internal import Testing

/// A disk with one durable file "/data/a", open for writing.
private struct Scene {
    let disk = SimulatedDisk()
    let directory: Descriptor
    let file: Descriptor

    init(_ durable: [UInt8]) throws {
        disk.install(durable, at: "/data/a")
        directory = try disk.openDirectory("/data")
        file = try disk.open("a", in: directory, access: .readWrite)
    }

    func write(_ offset: Int, _ bytes: [UInt8], to file: Descriptor? = nil) throws {
        let count = try bytes.withUnsafeBytes { try disk.write(file ?? self.file, at: UInt64(offset), from: $0) }
        #expect(count == bytes.count)
    }

    func images(_ options: CrashOptions) -> [Image] {
        var images: [Image] = []
        disk.forEachCrashImage(options) { image in
            images.append(
                Image(
                    number: image.number, hash: image.hash, description: image.description, disk: image.makeDisk()))
        }
        return images
    }
}

private struct Image {
    var number: Int
    var hash: UInt64
    var description: String
    var disk: SimulatedDisk
    var content: [UInt8] { disk.contents(of: "/data/a") ?? [] }
}

private func sectors(_ values: UInt8...) -> [UInt8] {
    values.flatMap { [UInt8](repeating: $0, count: sectorBytes) }
}

private func untorn(_ seed: UInt64 = 0) -> CrashOptions {
    var options = CrashOptions(seed: seed)
    options.tearing = .never
    return options
}

/// The numbers of the sectors in which two files of one size differ.
private func differingSectors(_ left: [UInt8], _ right: [UInt8]) -> [Int] {
    stride(from: 0, to: left.count, by: sectorBytes)
        .filter { start in
            left[start..<min(start + sectorBytes, left.count)] != right[start..<min(start + sectorBytes, right.count)]
        }
        .map { $0 / sectorBytes }
}

@Suite struct CrashImageSubsets {
    @Test(arguments: [1, 3, 6, 10])
    func everySubsetOfFewSectorsIsAnImage(count: Int) throws {
        let scene = try Scene([UInt8](repeating: 0, count: count * sectorBytes))
        try scene.write(0, [UInt8](repeating: 1, count: count * sectorBytes))
        let images = scene.images(untorn())
        #expect(images.count == 1 << count)
        #expect(Set(images.map(\.hash)).count == 1 << count)
        #expect(Set(images.map(\.content)).count == 1 << count)
        #expect(images.map(\.number) == Array(1...1 << count))
        let areWhole = images.allSatisfy { image in
            (0..<count).allSatisfy { sector in
                Set(image.content[sector * sectorBytes..<(sector + 1) * sectorBytes]).count == 1
            }
        }
        #expect(areWhole)
    }

    @Test func sectorWrittenTwiceHasThreeContents() throws {
        let scene = try Scene(sectors(0, 0))
        try scene.write(0, sectors(1))
        try scene.write(0, sectors(2))
        try scene.write(sectorBytes, sectors(0))  // What is there already makes no difference.
        let contents = scene.images(untorn()).map(\.content)
        #expect(Set(contents) == [sectors(0, 0), sectors(1, 0), sectors(2, 0)])
    }

    @Test func everySubsetIsAnImageEvenWithTooManyVersions() throws {
        let scene = try Scene([UInt8](repeating: 0, count: 10 * sectorBytes))
        for value in 1...3 as ClosedRange<UInt8> {
            try scene.write(0, [UInt8](repeating: value, count: 10 * sectorBytes))
        }
        let contents = Set(scene.images(untorn()).map(\.content))
        let subsets = contents.filter { content in content.allSatisfy { $0 == 0 || $0 == 3 } }
        #expect(subsets.count == 1024)
        // In the order of writing, and at random, older versions come too.
        #expect(contents.contains([UInt8](repeating: 1, count: 10 * sectorBytes)))
        #expect(contents.contains([UInt8](repeating: 2, count: 10 * sectorBytes)))
        #expect(contents.count > 1024 + 50)
    }

    @Test func appendGrowsToAnySizeWithAnyFill() throws {
        let scene = try Scene(sectors(1))
        try scene.write(sectorBytes, sectors(2, 3))
        var options = untorn(5)
        options.fills = [.zeros, .garbage, .stale([UInt8](repeating: 9, count: 2000))]
        let contents = Set(scene.images(options).map(\.content))
        // Durable size: 1. One more sector: written or 3 fills. Two more: 4 subsets, three of them with holes.
        #expect(Set(contents.map(\.count)) == [512, 1024, 1536])
        #expect(contents.count == 1 + 4 + 1 + 3 * 3)
        for expected in [sectors(1), sectors(1, 9, 3), sectors(1, 0, 0), sectors(1, 2, 9), sectors(1, 2, 3)] {
            #expect(contents.contains(expected))
        }
    }

    @Test func partOfASectorAfterTheDurableEndIsFilled() throws {
        let scene = try Scene([1, 1, 1])
        try scene.write(600, [2])
        var options = untorn()
        options.fills = [.stale([8])]
        let contents = Set(scene.images(options).map(\.content))
        let zeroGap = [1, 1, 1] + [UInt8](repeating: 0, count: 509)
        let staleGap = [1, 1, 1] + [UInt8](repeating: 8, count: 509)
        let rest = [UInt8](repeating: 0, count: 88)
        let stale = [UInt8](repeating: 8, count: 89)
        #expect(contents == [[1, 1, 1], staleGap, staleGap + rest + [2], staleGap + stale])
        #expect(!contents.contains(zeroGap))
    }

    @Test func aFileThatIsCutAndGrownAgainIsOldOrZero() throws {
        let scene = try Scene(sectors(1, 2, 3))
        try scene.disk.setSize(scene.file, to: 512)
        try scene.disk.setSize(scene.file, to: 1536)
        let contents = Set(scene.images(untorn()).map(\.content))
        #expect(contents.contains(sectors(1, 2, 3)) && contents.contains(sectors(1)))
        #expect(contents.contains(sectors(1, 0, 3)) && contents.contains(sectors(1, 0, 0)))
        #expect(contents.allSatisfy { $0.starts(with: sectors(1)) })
    }

    @Test func tornSectorsDifferInOneSectorOnly() throws {
        let scene = try Scene(sectors(1, 1, 1))
        try scene.write(0, sectors(2, 2, 2))
        let whole = Set(scene.images(untorn()).map(\.content))
        var options = untorn()
        options.tearing = .everywhere
        let torn = scene.images(options).filter { !whole.contains($0.content) }
        // In 8 choices there are 12 chosen sectors, each torn at 63 places in 2 ways.
        let expected = 12 * 63 * 2
        #expect(torn.count == expected)
        #expect(Set(torn.map(\.content)).count == expected)
        #expect(Set(torn.map(\.hash)).count == expected)
        for image in torn {
            let nearest = whole.map { differingSectors($0, image.content).count }.min()
            #expect(nearest == 1)
            let borders = stride(from: 1, to: image.content.count, by: 1).filter { border in
                border % sectorBytes != 0 && image.content[border] != image.content[border - 1]
            }
            #expect(borders.count == 1 && borders.allSatisfy { $0 % 8 == 0 })
        }
    }

    @Test func manySectorsAreSampled() throws {
        let count = 300
        let scene = try Scene([])
        try scene.write(0, [UInt8](repeating: 1, count: count * sectorBytes))
        var options = untorn(1)
        options.maximumSizes = 2
        options.fills = [.zeros]
        let images = scene.images(options)
        #expect(images.count < 2 * (2 + 5 * 64 + 64) + 1)
        let contents = Set(images.map(\.content))
        let none = [UInt8](repeating: 0, count: count * sectorBytes)
        let all = [UInt8](repeating: 1, count: count * sectorBytes)
        #expect(contents.contains([]) && contents.contains(none) && contents.contains(all))
        #expect(contents.contains { $0.first == 0 && $0.dropFirst(sectorBytes).allSatisfy { $0 == 1 } })
        #expect(contents.contains { $0.last == 0 && $0.dropLast(sectorBytes).allSatisfy { $0 == 1 } })
    }
}

@Suite struct CrashImageNames {
    @Test func aRenameHappensCompletelyOrNotAtAll() throws {
        let scene = try Scene([1])
        let new = try scene.disk.createExclusively("new", in: scene.directory, mode: 0o600)
        try scene.write(0, [2], to: new)
        try scene.disk.synchronize(new)
        try scene.disk.synchronizeDirectory(scene.directory)
        try scene.disk.rename("new", to: "a", in: scene.directory)
        let images = scene.images(untorn())
        #expect(images.map(\.content) == [[1], [2]])
        #expect(images.map { $0.disk.names(in: "/data") } == [["a", "new"], ["a"]])
    }

    @Test func renameBeforeSynchronizeMayLeaveAnEmptyFile() throws {
        let scene = try Scene([1])
        let new = try scene.disk.createUnnamed(in: scene.directory, mode: 0o600)
        try scene.write(0, [2], to: new)
        try scene.disk.publish(new, as: "new", in: scene.directory)
        try scene.disk.rename("new", to: "a", in: scene.directory)
        let contents = Set(scene.images(untorn()).map(\.content))
        #expect(contents.contains([]) && contents.contains([0]) && contents.contains([1]) && contents.contains([2]))
    }

    @Test func orderedNamesArePrefixes() throws {
        for anyNames in [false, true] {
            let scene = try Scene([1])
            for name in ["b", "c", "d"] { _ = try scene.disk.createExclusively(name, in: scene.directory, mode: 0o600) }
            try scene.disk.unlink("a", in: scene.directory)
            var options = untorn()
            options.anyNames = anyNames
            let names = scene.images(options).map { $0.disk.names(in: "/data").joined() }
            if anyNames {
                #expect(names.count == 16 && Set(names).count == 16)
            } else {
                #expect(names == ["a", "ab", "abc", "abcd", "bcd"])
            }
        }
    }
}

@Suite struct CrashImageProperties {
    /// A random workload on two files; the hook enumerates at every change.
    private func run(seed: UInt64, _ check: @escaping @Sendable (SimulatedDisk, CrashImage) -> Void) throws {
        let scene = try Scene([UInt8](repeating: 255, count: 700))
        let disk = scene.disk
        disk.setOnChange { disk in
            var options = CrashOptions(seed: seed)
            options.exhaustiveBits = 5
            options.randomChoices = 4
            options.maximumOfEachList = 4
            disk.forEachCrashImage(options) { image in check(disk, image) }
        }
        var generator = SeededRandom(seed)
        var second = try disk.createExclusively("b", in: scene.directory, mode: 0o600)
        for round in 0..<20 {
            let file = generator.next(below: 2) == 0 ? scene.file : second
            switch generator.next(below: 8) {
            case 0: try disk.synchronize(file)
            case 1: try disk.synchronizeDirectory(scene.directory)
            case 2: try disk.setSize(file, to: UInt64(generator.next(below: 3000)))
            case 3:
                second = try disk.createExclusively("t\(round)", in: scene.directory, mode: 0o600)
                try disk.rename("t\(round)", to: "b", in: scene.directory)
            default:
                let bytes = [UInt8](repeating: UInt8(round + 1), count: 1 + generator.next(below: 1500))
                try scene.write(generator.next(below: 2000), bytes, to: file)
            }
        }
    }

    @Test(arguments: 0..<3 as Range<UInt64>)
    func equalSeedsGiveEqualImages(seed: UInt64) throws {
        let runs = try (0..<2)
            .map { _ in
                let hashes = Guarded<[UInt64]>([])
                try run(seed: seed) { _, image in hashes.withLock { $0.append(image.hash) } }
                return hashes.withLock { $0 }
            }
        #expect(runs[0] == runs[1] && runs[0].count > 500)
    }

    @Test func differentContentsHaveDifferentHashes() throws {
        struct Content: Hashable {
            var names: [String]
            var bytes: [[UInt8]]
        }
        let seen = Guarded<(byHash: [UInt64: Content], byContent: [Content: UInt64])>(([:], [:]))
        try run(seed: 11) { _, image in
            let disk = image.makeDisk()
            let names = disk.names(in: "/data")
            let content = Content(names: names, bytes: names.map { disk.contents(of: "/data/" + $0) ?? [] })
            seen.withLock { seen in
                let sameHash = seen.byHash[image.hash] ?? content
                let sameContent = seen.byContent[content] ?? image.hash
                #expect(sameHash == content && sameContent == image.hash, "\(image)")
                seen.byHash[image.hash] = content
                seen.byContent[content] = image.hash
            }
        }
        #expect(seen.withLock { $0.byHash.count } > 300)
    }

    @Test func nothingDurableIsEverLost() throws {
        let scene = try Scene(sectors(1, 2, 3, 4))
        try scene.disk.allocate(scene.file, offset: 0, count: 8192)
        try scene.write(1024 + 100, [UInt8](repeating: 7, count: 300))
        try scene.write(2048, sectors(5, 6, 7, 8, 9))
        _ = try scene.disk.createExclusively("b", in: scene.directory, mode: 0o600)
        var options = CrashOptions(seed: 3)
        options.tearing = .sampled(3)
        for image in scene.images(options) {
            let content = image.content
            #expect(content.count >= 2048)
            #expect(Array(content[..<1024]) == sectors(1, 2) && Array(content[1536..<2048]) == sectors(4))
            #expect(Array(content[1024..<1124]) == [UInt8](repeating: 3, count: 100))
            #expect(image.disk.names(in: "/data", durable: true).contains("a"))
        }
        // Once synchronized, there is one outcome.
        try scene.disk.synchronize(scene.file)
        try scene.disk.synchronizeDirectory(scene.directory)
        #expect(scene.images(options).count == 1)
    }

    @Test func anImageIsFoundByItsNumber() throws {
        let scene = try Scene(sectors(1))
        try scene.write(100, [UInt8](repeating: 2, count: 3000))
        let options = CrashOptions(seed: 8)
        let images = CrashImages(of: scene.disk, options)
        for image in scene.images(options) where image.number % 7 == 0 {
            let again = try #require(images.makeDisk(number: image.number))
            #expect(again.contents(of: "/data/a") == image.content)
            #expect(image.description.hasPrefix("crash point \(images.crashPoint), image \(image.number): a "))
        }
        #expect(images.makeDisk(number: 1_000_000) == nil)
    }

    @Test func imagesAreIndependentMachines() throws {
        let scene = try Scene(sectors(1))
        try scene.write(0, sectors(2, 3))
        for image in scene.images(CrashOptions(seed: 1)) {
            #expect(image.disk.openDescriptorCount() == 0 && image.disk.fileCount == 1)
            #expect(image.disk.durableContents(of: "/data/a") == image.content)
            let directory = try image.disk.openDirectory("/data")
            let file = try image.disk.open("a", in: directory, access: .readWrite)
            #expect(try image.disk.status(file).identity == scene.disk.status(scene.file).identity)
            try image.disk.setSize(file, to: 0)
        }
        #expect(scene.disk.contents(of: "/data/a") == sectors(2, 3))
        #expect(scene.disk.durableContents(of: "/data/a") == sectors(1))
    }

    /// Processor time of this thread, which the load of the machine does not change.
    private func threadSeconds(_ body: () -> Void) -> Double {
        func now() -> Double {
            var time = timespec()
            clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
            return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
        }
        let start = now()
        body()
        return now() - start
    }

    @Test func imagesAreFast() throws {
        let scene = try Scene([UInt8](repeating: 1, count: 12288))
        for frame in 0..<8 { try scene.write(12288 + frame * 500, [UInt8](repeating: UInt8(frame + 2), count: 500)) }
        let options = CrashOptions(seed: 1)
        var count = 0
        var seen = Set<UInt64>()
        let hashing = threadSeconds {
            for _ in 0..<20 {
                scene.disk.forEachCrashImage(options) { image in
                    count += 1
                    seen.insert(image.hash)
                }
            }
        }
        var made = 0
        let making = threadSeconds {
            scene.disk.forEachCrashImage(options) { image in made += image.makeDisk().fileCount }
        }
        // A far looser bound than the aim of 100,000 a second, for slow machines and debug builds.
        #expect(hashing < Double(count) / 2000)
        #expect(making < Double(made) / 2000)
        #expect(seen.count > 1000)
    }
}
