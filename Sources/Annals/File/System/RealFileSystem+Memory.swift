// Files in memory, and second openings of open files.

#if canImport(Glibc)
    internal import Glibc
#else
    internal import Musl
#endif

extension RealFileSystem {
    /// A new file in memory, for reading and writing. It vanishes with its last descriptor and mapping. Only
    /// a list of the process's open files shows `name`.
    func createInMemory(_ name: String) throws(StoreError) -> Descriptor {
        do throws(SystemError) {
            return Descriptor(try lifted(try SystemCalls.createInMemory(name)))
        } catch { throw StoreError(error, path: name) }
    }

    /// Opens the file of a descriptor once more: with a position and locks of its own, unlike a copy of the descriptor.
    func openAgain(_ file: Descriptor, access: FileAccess) throws(StoreError) -> Descriptor {
        let flags = (access == .readOnly ? O_RDONLY : O_RDWR) | O_NOCTTY | O_CLOEXEC
        return try about(file) { () throws(SystemError) in
            let current = SystemCalls.Flag.currentDirectory
            return Descriptor(try lifted(try SystemCalls.openName(current, Self.link(to: file.number), flags)))
        }
    }
}
