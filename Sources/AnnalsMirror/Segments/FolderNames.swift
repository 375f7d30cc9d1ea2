// The names of a mirror's files and folders, which any file system and synchronizer can carry.
//
// They have lower-case letters, digits, “-”, “_” and “.” only, and at most 255 bytes.

package enum FolderNames {
    package static let format = "FORMAT"
    package static let states = "states"
    package static let peerPrefix = "peer-"
    package static let temporarySuffix = ".tmp"
    /// Of an encoded name: the longest file name that is made of one has room for the rest.
    package static let maximumEncodedBytes = 190

    /// The text for a part of a file name: every byte that is not a lower-case letter, a digit or “-” is written as “_”
    /// and two hexadecimal digits. File systems that ignore case keep two names apart.
    package static func encoded(_ name: String) -> String {
        var text = ""
        for byte in name.utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"):
                text.unicodeScalars.append(Unicode.Scalar(byte))
            default: text += "_" + hexadecimal(UInt64(byte), digits: 2)
            }
        }
        return text
    }

    /// The name of which `encoded` made a text; nil if it cannot have made it.
    package static func decoded(_ text: some StringProtocol) -> String? {
        var bytes: [UInt8] = []
        var rest = Array(text.utf8)[...]
        while let byte = rest.popFirst() {
            if byte != UInt8(ascii: "_") {
                bytes.append(byte)
                continue
            }
            guard rest.count >= 2, let value = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16)
            else { return nil }
            bytes.append(value)
            rest = rest.dropFirst(2)
        }
        guard let name = String(validating: bytes, as: UTF8.self), !name.isEmpty, encoded(name) == text else {
            return nil
        }
        return name
    }

    /// The subfolder of a peer.
    package static func folder(ofPeer peer: String) -> String { peerPrefix + encoded(peer) }

    /// The peer of a subfolder; nil if it is none of a peer.
    package static func peer(ofFolder name: String) -> String? {
        name.hasPrefix(peerPrefix) ? decoded(name.dropFirst(peerPrefix.count)) : nil
    }

    /// A name that no other file has, for the time of writing.
    package static func temporary() -> String {
        "." + hexadecimal(UInt64.random(in: .min ... .max), digits: 16) + temporarySuffix
    }

    package static func isTemporary(_ name: String) -> Bool { name.hasPrefix(".") && name.hasSuffix(temporarySuffix) }

    package static func hexadecimal(_ number: UInt64, digits: Int) -> String {
        padded(String(number, radix: 16), digits)
    }

    package static func padded(_ digits: String, _ count: Int) -> String {
        String(repeating: "0", count: max(0, count - digits.utf8.count)) + digits
    }

    /// A number in digits of a radix, without a sign.
    package static func number(_ text: some StringProtocol, radix: Int = 10) -> UInt64? {
        text.utf8.first.map { $0 != UInt8(ascii: "+") } == true ? UInt64(text, radix: radix) : nil
    }
}

/// The name of a segment's file: `RUN.SERIAL.FROM-TO.segment`.
package struct SegmentName: Hashable {
    package var run: UInt64
    package var serial: UInt64
    package var lowest: UInt64
    package var highest: UInt64

    package init(run: UInt64, serial: UInt64, numbers: ClosedRange<UInt64>) {
        (self.run, self.serial) = (run, serial)
        (lowest, highest) = (numbers.lowerBound, numbers.upperBound)
    }

    /// Nil for the name of another file, also for what a synchronizer makes of a name in a conflict. Only the text
    /// that `text` returns is the name of a segment.
    package init?(_ name: String) {
        var name = name
        let read = name.withUTF8 { bytes -> SegmentName? in
            var scanner = NameScanner(bytes: bytes)
            guard let run = scanner.hexadecimal(digits: 16), scanner.takes("."),
                let serial = scanner.decimal(minimumDigits: Self.serialDigits), scanner.takes("."),
                let lowest = scanner.decimal(), scanner.takes("-"), let highest = scanner.decimal(),
                scanner.takes(".segment"), scanner.isAtEnd, (1...FolderPlace.maximumSerial) ~= serial,
                lowest <= highest
            else { return nil }
            return SegmentName(run: run, serial: serial, numbers: lowest...highest)
        }
        guard let read else { return nil }
        self = read
    }

    private static let serialDigits = 10

    package var text: String {
        let run = FolderNames.hexadecimal(run, digits: 16)
        return "\(run).\(FolderNames.padded(String(serial), Self.serialDigits)).\(lowest)-\(highest).segment"
    }
}

/// The name of a state's file: `NAME.GENERATION.TAG.state`. A later state of the same name has a higher generation.
package struct StateName: Hashable {
    package var name: String
    package var generation: UInt64
    /// Random, so that two writers do not use one file name.
    package var tag: UInt64

    package init(name: String, generation: UInt64, tag: UInt64) {
        (self.name, self.generation, self.tag) = (name, generation, tag)
    }

    package init?(_ text: String) {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 4, parts[3] == "state", let name = FolderNames.decoded(parts[0]),
            let generation = FolderNames.number(parts[1]), let tag = FolderNames.number(parts[2], radix: 16)
        else { return nil }
        self.init(name: name, generation: generation, tag: tag)
        if self.text != text { return nil }
    }

    package var text: String {
        "\(FolderNames.encoded(name)).\(generation).\(FolderNames.hexadecimal(tag, digits: 16)).state"
    }
}

/// Reads a name from its begin. A folder may have many thousands of names.
private struct NameScanner {
    let bytes: UnsafeBufferPointer<UInt8>
    private var position = 0

    /// The bytes must outlive the scanner.
    init(bytes: UnsafeBufferPointer<UInt8>) { self.bytes = bytes }

    var isAtEnd: Bool { position == bytes.count }

    /// Exactly so many digits, lower-case.
    mutating func hexadecimal(digits: Int) -> UInt64? {
        guard bytes.count - position >= digits else { return nil }
        var value: UInt64 = 0
        for byte in bytes[position..<position + digits] {
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): value = value << 4 | UInt64(byte - UInt8(ascii: "0"))
            case UInt8(ascii: "a")...UInt8(ascii: "f"): value = value << 4 | UInt64(byte - UInt8(ascii: "a") + 10)
            default: return nil
            }
        }
        position += digits
        return value
    }

    /// A number with leading zeros only up to the least count of digits.
    mutating func decimal(minimumDigits: Int = 1) -> UInt64? {
        let start = position
        var value: UInt64 = 0
        while position < bytes.count, case let digit = bytes[position] &- UInt8(ascii: "0"), digit < 10 {
            let (product, isTooLarge) = value.multipliedReportingOverflow(by: 10)
            let (sum, isOver) = product.addingReportingOverflow(UInt64(digit))
            if isTooLarge || isOver { return nil }
            value = sum
            position += 1
        }
        let count = position - start
        if count < minimumDigits || (count > minimumDigits && bytes[start] == UInt8(ascii: "0")) { return nil }
        return value
    }

    mutating func takes(_ text: StaticString) -> Bool {
        let count = text.utf8CodeUnitCount
        guard bytes.count - position >= count else { return false }
        for index in 0..<count where bytes[position + index] != text.utf8Start[index] { return false }
        position += count
        return true
    }
}
