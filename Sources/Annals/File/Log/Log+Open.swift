// Creating and opening a store file.

extension Log {
    /// Opens an existing store. Read-only opening writes nothing, makes nothing and takes no lock.
    ///
    /// Without `start` it reads the whole file once: linear in its size. Throws `notFound`, `notAStore`,
    /// `unsupportedVersion`, `damaged` (with the offset), `permissionDenied` and errors of system calls.
    package static func open(
        _ path: String, access: FileAccess = .readWrite, options: LogOptions = LogOptions(),
        files: any FileSystem, environment: any Environment, start: StartOfReading? = nil
    ) throws(StoreError) -> Log {
        do throws(StoreError) {
            return try open(
                at: files.openPlace(path, mustBeLocal: access == .readWrite), access: access, options: options,
                files: files, environment: environment,
                start: start)
        } catch {
            throw error.at(path: path)
        }
    }

    /// Opens the store that has the name in a place. Or opens `file`, which was made in that directory and may have no
    /// name yet. The handle takes over the place's directory and the file. If this throws, both are closed.
    package static func open(
        at place: StorePlace, file: Descriptor? = nil, access: FileAccess = .readWrite,
        options: LogOptions = LogOptions(), files: any FileSystem, environment: any Environment,
        start: StartOfReading? = nil
    ) throws(StoreError) -> Log {
        do throws(StoreError) {
            let file =
                if let file { file } else { try files.open(place.name, in: place.directory, access: access) }
            do throws(StoreError) {
                return try open(file, place, access, options, files, environment, start)
            } catch {
                files.close(file)
                throw error
            }
        } catch {
            files.close(place.directory)
            throw error
        }
    }

    private static func open(
        _ file: Descriptor, _ place: StorePlace, _ access: FileAccess, _ options: LogOptions, _ files: any FileSystem,
        _ environment: any Environment, _ start: StartOfReading?
    ) throws(StoreError) -> Log {
        let status = try files.status(file)
        try status.requireRegularFile()
        let window = ByteWindow(files, file, stepBytes: options.limits.windowBytes)
        defer { withExtendedLifetime(window) {} }
        let (header, hint) = try readHeaderAndHint(window.beside(stepBytes: FormatLimits.pageBytes))
        let mapping =
            options.maps
            ? options.limits.reserve(fileBytes: status.size) { SharedMapping(files, file, reservedBytes: $0) } : nil
        // Apart: the runtime would make the types of an optional pair and of a pair, just to copy them.
        var (follower, first): ((any LogFollower)?, LogState?) = (nil, nil)
        if let start {
            let begun = try start(
                FileBeingOpened(
                    files: files, environment: environment, file: file, path: place.path, header: header, hint: hint,
                    mapping: mapping, size: status.size))
            (follower, first) = (begun.follower, begun.state)
        }
        let (state, report) = try readOn(files, file, window, from: first ?? LogState(header: header), follower)
        let opened = OpenedFile(
            files: files, environment: environment, place: place, access: access, file: file,
            identity: status.identity, size: status.size, mapping: mapping, follower: follower,
            hintedCheckpoint: hint?.checkpoint ?? 0, state: state, report: report)
        return Log(opened, options: options)
    }

    /// Chooses the follower of a file that is being opened, and the start of reading.
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
        assert(walk.state.open == nil, "An unfinished transaction is shown.")
        follower?.publish(walk.state.progress)
        return (walk.state, report)
    }

    /// Also returns the newest good hint; nil without one.
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

    /// Creates an empty store and opens it. Throws `alreadyExists` if the name is taken.
    ///
    /// The file gets its name when it is complete, durable and open. So neither a crash nor an error leaves an unusable
    /// store.
    package static func create(
        _ path: String, storeID: UUIDBytes? = nil, options: LogOptions = LogOptions(), files: any FileSystem,
        environment: any Environment, start: StartOfReading? = nil
    ) throws(StoreError) -> Log {
        do throws(StoreError) {
            let place = try files.openPlace(path, mustBeLocal: true)
            let file: Descriptor
            do throws(StoreError) {
                try TemporaryName.requireNone(place.name)
                file = try makeEmpty(in: place.directory, storeID, options, files, environment)
            } catch {
                files.close(place.directory)
                throw error
            }
            let log = try open(
                at: place, file: file, options: options, files: files, environment: environment, start: start)
            do throws(StoreError) {
                try files.publish(file, as: place.name, in: place.directory)
                try files.synchronizeDirectory(place.directory)
            } catch {
                try? log.closeReplaced()
                throw error
            }
            return log
        } catch {
            throw error.at(path: path)
        }
    }

    /// An empty store without a name, durable.
    private static func makeEmpty(
        in directory: Descriptor, _ storeID: UUIDBytes?, _ options: LogOptions, _ files: any FileSystem,
        _ environment: any Environment
    ) throws(StoreError) -> Descriptor {
        let header = FileHeader(
            storeID: storeID ?? .random(environment), salt: environment.random(),
            created: environment.wallClockMicroseconds())
        let file = try files.createUnnamed(in: directory, mode: options.mode)
        do throws(StoreError) {
            try files.allow(options.mode, file)
            try files.write(header, to: file)
            try files.synchronize(file)
        } catch {
            files.close(file)
            throw error
        }
        return file
    }

    /// Opens the store, or creates a missing one. Several processes may do so at once.
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

extension FileSystem {
    /// Writes the header of an empty store, and its spare page.
    func write(_ header: FileHeader, to file: Descriptor) throws(StoreError) {
        let pages = header.encoded() + [UInt8](repeating: 0, count: FormatLimits.pageBytes)
        assert(pages.count == 2 * FormatLimits.pageBytes, "A new file lacks its spare page.")
        try pages.withUnsafeBufferPointer { (bytes) throws(StoreError) in
            try writeAll(file, at: 0, UnsafeRawBufferPointer(bytes))
        }
    }

    /// Lets users read and write a file that was just made, regardless of the process's file mode creation mask: its
    /// owner must be able to open it.
    func allow(_ mode: UInt32, _ file: Descriptor) throws(StoreError) {
        let status = try status(file)
        if status.mode & mode == mode { return }
        try setPermissions(file, mode: status.mode | mode, owner: status.owner, group: status.group)
    }
}

extension UUIDBytes {
    /// A random UUID (RFC 9562, version 4).
    static func random(_ environment: any Environment) -> UUIDBytes {
        UUIDBytes(
            high: environment.random() & ~0xF000 | 0x4000, low: environment.random() & ~(3 << 62) | 1 << 63)
    }
}
