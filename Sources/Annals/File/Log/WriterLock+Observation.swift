// The writer lock as an onlooker sees it, without taking it.

extension WriterLock {
    /// The use of the lock at one moment.
    package struct Observation: Equatable, Sendable {
        /// The process that holds the lock, as its own process namespace counts.
        package var holder: UInt32?
        /// Whether another process waits for it.
        package var isAwaited: Bool
    }

    package static func observe(_ files: RealFileSystem, _ file: Descriptor) throws(StoreError) -> Observation {
        let held = try files.lock(of: file, over: LockRange(start: centre, end: centre + 1))
        let awaited = try files.lock(of: file, over: waiting)
        return Observation(holder: held.flatMap(holder)?.processID, isAwaited: awaited != nil)
    }
}
