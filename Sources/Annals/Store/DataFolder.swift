// Folders in which a program keeps its stores if it does not choose its own: their locations, and their creation.

internal import FoundationEssentials

/// The place for a user's data, by the XDG Base Directory Specification.
package struct DataFolder: Sendable {
    package let path: String
    /// Whether it is a folder that Flatpak gives to one application, hidden from other programs.
    package let isPrivateToFlatpak: Bool

    /// The folder of the user of a process with this environment.
    package init(_ environment: [String: String] = ProcessInfo.processInfo.environment) {
        func absolute(_ name: String) -> String? { environment[name].flatMap { $0.hasPrefix("/") ? $0 : nil } }
        // Foundation prefers the system's list of users, which a program's environment cannot change.
        let home = absolute("HOME") ?? FileManager.default.homeDirectoryForCurrentUser.path(percentEncoded: false)
        let path = absolute("XDG_DATA_HOME") ?? StorePlace.path(of: ".local/share", in: home)
        self.path = path
        // In its sandbox, Flatpak sets both: the data folder is `~/.var/app/ID/data`.
        isPrivateToFlatpak = environment["FLATPAK_ID"].map { path.contains("/.var/app/\($0)/") } ?? false
    }

    /// Makes a folder for these users, and those above it for this user alone. An existing folder does not change.
    static func create(_ path: String, in parent: String, for sharing: Store.Sharing) throws {
        let files = FileManager.default
        var isDirectory = false
        if files.fileExists(atPath: path, isDirectory: &isDirectory), isDirectory { return }
        do {
            try files.createDirectory(atPath: parent, withIntermediateDirectories: true)
            try files.createDirectory(
                atPath: path, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
            // The process's mask does not restrict these permissions.
            if sharing == .group { try files.setAttributes([.posixPermissions: 0o2770], ofItemAtPath: path) }
        } catch {
            // Another program may have been faster.
            if files.fileExists(atPath: path, isDirectory: &isDirectory) {
                if isDirectory { return }
                throw StoreError(
                    .notARegularFile, "A file has the name of the folder: remove it, or rename it.", path: path)
            }
            throw refusal(error, path)
        }
    }

    private static func refusal(_ error: any Error, _ path: String) -> StoreError {
        let (code, reason): (StoreError.Code, String) =
            switch (error as? CocoaError)?.code {
            case .fileWriteNoPermission?, .fileReadNoPermission?:
                (.permissionDenied, "this user may not write to a parent folder: change its mode or owner")
            case .fileWriteOutOfSpace?: (.noSpace, "the disk is full: free space on it")
            case .fileWriteVolumeReadOnly?: (.readOnly, "its file system is mounted read-only: mount it for writing")
            case .fileWriteFileExists?: (.notARegularFile, "a file has the name of a parent folder: rename that file")
            default: (.systemCall, "\(error)")
            }
        let sentence = StoreError.sentence("The folder cannot be created, because \(reason)")
        return StoreError(code, sentence, path: path)
    }

    /// Throws `invalidArgument`.
    static func requireIdentifier(_ identifier: String, of what: String) throws {
        let isAllowed = identifier.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: "_"):
                true
            default: false
            }
        }
        guard isAllowed, (1...200).contains(identifier.utf8.count), identifier.first != "." else {
            throw StoreError(
                .invalidArgument,
                "The identifier of a \(what) must have 1 to 200 ASCII letters, digits, dots, hyphens and underscores, "
                    + "and must not begin with a dot.")
        }
    }
}

extension Store {
    /// The usual path for a store of a program: `PROGRAM/NAME.annals` in the user's data folder, which is
    /// `$XDG_DATA_HOME`, otherwise `$HOME/.local/share`. Creates the program's folder, for this user alone.
    ///
    /// ```swift
    /// let path = try Store.defaultPath(named: "Notes", ofProgram: "org.example.notes")
    /// let store = try Store(at: path, entities: [Note.self])
    /// ```
    ///
    /// For a store that several programs share, use ``AppGroup``.
    ///
    /// - Parameters:
    ///   - name: The name of the store.
    ///   - program: The identifier of the program, such as `org.example.notes`: 1 to 200 ASCII letters, digits, dots,
    ///     hyphens and underscores, not beginning with a dot.
    ///
    /// Throws `StoreError`: `invalidArgument` for another identifier; as ``AppGroup`` if the folder cannot be created.
    public static func defaultPath(named name: String, ofProgram program: String) throws -> String {
        try DataFolder.requireIdentifier(program, of: "program")
        let folder = DataFolder().path
        let path = StorePlace.path(of: program, in: folder)
        try DataFolder.create(path, in: folder, for: .user)
        return StorePlace.path(of: name + ".annals", in: path)
    }
}
