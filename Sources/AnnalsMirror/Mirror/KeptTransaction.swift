// A merged transaction that is kept in the store with its effect, because the effect was another one, or is not all
// that it has read.
//
// | bytes | content |
// |---|---|
// | 1 | the sum of 1 if it has moved names, and 2 if it is parked |
// | varint | the number of objects |
// | 16, varint, 1 for each | the name of the object: its store and ID; then 1 if it was to be changed, otherwise 0 |
// | the rest | the transaction as a message (`MirrorMessage`) |

internal import Annals
internal import FoundationEssentials

struct KeptTransaction {
    var transaction: ExportedTransaction
    /// Objects that it names nowhere, but has read or was to change: because of them a deletion was refused.
    var objects = MergeResources()
    /// Whether names lead to other objects since.
    var movesNames = false
    /// Whether it has no effect yet (MK1).
    var isParked = false

    init(_ transaction: ExportedTransaction) { self.transaction = transaction }

    init(_ bytes: [UInt8]) throws(StoreError) {
        let result = bytes.withUnsafeBytes { bytes in
            Result { () throws(StoreError) -> KeptTransaction in
                var input = MessageReader(bytes)
                return try KeptTransaction(&input)
            }
        }
        self = try result.get()
    }

    private init(_ input: inout MessageReader) throws(StoreError) {
        let flags = try input.readByte()
        for _ in 0..<(try input.readCount(ofAtLeast: 18)) {
            let store = try input.readUUID()
            guard let id = ObjectID(rawValue: try input.readVarint()) else { throw Self.unknown }
            let name = GroupObject(store, id)
            switch try input.readByte() {
            case 0: objects.read.insert(.object(name))
            case 1: objects.addExistence(of: name)
            default: throw Self.unknown
            }
        }
        let message = try MirrorMessage(Array(try input.readBytes(input.remaining)))
        guard flags <= 3, case .transaction(let content) = message.content else { throw Self.unknown }
        transaction = content.transaction
        (movesNames, isParked) = (flags & 1 != 0, flags & 2 != 0)
    }

    private static var unknown: StoreError {
        StoreError(.damaged, "A merged transaction was kept in an unknown form: use a newer version.")
    }

    func encoded(_ order: UInt64) throws(StoreError) -> [UInt8] {
        var output = MessageWriter()
        output.append((movesNames ? 1 : 0) | (isParked ? 2 : 0))
        let changed = Set(objects.changed.compactMap(\.object))
        let all = changed.union(objects.read.compactMap(\.object)).sorted()
        output.append(count: all.count)
        for name in all {
            output.append(uuid: name.store)
            output.append(varint: name.id.rawValue)
            output.append(changed.contains(name) ? 1 : 0)
        }
        let message = TransactionMessage(
            lamport: order, knowledge: VersionVector(), isKnowledgeComplete: false, transaction: transaction)
        output.append(try MirrorMessage(published: 0, .transaction(message)).encoded())
        return output.bytes
    }
}
