// The writing of files that appear whole or not at all.

internal import Annals

#if canImport(Glibc)
    internal import Glibc
#else
    internal import Musl
#endif

/// A call that changes the folder. Tests stop a writer before any of them.
package enum FolderStep: Equatable, Sendable {
    case makeFolder, create, write, synchronize, rename, synchronizeFolder, remove
}

/// Changes files of a mirror's folder.
struct FolderDisk {
    /// Called before each step; what it throws, the step fails with. For tests.
    var beforeStep: ((FolderStep) throws(MirrorSystem.Failure) -> Void)?

    /// A large file is written in steps of this size.
    var pieceBytes = 1 << 20

    private func step(_ step: FolderStep) throws(MirrorSystem.Failure) { try beforeStep?(step) }

    /// Opens a subfolder, and creates a missing one durably.
    func openOrMakeFolder(_ name: String, in folder: Int32) throws(MirrorSystem.Failure) -> Int32 {
        do throws(MirrorSystem.Failure) {
            return try MirrorSystem.openFolder(name, in: folder)
        } catch {
            if error.number != ENOENT { throw error }
        }
        do throws(MirrorSystem.Failure) {
            try step(.makeFolder)
            try MirrorSystem.makeFolder(name, in: folder)
        } catch {
            // Another writer was faster.
            if error.number != EEXIST { throw error }
        }
        try synchronizeFolder(folder)
        return try MirrorSystem.openFolder(name, in: folder)
    }

    /// Writes a file under a temporary name, syncs it, and gives it its name if no file has it. The caller syncs the
    /// folder afterwards.
    ///
    /// - Parameter content: Writes the file's bytes in order.
    /// - Returns: False if the name is taken.
    func writeFile(
        _ name: String, in folder: Int32, _ content: (_ append: ([UInt8]) throws -> Void) throws -> Void
    ) throws -> Bool {
        let temporary = FolderNames.temporary()
        try step(.create)
        let file = try MirrorSystem.createFile(temporary, in: folder)
        do {
            defer { MirrorSystem.closeDescriptor(file) }
            var offset = 0
            try content { bytes in
                try write(bytes, to: file, at: offset)
                offset += bytes.count
            }
            try step(.synchronize)
            try MirrorSystem.synchronize(file)
        } catch {
            try? remove(temporary, in: folder)
            throw error
        }
        do throws(MirrorSystem.Failure) {
            try step(.rename)
            try move(temporary, to: name, in: folder)
            return true
        } catch {
            try? remove(temporary, in: folder)
            if error.number == EEXIST { return false }
            throw error
        }
    }

    private func write(_ bytes: [UInt8], to file: Int32, at offset: Int) throws(MirrorSystem.Failure) {
        var done = 0
        while done < bytes.count {
            let piece = bytes[done..<min(done + pieceBytes, bytes.count)]
            try step(.write)
            try MirrorSystem.write(piece, to: file, at: offset + done)
            done += piece.count
        }
    }

    /// Replaces nothing. File systems without such a renaming have links; a few have neither. On those, two writers
    /// that use one name at the same moment would replace a file, so names have random parts.
    private func move(_ name: String, to newName: String, in folder: Int32) throws(MirrorSystem.Failure) {
        let unsupported = [ENOSYS, EINVAL, EOPNOTSUPP, EPERM, EMLINK]
        do throws(MirrorSystem.Failure) {
            return try MirrorSystem.renameWithoutReplacing(name, to: newName, in: folder)
        } catch {
            if !unsupported.contains(error.number) { throw error }
        }
        do throws(MirrorSystem.Failure) {
            try MirrorSystem.addName(newName, to: name, in: folder)
            return try MirrorSystem.removeFile(name, in: folder)
        } catch {
            if !unsupported.contains(error.number) { throw error }
        }
        if try MirrorSystem.status(of: newName, in: folder) != nil {
            throw MirrorSystem.Failure("renameat", EEXIST)
        }
        try MirrorSystem.moveFile(name, to: newName, in: folder)
    }

    func remove(_ name: String, in folder: Int32) throws(MirrorSystem.Failure) {
        try step(.remove)
        do throws(MirrorSystem.Failure) {
            try MirrorSystem.removeFile(name, in: folder)
        } catch {
            if error.number != ENOENT { throw error }
        }
    }

    func synchronizeFolder(_ folder: Int32) throws(MirrorSystem.Failure) {
        try step(.synchronizeFolder)
        do throws(MirrorSystem.Failure) {
            try MirrorSystem.synchronize(folder)
        } catch {
            // Some network file systems have no syncing of folders.
            if error.number != EINVAL && error.number != EOPNOTSUPP { throw error }
        }
    }

    /// Removes temporary files that no writer has touched for a day.
    func removeOldTemporaries(in folder: Int32, names: [String]) throws(MirrorSystem.Failure) {
        let limit = MirrorSystem.wallSeconds() - 24 * 60 * 60
        for name in names where FolderNames.isTemporary(name) {
            guard let status = try MirrorSystem.status(of: name, in: folder), !status.isFolder else { continue }
            if status.modifiedSeconds < limit { try remove(name, in: folder) }
        }
    }
}
