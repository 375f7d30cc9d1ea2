// Reads a file or standard input line by line, in pieces, so that memory does not grow with the file; and CSV.

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
        (buffer, place, isAtEnd, number, bytesRead) = ([], 0, false, 0, 0)
    }

    /// The part of a regular file that was read, from 0 to 1.
    var part: Double? {
        isRegularFile && size > 0 ? Double(bytesRead - Int64(buffer.count - place)) / Double(size) : nil
    }

    package func next() throws(ToolFailure) -> [UInt8]? {
        var end = buffer[place...].firstIndex(of: UInt8(ascii: "\n"))
        while end == nil, !isAtEnd {
            guard buffer.count - place <= Self.maximumLineBytes else {
                throw ToolFailure("Line \(number + 1) of \(name) is longer than 256 MiB.")
            }
            let searched = buffer.count - place
            try fill()
            end = buffer[searched...].firstIndex(of: UInt8(ascii: "\n"))
        }
        guard place < buffer.count else { return nil }
        let line = buffer[place..<(end ?? buffer.count)]
        place = min(buffer.count, line.endIndex + 1)
        number += 1
        return Array(number == 1 && line.starts(with: [0xEF, 0xBB, 0xBF]) ? line.dropFirst(3) : line)
    }

    /// Reads more, and removes the lines that were returned.
    private func fill() throws(ToolFailure) {
        buffer.removeFirst(place)
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
        ToolFailure("\(name) \(what): \(String(cString: strerror(number))).")
    }

    /// The next line that is not blank.
    func nextFilled() throws(ToolFailure) -> [UInt8]? {
        while let line = try next() {
            if !line.allSatisfy({ $0 == 0x20 || $0 == 0x09 || $0 == 0x0D }) { return line }
        }
        return nil
    }

    /// The members of the next line that is not blank.
    func nextObject(_ wrong: (String) -> ToolFailure) throws -> [JSONMember]? {
        do {
            return try nextFilled().map { line throws(JSONError) in try JSONReader.object(line) }
        } catch let error as JSONError {
            throw wrong("\(error.message), at column \(error.column)")
        }
    }
}

package enum CSV {
    /// The next record, which may have several lines; nil at the end. An empty field without quotes is nil.
    package static func record(_ reader: LineReader) throws(ToolFailure) -> [String?]? {
        guard var line = try reader.next() else { return nil }
        let first = reader.number
        var (fields, field, isQuoted, isInQuotes, place) = ([String?](), [UInt8](), false, false, 0)
        func wrong(_ reason: String) -> ToolFailure {
            ToolFailure("Line \(reader.number) of \(reader.name) is wrong: \(reason).")
        }
        func end() throws(ToolFailure) {
            let text = try String(validating: field, as: UTF8.self).orThrow(
                wrong("it is not in UTF-8: convert the file (iconv -f LATIN1 -t UTF-8)"))
            fields.append(field.isEmpty && !isQuoted ? nil : text)
        }
        while true {
            guard place < line.count else {
                guard isInQuotes else { break }
                line = try reader.next().orThrow(
                    ToolFailure("Line \(first) of \(reader.name) is wrong: a quoted field has no end."))
                field.append(UInt8(ascii: "\n"))
                place = 0
                continue
            }
            let byte = line[place]
            place += 1
            switch byte {
            case UInt8(ascii: "\"") where isInQuotes:
                // A doubled one is a part of the text.
                isInQuotes = place < line.count && line[place] == byte
                if isInQuotes {
                    field.append(byte)
                    place += 1
                }
            case UInt8(ascii: "\"") where field.isEmpty && !isQuoted: (isQuoted, isInQuotes) = (true, true)
            case UInt8(ascii: ",") where !isInQuotes:
                try end()
                (field, isQuoted) = ([], false)
            case 0x0D where !isInQuotes:
                guard place == line.count else { throw wrong("a carriage return must be at the end of a line") }
            case _ where isQuoted && !isInQuotes: throw wrong("a comma must follow a quoted field")
            default: field.append(byte)
            }
        }
        try end()
        return fields
    }

    /// One line, with its line feed. Nil becomes an empty field, and an empty text becomes two quotes, so they differ.
    package static func line(_ fields: [String?]) -> String {
        fields.map { $0.map(quotedWhereNeeded) ?? "" }.joined(separator: ",") + "\n"
    }

    private static func quotedWhereNeeded(_ field: String) -> String {
        let needsQuotes =
            field.isEmpty || field.utf8.first == 0x20 || field.utf8.last == 0x20
            || field.utf8.contains { $0 == UInt8(ascii: "\"") || $0 == UInt8(ascii: ",") || $0 == 0x0A || $0 == 0x0D }
        guard needsQuotes else { return field }
        // By scalars: a quote with a combining mark is one character.
        let parts = field.unicodeScalars.split(separator: "\"", omittingEmptySubsequences: false)
        return "\"" + parts.map { String($0) }.joined(separator: "\"\"") + "\""
    }
}
