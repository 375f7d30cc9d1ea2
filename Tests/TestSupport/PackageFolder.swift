// Where the package is on this machine, for tests that read its sources, documents and stored files.

package import FoundationEssentials

/// The folder with Package.swift.
package enum PackageFolder {
    /// A file or folder of the package, by its path in it.
    package static func url(_ path: String) -> URL { root.appending(path: path) }

    /// With a slash at its end.
    package static let path = root.path(percentEncoded: false)

    // …/Tests/TestSupport/PackageFolder.swift
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()
}
