// A directory of a test's own, gone when the test is.

import Annals
import Glibc

/// Made under the system's directory for temporary files; `deinit` removes it with all it holds.
package final class TemporaryDirectory: Sendable {
    package let path: String

    package init() throws {
        let base = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
        let made = base + "/annals-test-" + String(UInt64.random(in: .min ... .max), radix: 16)
        guard mkdir(made, 0o700) == 0 else { throw StoreError(.systemCall, "mkdir failed", path: made) }
        path = try RealFileSystem().resolve(made + "/any").directory
    }

    deinit { Self.remove(path) }

    package func path(_ name: String) -> String { path + "/" + name }

    /// The names in it, sorted, without "." and "..".
    package var names: [String] { Self.names(in: path) }

    package func write(_ text: String, to name: String) throws {
        let file = Glibc.open(path(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw StoreError(.systemCall, "open failed", path: path(name)) }
        defer { close(file) }
        guard Glibc.write(file, text, text.utf8.count) == text.utf8.count else {
            throw StoreError(.systemCall, "write failed", path: path(name))
        }
    }

    package func read(_ name: String) -> String? {
        let file = Glibc.open(path(name), O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return nil }
        defer { close(file) }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65536)
        while case let count = Glibc.read(file, &buffer, 65536), count > 0 { bytes += buffer.prefix(count) }
        return String(decoding: bytes, as: UTF8.self)
    }

    package static func names(in path: String) -> [String] {
        guard let directory = opendir(path) else { return [] }
        defer { closedir(directory) }
        var names: [String] = []
        while let entry = readdir(directory) {
            let name = withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
                String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            if name != "." && name != ".." { names.append(name) }
        }
        return names.sorted()
    }

    private static func remove(_ path: String) {
        for name in names(in: path) {
            let inside = path + "/" + name
            if unlink(inside) != 0 { remove(inside) }
        }
        rmdir(path)
    }
}
