// New files that have no name until they are complete, even on file systems without unnamed files. Also the names of
// open files for error messages.

#if canImport(Glibc)
    internal import Glibc
#else
    internal import Musl
#endif

/// The temporary names of files that should have none, by descriptor.
final class TemporaryNames: Sendable {
    /// The directory is kept open here, because the descriptor through which the file was made may be closed before the
    /// file.
    struct Place {
        var directory: Int32
        var name: String
    }

    /// Short, usually empty.
    private let places = Guarded<[(file: Int32, place: Place)]>([])

    func remember(_ place: Place, for file: Int32) { places.withLock { $0.append((file, place)) } }
    func place(of file: Int32) -> Place? { places.withLock { $0.first { $0.file == file }?.place } }

    func removeName(_ file: Int32) -> Place? {
        places.withLock { places in
            places.firstIndex { $0.file == file }.map { places.remove(at: $0).place }
        }
    }
}

extension RealFileSystem {
    package func createUnnamed(in directory: Descriptor, mode: UInt32) throws(StoreError) -> Descriptor {
        if usesUnnamedFiles, let file = try createWithoutName(in: directory, mode: mode) { return file }
        return try createWithTemporaryName(in: directory, mode: mode)
    }

    /// nil if the file system cannot, or if `/proc`, which `publish` needs, is missing.
    private func createWithoutName(in directory: Descriptor, mode: UInt32) throws(StoreError) -> Descriptor? {
        let flags = SystemCalls.Flag.temporaryFile | O_RDWR | O_NOCTTY | O_CLOEXEC
        let file: Int32
        do throws(SystemError) {
            file = try lifted(try SystemCalls.openName(directory.number, ".", flags, mode: mode))
        } catch let error where [EOPNOTSUPP, EISDIR, ENOENT, EINVAL].contains(error.number) {
            return nil
        } catch { throw StoreError(error, path: Self.path(of: directory)) }
        if (try? SystemCalls.linkTarget(Self.link(to: file))) != nil { return Descriptor(file) }
        SystemCalls.closeFile(file)
        return nil
    }

    /// The file keeps its temporary name until `publish`, because a file without a name cannot get one here. If the
    /// process dies before, the file remains; its name shows its origin.
    private func createWithTemporaryName(in directory: Descriptor, mode: UInt32) throws(StoreError) -> Descriptor {
        let name = ".annals-" + String(UInt64.random(in: .min ... .max), radix: 16)
        let file = try createExclusively(name, in: directory, mode: mode)
        do throws(SystemError) {
            let copy = try SystemCalls.duplicate(directory.number, minimum: Self.lowestDescriptor)
            temporaryNames.remember(.init(directory: copy, name: name), for: file.number)
            return file
        } catch {
            try? SystemCalls.removeName(directory.number, name)
            SystemCalls.closeFile(file.number)
            throw StoreError(error, path: Self.path(of: directory))
        }
    }

    package func publish(_ file: Descriptor, as name: String, in directory: Descriptor) throws(StoreError) {
        try Self.validated(name, in: name)
        try about(directory, name) { () throws(SystemError) in
            guard let temporary = temporaryNames.place(of: file.number) else {
                let flags = SystemCalls.Flag.followSymbolicLink
                let current = SystemCalls.Flag.currentDirectory
                return try SystemCalls.addName(current, Self.link(to: file.number), directory.number, name, flags)
            }
            try move(temporary.directory, temporary.name, to: name, in: directory.number)
            // The name is gone, so `close` must not remove it.
            if let place = temporaryNames.removeName(file.number) { SystemCalls.closeFile(place.directory) }
        }
    }

    /// In one step if the file system has one that replaces nothing. Otherwise a second name and the removal of the
    /// first: a process that dies between them leaves a store with two names, which is refused for writing until one is
    /// removed.
    func move(
        _ oldDirectory: Int32, _ oldName: String, to name: String, in directory: Int32
    ) throws(SystemError) {
        do throws(SystemError) {
            return try SystemCalls.renameatNoReplace(oldDirectory, oldName, directory, name)
        } catch {
            guard error.number == ENOSYS || error.number == EINVAL else { throw error }
        }
        try SystemCalls.addName(oldDirectory, oldName, directory, name, 0)
        do throws(SystemError) {
            try SystemCalls.removeName(oldDirectory, oldName)
        } catch {
            try? SystemCalls.removeName(directory, name)
            throw error
        }
    }

    /// The link through which the kernel shows an open file.
    static func link(to file: Int32) -> String { "/proc/self/fd/\(file)" }
}

// MARK: Errors

extension RealFileSystem {
    /// Runs calls about an open file, or a name in an open directory, and adds its path to their errors.
    func about<Result>(
        _ descriptor: Descriptor, _ name: String? = nil, _ body: () throws(SystemError) -> Result
    ) throws(StoreError) -> Result {
        do throws(SystemError) {
            return try body()
        } catch {
            let path = Self.path(of: descriptor)
            throw StoreError(
                error, path: name.map { name in path.map { StorePlace.path(of: name, in: $0) } ?? name } ?? path)
        }
    }

    /// The kernel's path of an open file. Nil for one without a name, whose path in the kernel leads nowhere. Read only
    /// after a failure.
    static func path(of descriptor: Descriptor) -> String? {
        let path = (try? SystemCalls.linkTarget(link(to: descriptor.number))).map {
            String(decoding: $0, as: UTF8.self)
        }
        return path?.hasSuffix(" (deleted)") == true ? nil : path
    }
}
