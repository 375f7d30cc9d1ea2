// The file beside a mirrored store: its name and its bytes. The mirror creates and locks it. It is removed with its
// store.

/// The content of the file: text in lines, each of fixed length.
package struct MirrorFile: Equatable, Sendable {
    /// 16 random bytes as hexadecimal digits, written when the file is created.
    package var digits: String
    /// The process that locked the file last, as its own system numbers it; 0 if unknown.
    package var processID: UInt32

    package init(digits: String, processID: UInt32) { (self.digits, self.processID) = (digits, processID) }

    /// New random bytes.
    package init(processID: UInt32) {
        self.init(digits: Self.randomDigits() + Self.randomDigits(), processID: processID)
    }

    private static func randomDigits() -> String {
        let digits = String(UInt64.random(in: .min ... .max), radix: 16)
        return String(repeating: "0", count: 16 - digits.utf8.count) + digits
    }

    /// The name of the file that belongs to the store of a name.
    package static func name(forStore name: String) -> String {
        TemporaryName.fitting(name + ending, for: name, ending)
    }

    private static let ending = ".mirror"
}

// MARK: Bytes

extension MirrorFile {
    /// The kinds of content that a file of the name can have.
    package enum Content: Equatable, Sendable {
        case complete(MirrorFile)
        /// A process was killed, or the power failed, while the file was created.
        case incomplete
        case laterVersion
        case foreign
    }

    private static let title = "Annals mirror lease\nversion "
    private static let header = title + "1\nmark "
    private static let separator = "\nprocess "
    private static let markDigits = 32
    private static let processDigits = 10

    /// The number of bytes of a complete file.
    package static let bytes =
        header.utf8.count + markDigits + separator.utf8.count + processDigits + 1
    /// The offset of the process's number, which each holder of the lock overwrites.
    package static let processOffset = header.utf8.count + markDigits + separator.utf8.count

    package var encoded: [UInt8] { Array((Self.header + digits + Self.separator).utf8) + encodedProcess }

    /// The bytes from `processOffset` on.
    package var encodedProcess: [UInt8] {
        let number = Array(String(processID).utf8)
        return number + [UInt8](repeating: UInt8(ascii: " "), count: Self.processDigits - number.count) + [10]
    }

    /// Reads the first bytes of a file: at least `bytes + 1` if it has so many.
    package static func content(_ found: [UInt8]) -> Content {
        let expected = Array(header.utf8)
        if found.count <= bytes && found.allSatisfy({ $0 == 0 }) { return .incomplete }
        guard found.starts(with: expected.prefix(found.count)) else {
            return found.starts(with: title.utf8) ? .laterVersion : .foreign
        }
        if found.count < bytes { return .incomplete }
        let lines = found.split(separator: 10, omittingEmptySubsequences: false)
            .map { String(decoding: $0, as: UTF8.self) }
        guard found.count == bytes, lines.count == 5, let mark = lines[2].split(separator: " ").last,
            mark.utf8.count == markDigits, mark.allSatisfy(\.isHexDigit)
        else { return .foreign }
        // The holder may be overwriting the number now.
        let process = lines[3].split(separator: " ").last.flatMap { UInt32($0) }
        return .complete(MirrorFile(digits: String(mark), processID: process ?? 0))
    }
}

// MARK: Removing

extension MirrorFile {
    /// Reads what an open file of the name contains.
    package static func read(_ file: Descriptor, _ files: any FileSystem) throws(StoreError) -> Content {
        let window = ByteWindow(files, file, stepBytes: FormatLimits.pageBytes)
        defer { withExtendedLifetime(window) {} }
        let available = min(try files.size(file), UInt64(bytes + 1))
        return content(Array(try window.bytes(at: 0, count: Int(available))))
    }

    /// Removes the file that belongs to a store. Keeps a file of the name that no mirror has made.
    static func remove(besideStore place: StorePlace, _ files: any FileSystem) throws(StoreError) {
        let name = name(forStore: place.name)
        do throws(StoreError) {
            let file = try files.open(name, in: place.directory, access: .readOnly)
            defer { files.close(file) }
            if try read(file, files) != .foreign { try files.unlink(name, in: place.directory) }
        } catch  where [.notFound, .notARegularFile].contains(error.code) {}
    }
}
