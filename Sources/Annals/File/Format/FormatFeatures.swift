// Marks of later formats: a file's feature bits, and the error for other unknown bytes (FileFormat.md, "Versions and
// compatibility").

/// Features of later formats that a file uses, one bit each. Version 1 has none.
package struct FormatFeatures: Equatable, Sendable {
    /// A program that does not know one of these does not read the file.
    package var reading: UInt64
    /// A program that does not know one of these reads the file, and writes nothing to it.
    package var writing: UInt64

    package init(reading: UInt64 = 0, writing: UInt64 = 0) { (self.reading, self.writing) = (reading, writing) }

    package static let none = FormatFeatures()
    /// The features that this program knows.
    private static let known = FormatFeatures()

    var isEmpty: Bool { self == .none }

    func isSuperset(of other: FormatFeatures) -> Bool {
        other.reading & ~reading == 0 && other.writing & ~writing == 0
    }

    mutating func formUnion(_ other: FormatFeatures) {
        reading |= other.reading
        writing |= other.writing
    }

    /// Throws `unsupportedVersion` if the file may not be read by this program.
    func requireReadable() throws(StoreError) {
        let unknown = reading & ~Self.known.reading
        guard unknown == 0 else {
            throw .newer("F36", "the store uses features \(String(unknown, radix: 16)) (hexadecimal)")
        }
    }

    var allowsWriting: Bool { writing & ~Self.known.writing == 0 }
}

extension StoreError {
    /// The error about intact bytes that only a later format can mean. They are never damage: nothing is lost, and the
    /// program that wrote them can read them.
    static func newer(_ rule: String, _ what: String, offset: UInt64? = nil) -> StoreError {
        newer("\(rule): \(what)", offset: offset)
    }

    /// The same, if the caller names the rule.
    static func newer(_ what: String, offset: UInt64?) -> StoreError {
        StoreError(
            .unsupportedVersion,
            "\(what), which this program does not know: a newer version of Annals wrote this store. Use that version.",
            offset: offset)
    }

    /// The error about a store that this program can read, but must not write to.
    static func readableOnly(offset: UInt64? = nil) -> StoreError {
        StoreError(
            .unsupportedVersion,
            "A newer version of Annals wrote this store. This version can read it but not safely write to it: use the "
                + "newer version.", offset: offset)
    }
}
