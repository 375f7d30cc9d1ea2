// A folder that the programs of a group share: the app, its extensions, a service and its workers.

public import FoundationEssentials

/// A folder for the stores of several programs of one user.
///
/// The folder is in the user's data folder under `app-groups`: in `$XDG_DATA_HOME`, otherwise in `$HOME/.local/share`.
/// The first program creates it, for this user alone (mode 0700).
public struct AppGroup: Hashable, Sendable {
    /// The identifier, such as `org.example.notes`.
    public let identifier: String
    /// The path of the folder.
    public let path: String

    /// The group of an identifier. Creates its folder if there is none.
    ///
    /// - Parameters:
    ///   - identifier: 1 to 200 ASCII letters, digits, dots, hyphens and underscores, not beginning with a dot.
    ///   - dataFolder: Where the folder of groups is; nil for the user's data folder.
    ///
    /// Throws `StoreError`: `invalidArgument` for another identifier, `notARegularFile` if the name is taken by a file,
    /// `permissionDenied`, `noSpace`, `readOnly`; `systemCall` if the folder cannot be created for another reason.
    public init(_ identifier: String, in dataFolder: String? = nil) throws {
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
                "The identifier of a group has 1 to 200 ASCII letters, digits, dots, hyphens and underscores, and does "
                    + "not begin with a dot.")
        }
        self.identifier = identifier
        let groups = StorePlace.path(of: "app-groups", in: dataFolder ?? Self.userDataFolder)
        path = StorePlace.path(of: identifier, in: groups)
        try create(in: groups)
    }

    /// The path for a store of that name in the group's folder.
    public func storePath(named name: String) -> String { StorePlace.path(of: name + ".annals", in: path) }

    /// The same as a URL.
    public func storeURL(named name: String) -> URL { URL(filePath: storePath(named: name)) }

    private static var userDataFolder: String {
        if let folder = ProcessInfo.processInfo.environment["XDG_DATA_HOME"], folder.hasPrefix("/") { return folder }
        // Foundation prefers the system's list of users, which a program's environment cannot change.
        let home = ProcessInfo.processInfo.environment["HOME"].flatMap { $0.hasPrefix("/") ? $0 : nil }
        return StorePlace.path(
            of: ".local/share", in: home ?? FileManager.default.homeDirectoryForCurrentUser.path(percentEncoded: false))
    }

    private func create(in groups: String) throws {
        let files = FileManager.default
        var isDirectory = false
        if files.fileExists(atPath: path, isDirectory: &isDirectory), isDirectory { return }
        do {
            try files.createDirectory(atPath: groups, withIntermediateDirectories: true)
            try files.createDirectory(
                atPath: path, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
        } catch {
            // Another program may have been faster.
            if files.fileExists(atPath: path, isDirectory: &isDirectory) {
                if isDirectory { return }
                throw StoreError(
                    .notARegularFile, "The name of the group's folder is taken by a file: remove it, or rename it.",
                    path: path)
            }
            throw Self.refusal(error, path)
        }
    }

    private static func refusal(_ error: any Error, _ path: String) -> StoreError {
        let (code, reason): (StoreError.Code, String) =
            switch (error as? CocoaError)?.code {
            case .fileWriteNoPermission?, .fileReadNoPermission?:
                (.permissionDenied, "this user may not write to a folder above it: change its mode or owner")
            case .fileWriteOutOfSpace?: (.noSpace, "the disk is full: free space on it")
            case .fileWriteVolumeReadOnly?: (.readOnly, "its file system can only be read: mount it for writing")
            case .fileWriteFileExists?: (.notARegularFile, "a file has the name of a folder above it: rename that file")
            default: (.systemCall, "\(error)")
            }
        let sentence = StoreError.sentence("The folder of the group cannot be created, because \(reason)")
        return StoreError(code, sentence, path: path)
    }
}
