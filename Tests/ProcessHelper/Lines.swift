// Logs beside the store: what a process has to say that must outlive it.

import FoundationEssentials
import Glibc

/// A file of lines. A process that is killed can leave a part of its last line, which nobody reads.
final class Lines: Sendable {
    private let descriptor: Int32

    init(appendingTo path: String) throws {
        descriptor = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0, ftruncate(descriptor, Self.endOfLastLine(descriptor)) == 0 else {
            throw Wrong("\(path) cannot be written")
        }
    }

    private static func endOfLastLine(_ descriptor: Int32) -> Int {
        var end = lseek(descriptor, 0, SEEK_END)
        var byte: UInt8 = 0
        while end > 0, pread(descriptor, &byte, 1, end - 1) == 1, byte != UInt8(ascii: "\n") { end -= 1 }
        return end
    }

    func add(_ line: String) { Self.write(line + "\n", to: descriptor) }

    static func write(_ text: String, to descriptor: Int32) {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count > 0 { rest = rest.dropFirst(count) } else if errno != EINTR { exit(1) }
        }
    }

    /// The words of each whole line; none if there is no file.
    static func words(in path: String) -> [[Substring]] {
        guard let data = try? Data(contentsOf: URL(filePath: path)) else { return [] }
        let lines = String(decoding: data, as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: false)
        return lines.dropLast().map { $0.split(separator: " ") }
    }

    /// The last whole line's words, from the end of the file.
    static func lastWords(in path: String) -> [Substring] {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return [] }
        defer { close(descriptor) }
        let size = lseek(descriptor, 0, SEEK_END)
        var buffer = [UInt8](repeating: 0, count: 512)
        let count = pread(descriptor, &buffer, buffer.count, max(0, size - 512))
        guard count > 0 else { return [] }
        let lines = String(decoding: buffer[..<count], as: UTF8.self)
            .split(separator: "\n", omittingEmptySubsequences: false).dropLast()
        return lines.last?.split(separator: " ") ?? []
    }
}

enum Clock {
    /// Of the monotonic clock, which all processes share.
    static var microseconds: UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return UInt64(time.tv_sec) * 1_000_000 + UInt64(time.tv_nsec) / 1000
    }
}
