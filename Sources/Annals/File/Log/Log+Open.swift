// Making and opening a store file.

extension Log {
    /// Opens an existing store. Read-only opening writes nothing, makes nothing and takes no lock.
    ///
    /// Without `start` it reads the whole file once: linear in its size. Throws `notFound`, `notAStore`,
    /// `unsupportedVersion`, `damaged` (with the offset), `permissionDenied` and what the system calls say.
    package static func open(
        _ path: String, access: FileAccess = .readWrite, options: LogOptions = LogOptions(),
        files: any FileSystem, environment: any Environment, start: StartOfReading? = nil
    ) throws(StoreError) -> Log {
        do throws(StoreError) {
            let place = try files.resolve(path)
            let directory = try files.openDirectory(place.directory)
            do throws(StoreError) {
                return try open(place, in: directory, access, options, files, environment, start)
            } catch {
                files.close(directory)
                throw error
            }
        } catch {
            throw error.at(path: path)
        }
    }

    private static func open(
        _ place: (directory: String, name: String), in directory: Descriptor, _ access: FileAccess,
        _ options: LogOptions, _ files: any FileSystem, _ environment: any Environment, _ start: StartOfReading?
    ) throws(StoreError) -> Log {
        let file = try files.open(place.name, in: directory, access: access)
        do throws(StoreError) {
            let status = try files.status(file)
            guard status.isRegularFile else {
                throw StoreError(.notARegularFile, "A store is a regular file, this is something else.")
            }
            let path = place.directory + "/" + place.name
            let window = ByteWindow(files, file, stepBytes: options.limits.windowBytes)
            defer { withExtendedLifetime(window) {} }
            let (header, hint) = try readHeaderAndHint(window.beside(stepBytes: FormatLimits.pageBytes))
            let mapping =
                options.maps
                ? options.limits.reserve(fileBytes: status.size) { SharedMapping(files, file, reservedBytes: $0) } : nil
            let first = try start?(
                FileBeingOpened(
                    files: files, environment: environment, file: file, path: path, header: header, hint: hint,
                    mapping: mapping, size: status.size))
            let read = try readOn(
                files, file, window, from: first?.state ?? LogState(header: header), first?.follower)
            let opened = OpenedFile(
                files: files, environment: environment, path: path, name: place.name, access: access,
                directory: directory, file: file, identity: status.identity, size: status.size, mapping: mapping,
                follower: first?.follower, hintedCheckpoint: hint?.checkpoint ?? 0, state: read.state,
                report: read.report)
            return Log(opened, options: options)
        } catch {
            files.close(file)
            throw error
        }
    }

    /// Chooses the follower of a file that is being opened, and where reading begins.
    package typealias StartOfReading = (FileBeingOpened) throws(StoreError) -> LogStart

    /// Reads a file from a state to its end.
    private static func readOn(
        _ files: any FileSystem, _ file: Descriptor, _ window: ByteWindow, from state: LogState,
        _ follower: (any LogFollower)?
    ) throws(StoreError) -> (state: LogState, report: OpeningReport) {
        var walk = LogWalk(state: state, window: window, endsBesideWriters: true)
        let end = try walk.toTheEnd(asker: .judge) { (frame, accepted, state) throws(StoreError) in
            try follower?.adopt(frame, accepted, state)
        }
        let size = try files.size(file)
        let report = OpeningReport(
            end: walk.state.end, fileBytes: size, isSealed: walk.state.isSealed,
            tornTail: end.verdict == .tornTail ? walk.state.end : nil, reason: end.stop.sentence)
        walk.state.dropOpenTransaction()
        follower?.publish(walk.state)
        return (walk.state, report)
    }

    /// With the newest good hint; nil if there is none.
    static func readHeaderAndHint(_ window: ByteWindow) throws(StoreError) -> (FileHeader, Hint?) {
        let page = try window.bytes(at: 0, count: FormatLimits.pageBytes)
        let header = try FileHeader.decode(page)
        return (header, HintSlot.newest(in: page, salt: header.salt))
    }

    package static func readHeader(_ window: ByteWindow) throws(StoreError) -> (FileHeader, [HintSlot]) {
        let page = try window.bytes(at: 0, count: FormatLimits.pageBytes)
        let header = try FileHeader.decode(page)
        return (header, HintSlot.decodeAll(page, salt: header.salt))
    }

    /// Makes an empty store and opens it. Throws `alreadyExists` if the name is taken.
    ///
    /// A crash at any moment leaves no store or an empty one: the file gets its name when it is complete and durable.
    package static func create(
        _ path: String, storeID: UUIDBytes? = nil, options: LogOptions = LogOptions(), files: any FileSystem,
        environment: any Environment, start: StartOfReading? = nil
    ) throws(StoreError) -> Log {
        do throws(StoreError) {
            let place = try files.resolve(path)
            let directory = try files.openDirectory(place.directory)
            defer { files.close(directory) }
            let header = FileHeader(
                storeID: storeID ?? .random(environment), salt: environment.random(),
                created: environment.wallClockMicroseconds())
            let file = try files.createUnnamed(in: directory, mode: options.mode)
            defer { files.close(file) }
            let spare = [UInt8](repeating: 0, count: FormatLimits.pageBytes)
            try writeAll(header.encoded() + spare, to: file, files)
            try files.synchronize(file)
            try files.publish(file, as: place.name, in: directory)
            try files.synchronizeDirectory(directory)
        } catch {
            throw error.at(path: path)
        }
        return try open(
            path, access: .readWrite, options: options, files: files, environment: environment, start: start)
    }

    private static func writeAll(_ bytes: [UInt8], to file: Descriptor, _ files: any FileSystem) throws(StoreError) {
        var failure: StoreError?
        bytes.withUnsafeBytes { bytes in
            do throws(StoreError) { try files.writeAll(file, at: 0, bytes) } catch { failure = error }
        }
        if let failure { throw failure }
    }

    /// Opens the store, or makes it if there is none. Several processes may do so at once.
    package static func openOrCreate(
        _ path: String, options: LogOptions = LogOptions(), files: any FileSystem, environment: any Environment,
        start: StartOfReading? = nil
    ) throws(StoreError) -> Log {
        do throws(StoreError) {
            return try open(path, options: options, files: files, environment: environment, start: start)
        } catch  where error.code == .notFound {
            do throws(StoreError) {
                return try create(path, options: options, files: files, environment: environment, start: start)
            } catch  where error.code == .alreadyExists {
                return try open(path, options: options, files: files, environment: environment, start: start)
            }
        }
    }
}

extension UUIDBytes {
    /// A random UUID (RFC 9562, version 4).
    static func random(_ environment: any Environment) -> UUIDBytes {
        UUIDBytes(
            high: environment.random() & ~0xF000 | 0x4000, low: environment.random() & ~(3 << 62) | 1 << 63)
    }
}
