// A place in the history of one store, as a value that programs can keep.

public import FoundationEssentials

/// A place in the history of one store: directly after one of its transactions.
///
/// A token stays valid when the store is compacted, closed or copied. You can keep it as text: `A1.<32 digits of the
/// store>.<number>.<16 digits of the tag>.<8 check digits>`. Coding it uses the text, too. Tokens of one store are
/// ordered as its transactions. The order of tokens of different stores is stable but has no meaning.
public struct HistoryToken: Hashable, Sendable {
    /// The store's identifier.
    public let storeIdentifier: UUID
    /// The transaction's number; 0 for the beginning of the history of a new store.
    public let number: UInt64
    /// A hash of the transaction and of everything before it. It distinguishes the transaction from another one with
    /// the same number.
    public let tag: UInt64

    /// Creates a token. It is not validated here: a store validates tokens that it receives.
    public init(storeIdentifier: UUID, number: UInt64, tag: UInt64) {
        (self.storeIdentifier, self.number, self.tag) = (storeIdentifier, number, tag)
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

    /// Creates a token from its text form, exactly as `description` returns it. Throws `StoreError`: `tokenMalformed`.
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
            "This is not a token" + (isOtherVersion ? " that this version knows" : ", or it was not copied whole")
                + ": a token begins with “\(version).” and ends with eight check digits.")
    }

    private static func checkDigits(of text: String) -> String {
        let hash = Array(text.utf8).withUnsafeBytes { Checksum.hash($0, seed: 0) }
        return String(digits(hash).suffix(8))
    }

    package static func digits(_ number: UInt64) -> String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: 16 - digits.utf8.count) + digits
    }
}

extension HistoryToken: Codable {
    /// Decodes the text form. Throws `DecodingError.dataCorrupted` with the `StoreError` as underlying error.
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
