// Reads a file or standard input line by line, in pieces, so that memory does not grow with the file.

#if canImport(Glibc)
    internal import Glibc
#else
    internal import Musl
#endif

/// The lines of a file, without their line ends and without a byte order mark.
package final class LineReader {
    /// Longer lines are refused: such an object would not fit in a store anyway.
    package static let maximumLineBytes = 256 << 20
    private static let pieceBytes = 1 << 20

    /// Its name in errors.
    package let name: String
    /// Whether it can be read twice.
    package let isRegularFile: Bool
    /// The number of the last line that was read, from 1.
    package private(set) var number: UInt64 = 0
    private let descriptor: Int32
    private let size: Int64
    private var bytesRead: Int64 = 0
    private var buffer: [UInt8] = []
    private var place = 0
    /// No line ends before this index of the buffer.
    private var searched = 0
    private var isAtEnd = false

    /// Opens a file; "-" is standard input.
    package init(_ path: String) throws(ToolFailure) {
        name = path == "-" ? "standard input" : path
        descriptor = path == "-" ? 0 : open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw Self.failure("could not be opened", path, errno) }
        var status = stat()
        isRegularFile = fstat(descriptor, &status) == 0 && status.st_mode & S_IFMT == S_IFREG && path != "-"
        size = Int64(status.st_size)
    }

    deinit { if descriptor > 0 { close(descriptor) } }

    /// Begins again. For regular files only.
    package func rewind() {
        lseek(descriptor, 0, SEEK_SET)
        (buffer, place, searched, isAtEnd) = ([], 0, 0, false)
        (number, bytesRead) = (0, 0)
    }

    /// The part of a regular file that was read, from 0 to 1.
    var part: Double? {
        isRegularFile && size > 0 ? Double(bytesRead - Int64(buffer.count - place)) / Double(size) : nil
    }

    /// The next line; nil at the end.
    package func next() throws(ToolFailure) -> [UInt8]? {
        while true {
            if let end = buffer[searched...].firstIndex(of: UInt8(ascii: "\n")) {
                let line = Array(buffer[place..<end])
                place = end + 1
                searched = place
                return counted(line)
            }
            searched = buffer.count
            guard !isAtEnd else {
                guard place < buffer.count else { return nil }
                let line = Array(buffer[place...])
                place = buffer.count
                return counted(line)
            }
            guard buffer.count - place <= Self.maximumLineBytes else {
                throw ToolFailure(.failed, "Line \(number + 1) of \(name) is longer than 256 MiB.")
            }
            try fill()
        }
    }

    private func counted(_ line: [UInt8]) -> [UInt8] {
        number += 1
        return number == 1 && line.starts(with: [0xEF, 0xBB, 0xBF]) ? Array(line.dropFirst(3)) : line
    }

    private func fill() throws(ToolFailure) {
        buffer.removeFirst(place)
        searched -= place
        place = 0
        let before = buffer.count
        buffer += repeatElement(0, count: Self.pieceBytes)
        var count: Int
        repeat {
            count = buffer.withUnsafeMutableBytes { read(descriptor, $0.baseAddress! + before, Self.pieceBytes) }
        } while count < 0 && errno == EINTR
        let number = errno
        buffer.removeLast(Self.pieceBytes - max(0, count))
        guard count >= 0 else { throw Self.failure("could not be read", name, number) }
        bytesRead += Int64(count)
        isAtEnd = count == 0
    }

    private static func failure(_ what: String, _ name: String, _ number: Int32) -> ToolFailure {
        ToolFailure(.failed, "\(name) \(what): \(String(cString: strerror(number))).")
    }
}

extension [UInt8] {
    /// Whether a line has nothing but spaces.
    var isBlank: Bool { allSatisfy { $0 == 0x20 || $0 == 0x09 || $0 == 0x0D } }
}
