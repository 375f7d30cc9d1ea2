// The storage seam: the only access to files, directories and locks, so tests can replace the disk.

/// An open file or directory. The number is valid only for the file system that assigned it, and in the process that
/// opened it: in a child after `fork` it may be another file's, and is -1 here.
package struct Descriptor: Hashable, Sendable {
    private let opened: Int32
    private let process: OwnProcess

    package init(_ number: Int32) {
        opened = number
        process = OwnProcess()
    }

    package var number: Int32 { process.wasForked ? -1 : opened }
}

/// Identifies the file of a name or a descriptor, without its times (requesting those slows the next write).
package struct FileIdentity: Hashable, Sendable {
    package var device: UInt64
    package var inode: UInt64
    package var links: UInt64

    package init(device: UInt64, inode: UInt64, links: UInt64) {
        (self.device, self.inode, self.links) = (device, inode, links)
    }

    /// Whether both are of one file. Their numbers of names may differ, because they may have been read at different
    /// times.
    package func isSameFile(as other: FileIdentity) -> Bool { device == other.device && inode == other.inode }
}

package struct FileStatus: Equatable, Sendable {
    package var identity: FileIdentity
    package var isRegularFile: Bool
    package var size: UInt64
    /// The permission bits (0o7777).
    package var mode: UInt32
    package var owner: UInt32
    package var group: UInt32

    package init(
        identity: FileIdentity, isRegularFile: Bool, size: UInt64, mode: UInt32, owner: UInt32, group: UInt32
    ) {
        (self.identity, self.isRegularFile, self.size, self.mode) = (identity, isRegularFile, size, mode)
        (self.owner, self.group) = (owner, group)
    }
}

/// The access that a handle has to the store.
public enum FileAccess: Sendable, Hashable {
    /// Reading only. Nothing is written or created, and no lock is taken.
    case readOnly
    /// Reading and writing. The file must be writable.
    case readWrite
}

/// A range of bytes to lock, above every offset that a file can have.
package struct LockRange: Hashable, Sendable {
    package var start: UInt64
    package var end: UInt64  // exclusive
    package init(start: UInt64, end: UInt64) {
        self.start = start
        self.end = end
    }
}

package enum LockAttempt: Equatable, Sendable {
    case acquired
    /// Another holder has this overlapping range. The process is known for classic locks only.
    case held(by: LockRange, processID: UInt32? = nil)
}

/// A view of a file's bytes that grows with the file: bytes beyond the file's size must not be touched.
package struct Mapping: @unchecked Sendable {
    // Sound: the memory is only read, and it lives until `unmap`, which the owner calls once, after its last reader.
    package let bytes: UnsafeRawBufferPointer
    package init(bytes: UnsafeRawBufferPointer) { self.bytes = bytes }
}

/// All calls on files that the file layer makes.
///
/// One method is one system call; only interruptions (EINTR) are retried below it. Short counts are passed up: the
/// loops that finish them are above the seam, where the simulated disk can test them. Every method may be called from
/// any thread. Names are single path components inside an open directory.
package protocol FileSystem: Sendable {
    /// The real directory and the last component's name that `path` leads to, after following symbolic links. The last
    /// component need not exist.
    func resolve(_ path: String) throws(StoreError) -> (directory: String, name: String)
    func openDirectory(_ path: String) throws(StoreError) -> Descriptor
    /// The same open directory under another number, which must be closed separately. Needs no name and no permission.
    func duplicate(_ directory: Descriptor) throws(StoreError) -> Descriptor
    /// Opens an existing file. Never follows a symbolic link in the last component, never waits (a FIFO), never returns
    /// a descriptor below 3, closes on exec.
    func open(_ name: String, in directory: Descriptor, access: FileAccess) throws(StoreError) -> Descriptor
    /// Makes a new file without a name, for reading and writing, that vanishes when it is closed without being
    /// published.
    func createUnnamed(in directory: Descriptor, mode: UInt32) throws(StoreError) -> Descriptor
    /// Gives an unnamed file its name; `alreadyExists` if the name is taken.
    func publish(_ file: Descriptor, as name: String, in directory: Descriptor) throws(StoreError)
    /// Makes a new file with a name; `alreadyExists` if the name is taken, also by a symbolic link.
    func createExclusively(_ name: String, in directory: Descriptor, mode: UInt32) throws(StoreError) -> Descriptor
    /// Renames within the directory; replaces an existing file of the new name.
    func rename(_ name: String, to newName: String, in directory: Descriptor) throws(StoreError)
    /// The same, but `alreadyExists` if the new name is taken.
    func renameExclusively(_ name: String, to newName: String, in directory: Descriptor) throws(StoreError)
    func unlink(_ name: String, in directory: Descriptor) throws(StoreError)
    /// Closes and forgets. Ignores errors: durable data was synced before.
    func close(_ file: Descriptor)

    /// Reads up to `buffer.count` bytes; 0 only at or beyond the end of the file.
    func read(_ file: Descriptor, at offset: UInt64, into buffer: UnsafeMutableRawBufferPointer) throws(StoreError)
        -> Int
    /// Writes up to `bytes.count` bytes, at least one unless it throws.
    func write(_ file: Descriptor, at offset: UInt64, from bytes: UnsafeRawBufferPointer) throws(StoreError) -> Int
    /// Makes sure that the bytes in the range exist and have space; the file grows to `offset + count` if it is
    /// shorter.
    func allocate(_ file: Descriptor, offset: UInt64, count: UInt64) throws(StoreError)
    /// Cuts or grows (with zeros) the file.
    func setSize(_ file: Descriptor, to size: UInt64) throws(StoreError)
    func size(_ file: Descriptor) throws(StoreError) -> UInt64
    /// The first offset, from `offset` on, that may hold a nonzero byte; never above one that does. Nil if all bytes
    /// are zeros.
    func content(_ file: Descriptor, from offset: UInt64) throws(StoreError) -> UInt64?
    /// Makes the file's bytes and size durable. An error is reported once to each descriptor open at the time.
    func synchronize(_ file: Descriptor) throws(StoreError)
    /// Asks the system to begin writing these bytes to the disk. Only a hint: it promises nothing and reports no
    /// errors.
    func startWriting(_ file: Descriptor, offset: UInt64, count: UInt64)
    /// Waits until these bytes have left memory. They are not durable then; but an error is reported, as by
    /// `synchronize`.
    func finishWriting(_ file: Descriptor, offset: UInt64, count: UInt64) throws(StoreError)
    /// Makes the directory's names durable.
    func synchronizeDirectory(_ directory: Descriptor) throws(StoreError)
    func status(_ file: Descriptor) throws(StoreError) -> FileStatus
    /// The kernel's number of the kind of file system that a file is on.
    func fileSystemType(_ file: Descriptor) throws(StoreError) -> UInt32
    /// Sets a file's permission bits exactly to these, this owner and this group.
    func setPermissions(_ file: Descriptor, mode: UInt32, owner: UInt32, group: UInt32) throws(StoreError)
    /// The file that `name` leads to now, without following a symbolic link; `notFound` if it does not exist.
    func identity(of name: String, in directory: Descriptor) throws(StoreError) -> FileIdentity

    /// Tries to lock a range for writing; the lock belongs to the open file description, not to the process.
    func tryLock(_ file: Descriptor, _ range: LockRange) throws(StoreError) -> LockAttempt
    func unlock(_ file: Descriptor, _ range: LockRange) throws(StoreError)

    /// Maps the file for reading from offset 0 over `reservedBytes` of addresses; nil if that is not possible.
    func map(_ file: Descriptor, reservedBytes: Int) -> Mapping?
    func unmap(_ mapping: Mapping)
}

/// All calls on the machine that the file layer makes, apart from files.
package protocol Environment: Sendable {
    /// Microseconds since 1970-01-01T00:00:00Z.
    func wallClockMicroseconds() -> Int64
    /// Microseconds since some fixed moment; never goes back.
    func monotonicMicroseconds() -> UInt64
    /// Seconds since some fixed moment, at the lowest cost; up to 10 ms late.
    func coarseSeconds() -> Int64
    func random() -> UInt64
    func processID() -> UInt32
    /// The file name of the running program.
    func processName() -> String
    func sleep(microseconds: UInt64)
}
