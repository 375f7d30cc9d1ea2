// The file of a backup or a salvage. It has a temporary name beside its final one until it is complete and durable.
//
// Invariants:
// UF1  No file is replaced. Both names are used only if they are free or belong to a leftover, and no store may get the
//      name of a leftover (`TemporaryName`).
// UF2  The writer of the temporary file holds its compaction lock. Without a holder the file is a leftover.

package struct UnfinishedStore {
    private let files: any FileSystem
    private let environment: any Environment
    private let place: StorePlace
    private let temporary: String
    private let model: FileStatus
    private let file: Descriptor
    /// The final directory, with symbolic links resolved.
    package var directoryPath: String { place.directoryPath }

    /// The file gets the mode, owner and group of `model`, as far as this process may set these.
    ///
    /// Throws `alreadyExists` if the name is taken, `busy` if another process writes there for the same purpose.
    package init(
        _ purpose: TemporaryName, _ path: String, like model: FileStatus, files: any FileSystem,
        environment: any Environment
    ) throws(StoreError) {
        (self.files, self.environment, self.model) = (files, environment, model)
        do throws(StoreError) {
            place = try files.openPlace(path)
            temporary = purpose.of(place.name)
            do throws(StoreError) {
                try TemporaryName.requireNone(place.name)
                try Self.requireFree(place.name, files, place.directory)
                let range = WriterLock.compaction(processID: environment.processID())
                file = try Self.make(temporary, model.mode & 0o707 | 0o600, range, purpose, files, place.directory)
            } catch {
                files.close(place.directory)
                throw error
            }
        } catch {
            throw error.at(path: path)
        }
    }

    private static func requireFree(
        _ name: String, _ files: any FileSystem, _ directory: Descriptor
    ) throws(StoreError) {
        do throws(StoreError) {
            _ = try files.identity(of: name, in: directory)
        } catch  where error.code == .notFound {
            return
        }
        throw StoreError(.alreadyExists, "A file of that name exists already: choose another name, or remove the file.")
    }

    private static func make(
        _ name: String, _ mode: UInt32, _ range: LockRange, _ purpose: TemporaryName, _ files: any FileSystem,
        _ directory: Descriptor
    ) throws(StoreError) -> Descriptor {
        let busy = StoreError(.busy, "Another process is writing a \(purpose) to that name: choose another name.")
        do throws(StoreError) {
            return try create(name, mode, range, busy, files, directory)
        } catch  where error.code == .alreadyExists {
            try removeLeftover(name, range, purpose, busy, files, directory)
        }
        do throws(StoreError) {
            return try create(name, mode, range, busy, files, directory)
        } catch  where error.code == .alreadyExists {
            throw busy
        }
    }

    /// Always a new file (UF1): an existing one may belong to another program, or have other names.
    private static func create(
        _ name: String, _ mode: UInt32, _ range: LockRange, _ busy: StoreError, _ files: any FileSystem,
        _ directory: Descriptor
    ) throws(StoreError) -> Descriptor {
        let file = try files.createExclusively(name, in: directory, mode: mode)
        do throws(StoreError) {
            // Before it was locked, another process may have taken it for a leftover (UF2).
            guard try files.tryLock(file, range) == .acquired,
                try files.identity(of: name, in: directory).isSameFile(as: files.status(file).identity)
            else { throw busy }
            try files.allow(0o600, file)
        } catch {
            files.close(file)
            throw error.code == .notFound ? busy : error
        }
        return file
    }

    private static func removeLeftover(
        _ name: String, _ range: LockRange, _ purpose: TemporaryName, _ busy: StoreError, _ files: any FileSystem,
        _ directory: Descriptor
    ) throws(StoreError) {
        do throws(StoreError) {
            guard try removeUnheld(name, range, files, directory) else { throw busy }
        } catch  where error.code == .notARegularFile {
            throw .nameTaken(name, by: "A \(purpose)")
        }
    }

    /// Removes the files of killed backups and salvages to the name of a store. Leaves one that is under way.
    package static func removeLeftovers(
        of place: StorePlace, _ files: any FileSystem, processID: UInt32
    ) throws(StoreError) {
        for purpose in [TemporaryName.backup, .salvage] {
            let name = purpose.of(place.name)
            do throws(StoreError) {
                _ = try removeUnheld(name, WriterLock.compaction(processID: processID), files, place.directory)
            } catch  where error.code == .notARegularFile {}
        }
    }

    /// Returns false, without removing the file, if a process holds it.
    private static func removeUnheld(
        _ name: String, _ range: LockRange, _ files: any FileSystem, _ directory: Descriptor
    ) throws(StoreError) -> Bool {
        do throws(StoreError) {
            let file = try openForLocking(name, files, directory)
            defer { files.close(file) }
            guard try files.tryLock(file, range) == .acquired else { return false }
            try files.unlink(name, in: directory)
        } catch  where error.code == .notFound {}
        return true
    }

    /// If a process was killed just before its file got its name, the file may have a mode without write permission.
    private static func openForLocking(
        _ name: String, _ files: any FileSystem, _ directory: Descriptor
    ) throws(StoreError) -> Descriptor {
        do throws(StoreError) {
            return try files.open(name, in: directory, access: .readWrite)
        } catch  where error.code == .permissionDenied {
            let file = try files.open(name, in: directory, access: .readOnly)
            defer { files.close(file) }
            try files.allow(0o600, file)
        }
        return try files.open(name, in: directory, access: .readWrite)
    }

    /// Writes the header and opens the file as a store.
    package func open(_ header: FileHeader, _ options: EngineOptions) throws(StoreError) -> Engine {
        try files.write(header, to: file)
        return try Engine.open(
            at: files.reopen(place, name: temporary), options: options, files: files, environment: environment)
    }

    /// Without the right to change the owner, the owner stays. If the group stays too, it gets no rights, because they
    /// were meant for another group.
    private func adoptPermissions() throws(StoreError) {
        let own = try files.status(file)
        for owner in [model.owner, own.owner] {
            do throws(StoreError) {
                return try files.setPermissions(file, mode: model.mode, owner: owner, group: model.group)
            } catch  where error.code == .permissionDenied {}
        }
    }

    /// Gives the complete file its final name, durably. `engine` has written it, with the objects of `state`. Throws
    /// `alreadyExists` if another file has taken the name since.
    package func publish(_ engine: Engine, _ state: View) throws(StoreError) {
        do throws(StoreError) {
            try WrittenStore(engine, state).prove(temporary, in: place, of: engine)
            // Only now: with a mode without write permission, neither this process nor the next could open the file.
            try adoptPermissions()
            try files.renameExclusively(temporary, to: place.name, in: place.directory)
            try files.synchronizeDirectory(place.directory)
        } catch {
            throw error.at(path: place.path)
        }
    }

    /// Removes a file that did not get its final name.
    package func close() {
        if let named = try? files.identity(of: temporary, in: place.directory),
            let own = try? files.status(file).identity,
            named.isSameFile(as: own)
        {
            try? files.unlink(temporary, in: place.directory)
        }
        files.close(file)
        files.close(place.directory)
    }
}
