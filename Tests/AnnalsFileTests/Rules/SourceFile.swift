// The package's own source files and guides, as text for tests about them.

import Glibc
import TestSupport

struct SourceFile: Sendable {
    /// From the package's directory on.
    var path: String
    var name: String
    /// The folder below the root, such as "File/Log"; empty for files that stand beside the folders.
    var folder: String
    var text: String

    /// Every file under a directory of the package whose name ends like this, in the order of their paths.
    static func all(under root: String, ending: String = ".swift") -> [SourceFile] {
        let depth = root.split(separator: "/").count
        return paths(in: root).filter { $0.hasSuffix(ending) }.sorted().compactMap { path in
            guard let text = read(PackageFolder.path + path) else { return nil }
            let parts = path.split(separator: "/")
            return SourceFile(
                path: path, name: String(parts.last ?? ""),
                folder: parts[min(depth, parts.count - 1)..<(parts.count - 1)].joined(separator: "/"),
                text: text)
        }
    }

    var isExecutable: Bool { access(PackageFolder.path + path, X_OK) == 0 }

    /// Numbered from 1, without comments and without what stands in string literals.
    var codeLines: [(number: Int, line: Substring)] {
        var stripped = ""
        var rest = text[...]
        while let character = rest.first {
            if rest.hasPrefix("//") {
                rest = rest.drop { !$0.isNewline }
            } else if rest.hasPrefix("/*") {
                let comment = rest.firstRange(of: "*/").map { rest[..<$0.upperBound] } ?? rest
                stripped += String(repeating: "\n", count: comment.count { $0.isNewline })
                rest = rest[comment.endIndex...]
            } else if rest.hasPrefix("\"\"\"") {
                let body = rest.dropFirst(3)
                let literal = body.firstRange(of: "\"\"\"").map { body[..<$0.upperBound] } ?? body
                stripped += "\"\"" + String(repeating: "\n", count: literal.count { $0.isNewline })
                rest = rest[literal.endIndex...]
            } else if character == "\"" {
                stripped += "\"\""
                rest = Self.afterLiteral(rest.dropFirst())
            } else {
                stripped.append(character)
                rest = rest.dropFirst()
            }
        }
        return stripped.split(omittingEmptySubsequences: false) { $0.isNewline }.enumerated().map { ($0 + 1, $1) }
    }

    private static func afterLiteral(_ text: Substring) -> Substring {
        var rest = text
        while let character = rest.first, !character.isNewline {
            rest = rest.dropFirst(character == "\\" ? 2 : 1)
            if character == "\"" { return rest }
        }
        return rest
    }

    private static func paths(in root: String) -> [String] {
        guard let directory = opendir(PackageFolder.path + root) else { return [] }
        defer { closedir(directory) }
        var found: [String] = []
        while let entry = readdir(directory) {
            let name = withUnsafeBytes(of: entry.pointee.d_name) { bytes in
                String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            if name.hasPrefix(".") { continue }
            found += name.contains(".") ? [root + "/" + name] : paths(in: root + "/" + name)
        }
        return found
    }

    static func read(_ path: String) -> String? {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return nil }
        defer { close(file) }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65536)
        while case let count = Glibc.read(file, &buffer, 65536), count > 0 { bytes += buffer.prefix(count) }
        return String(validating: bytes, as: UTF8.self)
    }
}
