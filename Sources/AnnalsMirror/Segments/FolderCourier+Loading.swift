// Reads segments, and remembers those that are not ready.

internal import Annals

/// The outcome for a candidate.
enum LoadedSegment {
    case segment(Segment)
    /// It is incomplete, gone, or was reported already.
    case notReady
    case error(StoreError)
}

extension FolderCourier {
    /// Reads a candidate unless it is known not to be ready.
    func load(_ candidate: FolderReader.Candidate, in root: Int32) -> LoadedSegment {
        let path = segmentPath(candidate)
        if let current = reader.current, current.path == path { return .segment(current.segment) }
        let now = MirrorSystem.steadySeconds()
        let status = (try? MirrorSystem.status(of: candidate.file, in: root)) ?? nil
        if let known = reader.unready[path], known.status == status, !isDue(known, at: now) { return .notReady }
        do throws(StoreError) {
            let segment = try content(of: candidate, path, in: root)
            note(path, status, nil, at: now)
            guard let segment else { return .notReady }
            reader.unready[path] = nil
            reader.current = (path, segment)
            return .segment(segment)
        } catch {
            if error.code == .courierSettings { return .error(error) }
            return note(path, status, error, at: now) ? .error(error) : .notReady
        }
    }

    /// Whether a file that did not change is worth another look.
    private func isDue(_ unready: FolderReader.Unready, at now: Double) -> Bool {
        if now - unready.lastRead >= rereadingSeconds { return true }
        return unready.error != nil && !unready.isReported && now - unready.since >= settlingSeconds
    }

    /// Remembers a file that is not ready.
    ///
    /// - Returns: Whether its error is to be reported now.
    @discardableResult
    private func note(
        _ path: String, _ status: MirrorSystem.FileStatus?, _ error: StoreError?, at now: Double
    ) -> Bool {
        var unready =
            reader.unready[path] ?? FolderReader.Unready(status: status, since: now, error: nil, lastRead: now)
        if unready.status != status { unready.since = now }
        unready.status = status
        unready.error = error
        unready.lastRead = now
        reader.unready[path] = unready
        return error != nil && !unready.isReported && now - unready.since >= settlingSeconds
    }

    /// Nil if the file is incomplete or gone.
    private func content(
        of candidate: FolderReader.Candidate, _ path: String, in root: Int32
    ) throws(StoreError) -> Segment? {
        let found: [UInt8]?
        do throws(MirrorSystem.Failure) {
            found = try Self.bytes(of: candidate.file, in: root)
        } catch {
            if error.isMissing { return nil }
            throw FolderError.failure(error, path)
        }
        guard let bytes = found else {
            throw FolderError.damaged("The file is larger than any segment.", path, offset: 0)
        }
        switch Segment.read(bytes) {
        case .complete(let segment):
            try check(segment, candidate, path)
            return segment
        case .incomplete: return nil
        case .laterVersion: throw FolderError.laterVersion(path)
        case .damaged(let offset, let sentence): throw FolderError.damaged(sentence, path, offset: offset)
        }
    }

    /// A segment that a person or a synchronizer has renamed or moved is not what its name says.
    private func check(
        _ segment: Segment, _ candidate: FolderReader.Candidate, _ path: String
    ) throws(StoreError) {
        if segment.group != group { throw FolderError.otherGroup(segment.group, path) }
        let name = SegmentName(run: segment.run, serial: segment.serial, numbers: segment.numbers)
        if name != candidate.name || segment.sender != candidate.peer {
            throw FolderError.damaged("The segment has the name of another one.", path, offset: 0)
        }
    }

    /// The bytes of a file; nil if it is larger than a segment can be.
    private static func bytes(of file: String, in root: Int32) throws(MirrorSystem.Failure) -> [UInt8]? {
        let file = try MirrorSystem.openFile(file, in: root)
        defer { MirrorSystem.closeDescriptor(file) }
        let count = try MirrorSystem.status(file).bytes
        if count > SegmentFormat.maximumFileBytes { return nil }
        return try MirrorSystem.readBytes(file, at: 0, count: count)
    }
}

// MARK: The newest place

extension FolderCourier {
    package func newestPlace() throws -> CourierPlace {
        try withFolder { root in
            var place = FolderPlace()
            for (peer, names) in try look(in: root).segments {
                for name in names {
                    let candidate = FolderReader.Candidate(peer: peer, name: name)
                    guard let oldest = try about(segmentPath(candidate), { try oldestKept(candidate, in: root) })
                    else { continue }
                    var progress = place.peers[peer]?[name.run] ?? FolderPlace.Progress()
                    _ = progress.skip(through: oldest - 1)
                    progress.insert(name.serial)
                    place.peers[peer, default: [:]][name.run] = progress
                }
            }
            guard place.shorten() != nil else { throw tooManyRuns() }
            ownSerials = (place.peers[peer] ?? [:]).mapValues(\.highest)
            return CourierPlace(place.text)
        }
    }

    /// The oldest serial that was kept when a complete segment was written; nil if the segment is not complete.
    func oldestKept(
        _ candidate: FolderReader.Candidate, in root: Int32
    ) throws(MirrorSystem.Failure) -> UInt64? {
        do throws(MirrorSystem.Failure) {
            let file = try MirrorSystem.openFile(candidate.file, in: root)
            defer { MirrorSystem.closeDescriptor(file) }
            let bytes = try MirrorSystem.readBytes(file, at: 0, count: SegmentFormat.maximumHeaderBytes)
            guard case .success(let header) = SegmentHeader.read(bytes) else { return nil }
            return try MirrorSystem.status(file).bytes == header.fileBytes ? header.oldestKept : nil
        } catch {
            if error.isMissing { return nil }
            throw error
        }
    }
}
