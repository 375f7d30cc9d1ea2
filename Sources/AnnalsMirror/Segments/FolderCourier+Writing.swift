// Appends segments and discards them.

internal import Annals

/// The run that a courier writes.
struct FolderWriter {
    var run: UInt64
    /// The serial of the last segment; 0 before the first one.
    var serial: UInt64 = 0
    /// The lowest serial of the run that is still in the folder.
    var oldestKept: UInt64 = 1
    /// The file of the last segment, to notice that the folder was emptied.
    var lastName: SegmentName?

    init(run: UInt64) { self.run = run }

    static func new() -> FolderWriter { FolderWriter(run: UInt64.random(in: 1 ... .max)) }
}

extension FolderCourier {
    private var ownPath: String { path + "/" + FolderNames.folder(ofPeer: peer) }

    package func append(_ messages: [OutgoingMessage]) throws {
        if messages.isEmpty { return }
        for message in messages where message.body.count > maximumBodyBytes {
            throw StoreError(
                .invalidArgument,
                "A message has \(message.body.count) bytes, and a folder takes at most \(maximumBodyBytes): divide it.")
        }
        try withFolder { root in
            try about(ownPath) {
                let folder = try disk.openOrMakeFolder(FolderNames.folder(ofPeer: peer), in: root)
                defer { MirrorSystem.closeDescriptor(folder) }
                try startWriting(in: folder, root)
                for part in parts(of: messages) {
                    try goOn()
                    try write(part, in: folder)
                }
                try disk.synchronizeFolder(folder)
            }
        }
    }

    /// Continues the run that this store has read last, or begins a run.
    private func startWriting(in folder: Int32, _ root: Int32) throws {
        if let last = writer?.lastName {
            if try MirrorSystem.status(of: last.text, in: folder) != nil { return }
            // The folder was emptied or restored. Serials of this run may be known to readers already.
            ownSerials = [:]
        } else if writer != nil {
            return
        }
        let names = try MirrorSystem.names(in: folder)
        try disk.removeOldTemporaries(in: folder, names: names)
        try disk.removeOldTemporaries(in: root, names: MirrorSystem.names(in: root))
        writer = continued(names.compactMap { SegmentName($0) }) ?? .new()
    }

    /// The run that continues with the segments of a folder; nil if none provably does.
    private func continued(_ segments: [SegmentName]) -> FolderWriter? {
        let runs = Dictionary(grouping: segments, by: \.run)
        let complete = runs.filter { run, segments in
            guard let known = ownSerials[run] else { return false }
            return segments.contains { $0.serial >= known }
        }
        let newest = complete.values.compactMap { $0.max { $0.serial < $1.serial } }
        guard let last = newest.max(by: { ($0.highest, $0.serial) < ($1.highest, $1.serial) }) else { return nil }
        var writer = FolderWriter(run: last.run)
        writer.serial = last.serial
        writer.lastName = last
        writer.oldestKept = runs[last.run]?.map(\.serial).min() ?? last.serial
        return writer
    }

    /// Divides messages into what fits into one segment each.
    private func parts(of messages: [OutgoingMessage]) -> [ArraySlice<OutgoingMessage>] {
        let room =
            min(maximumSegmentBytes, SegmentFormat.maximumFileBytes) - Segment.headerBytes(group: group, sender: peer)
            - SegmentFormat.checksumBytes
        var parts: [ArraySlice<OutgoingMessage>] = []
        var start = 0
        var bytes = 0
        for (index, message) in messages.enumerated() {
            let more = Segment.bytes(of: message)
            if bytes > 0 && bytes + more > room {
                parts.append(messages[start..<index])
                start = index
                bytes = 0
            }
            bytes += more
        }
        parts.append(messages[start...])
        return parts
    }

    private func write(_ messages: ArraySlice<OutgoingMessage>, in folder: Int32) throws {
        while true {
            var next = writer ?? .new()
            next.serial += 1
            let segment = Segment(
                group: group, sender: peer, run: next.run, serial: next.serial, oldestKept: next.oldestKept,
                messages: Array(messages))
            let name = SegmentName(run: next.run, serial: next.serial, numbers: segment.numbers)
            if try disk.writeFile(name.text, in: folder, { try $0(segment.encoded()) }) {
                next.lastName = name
                writer = next
                return
            }
            // Another writer has the name: a copy of this store, which goes on with the same run.
            writer = .new()
        }
    }

    package func discard(through number: UInt64) throws {
        try withFolder { root in
            try about(ownPath) {
                let folder: Int32
                do throws(MirrorSystem.Failure) {
                    folder = try MirrorSystem.openFolder(FolderNames.folder(ofPeer: peer), in: root)
                } catch {
                    if error.isMissing { return }
                    throw error
                }
                defer { MirrorSystem.closeDescriptor(folder) }
                try discard(through: number, in: folder)
            }
        }
    }

    private func discard(through number: UInt64, in folder: Int32) throws {
        let names = try MirrorSystem.names(in: folder)
        try disk.removeOldTemporaries(in: folder, names: names)
        let segments = names.compactMap { SegmentName($0) }
        let confirmed = segments.filter { $0.highest <= number }
        // One that every reader knows stays, so that none takes the rest for a new beginning.
        let newest = confirmed.max { ($0.highest, $0.serial) < ($1.highest, $1.serial) }
        let unneeded = Set(confirmed.filter { $0 != newest && $0 != writer?.lastName })
        for segment in unneeded { try disk.remove(segment.text, in: folder) }
        guard let writer else { return }
        let rest = segments.filter { $0.run == writer.run && !unneeded.contains($0) }
        self.writer?.oldestKept = max(writer.oldestKept, rest.map(\.serial).min() ?? 1)
    }
}
