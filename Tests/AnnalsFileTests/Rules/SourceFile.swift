// The package's own source files and guides, as text for tests about them.

import Glibc
import TestSupport

private let newline = UInt8(ascii: "\n")
private let quote = UInt8(ascii: "\"")

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

    /// Numbered from 1, without comments and without the contents of string literals.
    var codeLines: [(number: Int, line: Substring)] {
        // By bytes: the characters of all sources are many.
        let bytes = Array(text.utf8)
        var code: [UInt8] = []
        var place = 0
        func begins(_ text: StaticString) -> Bool {
            place + text.utf8CodeUnitCount <= bytes.count
                && (0..<text.utf8CodeUnitCount).allSatisfy { bytes[place + $0] == text.utf8Start[$0] }
        }
        func skip(through end: StaticString) {
            while place < bytes.count, !begins(end) {
                if bytes[place] == newline { code.append(newline) }
                place += 1
            }
            place = min(bytes.count, place + end.utf8CodeUnitCount)
        }
        while place < bytes.count {
            if begins("//") {
                while place < bytes.count, bytes[place] != newline { place += 1 }
            } else if begins("/*") {
                skip(through: "*/")
            } else if begins("\"\"\"") {
                code += [quote, quote]
                place += 3
                skip(through: "\"\"\"")
            } else if bytes[place] == quote {
                code += [quote, quote]
                place += 1
                while place < bytes.count, bytes[place] != newline {
                    defer { place += bytes[place] == UInt8(ascii: "\\") ? 2 : 1 }
                    if bytes[place] == quote { break }
                }
            } else {
                code.append(bytes[place])
                place += 1
            }
        }
        return String(decoding: code, as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: false)
            .enumerated().map { ($0 + 1, $1) }
    }

    private static func paths(in root: String) -> [String] {
        guard let directory = opendir(PackageFolder.path + root) else { return [] }
        defer { closedir(directory) }
        var found: [String] = []
        while let entry = readdir(directory) {
            let name = withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
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
