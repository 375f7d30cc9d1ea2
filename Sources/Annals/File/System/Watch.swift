// The seam through which the file layer learns that a store may have changed. News is only a hint: the file decides.

/// A watched file, as identified by its watch.
package struct WatchedFile: Hashable, Sendable {
    package let number: UInt64
    package init(_ number: UInt64) { self.number = number }
}

/// The news that a wait returns.
package enum WatchNews: Hashable, Sendable {
    /// Bytes or size of the file changed.
    case changed(WatchedFile)
    /// Another file has the name now, or the name is gone.
    case replaced(WatchedFile)
    /// The watch of this file has ended (its directory was removed, renamed or unmounted): look in intervals.
    case gone(WatchedFile)
    /// Events were lost: look at every file.
    case overflow
    /// `cancel` was called; this and every further wait ends at once.
    case cancelled
}

/// Reports that watched files may have changed.
///
/// The order that misses nothing: add the watch, then read the state of the file, then wait. Many changes may come as
/// one piece of news, and news may come without a change.
package protocol ChangeWatch: Sendable {
    /// Watches a name in a directory (real path, as `FileSystem.resolve` returns it), and its file if it exists. Any
    /// thread.
    ///
    /// - Throws: `tooManyFiles` if the system has no watches left, and the codes of other system calls. The caller then
    ///   looks in intervals.
    func add(directory: String, name: String) throws(StoreError) -> WatchedFile
    /// Any thread. News of the file that a wait has already read may still come.
    func remove(_ file: WatchedFile)
    /// Waits for news, at most until a moment of the monotonic clock (nil: forever). One thread at a time.
    ///
    /// - Returns: no element twice; nothing after the time has passed or a call of `wake`.
    func wait(untilMonotonicMicroseconds deadline: UInt64?) throws(StoreError) -> [WatchNews]
    /// Ends the current wait, or the next one if none is running. Any thread.
    func wake()
    /// Ends the current wait and all later ones. Any thread.
    func cancel()
}
