// The choice that a crash image stands for, its hash, and its bytes.

import TestSupport

/// A sector of which only a part reached the disk.
struct CrashTear {
    /// Position in the list of all files' pending sectors.
    var sector: Int
    /// How many of its first bytes are of one kind; a multiple of 8.
    var bytes: Int
    /// Whether these are the new ones, or the older ones.
    var newComesFirst: Bool
}

/// The current choice. One object is changed from image to image, so that an image costs no allocation.
final class CrashState {
    let files: [CrashLayout]
    let names: [NameTable]
    private let options: CrashOptions
    /// By file: where its pending sectors begin in the list of all.
    private let firstSectors: [Int]
    /// By file: how many names it has.
    private let linkCounts: [Int]
    /// Each name with its hash and the position of its file.
    private let entries: [(name: UInt64, file: Int)]

    private var choice: SectorChoice = []
    private var sizes: [Int] = []
    private var fill = 0
    var tear: CrashTear?

    init(files: [CrashLayout], names: [NameTable], options: CrashOptions) {
        self.files = files
        self.names = names
        self.options = options
        var first = 0
        firstSectors = files.map { file in
            defer { first += file.sectors.count }
            return first
        }
        linkCounts = files.map { file in
            names.reduce(0) { count, table in count + table.entries.count { $0.inode == file.inode } }
        }
        var entries: [(name: UInt64, file: Int)] = []
        for (directory, table) in names.enumerated() {
            for entry in table.entries {
                guard let file = files.firstIndex(where: { $0.inode == entry.inode }) else { continue }
                entries.append((SectorHash.name(entry.name, inDirectory: directory), file))
            }
        }
        self.entries = entries
    }

    // MARK: Choosing

    func choose(_ choice: SectorChoice, sizes: [Int]) {
        self.choice = choice
        self.sizes = sizes
    }

    func choose(fill: Int) { self.fill = fill }

    /// Whether some bytes inside a file's size are neither durable nor chosen.
    var hasHole: Bool {
        files.indices.contains { file in
            let layout = files[file]
            let sectorCount = roundedUpToSector(sizes[file]) / sectorBytes
            guard sizes[file] > layout.durable.count else { return false }
            var missing = sectorCount - layout.firstGrowthSector
            for (position, sector) in layout.sectors.enumerated()
            where sector.index >= layout.firstGrowthSector && sector.index < sectorCount {
                if choice[firstSectors[file] + position] != 0 { missing -= 1 }
            }
            return missing > 0
        }
    }

    /// Whether a chosen sector lies wholly after its file's end.
    var hasChoiceBeyondSizes: Bool {
        files.indices.contains { file in
            // The sectors are sorted.
            for position in files[file].sectors.indices.reversed() {
                guard files[file].sectors[position].index * sectorBytes >= sizes[file] else { return false }
                if choice[firstSectors[file] + position] != 0 { return true }
            }
            return false
        }
    }

    /// The chosen sectors that are inside their file's size, as positions in the list of all.
    var chosenSectors: [Int] {
        files.indices.flatMap { file in
            files[file].sectors.indices
                .filter {
                    choice[firstSectors[file] + $0] != 0 && files[file].sectors[$0].index * sectorBytes < sizes[file]
                }
                .map { firstSectors[file] + $0 }
        }
    }

    // MARK: The hash

    func hash() -> UInt64 {
        var sum: UInt64 = 0
        for entry in entries { sum &+= SectorHash.entry(name: entry.name, file: fileHash(entry.file)) }
        return SeededRandom.mix(sum)
    }

    private func fileHash(_ file: Int) -> UInt64 {
        let layout = files[file]
        let size = sizes[file]
        let whole = size / sectorBytes
        let first = firstSectors[file]
        var sum = layout.baseSum(below: whole, fill: fill)
        var lastPosition: Int?
        for position in layout.sectors.indices {
            let chosen = Int(choice[first + position])
            let index = layout.sectors[position].index
            guard chosen > 0, index <= whole else { continue }
            if index == whole {
                lastPosition = position
            } else if tear?.sector == first + position {
                sum &-= layout.baseContribution(of: index, fill: fill)
                sum &+= withContent(of: file, position) { SectorHash.contribution(of: $0, at: index) }
            } else {
                sum &-= layout.baseContribution(of: index, fill: fill)
                sum &+= layout.sectors[position].hashes[chosen - 1]
            }
        }
        let rest = size % sectorBytes
        if rest > 0 {
            let contribution = { (sector: UnsafeRawPointer) in
                SectorHash.contribution(of: sector, cutTo: rest, at: whole)
            }
            if let lastPosition {
                sum &+= withContent(of: file, lastPosition, contribution)
            } else {
                sum &+= layout.withBase(whole, fill: fill, contribution)
            }
        }
        return SectorHash.file(sum: sum, size: size, links: linkCounts[file])
    }

    /// The 512 bytes of a chosen sector, torn if it is the torn one.
    private func withContent<Result>(
        of file: Int, _ position: Int, _ body: (UnsafeRawPointer) -> Result
    ) -> Result {
        let layout = files[file]
        let all = firstSectors[file] + position
        let version = Int(choice[all]) - 1
        guard let tear, tear.sector == all else { return layout.withVersion(version, of: position, body) }
        return withUnsafeTemporaryAllocation(byteCount: sectorBytes, alignment: 8) { buffer in
            let copy = { (source: UnsafeRawPointer, range: Range<Int>) in
                UnsafeMutableRawBufferPointer(rebasing: buffer[range])
                    .copyMemory(from: UnsafeRawBufferPointer(start: source + range.lowerBound, count: range.count))
            }
            let newRange = tear.newComesFirst ? 0..<tear.bytes : tear.bytes..<sectorBytes
            let oldRange = tear.newComesFirst ? tear.bytes..<sectorBytes : 0..<tear.bytes
            layout.withVersion(version, of: position) { copy($0, newRange) }
            if version > 0 {
                layout.withVersion(version - 1, of: position) { copy($0, oldRange) }
            } else {
                layout.withBase(layout.sectors[position].index, fill: fill) { copy($0, oldRange) }
            }
            return body(UnsafeRawPointer(buffer.baseAddress!))
        }
    }

    // MARK: The bytes

    /// Puts the files and names into a new machine, under the inode numbers that they had.
    func fill(_ machine: inout Machine) {
        for file in files.indices {
            let layout = files[file]
            var inode = Inode(durable: bytes(of: file))
            inode.kind = layout.kind
            inode.mode = layout.mode
            inode.owner = layout.owner
            inode.group = layout.group
            inode.links = UInt64(linkCounts[file])
            while machine.inodes.count <= layout.inode {
                var free = Inode()
                free.release()
                machine.inodes.append(free)
            }
            machine.inodes[layout.inode] = inode
        }
        machine.directories = zip(machine.directories, names).map { Directory(path: $0.path, durable: $1) }
    }

    private func bytes(of file: Int) -> [UInt8] {
        let layout = files[file]
        let size = sizes[file]
        // Nothing chosen: the durable bytes are shared, not copied.
        if size == layout.durable.count, layout.sectors.isEmpty { return layout.durable }
        var bytes = layout.base(size: size, fill: fill)
        bytes.withUnsafeMutableBytes { bytes in
            for (position, sector) in layout.sectors.enumerated()
            where choice[firstSectors[file] + position] != 0 && sector.index * sectorBytes < size {
                let start = sector.index * sectorBytes
                let count = min(sectorBytes, size - start)
                withContent(of: file, position) { content in
                    UnsafeMutableRawBufferPointer(rebasing: bytes[start..<start + count])
                        .copyMemory(from: UnsafeRawBufferPointer(start: content, count: count))
                }
            }
        }
        return bytes
    }

    /// For each file with pending sectors or sizes: its names, its size, and for each pending sector the chosen
    /// version.
    var description: String {
        var parts = names.flatMap { $0.entries }.compactMap { entry -> String? in
            guard let file = files.firstIndex(where: { $0.inode == entry.inode }) else { return nil }
            let sectors = files[file].sectors.enumerated().map { position, sector in
                let all = firstSectors[file] + position
                return "\(sector.index)v\(choice[all])" + (tear?.sector == all ? "~" : "")
            }
            return "\(entry.name) \(sizes[file]) bytes, sectors [\(sectors.joined(separator: " "))]"
        }
        if hasHole || tear != nil { parts.append("holes \(options.fills[fill].name)") }
        if let tear { parts.append("torn \(tear.newComesFirst ? "new" : "old") first at \(tear.bytes)") }
        return parts.joined(separator: "; ")
    }
}
