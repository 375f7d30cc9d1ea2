// The bytes of messages: each kind, each broken byte, and everything that a later version may bring.

import Annals
import AnnalsMirror
import Foundation
import TestSupport
import Testing

@Suite struct MessageTests {
    /// The bytes of the samples, which never change.
    static let golden: [String: String] = [
        "transaction":
            "89414d010100000072000000000000000fcf73af76a9157906ac02000100b2b2b2b2b2b2b2b2b2b2b2b2b2b2"
            + "b2b20c0301a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1078f7766554433221101068e7766554433221100401e18"
            + "240a060003617070020000044974656d0201046e616d6502057072696365000103040374656102050d000102"
            + "010102020800",
        "state":
            "89414d01020000002c00000000000000e8a0fb1f8bba3fe50703732d310200a1a1a1a1a1a1a1a1a1a1a1a1a1"
            + "a1a1a10701b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b20cad02",
        "receipt":
            "89414d01030000005700000000000000566721d8ebbc693e070200a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a107"
            + "01b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b20d00000000000000000807060504030201ae0201401e18240a0600"
            + "01000501010102c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3",
        "request":
            "89414d01040000001800000000000000a2f9e5c3f8c9fa9d070200b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b20e"
            + "06001900",
        "join":
            "89414d010500000021000000000000002bcfcbe8d845cced0000a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a10464"
            + "65736b01010403020100000000",
        "leave":
            "89414d01060000003300000000000000e69cc6e82225e2640700a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a10464"
            + "65736b010104030201000000000101b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2",
        "stateBeginning":
            "89414d01070000007400000000000000df52b2350f30d5e6006000a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a107"
            + "8f7766554433221100401e18240a06000101b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b20c947766554433221101"
            + "00044974656d000301046e616d6504040002057072696365021100020a03056d616b65720a61010004046d61"
            + "6465010002020100",
        "stateStretches":
            "89414d01080000002100000000000000b1b825a6e7f3dcc4000200044974656d000101010001b2b2b2b2b2b2"
            + "b2b2b2b2b2b2b2b2b2b2010201",
        "stateObjects":
            "89414d01090000002100000000000000606eee0a0159cf0100010000044974656d0201046e616d6502057072"
            + "69636500010304037465610205",
        "stateEnd": "89414d010a00000002000000000000003813cedb7b18e9110001",
        "stateAliases":
            "89414d010b0000001900000000000000c420aa7e9f3e78d1000101b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b201"
            + "0400010102",
        "stateRequest":
            "89414d010c0000001200000000000000bc38df8f25f4b2550700b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2",
    ]

    @Test func theBytesOfEachKindAreThoseOfTheFirstVersion() throws {
        #expect(Set(Self.golden.keys) == Set(MessageSamples.all.map(\.name)))
        for (name, message) in MessageSamples.all {
            let bytes = try message.encoded()
            #expect(bytes.hex == Self.golden[name], "\(name)")
            #expect(try MirrorMessage(bytes) == message, "\(name)")
        }
    }

    @Test(arguments: 0..<40)
    func aRandomMessageKeepsEveryByte(seed: UInt64) throws {
        for step in 0..<100 {
            var random = MessageRandom(seed << 32 | UInt64(step))
            let message = random.message()
            let bytes = try message.encoded()
            let decoded = try MirrorMessage(bytes)
            #expect(decoded == message, "seed \(seed), step \(step)")
            // Strings are equal if their bytes differ in composition only: the bytes decide.
            #expect(try decoded.encoded() == bytes, "seed \(seed), step \(step)")
        }
    }

    // MARK: Broken bytes

    @Test func noFlippedBitOfAnyKindDecodes() throws {
        for (name, message) in MessageSamples.all {
            let bytes = try message.encoded()
            for bit in 0..<bytes.count * 8 {
                var broken = bytes
                broken[bit / 8] ^= 1 << UInt8(bit % 8)
                expectFailure(.exportMalformed, "\(name), bit \(bit)") { _ = try MirrorMessage(broken) }
            }
        }
    }

    /// With a right checksum, a wrong byte leads to another message in its only form, or to an error.
    @Test func aWrongByteUnderARightChecksumIsAnotherMessageOrAnError() throws {
        for (name, message) in MessageSamples.all {
            let bytes = try message.encoded()
            for offset in 3..<bytes.count where !(8..<12 ~= offset || 16..<24 ~= offset) {
                for byte in [0, 1, 2, 0x7f, 0x80, 0xff, bytes[offset] &+ 1, bytes[offset] &- 1, bytes[offset] ^ 0x80] {
                    var broken = bytes
                    broken[offset] = byte
                    MessageForger.seal(&broken)
                    MessageFuzz.check(broken, "\(name), byte \(offset)")
                }
            }
        }
    }

    @Test func noPrefixDecodes() throws {
        for (name, message) in MessageSamples.all {
            let bytes = try message.encoded()
            for count in 0..<bytes.count {
                expectFailure(.exportMalformed, "\(name), \(count) bytes") {
                    _ = try MirrorMessage(Array(bytes[..<count]))
                }
                guard count >= 24 else { continue }
                var sealed = Array(bytes[..<count])
                MessageForger.seal(&sealed)
                expectFailure(.exportMalformed, "\(name), \(count) sealed bytes") { _ = try MirrorMessage(sealed) }
            }
            var longer = bytes + [0]
            MessageForger.seal(&longer)
            if name != "skipped" {
                expectFailure(.exportMalformed, "\(name), one more byte") { _ = try MirrorMessage(longer) }
            }
        }
    }

    // MARK: Later versions

    /// A change of a header, and the code of the error; nil if the message decodes.
    static let headers: [(offset: Int, byte: UInt8, code: StoreError.Code?)] = [
        (3, 0, .exportMalformed), (3, 2, .unsupportedVersion), (3, 255, .unsupportedVersion),
        (4, 0, .exportMalformed), (4, 13, .unsupportedVersion), (4, 255, .unsupportedVersion),
        (5, 1, nil), (5, 0xfe, nil), (6, 1, .unsupportedVersion), (6, 0x80, .unsupportedVersion),
        (7, 1, .unsupportedVersion), (12, 255, .exportMalformed),
    ]

    @Test(arguments: headers)
    func headersOfLaterVersionsFollowTheirRules(offset: Int, byte: UInt8, code: StoreError.Code?) throws {
        var bytes = try MirrorMessage(published: 1, .join(MessageSamples.peer)).encoded()
        bytes[offset] = byte
        MessageForger.seal(&bytes)
        guard let code else {
            #expect(try MirrorMessage(bytes).encoded() == bytes)
            return
        }
        expectFailure(code) { _ = try MirrorMessage(bytes) }
    }

    @Test func anUnknownKindThatMayBeSkippedIsKept() throws {
        let message = MirrorMessage(published: 9, .skipped(kind: 77, bytes: [1, 2, 3]), optional: .skippable)
        #expect(try MirrorMessage(message.encoded()) == message)
        var bytes = try message.encoded()
        bytes[5] = 0
        MessageForger.seal(&bytes)
        expectFailure(.unsupportedVersion) { _ = try MirrorMessage(bytes) }
    }

    @Test func bytesAfterTheKnownContentAreKept() throws {
        for (name, message) in MessageSamples.all {
            var message = message
            message.rest = [9, 8, 7]
            message.optional = .init(rawValue: 0x40)
            #expect(try MirrorMessage(message.encoded()) == message, "\(name)")
        }
    }

    // MARK: Errors

    /// Content of a message after `published`, and a part of the error's sentence.
    static let malformed: [(kind: UInt8, content: String, sentence: String)] = [
        (2, "00 00 8000 00", "longer than it needs"),
        (2, "00 00 ffffffffffffffffff02 00", "more than 64 bits"),
        (2, "00 00 818080808080808040 00", "too large"),
        (2, "00 05 61", "counts more"),
        (2, "01 ff 00 00 00", "not valid UTF-8"),
        (2, "03 eda080 00 00 00", "not valid UTF-8"),
        (2, "00 ffffff7f", "counts more"),
        (2, "00 01 00 a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1 00 00 00", "not in order, or a number is 0"),
        (2, "00 01 01 a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1 01 00 00", "a store that it does not have"),
        (
            2, "00 02 00 a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1 01 01 a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1 01 00 00",
            "a store twice"
        ),
        (
            2, "00 02 00 b1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1 01 01 a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1 01 00 00",
            "not in order"
        ),
        (2, "00 02 00 b1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1 01 00 01 00 00", "not in order"),
        (4, "01 00 a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1 00 00", "range of numbers"),
        (4, "01 00 a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1 02 ffffffffffffffffff01", "range of numbers"),
        (5, "00 a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1 00 02 01 0000000000000000", "versions that it reads"),
        (7, "00 00 a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1 07 00 x 8 00 x 8 00", "plain transaction"),
        (8, "01 00 0161 00 01 01 00", "stretch of objects"),
        (8, "01 00 0161 00 01 02 ffffffffffff3f", "stretch of objects"),
        (9, "01 00 00 0161 00 00 00 01", "object ID"),
        (9, "01 00 00 0161 00 00 808004 01", "object ID"),
        (9, "01 02 00 0161 00 00 01 01", "not an insertion"),
        (9, "01 08 00 0161 00 00 01 01", "a shape that it does not have"),
        (9, "01 00 00 0161 01 02 01 01 01", "a name that it does not have"),
        (9, "01 00 00 0161 01 01 0161 00 01 01 00", "a name twice"),
        (9, "02 00 00 0161 00 00 01 01 08 00 00 00 01 02", "a shape twice"),
        (9, "01 00 00 0161 01 00 00 01 01 08 00 02 00 00", "decimal"),
        (9, "01 00 00 0161 01 00 00 01 01 08 00 00 0a 00", "decimal"),
        (9, "01 00 00 0161 01 00 00 01 01 08 01 00 00 00", "decimal"),
        (9, "01 00 00 0161 01 00 00 01 01 08 02 00 01 00", "decimal"),
        (9, "01 00 00 0161 04 00 00 00 00 00 01 01", "fewer values"),
    ]

    @Test(arguments: malformed)
    func brokenContentIsMalformed(kind: UInt8, content: String, sentence: String) throws {
        let bytes = MessageForger.message(kind, MessageForger.bytes(content))
        let error = expectFailure(.exportMalformed, content) { _ = try MirrorMessage(bytes) }
        #expect(error?.message.contains(sentence) == true, "\(content): \(error?.message ?? "no error")")
    }

    static let newer: [(kind: UInt8, content: String)] = [
        (6, "00 a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1 00 01 01 0000000000000000 02"),
        (9, "01 03 00 0161 00 00 01 01"),
        (9, "01 00 00 0161 01 00 00 01 01 0e"),
        (9, "01 00 00 0161 01 00 00 01 01 ff"),
    ]

    @Test(arguments: newer)
    func contentOfALaterVersionIsUnsupported(kind: UInt8, content: String) throws {
        let bytes = MessageForger.message(kind, MessageForger.bytes(content))
        let error = expectFailure(.unsupportedVersion, content) { _ = try MirrorMessage(bytes) }
        #expect(error?.message.contains("Update Annals") == true)
    }

    /// The limit that the decoder promises: the largest thing for the fewest bytes.
    @Test func memoryIsBoundedByTheBytes() {
        #expect(MemoryLayout<ExportedValue>.stride <= 48)
        #expect(MemoryLayout<ExportedObject>.stride <= 48 * 3)
        #expect(MemoryLayout<ExportedChange>.stride <= 48 * 4)
        #expect(MemoryLayout<AttributeDescription>.stride <= 48 * 4)
        #expect(MemoryLayout<ExportedStretch>.stride <= 48 * 5)
        #expect(MemoryLayout<VersionVector.Entry>.stride <= 48 * 2)
        #expect(MemoryLayout<ExportedRename>.stride <= 48 * 3)
    }

    @Test func aMessageWithManyNamesStoresAndShapesTakesLinearTime() throws {
        let count = 20000
        let changes = (0..<count).map { index in
            ExportedChange(
                kind: .update, object: MessageSamples.object(1, 1, of: UUID()), entity: "E\(index)",
                attributes: ["a\(index)"], values: [ExportedValue(.plain(.absent))], before: nil)
        }
        var transaction = MessageSamples.transaction
        transaction = ExportedTransaction(
            token: transaction.token, previous: nil, microseconds: 0, author: nil, contextName: nil, origin: nil,
            originPrevious: nil, holds: nil, schema: nil, renames: [], changes: changes)
        let message = MirrorMessage(
            published: 0,
            .transaction(
                TransactionMessage(
                    lamport: 1, knowledge: VersionVector(), isKnowledgeComplete: true, transaction: transaction)))
        let start = ContinuousClock.now
        let decoded = try MirrorMessage(message.encoded())
        // Quadratic time would take minutes.
        #expect(ContinuousClock.now - start < .seconds(30))
        #expect(decoded == message)
    }
}

/// Calls `body`, which must throw an error of that code. Returns the error.
@discardableResult
func expectFailure(
    _ code: StoreError.Code, _ comment: String = "", _ body: () throws -> Void
) -> StoreError? {
    do {
        try body()
        Issue.record("No error: \(comment)")
    } catch let error as StoreError {
        #expect(error.code == code, "\(comment): \(error)")
        #expect(error.message.hasSuffix("."), "An error is a sentence: \(error.message)")
        return error
    } catch {
        Issue.record("\(comment): \(error)")
    }
    return nil
}
