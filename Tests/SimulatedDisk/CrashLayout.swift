// One file prepared for crash images: for each sector what may stand there, with its hash.

import TestSupport

/// What a disk shows in places inside the file's size to which nothing was written.
package enum CrashFill: Sendable {
    case zeros
    /// Bytes that depend on the seed and their place.
    case garbage
    /// Former content of the disk: these bytes from the file's beginning on, over and over.
    case stale([UInt8])

    var name: String {
        switch self {
        case .zeros: "zeros"
        case .garbage: "garbage"
        case .stale: "stale"
        }
    }

    /// Fills `bytes`, which begin at `offset` of the file.
    func fill(_ bytes: UnsafeMutableBufferPointer<UInt8>, at offset: Int, seed: UInt64) {
        switch self {
        case .stale(let former) where !former.isEmpty:
            for index in bytes.indices { bytes[index] = former[(offset + index) % former.count] }
        case .zeros, .stale: bytes.update(repeating: 0)
        case .garbage:
            for index in bytes.indices {
                let place = UInt64(offset + index)
                bytes[index] = UInt8(truncatingIfNeeded: SeededRandom.mix(seed &+ place / 8) >> (place % 8 * 8))
            }
        }
    }
}

/// The choices that a power cut has for one file.
///
/// - The *base* of a fill is what stands in every sector that is not chosen: durable bytes, and the fill after them.
/// - A *version* of a sector is its content after one of the pending operations; the last one is the newest.
final class CrashLayout {
    struct PendingSector {
        var index: Int
        /// Contents of 512 bytes each, at these offsets of `versionBytes`, the oldest first.
        var versions: [Int] = []
        /// By version: the ordinal of the pending operation that made it.
        var ordinals: [Int] = []
        var hashes: [UInt64] = []
    }

    let inode: Int
    let durable: [UInt8]
    let mode: UInt32
    let kind: InodeKind
    let owner: UInt32
    let group: UInt32
    private(set) var sectors: [PendingSector] = []
    private(set) var versionBytes: [UInt8] = []
    /// The sizes that the file may have, the durable one first, the last one last.
    private(set) var sizes: [Int] = []
    /// The first sector that is not wholly durable: holes can be from here on.
    let firstGrowthSector: Int
    /// By fill: the base from `firstGrowthSector` on.
    private var tails: [[UInt8]] = []
    /// By fill: the sum of the base's contributions of all sectors below an index.
    private var sums: [[UInt64]] = []

    init(_ inode: Inode, index: Int, options: CrashOptions) {
        self.inode = index
        durable = inode.durable
        mode = inode.mode
        kind = inode.kind
        owner = inode.owner
        group = inode.group
        firstGrowthSector = inode.durable.count / sectorBytes
        collectVersions(inode.pending, limit: options.maximumVersions)
        sizes = CrashLayout.sizes(of: inode, limit: options.maximumSizes, seed: options.seed)
        let sectorCount = roundedUpToSector(sizes.max() ?? 0) / sectorBytes
        for fill in options.fills { addBase(fill, sectorCount: sectorCount, seed: options.seed) }
        for position in sectors.indices {
            let sector = sectors[position]
            sectors[position].hashes = sector.versions.map { version in
                versionBytes.withUnsafeBytes {
                    SectorHash.contribution(of: $0.baseAddress! + version, at: sector.index)
                }
            }
        }
    }

    // MARK: Preparing

    private func collectVersions(_ operations: [PendingOperation], limit: Int) {
        var positions: [Int: Int] = [:]
        for (ordinal, operation) in operations.enumerated() {
            for start in stride(from: 0, to: operation.sectors.count, by: sectorBytes) {
                let index = operation.firstSector + start / sectorBytes
                let content = operation.sectors[start..<start + sectorBytes]
                let position = positions[index] ?? sectors.count
                if position == sectors.count {
                    guard !isDurable(content, at: index) else { continue }
                    positions[index] = position
                    sectors.append(PendingSector(index: index))
                } else if let last = sectors[position].versions.last,
                    versionBytes[last..<last + sectorBytes].elementsEqual(content)
                {
                    continue
                }
                sectors[position].versions.append(versionBytes.count)
                sectors[position].ordinals.append(ordinal)
                versionBytes.append(contentsOf: content)
            }
        }
        sectors.sort { $0.index < $1.index }
        for position in sectors.indices { thin(&sectors[position], to: limit) }
    }

    /// Whether the content is what is durable there anyway, so that it makes no difference.
    private func isDurable(_ content: ArraySlice<UInt8>, at index: Int) -> Bool {
        let start = index * sectorBytes
        return start + sectorBytes <= durable.count && durable[start..<start + sectorBytes].elementsEqual(content)
    }

    /// Keeps `limit` versions, evenly spread, the newest among them.
    private func thin(_ sector: inout PendingSector, to limit: Int) {
        let count = sector.versions.count
        guard count > limit else { return }
        let kept = (1...limit).map { $0 * count / limit - 1 }
        sector.versions = kept.map { sector.versions[$0] }
        sector.ordinals = kept.map { sector.ordinals[$0] }
    }

    private static func sizes(of inode: Inode, limit: Int, seed: UInt64) -> [Int] {
        var sizes = [inode.durable.count]
        for operation in inode.pending { sizes.append(operation.newSize(after: sizes[sizes.count - 1])) }
        let final = sizes[sizes.count - 1]
        let range = (sizes.min() ?? 0)...(sizes.max() ?? 0)
        var others = Set(sizes)
        let borders = stride(
            from: roundedUpToSector(range.lowerBound + 1), to: range.upperBound, by: sectorBytes)
        // Both sorts are sampled alike: the sizes that the file had come first in half of the room.
        others.subtract([sizes[0], final])
        var generator = SeededRandom(seed &+ UInt64(final))
        var chosen = Array(others.sorted().shuffled(using: &generator).prefix(max(0, limit - 2) / 2))
        let room = max(0, limit - 2 - chosen.count)
        let known = Set(chosen).union([sizes[0], final])
        chosen += Array(borders).filter { !known.contains($0) }.shuffled(using: &generator).prefix(room)
        return [sizes[0]] + chosen.sorted() + (final == sizes[0] ? [] : [final])
    }

    private func addBase(_ fill: CrashFill, sectorCount: Int, seed: UInt64) {
        let tailCount = max(0, sectorCount - firstGrowthSector) * sectorBytes
        let kept = min(durable.count % sectorBytes, tailCount)
        let tail = [UInt8](unsafeUninitializedCapacity: tailCount) { buffer, initialized in
            initialized = tailCount
            guard tailCount > 0 else { return }
            buffer.initialize(repeating: 0)
            for index in 0..<kept { buffer[index] = durable[durable.count - kept + index] }
            fill.fill(.init(rebasing: buffer[kept...]), at: durable.count, seed: seed)
        }
        tails.append(tail)
        var sum: [UInt64] = [0]
        sum.reserveCapacity(sectorCount + 1)
        // The durable part is the same under every fill.
        if let first = sums.first { sum = Array(first[...min(firstGrowthSector, sectorCount)]) }
        while sum.count <= sectorCount {
            let index = sum.count - 1
            let contribution = withBase(index, fill: tails.count - 1) { SectorHash.contribution(of: $0, at: index) }
            sum.append(sum[index] &+ contribution)
        }
        sums.append(sum)
    }

    // MARK: Reading

    /// The base's content of a sector.
    func withBase<Result>(_ index: Int, fill: Int, _ body: (UnsafeRawPointer) -> Result) -> Result {
        if index < firstGrowthSector {
            return durable.withUnsafeBytes { body($0.baseAddress! + index * sectorBytes) }
        }
        return tails[fill].withUnsafeBytes { body($0.baseAddress! + (index - firstGrowthSector) * sectorBytes) }
    }

    func withVersion<Result>(_ version: Int, of position: Int, _ body: (UnsafeRawPointer) -> Result) -> Result {
        versionBytes.withUnsafeBytes { body($0.baseAddress! + sectors[position].versions[version]) }
    }

    /// The sum of the base's contributions of the sectors below `index`.
    func baseSum(below index: Int, fill: Int) -> UInt64 { sums[fill][index] }

    func baseContribution(of index: Int, fill: Int) -> UInt64 { sums[fill][index + 1] &- sums[fill][index] }

    /// The first `size` bytes of the base.
    func base(size: Int, fill: Int) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: size) { buffer, initialized in
            let whole = min(size, firstGrowthSector * sectorBytes)
            let target = UnsafeMutableRawBufferPointer(buffer)
            durable.withUnsafeBytes { target.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[..<whole])) }
            if size > whole {
                tails[fill].withUnsafeBytes { tail in
                    UnsafeMutableRawBufferPointer(rebasing: target[whole...])
                        .copyMemory(from: UnsafeRawBufferPointer(rebasing: tail[..<(size - whole)]))
                }
            }
            initialized = size
        }
    }
}
