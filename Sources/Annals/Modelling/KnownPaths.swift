// The places of the properties that key paths lead to, remembered per type.

/// The offsets of the properties that key paths of objects lead to, in values of a type.
///
/// A predicate that is made for each fetch makes new key paths. Comparing one with those that are known takes a tenth
/// of the time of following it.
///
/// Sound although it is shared: `monitor` guards the list. Key paths to stored properties contain only constants of the
/// compiler, so any thread may compare them.
final class KnownPaths: @unchecked Sendable {
    private let monitor = Monitor()
    private var known: [(path: AnyKeyPath, offset: Int)] = []
    /// The list is searched from its beginning, so it has only the first paths that were used.
    private static let mostKnown = 16

    /// `follow` finds the place of a path that is not known; nil if it leads to no stored property.
    func offset(_ path: AnyKeyPath, _ follow: () -> Int?) -> Int? {
        // Not under the lock: a path of the program may have values that its own code compares.
        let known = monitor.withLock { self.known }
        for entry in known where entry.path == path { return entry.offset }
        guard let offset = follow() else { return nil }
        monitor.withLock {
            if self.known.count < Self.mostKnown { self.known.append((path, offset)) }
        }
        return offset
    }
}
