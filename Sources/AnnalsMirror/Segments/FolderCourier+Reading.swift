// Finds and delivers the segments that a place does not have.

internal import Annals

/// A reader's memory between two calls. It may be lost: everything that matters is in the place.
struct FolderReader {
    /// A file that a place does not have.
    struct Candidate {
        var peer: String
        var name: SegmentName

        /// The file, from the mirror's folder.
        var file: String { FolderNames.folder(ofPeer: peer) + "/" + name.text }
    }

    /// A file that could not be used when it was read last.
    struct Unready {
        var status: MirrorSystem.FileStatus?
        /// When it was first found as it is, in seconds of the steady clock.
        var since: Double
        /// The error to report if it stays as it is; nil if it is only incomplete.
        var error: StoreError?
        var isReported = false
        var lastRead: Double
    }

    /// The files that are left of the last look at the folder, the next one last.
    var candidates: [Candidate] = []
    /// The place that the candidates belong to.
    var placeText = ""
    var unready: [String: Unready] = [:]
    /// The segment that was read in part.
    var current: (path: String, segment: Segment)?
}

/// A batch that grows.
private struct GrowingBatch {
    var messages: [IncomingMessage] = []
    var bytes = 0
    var beganAgain = false
    var place: FolderPlace
    /// Also bounds batches of messages without bodies.
    static let maximumMessages = 1 << 16

    func hasRoom(for body: [UInt8], _ maximumBytes: Int) -> Bool {
        messages.isEmpty || (bytes + body.count <= maximumBytes && messages.count < Self.maximumMessages)
    }
}

extension FolderCourier {
    package func messages(
        after place: CourierPlace?, maximumBytes: Int, waitSeconds seconds: Double
    ) throws -> IncomingBatch {
        let deadline = MirrorSystem.steadySeconds() + seconds
        var interval = FolderWaiter.shortestSeconds
        while true {
            let batch = try read(after: place, maximumBytes: maximumBytes)
            let rest = deadline - MirrorSystem.steadySeconds()
            if !batch.messages.isEmpty || batch.beganAgain || rest <= 0 { return batch }
            let goesOn = try about(path) { try waiter.wait(seconds: min(rest, interval)) }
            if !goesOn { return batch }
            interval = min(interval * 1.5, FolderWaiter.longestSeconds)
        }
    }

    private func read(after place: CourierPlace?, maximumBytes: Int) throws -> IncomingBatch {
        do {
            return try withFolder { try read(after: place, maximumBytes, in: $0) }
        } catch {
            // The next call looks again.
            reader.candidates = []
            throw error
        }
    }

    private func read(after place: CourierPlace?, _ maximumBytes: Int, in root: Int32) throws -> IncomingBatch {
        var batch = GrowingBatch(place: FolderPlace())
        if let place {
            if let known = FolderPlace(place.text) { batch.place = known } else { batch.beganAgain = true }
        }
        ownSerials = (batch.place.peers[peer] ?? [:]).mapValues(\.highest)
        if reader.candidates.isEmpty || reader.placeText != place?.text {
            let found = try look(in: root)
            if batch.place.keep(found.runs) { batch.beganAgain = true }
            begin(found.segments, in: root, at: &batch.place)
            reader.candidates = ordered(found.segments, after: batch.place)
        }
        while let next = reader.candidates.last {
            if try !add(next, in: root, maximumBytes, to: &batch) { break }
            reader.candidates.removeLast()
        }
        guard let hasGivenUp = batch.place.shorten() else { throw tooManyRuns() }
        reader.placeText = batch.place.text
        return IncomingBatch(
            messages: batch.messages, place: CourierPlace(reader.placeText),
            beganAgain: batch.beganAgain || hasGivenUp)
    }

    /// Adds a candidate to a batch if it is ready.
    ///
    /// - Returns: False if the candidate must wait for the next batch.
    private func add(
        _ candidate: FolderReader.Candidate, in root: Int32, _ maximumBytes: Int, to batch: inout GrowingBatch
    ) throws -> Bool {
        switch load(candidate, in: root) {
        case .segment(let segment): return deliver(segment, from: candidate, maximumBytes, into: &batch)
        case .notReady: return true
        case .error(let error):
            // First the batch: the next call finds the error again.
            if !batch.messages.isEmpty { return false }
            reader.unready[segmentPath(candidate)]?.isReported = true
            throw error
        }
    }

    func tooManyRuns() -> StoreError {
        StoreError(
            .courierFull,
            "The folder has segments of more peers than a place can name: remove the subfolders of peers that have "
                + "left the group.",
            path: path)
    }
}

// MARK: Looking

extension FolderCourier {
    typealias Found = (runs: [String: Set<UInt64>], segments: [String: [SegmentName]])

    /// All segments that the folder has, by peer.
    func look(in root: Int32) throws -> Found {
        // Events before are covered by this look; later ones end the next wait.
        waiter.forgetEvents()
        waiter.watch(root)
        var found: Found = ([:], [:])
        for name in try MirrorSystem.names(in: root) {
            guard let peer = FolderNames.peer(ofFolder: name) else { continue }
            try about(path + "/" + name) {
                guard let folder = try openIfFolder(name, in: root) else { return }
                defer { MirrorSystem.closeDescriptor(folder) }
                waiter.watch(folder)
                let segments = try MirrorSystem.names(in: folder).compactMap { SegmentName($0) }
                found.runs[peer] = Set(segments.map(\.run))
                found.segments[peer] = segments
            }
        }
        return found
    }

    /// Nil if the name is not a folder any more.
    private func openIfFolder(_ name: String, in root: Int32) throws(MirrorSystem.Failure) -> Int32? {
        do throws(MirrorSystem.Failure) {
            return try MirrorSystem.openFolder(name, in: root)
        } catch {
            if error.isMissing || error.isOtherKind { return nil }
            throw error
        }
    }

    /// The segments that a place does not have, the first one last. Peers take turns, so that a long past of one does
    /// not delay the others.
    private func ordered(_ segments: [String: [SegmentName]], after place: FolderPlace) -> [FolderReader.Candidate] {
        var ranked: [(rank: Int, candidate: FolderReader.Candidate)] = []
        var paths: Set<String> = []
        for (peer, names) in segments.sorted(by: { $0.key < $1.key }) {
            let unread = names.filter { !place.contains(peer, $0.run, $0.serial) }
            var begins: [UInt64: UInt64] = [:]
            for name in unread { begins[name.run] = min(begins[name.run] ?? .max, name.lowest) }
            let sorted = unread.sorted { left, right in
                let (leftBegin, rightBegin) = (begins[left.run] ?? 0, begins[right.run] ?? 0)
                return (leftBegin, left.run, left.serial) < (rightBegin, right.run, right.serial)
            }
            for (rank, name) in sorted.enumerated() {
                let isPart = place.part.map { ($0.peer, $0.run, $0.serial) == (peer, name.run, name.serial) } ?? false
                let candidate = FolderReader.Candidate(peer: peer, name: name)
                ranked.append((isPart ? -1 : rank, candidate))
                paths.insert(segmentPath(candidate))
            }
        }
        reader.unready = reader.unready.filter { paths.contains($0.key) }
        ranked.sort { ($0.rank, $0.candidate.peer) > ($1.rank, $1.candidate.peer) }
        return ranked.map(\.candidate)
    }

    func segmentPath(_ candidate: FolderReader.Candidate) -> String { path + "/" + candidate.file }
}

// MARK: New peers

extension FolderCourier {
    /// Takes peers into a place that does not have them. Segments that a peer had discarded before are not missing.
    private func begin(_ segments: [String: [SegmentName]], in root: Int32, at place: inout FolderPlace) {
        for (peer, names) in segments where place.peers[peer] == nil {
            for (run, segments) in Dictionary(grouping: names, by: \.run) {
                guard let newest = segments.max(by: { $0.serial < $1.serial }) else { continue }
                let candidate = FolderReader.Candidate(peer: peer, name: newest)
                // An error of this file is reported when it is read.
                let oldest = (try? oldestKept(candidate, in: root)) ?? nil
                if let oldest, oldest > 1 { place.peers[peer, default: [:]][run] = .init(through: oldest - 1) }
            }
        }
    }
}

// MARK: Delivering

extension FolderCourier {
    /// Adds the messages of a segment to a batch.
    ///
    /// - Returns: False if the batch is full. Then the place has the part that was delivered.
    private func deliver(
        _ segment: Segment, from candidate: FolderReader.Candidate, _ maximumBytes: Int, into batch: inout GrowingBatch
    ) -> Bool {
        let (peer, run, serial) = (candidate.peer, candidate.name.run, candidate.name.serial)
        var delivered = 0
        if let part = batch.place.part, (part.peer, part.run, part.serial) == (peer, run, serial) {
            delivered = part.delivered
        }
        while delivered < segment.messages.count {
            let message = segment.messages[delivered]
            guard batch.hasRoom(for: message.body, maximumBytes) else {
                if delivered > 0 {
                    batch.place.part = FolderPlace.Part(peer: peer, run: run, serial: serial, delivered: delivered)
                }
                return false
            }
            batch.messages.append(IncomingMessage(sender: peer, number: message.number, body: message.body))
            batch.bytes += message.body.count
            delivered += 1
        }
        // A reader that does not know the peer has missed nothing that it expects.
        let isExpected = batch.place.peers[peer] != nil
        var progress = batch.place.peers[peer]?[run] ?? FolderPlace.Progress()
        let hasMissed = progress.skip(through: segment.oldestKept - 1)
        batch.place.peers[peer, default: [:]][run] = progress
        batch.place.insert(peer, run, serial)
        if hasMissed && isExpected { batch.beganAgain = true }
        reader.current = nil
        return true
    }
}
