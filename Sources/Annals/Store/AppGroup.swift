// A folder that the programs of a group share: the app, its extensions, a service and its workers.

public import FoundationEssentials

/// A folder for the stores of several programs.
///
/// By default the folder is in the user's data folder under `app-groups`: in `$XDG_DATA_HOME`, otherwise in
/// `$HOME/.local/share`. The first program creates it, for this user alone. Services of several users share a folder
/// elsewhere:
///
/// ```swift
/// // The folder /srv/example belongs to the system's group "example", of which all services are members.
/// let group = try AppGroup("org.example.notes", in: "/srv/example", sharing: .group)
/// var options = Store.Options()
/// options.sharing = .group
/// let store = try Store(at: group.storePath(named: "Notes"), entities: [Note.self], options: options)
/// ```
public struct AppGroup: Hashable, Sendable {
    /// The identifier, such as `org.example.notes`.
    public let identifier: String
    /// The path of the folder.
    public let path: String
    /// Which users share the folder.
    public let sharing: Store.Sharing

    /// The group of an identifier. Creates its folder if it is missing.
    ///
    /// In a Flatpak sandbox the user's data folder is one of the application's own, which no other program sees. Then
    /// standard error gets a line about this.
    ///
    /// - Parameters:
    ///   - identifier: 1 to 200 ASCII letters, digits, dots, hyphens and underscores, not beginning with a dot.
    ///   - dataFolder: The parent of the folders of groups; nil for the user's data folder.
    ///   - sharing: Which users may use the folder, if it is created. Its group is that of the folder above it, if that
    ///     one passes its group on (mode 2000), otherwise that of the process.
    ///
    /// Throws `StoreError`: `invalidArgument` for another identifier, `notARegularFile` if the name is taken by a file,
    /// `permissionDenied`, `noSpace`, `readOnly`; `systemCall` if the folder cannot be created for another reason.
    public init(_ identifier: String, in dataFolder: String? = nil, sharing: Store.Sharing = .user) throws {
        try DataFolder.requireIdentifier(identifier, of: "group")
        let data = DataFolder()
        self.identifier = identifier
        self.sharing = sharing
        let groups = StorePlace.path(of: "app-groups", in: dataFolder ?? data.path)
        path = StorePlace.path(of: identifier, in: groups)
        try DataFolder.create(path, in: groups, for: sharing)
        if dataFolder == nil, data.isPrivateToFlatpak {
            StandardError.log(
                "The folder of the group “\(identifier)” is private to this Flatpak application: \(path). Programs "
                    + "outside of the application cannot share it: give the application a folder of the host, and pass "
                    + "its path as `in:`."
            )
        }
    }

    /// The path for a store of that name in the group's folder.
    public func storePath(named name: String) -> String { StorePlace.path(of: name + ".annals", in: path) }

    /// The same as a URL.
    public func storeURL(named name: String) -> URL { URL(filePath: storePath(named: name)) }
}
