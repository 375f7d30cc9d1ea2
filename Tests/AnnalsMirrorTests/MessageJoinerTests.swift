// Parts of messages: divided for a courier, and joined in any order within bounded memory.

import Annals
import AnnalsMirror
import Foundation
import TestSupport
import Testing

@Suite struct MessageJoinerTests {
    private func message(bytes: Int, published: UInt64 = 6) -> MirrorMessage {
        var random = SeededRandom(UInt64(bytes))
        let data = (0..<bytes).map { _ in UInt8(truncatingIfNeeded: random.next()) }
        let change = ExportedChange(
            kind: .insert, object: MessageSamples.object(1, 1), entity: "Item", attributes: ["data"],
            values: [ExportedValue(.plain(.data(data)))], before: nil)
        let transaction = ExportedTransaction(
            token: MessageSamples.token(9), previous: nil, microseconds: 1, author: nil, contextName: nil, origin: nil,
            originPrevious: nil, holds: nil, schema: nil, renames: [], changes: [change])
        return MirrorMessage(
            published: published,
            .transaction(
                TransactionMessage(
                    lamport: 1, knowledge: VersionVector(), isKnowledgeComplete: true, transaction: transaction)))
    }

    private func part(_ body: [UInt8]) throws -> MessagePart {
        guard case .part(let part) = try MessageBody(body) else { throw StoreError(.damaged, "This is no part.") }
        return part
    }

    @Test func aSmallMessageIsItsOwnBody() throws {
        let message = message(bytes: 10)
        let bodies = try MessagePart.bodies(of: message, maximumBodyBytes: 1000)
        #expect(try bodies == [message.encoded()])
        guard case .whole(let decoded) = try MessageBody(bodies[0]) else {
            Issue.record("A whole message is a part.")
            return
        }
        #expect(decoded == message)
    }

    @Test(arguments: [64, 65, 100, 1000, 4096, 5000])
    func noBodyIsLongerThanTheMaximum(maximum: Int) throws {
        for bytes in [0, 1, 900, 5000] {
            let message = message(bytes: bytes)
            let bodies = try MessagePart.bodies(of: message, maximumBodyBytes: maximum)
            #expect(bodies.allSatisfy { $0.count <= maximum })
            guard bodies.count > 1 else { continue }
            var joiner = MessageJoiner(maximumBytes: 1 << 20)
            var joined: MirrorMessage?
            for (index, body) in bodies.enumerated() {
                joined = try joiner.add(part(body), sender: "a", number: UInt64(index))?.message
                #expect((joined != nil) == (index == bodies.count - 1))
            }
            #expect(joined == message)
            #expect(joiner.heldBytes == 0 && joiner.unfinishedCount == 0)
        }
    }

    /// Several senders, parts in any order, some of them several times.
    @Test(arguments: 0..<30)
    func partsInAnyOrderBecomeTheirMessages(seed: UInt64) throws {
        var random = SeededRandom(seed)
        var expected: [String: MirrorMessage] = [:]
        var parts: [(sender: String, number: UInt64, part: MessagePart)] = []
        for sender in 0..<4 {
            var number: UInt64 = 10
            for _ in 0..<5 {
                let message = message(bytes: 300 + random.next(below: 3000))
                expected["\(sender) \(number)"] = message
                for body in try MessagePart.bodies(of: message, maximumBodyBytes: 64 + random.next(below: 200)) {
                    parts.append(("\(sender)", number, try part(body)))
                    number += 1
                }
            }
        }
        parts += parts.filter { _ in random.next(below: 3) == 0 }
        parts.shuffle(using: &random)
        var joiner = MessageJoiner(maximumBytes: 1 << 22)
        var found: Set<String> = []
        for (sender, number, part) in parts {
            guard let joined = try joiner.add(part, sender: sender, number: number) else { continue }
            let name = "\(joined.sender) \(joined.numbers.lowerBound)"
            #expect(expected[name] == joined.message)
            found.insert(name)
        }
        #expect(found == Set(expected.keys))
    }

    @Test func memoryIsBoundedAndTheOldestGoes() throws {
        let limit = 20000
        var joiner = MessageJoiner(maximumBytes: limit)
        var bodies: [[[UInt8]]] = []
        for _ in 0..<10 { bodies.append(try MessagePart.bodies(of: message(bytes: 6000), maximumBodyBytes: 2000)) }
        for (index, parts) in bodies.enumerated() {
            for (place, body) in parts.dropLast().enumerated() {
                let number = UInt64(100 * index + place)
                #expect(try joiner.add(part(body), sender: "a", number: number) == nil)
                #expect(joiner.heldBytes <= limit)
            }
        }
        #expect(joiner.unfinishedCount == 3)
        #expect(joiner.droppedCount == 7)
        // The newest is still there. The first is not, and comes again as a whole.
        let last = bodies[9]
        let number = UInt64(900 + last.count - 1)
        #expect(try joiner.add(part(last[last.count - 1]), sender: "a", number: number) != nil)
        let first = bodies[0]
        #expect(try joiner.add(part(first[first.count - 1]), sender: "a", number: UInt64(first.count - 1)) == nil)
        for (place, body) in first.dropLast().enumerated() {
            let joined = try joiner.add(part(body), sender: "a", number: UInt64(place))
            #expect((joined != nil) == (place == first.count - 2))
        }
    }

    @Test func manyMessagesOfOnePartStayWithinTheLimit() throws {
        var joiner = MessageJoiner(maximumBytes: 1 << 20)
        let body = try part(MessagePart.bodies(of: message(bytes: 900), maximumBodyBytes: 600)[0])
        for number in 0..<20000 as Range<UInt64> {
            _ = try joiner.add(body, sender: "a", number: number)
            #expect(joiner.heldBytes <= 1 << 20)
        }
        #expect(joiner.unfinishedCount < 1000)
        joiner.forget(sender: "b")
        #expect(joiner.unfinishedCount > 0)
        joiner.forget(sender: "a")
        #expect(joiner.unfinishedCount == 0 && joiner.heldBytes == 0)
    }

    @Test func aMessageOverTheLimitIsRefused() throws {
        var joiner = MessageJoiner(maximumBytes: 4000)
        let body = try part(MessagePart.bodies(of: message(bytes: 6000), maximumBodyBytes: 600)[0])
        expectFailure(.tooLarge) { _ = try joiner.add(body, sender: "a", number: 0) }
        #expect(joiner.heldBytes == 0)
    }

    /// A sender that was restored from a backup uses its numbers again.
    @Test func partsOfDifferentMessagesWithOneNumberDoNotMix() throws {
        let messages = [message(bytes: 700), message(bytes: 701), message(bytes: 700, published: 5)]
        let bodies = try messages.map { try MessagePart.bodies(of: $0, maximumBodyBytes: 500) }
        var joiner = MessageJoiner(maximumBytes: 1 << 20)
        for index in bodies.indices { #expect(try joiner.add(part(bodies[index][0]), sender: "a", number: 5) == nil) }
        for index in bodies.indices.reversed() {
            #expect(try joiner.add(part(bodies[index][1]), sender: "a", number: 6)?.message == messages[index])
        }
    }

    @Test func aPartIsWholeOrMalformed() throws {
        let body = try MessagePart.bodies(of: message(bytes: 100), maximumBodyBytes: 128)[0]
        #expect(try part(body).encoded() == body)
        for bit in 0..<body.count * 8 {
            var broken = body
            broken[bit / 8] ^= 1 << UInt8(bit % 8)
            expectFailure(.exportMalformed, "bit \(bit)") { _ = try MessageBody(broken) }
        }
        for count in 0..<body.count {
            expectFailure(.exportMalformed, "\(count) bytes") { _ = try MessageBody(Array(body[..<count])) }
        }
    }

    /// An offset, the bytes there, and the code of the error.
    static let headers: [(offset: Int, bytes: [UInt8], code: StoreError.Code)] = [
        (3, [0], .exportMalformed), (3, [2], .unsupportedVersion), (4, [1], .unsupportedVersion),
        (6, [1], .unsupportedVersion), (7, [1], .unsupportedVersion), (20, [1], .unsupportedVersion),
        (8, [0xff, 0xff], .exportMalformed), (12, [1], .exportMalformed), (12, [0xff, 0xff, 0xff], .exportMalformed),
        (16, [1, 0], .exportMalformed), (16, [0, 0, 0, 0xff], .exportMalformed),
    ]

    @Test(arguments: headers)
    func headersOfPartsFollowTheirRules(offset: Int, bytes: [UInt8], code: StoreError.Code) throws {
        var body = try MessagePart.bodies(of: message(bytes: 900), maximumBodyBytes: 500)[0]
        for (index, byte) in bytes.enumerated() { body[offset + index] = byte }
        MessageForger.seal(&body)
        expectFailure(code) { _ = try MessageBody(body) }
    }

    @Test func impossibleNumbersOfPartsAreMalformed() throws {
        var joiner = MessageJoiner(maximumBytes: 1 << 20)
        let bodies = try MessagePart.bodies(of: message(bytes: 900), maximumBodyBytes: 500)
        expectFailure(.exportMalformed) { _ = try joiner.add(part(bodies[1]), sender: "a", number: 0) }
        expectFailure(.exportMalformed) { _ = try joiner.add(part(bodies[0]), sender: "a", number: .max) }
        #expect(joiner.heldBytes == 0)
    }

    // MARK: Gaps

    private func position(
        _ number: UInt64, published: UInt64, transaction: UInt64 = 0, earlier: Bool = false, later: Bool = false
    ) -> MessagePosition {
        MessagePosition(
            number: number, published: published, transaction: transaction, hasEarlierParts: earlier,
            hasLaterParts: later)
    }

    @Test func aGapContainsTheTransactionsBetweenItsEnds() {
        let left = position(5, published: 10, transaction: 12)
        #expect(left.transactions(before: position(6, published: 12, transaction: 13)) == nil)
        #expect(left.transactions(before: position(5, published: 10, transaction: 12)) == nil)
        // Only receipts and the like.
        #expect(left.transactions(before: position(9, published: 12, transaction: 13)) == nil)
        #expect(left.transactions(before: position(9, published: 20, transaction: 21)) == 13...20)
        #expect(left.transactions(before: position(9, published: 20)) == 13...20)
        #expect(position(5, published: 10).transactions(before: position(9, published: 20)) == 11...20)
        // The right end is not the first part of its transaction, or the left end not the last one.
        #expect(left.transactions(before: position(9, published: 20, transaction: 21, earlier: true)) == 13...21)
        #expect(left.transactions(before: position(9, published: 12, transaction: 13, earlier: true)) == 13...13)
        let cut = position(5, published: 10, transaction: 12, later: true)
        #expect(cut.transactions(before: position(9, published: 12)) == 12...12)
        #expect(cut.transactions(before: position(9, published: 15)) == 12...15)
        // A large message without a transaction.
        let other = position(5, published: 10, later: true)
        #expect(other.transactions(before: position(9, published: 10, earlier: true)) == nil)
    }

    @Test func theFirstMessageOfASenderShowsEarlierTransactions() {
        #expect(position(5, published: 10, transaction: 12).transactions(after: 3) == 4...10)
        #expect(position(5, published: 10, transaction: 12).transactions(after: 10) == nil)
        #expect(position(5, published: 10, transaction: 12, earlier: true).transactions(after: 10) == 11...12)
    }

    /// Each transaction that is lost is in the range of its gap.
    @Test(arguments: 0..<50)
    func noLostTransactionIsMissedInAGap(seed: UInt64) throws {
        var random = SeededRandom(seed)
        var bodies: [(position: MessagePosition, transaction: UInt64)] = []
        var published: UInt64 = 0
        for _ in 0..<60 {
            let isTransaction = random.next(below: 2) == 0
            let transaction = isTransaction ? published + 1 + random.next(below: 5 as UInt64) : 0
            let count = 1 + random.next(below: 4)
            for index in 0..<count {
                bodies.append(
                    (
                        position(
                            UInt64(bodies.count), published: published, transaction: transaction, earlier: index > 0,
                            later: index < count - 1), transaction
                    ))
            }
            published = max(published, transaction)
        }
        for _ in 0..<200 {
            let left = random.next(below: bodies.count - 2)
            let right = left + 1 + random.next(below: bodies.count - left - 1)
            let range = bodies[left].position.transactions(before: bodies[right].position)
            let lost = Set(bodies[(left + 1)..<right].map(\.transaction).filter { $0 > 0 })
            #expect(lost.allSatisfy { range?.contains($0) == true }, "\(left) to \(right)")
            if let range { #expect(!lost.isEmpty || range.isEmpty, "\(left) to \(right)") }
        }
    }
}
