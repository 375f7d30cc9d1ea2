// A folder that the programs of a group share: the app, its extensions, a service and its workers.

public import FoundationEssentials

/// A folder for the stores of several programs of one user.
///
/// The folder is in the user's data folder (`$XDG_DATA_HOME`, otherwise `~/.local/share`) under `app-groups`. Whichever
/// program is first creates it, for this user alone (mode 0700).
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
    /// `permissionDenied`.
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
        path = (dataFolder ?? Self.userDataFolder) + "/app-groups/" + identifier
        try create()
    }

    /// The path for a store of that name in the group's folder.
    public func storePath(named name: String) -> String { path + "/" + name + ".annals" }

    /// The same as a URL.
    public func storeURL(named name: String) -> URL { URL(filePath: storePath(named: name)) }

    private static var userDataFolder: String {
        if let folder = ProcessInfo.processInfo.environment["XDG_DATA_HOME"], folder.hasPrefix("/") { return folder }
        return FileManager.default.homeDirectoryForCurrentUser.path + "/.local/share"
    }

    private func create() throws {
        let files = FileManager.default
        var isDirectory = false
        if files.fileExists(atPath: path, isDirectory: &isDirectory), isDirectory { return }
        do {
            let parent = String(path.dropLast(identifier.count + 1))
            try files.createDirectory(atPath: parent, withIntermediateDirectories: true)
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
            throw StoreError(
                .permissionDenied, "The folder of the group cannot be created: look at the folders above it.",
                path: path)
        }
    }
}
