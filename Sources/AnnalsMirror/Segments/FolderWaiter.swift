// Waits until a folder may have something new.

/// Waits for the file system's events and for an interruption. Without events, as on network file systems, a wait ends
/// after its time.
final class FolderWaiter {
    /// The longest time between two looks at the folder.
    static let longestSeconds = 2.0
    static let shortestSeconds = 0.05

    let interruption: Interruption
    private var watcher: Int32?
    private var hasTried = false

    init(_ interruption: Interruption) { self.interruption = interruption }

    deinit {
        if let watcher { MirrorSystem.closeDescriptor(watcher) }
    }

    /// Watches an open folder from now on. Does nothing if the system has no watches left: then waits are polls.
    func watch(_ folder: Int32) {
        if !hasTried { watcher = try? MirrorSystem.startWatching() }
        hasTried = true
        if let watcher { try? MirrorSystem.watch(folder: folder, with: watcher) }
    }

    /// Takes the events that came before a look at the folder.
    func forgetEvents() {
        if let watcher { _ = MirrorSystem.takeEvents(of: watcher) }
    }

    /// - Returns: False if an interruption came.
    func wait(seconds: Double) throws(MirrorSystem.Failure) -> Bool {
        let deadline = ContinuousClock.now + .seconds(max(0, min(seconds, Self.longestSeconds)))
        while true {
            var list = [interruption.waiting] + (watcher.map { [MirrorSystem.Waiting(descriptor: $0)] } ?? [])
            let isReady = try MirrorSystem.wait(for: &list, until: deadline)
            if list[0].isReadable { return false }
            if !isReady { return true }
            // Temporary files of writers are nothing to look for.
            if let watcher, MirrorSystem.takeEvents(of: watcher) { return true }
        }
    }
}
