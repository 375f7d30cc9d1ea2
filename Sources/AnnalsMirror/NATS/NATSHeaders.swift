// The headers of a NATS message: a status and fields, kept as bytes and read on demand.

/// The headers of a received message.
///
/// Any client of the server can have written them. So broken lines are passed over, and nothing here throws.
package struct NATSHeaders: Equatable, Sendable {
    private var bytes: [UInt8]

    package init(_ bytes: [UInt8] = []) { self.bytes = bytes }

    package var isEmpty: Bool { bytes.isEmpty }

    /// The number in the first line, with which a server answers instead of a message: 503 without a receiver.
    package var status: Int? {
        let words = firstLine.split(separator: UInt8(ascii: " "), maxSplits: 2)
        guard words.count >= 2, words[1].count == 3 else { return nil }
        return Int(String(decoding: words[1], as: UTF8.self))
    }

    /// The text after the status.
    package var statusText: String {
        let words = firstLine.split(separator: UInt8(ascii: " "), maxSplits: 2)
        return words.count == 3 ? String(decoding: words[2], as: UTF8.self) : ""
    }

    /// The first value of a field. Capital and small letters of its name are the same.
    package subscript(name: String) -> String? {
        for line in lines.dropFirst() {
            guard let separator = line.firstIndex(of: UInt8(ascii: ":")),
                Self.isEqual(line[..<separator], name.utf8)
            else { continue }
            let value = line[(separator + 1)...].drop { $0 == UInt8(ascii: " ") }
            return String(decoding: value, as: UTF8.self)
        }
        return nil
    }

    private var firstLine: ArraySlice<UInt8> {
        guard let line = lines.first, line.starts(with: "NATS/1.".utf8) else { return [] }
        return line
    }

    private var lines: [ArraySlice<UInt8>] {
        bytes.split(separator: UInt8(ascii: "\n")).map { $0.last == UInt8(ascii: "\r") ? $0.dropLast() : $0 }
    }

    private static func isEqual(_ left: ArraySlice<UInt8>, _ right: String.UTF8View) -> Bool {
        left.count == right.count && zip(left, right).allSatisfy { lowercased($0) == lowercased($1) }
    }

    private static func lowercased(_ byte: UInt8) -> UInt8 {
        byte >= UInt8(ascii: "A") && byte <= UInt8(ascii: "Z") ? byte | 0x20 : byte
    }
}
