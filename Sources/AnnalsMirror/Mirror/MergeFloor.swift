// The state of a mirror between two runs: the place in the store's history from which it reads again.

internal import Annals
internal import FoundationEssentials

struct MergeFloor {
    /// All transactions up to this number are settled.
    var floor: UInt64
    /// The highest number in the group's order up to there.
    var lamport: UInt64
    /// The last own transaction up to there.
    var lastPublished: HistoryToken?
    /// The number above which the store's first own transaction was numbered.
    var lowest: UInt64

    private static let version: UInt8 = 1
    private static let bytes = 33

    init(floor: UInt64, lamport: UInt64, lastPublished: HistoryToken?, lowest: UInt64) {
        (self.floor, self.lamport) = (floor, lamport)
        (self.lastPublished, self.lowest) = (lastPublished, lowest)
    }
}

extension MergeFloor {
    func record(of store: UUID) -> MergeRecord {
        var content = [Self.version]
        for number in [floor, lastPublished?.number ?? 0, lastPublished?.tag ?? 0, lowest] {
            withUnsafeBytes(of: number.littleEndian) { content.append(contentsOf: $0) }
        }
        return MergeRecord(order: lamport, content: content)
    }

    /// Throws `unsupportedVersion` for the state of a later version.
    init(_ record: MergeRecord, of store: UUID) throws(StoreError) {
        guard let content = record.content, content.count == Self.bytes, content[0] == Self.version else {
            throw StoreError(
                .unsupportedVersion,
                "The store's mirror was of a version that this one does not know: use the newer version.")
        }
        func number(_ offset: Int) -> UInt64 {
            content[offset..<(offset + 8)].reversed().reduce(0) { $0 << 8 | UInt64($1) }
        }
        floor = number(1)
        lamport = record.order
        lowest = number(25)
        lastPublished =
            number(9) > 0 ? HistoryToken(storeIdentifier: store, number: number(9), tag: number(17)) : nil
    }
}
