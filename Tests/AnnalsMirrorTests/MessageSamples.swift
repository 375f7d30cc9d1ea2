// Messages for tests: one small one of each kind, and random ones by seed.

import Annals
import AnnalsMirror
import Foundation
import TestSupport

enum MessageSamples {
    static let store = uuid(0xa1)
    static let other = uuid(0xb2)

    static func uuid(_ byte: UInt8) -> UUID {
        UUID(uuid: (byte, byte, byte, byte, byte, byte, byte, byte, byte, byte, byte, byte, byte, byte, byte, byte))
    }

    static func object(_ entity: UInt16, _ number: UInt64, of store: UUID? = nil) -> ExportedObject {
        guard let id = ObjectID(entityNumber: entity, number: number) else {
            preconditionFailure("A sample has an impossible object.")
        }
        return ExportedObject(id, of: store)
    }

    static func token(_ number: UInt64, of store: UUID = store) -> HistoryToken {
        HistoryToken(storeIdentifier: store, number: number, tag: 0x1122_3344_5566_7788 &+ number)
    }

    static func vector(_ entries: [(UUID, UInt64)]) -> VersionVector {
        var vector = VersionVector()
        for (peer, number) in entries { vector[peer] = number }
        return vector
    }

    /// One insertion and one update with values before.
    static let transaction = ExportedTransaction(
        token: token(7), previous: token(6), microseconds: 1_700_000_000_000_000, author: "app", contextName: nil,
        origin: nil, originPrevious: nil, holds: nil, schema: nil, renames: [],
        changes: [
            ExportedChange(
                kind: .insert, object: object(1, 3), entity: "Item", attributes: ["name", "price"],
                values: [ExportedValue(.plain(.string("tea"))), ExportedValue(.plain(.int(-3)))], before: nil),
            ExportedChange(
                kind: .update, object: object(1, 2, of: other), entity: "Item", attributes: ["price"],
                values: [ExportedValue(.plain(.int(4)))], before: [ExportedValue(.plain(.absent))]),
        ])

    /// One of each kind, by name, in the order of their numbers.
    static let all: [(name: String, message: MirrorMessage)] = [
        (
            "transaction",
            MirrorMessage(
                published: 6,
                .transaction(
                    TransactionMessage(
                        lamport: 300, knowledge: vector([(other, 12)]), isKnowledgeComplete: false,
                        transaction: transaction)))
        ),
        (
            "state",
            MirrorMessage(
                published: 7,
                .state(
                    StateMessage(
                        name: "s-1", knowledge: vector([(store, 7), (other, 12)]), lamport: 301)))
        ),
        (
            "receipt",
            MirrorMessage(
                published: 7,
                .receipt(
                    ReceiptMessage(
                        applied: vector([(store, 7), (other, 13)]), tags: [0, 0x0102_0304_0506_0708], lamport: 302,
                        microseconds: 1_700_000_000_000_001, settled: vector([(store, 5)]), members: PeerSet([other]),
                        departed: PeerSet([uuid(0xc3)]))))
        ),
        (
            "request",
            MirrorMessage(
                published: 7,
                .request([
                    RequestedNumbers(peer: other, numbers: 14...20), RequestedNumbers(peer: other, numbers: 25...25),
                ]))
        ),
        ("join", MirrorMessage(published: 0, .join(peer))),
        (
            "leave",
            MirrorMessage(
                published: 7,
                .leave(PeerMessage(peer: store, name: "desk", versions: 1...1, instance: 0x0102_0304, lost: other)))
        ),
        (
            "stateBeginning",
            MirrorMessage(
                published: 0,
                .statePart(
                    .beginning(
                        ExportedTransaction(
                            token: token(7), previous: nil, microseconds: 1_700_000_000_000_000, author: nil,
                            contextName: nil, origin: nil, originPrevious: nil, holds: [token(12, of: other)],
                            schema: [item], renames: [], changes: []))))
        ),
        (
            "stateStretches",
            MirrorMessage(
                published: 0,
                .statePart(
                    .stretches([
                        ExportedStretch(entity: "Item", first: object(1, 1), count: 1),
                        ExportedStretch(entity: "Item", first: object(1, 2, of: other), count: 1),
                    ])))
        ),
        ("stateObjects", MirrorMessage(published: 0, .statePart(.objects([transaction.changes[0]])))),
        ("stateEnd", MirrorMessage(published: 0, .statePart(.end(objects: 1)))),
        (
            "stateAliases",
            MirrorMessage(
                published: 0,
                .statePart(.aliases([ExportedAlias(first: object(1, 4, of: other), of: object(1, 1), count: 2)])))
        ),
        ("stateRequest", MirrorMessage(published: 7, .stateRequest(of: other))),
    ]

    static let peer = PeerMessage(peer: store, name: "desk", versions: 1...1, instance: 0x0102_0304)

    static let item = EntityDescription(
        "Item",
        attributes: [
            AttributeDescription("name", .string, isOptional: false, isUnique: true),
            AttributeDescription("price", .int, defaultValue: 5),
            AttributeDescription("maker", .object, target: "Item", inverse: "made", whenTargetIsDeleted: .nullify),
        ],
        keys: [IndexDescription(["price", "name"], isUnique: false)])
}

extension [UInt8] {
    /// Two digits a byte.
    var hex: String { map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined() }

    /// From digits; anything else between them counts for nothing.
    init(hex: String) {
        let digits = hex.compactMap(\.hexDigitValue)
        self = stride(from: 0, to: digits.count - 1, by: 2).map { UInt8(digits[$0] * 16 + digits[$0 + 1]) }
    }
}
