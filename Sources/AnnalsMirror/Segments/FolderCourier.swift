// The engine that carries messages in a folder, which a synchronizer, a network file system or a mounted bucket shares.
//
//     FORMAT                                   the version and the group
//     peer-NAME/RUN.SERIAL.FROM-TO.segment     messages of a peer, with their lowest and highest number
//     states/NAME.GENERATION.TAG.state         states
//
// 1. A file is written under a temporary name, synced and renamed. It never changes afterwards.
// 2. Only its peer writes and removes the segments of a subfolder.
// 3. Serials of a run rise by one. A courier that cannot prove that it continues a run begins one with a random number,
//    so that a copied store or a restored folder never uses a name again.
// 4. Of a peer's segments that may be discarded, the newest stays, and so does the newest of all. A peer of whose known
//    runs nothing is left has lost its segments.

internal import Annals

/// Carries the messages of a group through a folder.
///
/// Segments may arrive late, in part, in any order, and again. A damaged one is reported once, and the others are
/// delivered.
package final class FolderCourier: Courier {
    let path: String
    let group: String
    let peer: String
    var disk = FolderDisk()
    let waiter: FolderWaiter

    /// How long a segment with a wrong checksum must stay the same to be reported. Some synchronizers reserve a file's
    /// room before they write it.
    package var settlingSeconds = 10.0
    /// The time before a damaged segment that did not change is read again.
    package var rereadingSeconds = 60.0

    /// A larger append is divided into segments of at most this size, unless one message is larger.
    package var maximumSegmentBytes = SegmentFormat.maximumFileBytes
    /// Segments and states are written in steps of this size.
    package var pieceBytes: Int {
        get { disk.pieceBytes }
        set { disk.pieceBytes = newValue }
    }

    /// The device of the folder, to notice that the file system was unmounted.
    var device: UInt64?
    /// The FORMAT file that was found right.
    var knownFormat: MirrorSystem.FileStatus?

    var writer: FolderWriter?
    /// The highest serial of each own run that the store has read back: a run that continues has it.
    var ownSerials: [UInt64: UInt64] = [:]
    var reader = FolderReader()

    /// - Parameters:
    ///   - path: A folder that exists. It may be empty.
    ///   - group: The group's name, without control characters. A folder serves one group.
    ///   - peer: The identity of this peer.
    ///   - interruption: Ends a wait.
    /// - Throws: `invalidArgument` if a name cannot be part of a file name.
    package init(path: String, group: String, peer: String, interruption: Interruption) throws {
        try Self.check(group, "group")
        try Self.check(peer, "peer")
        self.path = path
        self.group = group
        self.peer = peer
        waiter = FolderWaiter(interruption)
    }

    package var maximumBodyBytes: Int { SegmentFormat.maximumBodyBytes }

    /// Called before each step that changes the folder. For tests: what it throws, the step fails with.
    package var beforeStep: ((FolderStep) throws(MirrorSystem.Failure) -> Void)? {
        get { disk.beforeStep }
        set { disk.beforeStep = newValue }
    }

    static func check(_ name: String, _ what: String) throws {
        let hasControls = name.unicodeScalars.contains { $0.properties.generalCategory == .control }
        if name.isEmpty || hasControls || FolderNames.encoded(name).utf8.count > FolderNames.maximumEncodedBytes {
            throw StoreError(
                .invalidArgument,
                "The name of a \(what) is empty, too long, or has control characters: choose a name of 1 to 60 "
                    + "letters and digits.")
        }
    }
}

// MARK: The folder

extension FolderCourier {
    /// Runs a body with the open folder, after its FORMAT was found or written.
    func withFolder<Result>(_ body: (Int32) throws -> Result) throws -> Result {
        try about(path) {
            let folder = try MirrorSystem.openFolder(path: path)
            defer { MirrorSystem.closeDescriptor(folder) }
            try requireFormat(in: folder)
            return try body(folder)
        }
    }

    /// Runs a body, and turns failed calls into errors with a path.
    func about<Result>(_ path: String, _ body: () throws -> Result) throws -> Result {
        do {
            return try body()
        } catch let failure as MirrorSystem.Failure {
            throw FolderError.failure(failure, path)
        }
    }

    /// Throws `cancelled` if an interruption came.
    func goOn() throws {
        if waiter.interruption.isInterrupted { throw Interruption.interrupted }
    }

    private func requireFormat(in folder: Int32) throws {
        let formatPath = path + "/" + FolderNames.format
        let found = try MirrorSystem.status(of: FolderNames.format, in: folder)
        if let found, found == knownFormat { return }
        if found == nil {
            let current = try MirrorSystem.status(folder).device
            if let device, device != current { throw FolderError.notMounted(path) }
            try about(formatPath) {
                _ = try disk.writeFile(FolderNames.format, in: folder) { try $0(FolderFormat.bytes(group: group)) }
                try disk.synchronizeFolder(folder)
            }
        }
        try about(formatPath) {
            let file = try MirrorSystem.openFile(FolderNames.format, in: folder)
            defer { MirrorSystem.closeDescriptor(file) }
            let status = try MirrorSystem.status(file)
            let bytes = try MirrorSystem.readBytes(file, at: 0, count: FolderFormat.maximumBytes)
            try FolderFormat.check(bytes, group: group, path: formatPath)
            knownFormat = status
        }
        device = try MirrorSystem.status(folder).device
    }

    package func weaknesses() throws -> [String] {
        try withFolder { FolderKind.weaknesses(kind: try MirrorSystem.fileSystemKind($0)) }
    }
}
