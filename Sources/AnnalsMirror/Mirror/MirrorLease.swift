// The right to mirror a store: a lock on a file beside it. It ends with its process.
//
// Invariants:
// LE1  At most one open file description holds the lock of the file that has the lease's name. A holder whose file was
//      removed notices it (`requireInPlace`).
// LE2  A mark refers to a lease file whose random bytes are durable, so they never change afterwards.

package import Annals

/// The lease of one store. The mirror holds it while it runs.
package final class MirrorLease: Sendable {
    private let files: any FileSystem
    let place: StorePlace
    /// The file's name.
    let name: String
    private let file: Descriptor
    let digits: String

    private static let range = LockRange(start: 0, end: 1)
    /// The number of attempts if the file is created or removed by other processes at the same time.
    private static let attempts = 8

    private init(_ files: any FileSystem, _ place: StorePlace, _ name: String, _ file: Descriptor, _ digits: String) {
        (self.files, self.place, self.name, self.file, self.digits) = (files, place, name, file, digits)
    }

    deinit {
        files.close(file)
        files.close(place.directory)
    }

    // MARK: Taking it

    /// Takes the lease of a store, and creates its file if it is missing. Does not wait.
    ///
    /// - Returns: Nil for a store in memory, which no other process can open.
    ///
    /// Throws `StoreError`: `mirroredElsewhere` if another mirror has it, `alreadyExists` if another kind of file has
    /// the name, `permissionDenied`, `readOnly`, `noSpace`, `storeRemoved`.
    package static func take(_ store: Store) throws(StoreError) -> MirrorLease? {
        guard !store.isInMemory else { return nil }
        let files = try Store.files(for: store.path)
        let place = try files.openPlace(store.path)
        let name = MirrorFile.name(forStore: place.name)
        do throws(StoreError) {
            for _ in 0..<attempts {
                guard let file = try open(name, place, files) else { continue }
                do throws(StoreError) {
                    if let digits = try lock(file, name, place, files) {
                        return MirrorLease(files, place, name, file, digits)
                    }
                } catch {
                    files.close(file)
                    throw error
                }
                files.close(file)
            }
            throw StoreError(
                .busy, "Other processes create and remove “\(name)” again and again: find out which, and end them.")
        } catch {
            files.close(place.directory)
            throw error.at(path: StorePlace.path(of: name, in: place.directoryPath))
        }
    }

    /// Nil if another process has just created or removed the file.
    private static func open(
        _ name: String, _ place: StorePlace, _ files: any FileSystem
    ) throws(StoreError) -> Descriptor? {
        do throws(StoreError) {
            return try files.open(name, in: place.directory, access: .readWrite)
        } catch  where error.code == .notFound {
            return try create(name, place, files)
        } catch  where error.code == .notARegularFile {
            throw IdentityError.foreign(name)
        } catch {
            throw IdentityError.explained(error, name)
        }
    }

    /// Creates the file with the store's permissions.
    private static func create(
        _ name: String, _ place: StorePlace, _ files: any FileSystem
    ) throws(StoreError) -> Descriptor? {
        let model = try storeStatus(place, files)
        do throws(StoreError) {
            // The group gets its rights after the file has the group.
            let file = try files.createExclusively(name, in: place.directory, mode: model.mode & 0o707 | 0o600)
            try? adopt(model, file, files)
            return file
        } catch  where error.code == .alreadyExists {
            return nil
        } catch {
            throw IdentityError.explained(error, name)
        }
    }

    private static func storeStatus(
        _ place: StorePlace, _ files: any FileSystem
    ) throws(StoreError) -> FileStatus {
        do throws(StoreError) {
            let store = try files.open(place.name, in: place.directory, access: .readOnly)
            defer { files.close(store) }
            return try files.status(store)
        } catch  where error.code == .notFound {
            throw StoreError(
                .storeRemoved, "The store's file was removed or renamed: open it again under its present name.")
        }
    }

    /// Without the right to change the owner, the owner stays.
    private static func adopt(_ model: FileStatus, _ file: Descriptor, _ files: any FileSystem) throws(StoreError) {
        let own = try files.status(file)
        if (own.mode, own.owner, own.group) == (model.mode, model.owner, model.group) { return }
        do throws(StoreError) {
            try files.setPermissions(file, mode: model.mode, owner: model.owner, group: model.group)
        } catch {
            try files.setPermissions(file, mode: model.mode, owner: own.owner, group: model.group)
        }
    }

    /// Returns the random bytes; nil if the file has just lost its name.
    private static func lock(
        _ file: Descriptor, _ name: String, _ place: StorePlace, _ files: any FileSystem
    ) throws(StoreError) -> String? {
        let own = RealEnvironment().processID()
        guard try files.tryLock(file, range) == .acquired else {
            guard case .complete(let content) = try MirrorFile.read(file, files) else {
                throw IdentityError.held(by: 0, name)
            }
            throw IdentityError.held(by: content.processID, name)
        }
        guard isName(name, of: file, place, files) else { return nil }
        do throws(StoreError) {
            switch try MirrorFile.read(file, files) {
            case .complete(var content):
                content.processID = own
                try write(content.encodedProcess, to: file, at: MirrorFile.processOffset, files)
                return content.digits
            case .incomplete:
                let content = MirrorFile(processID: own)
                try write(content.encoded, to: file, at: 0, files)
                // LE2
                try files.synchronize(file)
                try files.synchronizeDirectory(place.directory)
                return content.digits
            case .laterVersion:
                throw StoreError(
                    .unsupportedVersion, "A newer version of Annals mirrored this store: use that version.")
            case .foreign: throw IdentityError.foreign(name)
            }
        } catch {
            throw IdentityError.explained(error, name)
        }
    }

    private static func write(
        _ bytes: [UInt8], to file: Descriptor, at offset: Int, _ files: any FileSystem
    ) throws(StoreError) {
        var done = 0
        while done < bytes.count {
            let start = done
            done += try bytes.withUnsafeBufferPointer { (all) throws(StoreError) in
                let rest = UnsafeRawBufferPointer(UnsafeBufferPointer(rebasing: all[start...]))
                return try files.write(file, at: UInt64(offset + start), from: rest)
            }
        }
    }

    private static func isName(
        _ name: String, of file: Descriptor, _ place: StorePlace, _ files: any FileSystem
    ) -> Bool {
        guard let named = try? files.identity(of: name, in: place.directory),
            let own = try? files.status(file).identity
        else { return false }
        return named.isSameFile(as: own)
    }

    // MARK: Holding it

    /// Whether the file still has its name. Without it, another process can create a second lease (LE1).
    package var isInPlace: Bool { Self.isName(name, of: file, place, files) }

    /// Throws `mirroredElsewhere` if the file lost its name. Call it from time to time, and take the lease again then.
    package func requireInPlace() throws(StoreError) {
        if isInPlace { return }
        throw StoreError(
            .mirroredElsewhere,
            "“\(name)” was removed or replaced while this mirror ran, so another process may mirror the store as well. "
                + "This mirror tries to create the file again. Leave it beside the store.",
            path: StorePlace.path(of: name, in: place.directoryPath))
    }

    /// The process that mirrors a store now, as its own system numbers it; 0 if its number is unknown, nil if no
    /// process does. Creates and locks nothing.
    package static func holder(of store: Store) throws(StoreError) -> UInt32? {
        guard !store.isInMemory else { return nil }
        let files = try Store.files(for: store.path)
        let place = try files.openPlace(store.path)
        defer { files.close(place.directory) }
        do throws(StoreError) {
            let name = MirrorFile.name(forStore: place.name)
            let file = try files.open(name, in: place.directory, access: .readOnly)
            defer { files.close(file) }
            guard try isLocked(file) else { return nil }
            guard case .complete(let content) = try MirrorFile.read(file, files) else { return 0 }
            return content.processID
        } catch  where [.notFound, .notARegularFile].contains(error.code) {
            return nil
        }
    }

    private static func isLocked(_ file: Descriptor) throws(StoreError) -> Bool {
        do throws(MirrorSystem.Failure) {
            return try MirrorSystem.isFirstByteLocked(file.number)
        } catch {
            throw StoreError(SystemError(error.call, error.number))
        }
    }
}
