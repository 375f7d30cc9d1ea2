// The names of files that are not complete yet.

/// The kinds of temporary files beside a store. Each has one name per store, so that the next process that does the
/// same finds the file of a killed one.
package enum TemporaryName: String, CaseIterable, Sendable {
    case compaction = ".compacting"
    case backup = ".annals-backup"
    case salvage = ".annals-salvage"

    /// The name of the temporary file for the store of that name. If it would become too long, digits of a checksum
    /// replace the store's name.
    package func of(_ name: String) -> String {
        Self.fitting((self == .compaction ? "" : ".") + name + rawValue, for: name, rawValue)
    }

    /// `plain`, or a shorter name with the same ending if that is too long for a file.
    static func fitting(_ plain: String, for name: String, _ ending: String) -> String {
        if plain.utf8.count <= RealFileSystem.maximumFileNameBytes { return plain }
        let bytes = Array(name.utf8)
        let digits = String(bytes.withUnsafeBytes { Checksum.hash($0, seed: 0) }, radix: 16)
        return "." + String(repeating: "0", count: 16 - digits.utf8.count) + digits + ending
    }

    /// Throws `invalidArgument` if a new store would have the name of a temporary file, which the next compaction,
    /// backup or salvage could remove.
    static func requireNone(_ name: String) throws(StoreError) {
        for suffix in allCases.map(\.rawValue) where name.hasSuffix(suffix) {
            throw StoreError(
                .invalidArgument,
                "Names that end in “\(suffix)” are for unfinished files, which may be removed: choose another name.")
        }
    }
}
