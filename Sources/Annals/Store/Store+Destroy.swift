// Removing a store for good.

internal import AnnalsFile

extension Store {
    /// Removes the file of a store and everything in it.
    ///
    /// Handles on it that are open, here or in other processes, read on what they have and throw `storeRemoved` when they write. Throws
    /// `notFound`; `notAStore` for a file that is something else; `busy` while somebody is writing; and what the system says. A store that is
    /// damaged behind its header can be destroyed.
    public static func destroy(at path: String) throws(StoreError) {
        let files = RealFileSystem()
        try mapping { () throws(FileError) in
            do throws(FileError) {
                let place = try files.resolve(path)
                let directory = try files.openDirectory(place.directory)
                defer { files.close(directory) }
                let file = try files.open(place.name, in: directory, access: .readWrite)
                defer { files.close(file) }
                try destroy(file, place.name, in: directory, files)
            } catch {
                throw error.at(path: path)
            }
        }
    }

    private static func destroy(
        _ file: Descriptor, _ name: String, in directory: Descriptor, _ files: RealFileSystem
    ) throws(FileError) {
        guard try files.status(file).isRegularFile else {
            throw FileError(.notARegularFile, "A store is a regular file, this is something else.")
        }
        _ = try Log.readHeader(ByteWindow(files, file, stepBytes: FormatLimits.pageBytes))
        let environment = RealEnvironment()
        let lock = WriterLock.range(
            processID: environment.processID(), timeMicroseconds: environment.wallClockMicroseconds())
        if case .held(let range, let process) = try files.tryLock(file, lock) {
            guard let other = WriterLock.holder(of: range) else { throw WriterLock.foreign(process) }
            throw FileError(.busy, "Process \(other.processID) is writing to the store: try again later.")
        }
        // The lock ends with the descriptor. The name may mean another file by now.
        guard try files.identity(of: name, in: directory) == files.status(file).identity else {
            throw FileError(.storeReplaced, "Another file has taken the place of the store just now: look again.")
        }
        try files.unlink(name, in: directory)
        try files.synchronizeDirectory(directory)
    }
}
