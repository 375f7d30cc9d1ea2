// The place of a reader in a folder: which segments of each peer it has read. Pure.

/// The segments that were read.
///
/// 1. `through` of a run is a serial that it was read to without a gap.
/// 2. `later` has the serials above it that were read already, as separate ranges in rising order, the first of which
///    begins above `through + 1`.
/// 3. At most one segment is read in part.
package struct FolderPlace: Equatable {
    package struct Progress: Equatable {
        package var through: UInt64 = 0
        package var later: [ClosedRange<UInt64>] = []

        package init(through: UInt64 = 0) { self.through = through }
    }

    package struct Part: Equatable {
        package var peer: String
        package var run: UInt64
        package var serial: UInt64
        /// The messages of the segment that were delivered.
        package var delivered: Int
    }

    package var peers: [String: [UInt64: Progress]] = [:]
    package var part: Part?

    package init() {}

    /// The longest text of a place, in bytes. Stores keep it with each batch that they apply.
    package static let maximumTextBytes = 16 << 10
    /// No serial is higher, so that sums of serials do not overflow.
    package static let maximumSerial: UInt64 = 1 << 60
}

// MARK: Progress

extension FolderPlace.Progress {
    package func contains(_ serial: UInt64) -> Bool {
        if serial <= through { return true }
        let index = index(after: serial)
        return index > 0 && later[index - 1].contains(serial)
    }

    /// The index of the first range that begins after a serial.
    private func index(after serial: UInt64) -> Int {
        var (low, high) = (0, later.count)
        while low < high {
            let middle = (low + high) / 2
            if later[middle].lowerBound > serial { high = middle } else { low = middle + 1 }
        }
        return low
    }

    /// The highest serial that was read.
    package var highest: UInt64 { later.last?.upperBound ?? through }

    package mutating func insert(_ serial: UInt64) {
        if contains(serial) { return }
        let index = index(after: serial)
        later.insert(serial...serial, at: index)
        join(at: index)
        absorb()
    }

    /// Gives up serials that will not come any more.
    ///
    /// - Returns: Whether one of them was not read.
    package mutating func skip(through serial: UInt64) -> Bool {
        if serial <= through { return false }
        var missing = serial - through
        while let first = later.first, first.lowerBound <= serial {
            missing -= min(first.upperBound, serial) - first.lowerBound + 1
            if first.upperBound > serial { break }
            later.removeFirst()
        }
        through = serial
        if let first = later.first, first.lowerBound <= serial {
            through = first.upperBound
            later.removeFirst()
        }
        absorb()
        return missing > 0
    }

    /// Joins the range at an index with its neighbours if nothing is between them.
    private mutating func join(at index: Int) {
        if index + 1 < later.count, later[index].upperBound + 1 == later[index + 1].lowerBound {
            later[index] = later[index].lowerBound...later[index + 1].upperBound
            later.remove(at: index + 1)
        }
        if index > 0, later[index - 1].upperBound + 1 == later[index].lowerBound {
            later[index - 1] = later[index - 1].lowerBound...later[index].upperBound
            later.remove(at: index)
        }
    }

    private mutating func absorb() {
        while let first = later.first, first.lowerBound - 1 <= through {
            through = max(through, first.upperBound)
            later.removeFirst()
        }
    }
}

// MARK: The place

extension FolderPlace {
    package func contains(_ peer: String, _ run: UInt64, _ serial: UInt64) -> Bool {
        peers[peer]?[run]?.contains(serial) ?? false
    }

    package mutating func insert(_ peer: String, _ run: UInt64, _ serial: UInt64) {
        peers[peer, default: [:]][run, default: Progress()].insert(serial)
        if let part, part.peer == peer, part.run == run, part.serial == serial { self.part = nil }
    }

    /// Forgets runs of which the folder has no segments any more.
    ///
    /// A writer keeps a segment that all readers know, so a peer without any known run has lost its segments.
    ///
    /// - Parameter runs: The runs that the folder has, by peer.
    /// - Returns: Whether a peer has lost all runs that were known.
    package mutating func keep(_ runs: [String: Set<UInt64>]) -> Bool {
        var hasLost = false
        for (peer, known) in peers {
            let rest = known.filter { runs[peer]?.contains($0.key) ?? false }
            if rest.isEmpty && !known.isEmpty { hasLost = true }
            peers[peer] = rest.isEmpty ? nil : rest
        }
        if let part, runs[part.peer]?.contains(part.run) != true { self.part = nil }
        return hasLost
    }

    /// Gives up the oldest gaps of the run that has most of them, until the text is within its limit.
    ///
    /// - Returns: Whether a gap was given up; nil if the text is too long without gaps as well.
    package mutating func shorten() -> Bool? {
        var hasGivenUp = false
        while text.utf8.count > Self.maximumTextBytes {
            var most: (peer: String, run: UInt64, count: Int)?
            for (peer, runs) in peers {
                for (run, progress) in runs where progress.later.count > most?.count ?? 0 {
                    most = (peer, run, progress.later.count)
                }
            }
            guard let most, var progress = peers[most.peer]?[most.run] else { return nil }
            _ = progress.skip(through: progress.later[most.count / 2].lowerBound - 1)
            peers[most.peer]?[most.run] = progress
            hasGivenUp = true
        }
        return hasGivenUp
    }
}

// MARK: Text

extension FolderPlace {
    /// The first word of every text. Later forms have another one.
    private static let mark = "folder1"

    /// `folder1 PEER=RUN:THROUGH,FROM-TO/RUN:THROUGH PEER=… @PEER=RUN:SERIAL:DELIVERED`. Equal places have equal texts.
    package var text: String {
        var words = [Self.mark]
        for (peer, runs) in peers.sorted(by: { $0.key < $1.key }) {
            let list = runs.sorted { $0.key < $1.key }.map { run, progress in
                let numbers = [String(progress.through)] + progress.later.map(Self.text)
                return String(run, radix: 16) + ":" + numbers.joined(separator: ",")
            }
            words.append(FolderNames.encoded(peer) + "=" + list.joined(separator: "/"))
        }
        if let part {
            let run = String(part.run, radix: 16)
            words.append("@\(FolderNames.encoded(part.peer))=\(run):\(part.serial):\(part.delivered)")
        }
        return words.joined(separator: " ")
    }

    private static func text(_ range: ClosedRange<UInt64>) -> String {
        range.lowerBound == range.upperBound ? String(range.lowerBound) : "\(range.lowerBound)-\(range.upperBound)"
    }

    /// Nil if the text is not that of a place.
    package init?(_ text: String) {
        guard text.utf8.count <= Self.maximumTextBytes else { return nil }
        let words = text.split(separator: " ", omittingEmptySubsequences: false)
        guard words.first == Self.mark[...] else { return nil }
        for word in words.dropFirst() {
            guard read(word) else { return nil }
        }
    }

    private mutating func read(_ word: Substring) -> Bool {
        let isPart = word.first == "@"
        let sides = word.drop { $0 == "@" }.split(separator: "=", omittingEmptySubsequences: false)
        guard sides.count == 2, let peer = FolderNames.decoded(sides[0]) else { return false }
        if isPart {
            part = Self.part(peer, sides[1])
            return part != nil
        }
        var runs: [UInt64: Progress] = [:]
        for item in sides[1].split(separator: "/", omittingEmptySubsequences: false) {
            let halves = item.split(separator: ":", omittingEmptySubsequences: false)
            guard halves.count == 2, let run = FolderNames.number(halves[0], radix: 16),
                let progress = Progress(halves[1])
            else { return false }
            runs[run] = progress
        }
        peers[peer] = runs
        return true
    }

    private static func part(_ peer: String, _ text: Substring) -> Part? {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 3, let run = FolderNames.number(parts[0], radix: 16),
            let serial = FolderNames.number(parts[1]),
            let delivered = FolderNames.number(parts[2]).flatMap({ Int(exactly: $0) })
        else { return nil }
        return Part(peer: peer, run: run, serial: serial, delivered: delivered)
    }
}

extension FolderPlace.Progress {
    /// Nil unless the ranges are in order, as invariant 2 demands.
    fileprivate init?(_ text: Substring) {
        let items = text.split(separator: ",", omittingEmptySubsequences: false)
        guard let through = FolderNames.number(items[0]), through <= FolderPlace.maximumSerial else { return nil }
        self.through = through
        var previous = through
        for item in items.dropFirst() {
            let ends = item.split(separator: "-", omittingEmptySubsequences: false).map { FolderNames.number($0) }
            guard ends.count <= 2, let lower = ends[0], let upper = ends[ends.count - 1], lower <= upper,
                lower > previous, lower - 1 > previous, upper <= FolderPlace.maximumSerial
            else { return nil }
            later.append(lower...upper)
            previous = upper
        }
    }
}
