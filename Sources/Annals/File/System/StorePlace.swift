// The location of a file: an open directory, and a name in it.
//
// Invariants:
// OD1  A handle uses names only relative to its open directory. So it stays with its store when the directory is
//      renamed, and never reaches another store that was put at the old path.
// OD2  Only this file puts paths together, and only `RealFileSystem.split` takes them apart.

/// A name in an open directory. The holder closes the directory.
package struct StorePlace: Sendable {
    package let directory: Descriptor
    /// The directory's real path when it was opened: for messages, and for the watch.
    package let directoryPath: String
    package let name: String

    /// The path of the file when the directory was opened.
    package var path: String { Self.path(of: name, in: directoryPath) }

    package static func path(of name: String, in directory: String) -> String {
        directory.utf8.last == UInt8(ascii: "/") ? directory + name : directory + "/" + name
    }
}

extension FileSystem {
    /// Opens the directory of a path, with symbolic links followed. The file need not exist. Throws `networkFileSystem`
    /// if the directory must be local and is not.
    package func openPlace(_ path: String, mustBeLocal: Bool = false) throws(StoreError) -> StorePlace {
        let resolved = try resolve(path)
        let directory = try openDirectory(resolved.directory)
        do throws(StoreError) {
            if mustBeLocal { try requireLocal(directory) }
        } catch {
            self.close(directory)
            throw error
        }
        return StorePlace(directory: directory, directoryPath: resolved.directory, name: resolved.name)
    }

    /// Another name in the same directory, or the same name, with a descriptor of its own.
    package func reopen(_ place: StorePlace, name: String? = nil) throws(StoreError) -> StorePlace {
        StorePlace(
            directory: try duplicate(place.directory), directoryPath: place.directoryPath, name: name ?? place.name)
    }
}

extension FileStatus {
    func requireRegularFile() throws(StoreError) {
        guard isRegularFile else {
            throw StoreError(
                .notARegularFile,
                "A store must be a regular file, and this is something else: check the path.")
        }
    }
}

extension FileSystem {
    /// Opens the file in a place. Throws `notARegularFile` if a store cannot be in it.
    func openStoreFile(in place: StorePlace, access: FileAccess) throws(StoreError) -> Descriptor {
        let file = try self.open(place.name, in: place.directory, access: access)
        do throws(StoreError) {
            try status(file).requireRegularFile()
            return file
        } catch {
            self.close(file)
            throw error
        }
    }

    /// Opens the file at a path to read it.
    package func openStoreFile(_ path: String) throws(StoreError) -> Descriptor {
        let place = try openPlace(path)
        defer { self.close(place.directory) }
        return try openStoreFile(in: place, access: .readOnly)
    }
}
