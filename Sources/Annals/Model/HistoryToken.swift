// A place in the history of one store, as a value that programs keep.

public import FoundationEssentials

/// The end of one transaction of one store: everything up to it, and nothing after it.
///
/// A token survives compaction, closing and copying of the store. It can be kept as its text,
/// `A1.<32 digits of the store>.<number>.<16 digits of the tag>.<8 check digits>`, which is also how it is coded.
/// Tokens of one store order as its transactions do. Between stores the order is some order, always the same, that
/// means nothing.
public struct HistoryToken: Hashable, Sendable {
    /// The store's identifier.
    public let storeIdentifier: UUID
    /// The transaction's number; 0 for the beginning of a store that has none yet.
    public let number: UInt64
    /// Tells this transaction from another that has had its number: a hash of it and of everything before it.
    public let tag: UInt64

    /// Not checked against any store: the store does that when it is given the token.
    public init(storeIdentifier: UUID, number: UInt64, tag: UInt64) {
        self.storeIdentifier = storeIdentifier
        self.number = number
        self.tag = tag
    }
}

extension HistoryToken: Comparable {
    public static func < (left: HistoryToken, right: HistoryToken) -> Bool {
        let (a, b) = (left.storeIdentifier.stored, right.storeIdentifier.stored)
        return (a.high, a.low, left.number, left.tag) < (b.high, b.low, right.number, right.tag)
    }
}

extension HistoryToken: CustomStringConvertible {
    private static let version = "A1"

    /// The text form.
    public var description: String {
        let store = storeIdentifier.stored
        let text = "\(Self.version).\(Self.digits(store.high))\(Self.digits(store.low)).\(number).\(Self.digits(tag))"
        return text + "." + Self.checkDigits(of: text)
    }

    /// Reads the text form, and nothing but what `description` gives. Throws `StoreError`: `tokenMalformed`.
    public init(_ text: String) throws { try self.init(parsing: text) }

    private init(parsing text: String) throws(StoreError) {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 5, parts[1].utf8.count == 32, let high = UInt64(parts[1].prefix(16), radix: 16),
            let low = UInt64(parts[1].suffix(16), radix: 16), let number = UInt64(parts[2]),
            let tag = UInt64(parts[3], radix: 16)
        else { throw Self.malformed(isOtherVersion: parts.count > 1 && parts[0] != Self.version) }
        let token = HistoryToken(storeIdentifier: UUID(UUIDBytes(high: high, low: low)), number: number, tag: tag)
        guard token.description.utf8.elementsEqual(text.utf8) else { throw Self.malformed(isOtherVersion: false) }
        self = token
    }

    private static func malformed(isOtherVersion: Bool) -> StoreError {
        StoreError(
            .tokenMalformed,
            "This is no token" + (isOtherVersion ? " that this version knows" : ", or it was not copied whole")
                + ": one begins with “\(version).” and ends with eight check digits.")
    }

    private static func checkDigits(of text: String) -> String {
        let hash = Array(text.utf8).withUnsafeBytes { Checksum.hash($0, seed: 0) }
        return String(digits(hash).suffix(8))
    }

    static func digits(_ number: UInt64) -> String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: 16 - digits.utf8.count) + digits
    }
}

extension HistoryToken: Codable {
    /// Reads the text form. Throws `DecodingError.dataCorrupted` with the `StoreError` beneath.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        let text = try container.decode(String.self)
        do throws(StoreError) {
            try self.init(parsing: text)
        } catch {
            throw DecodingError.dataCorrupted(
                .init(codingPath: container.codingPath, debugDescription: error.message, underlyingError: error))
        }
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }
}
