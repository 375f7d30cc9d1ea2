// Stores in this process's memory: for tests and previews, and for data that must not outlive the process.

extension Store {
    /// Creates a store in memory. It works like one in a file: history, consumers, signals, cleaning, backups.
    ///
    /// The store vanishes with the last `Store`, snapshot or watcher of it, closed or not, and with the process, in any
    /// case. It uses no disk, unless the system swaps memory out. Another process cannot open it.
    ///
    /// To open the same store again in this process, pass `path` of a handle to an initializer that takes a path. Each
    /// handle works as another process would: with a lock, snapshots and signals of its own.
    ///
    /// - Parameters:
    ///   - entities: The entities of the store. More may be added later.
    ///   - options: See `Options`. No commit waits for a disk, with any `durability`.
    ///
    /// Throws `StoreError`: `schemaRefused` and `invalidArgument` for entities that no store can have, and errors
    /// of the system.
    public convenience init(inMemory entities: [EntityDescription] = [], options: Options = Options()) throws {
        let folder = Self.makeMemoryFolder()
        defer { withExtendedLifetime(folder) {} }
        try self.init(at: folder.storePath, entities: entities, options: options)
    }

    /// Whether the store is in this process's memory, and in no file.
    public var isInMemory: Bool { MemoryFolder.isPath(path) }

    // MARK: The folders of this process

    private final class MemoryFolders: Sendable {
        private struct Held {
            weak var folder: MemoryFolder?
        }

        private struct State {
            var folders: [String: Held] = [:]
            var made: UInt64 = 0
        }

        private let state = Guarded(State())

        func make() -> MemoryFolder {
            state.withLock { state in
                state.folders = state.folders.filter { $0.value.folder != nil }
                state.made += 1
                let folder = MemoryFolder(path: MemoryFolder.scheme + "\(state.made)")
                state.folders[folder.path] = Held(folder: folder)
                return folder
            }
        }

        func folder(at path: String) -> MemoryFolder? { state.withLock { $0.folders[path]?.folder } }
    }

    private static let memoryFolders = PerProcess { MemoryFolders() }

    /// A new folder for one store. It lives as long as a reference to it.
    static func makeMemoryFolder() -> MemoryFolder { memoryFolders.value.make() }

    /// The file system that a path belongs to.
    package static func files(for path: String) throws(StoreError) -> any FileSystem {
        guard MemoryFolder.isPath(path) else { return RealFileSystem() }
        let folderPath = MemoryFolder.folderPath(of: path)
        if let folder = memoryFolders.value.folder(at: folderPath) { return folder }
        throw StoreError(
            .notFound,
            "This process has no such store in memory: its last handle was closed, or it belongs to another process. "
                + "Create one with Store(inMemory:).", path: path)
    }
}
