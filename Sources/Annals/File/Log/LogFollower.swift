// Observes every frame that counts, in order: the indexes above the log.

/// Follows a log: sees every frame that counts exactly once, in order, whether another handle appended it or opening
/// found it.
///
/// This handle's own frames are not shown: the follower has them before they are published.
package protocol LogFollower: AnyObject, Sendable {
    /// A standalone frame, or the commit frame of a transaction, with the state after it. One thread at a time; the
    /// bytes live until the return.
    func adopt(_ frame: FrameView, _ accepted: LogState.Accepted, _ state: LogState) throws(StoreError)
    /// From now on everything up to this state counts for all threads. One thread at a time.
    func publish(_ state: LogProgress)
    /// Called before the descriptors and the mapping are released: returns when no thread reads any more.
    func close()
}

/// The parts of a file being opened that a follower needs.
package struct FileBeingOpened {
    package let files: any FileSystem
    package let environment: any Environment
    package let file: Descriptor
    package let path: String
    package let header: FileHeader
    /// The newest good one; nil without one.
    package let hint: Hint?
    package let mapping: SharedMapping?
    /// The file's size.
    package let size: UInt64
}

/// The follower, and the start of reading: nil for the file's beginning.
package struct LogStart {
    package var follower: any LogFollower
    package var state: LogState?
}

/// A mapping that lives until its last reader is done.
package final class SharedMapping: Sendable {
    package let mapping: Mapping
    private let files: any FileSystem

    init?(_ files: any FileSystem, _ file: Descriptor, reservedBytes: Int) {
        guard reservedBytes > 0, let mapping = files.map(file, reservedBytes: reservedBytes) else { return nil }
        self.mapping = mapping
        self.files = files
    }

    deinit { files.unmap(mapping) }

    package var bytes: UnsafeRawBufferPointer { mapping.bytes }
}
