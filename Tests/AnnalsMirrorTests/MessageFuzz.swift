// The decoder on changed messages: a fuzz target for a test, and for a program that makes inputs itself.
//
// Invariants:
// ZM1  Any bytes decode, or throw `exportMalformed` or `unsupportedVersion`. Nothing else happens.
// ZM2  Bytes that decode are in their only form: encoding the message gives the same bytes.
// ZM3  A joiner with the same bytes as a part holds no more than its limit.

import Annals
import AnnalsMirror
import Foundation
import TestSupport
import Testing

enum MessageFuzz {
    /// One input: a body of a courier's message. Returns whether it decodes. Throws a sentence if an invariant does not
    /// hold.
    @discardableResult
    static func decode(_ bytes: [UInt8]) throws(StoreError) -> Bool {
        do throws(StoreError) {
            switch try MessageBody(bytes) {
            case .whole(let message): try requireSame(try message.encoded(), bytes)
            case .part(let part):
                try requireSame(part.encoded(), bytes)
                try join(part)
            }
            return true
        } catch {
            if error.code != .exportMalformed && error.code != .unsupportedVersion { throw error }
            return false
        }
    }

    private static func requireSame(_ encoded: [UInt8], _ bytes: [UInt8]) throws(StoreError) {
        if encoded == bytes { return }
        throw StoreError(.damaged, "ZM2: a message is written in another form than it was read in.")
    }

    private static func join(_ part: MessagePart) throws(StoreError) {
        var joiner = MessageJoiner(maximumBytes: 4096)
        defer { assert(joiner.heldBytes <= 4096, "ZM3: a joiner holds more than its limit.") }
        do throws(StoreError) {
            _ = try joiner.add(part, sender: "a", number: UInt64(part.index))
        } catch {
            if error.code != .tooLarge { throw error }
        }
    }

    static func check(_ bytes: [UInt8], _ comment: @autoclosure () -> String) {
        do throws(StoreError) { try decode(bytes) } catch { Issue.record("\(comment()): \(error), \(bytes.hex)") }
    }
}

/// Makes messages that no encoder makes, under right checksums.
enum MessageForger {
    /// Settles the length and the checksum of a message or a part, as MirrorMessages.md describes them.
    static func seal(_ bytes: inout [UInt8]) {
        guard bytes.count >= 24 else { return }
        if bytes[2] == 0x50 { return sealPart(&bytes) }
        store(UInt32(bytes.count - 24), in: &bytes, at: 8)
        let seed = bytes[..<16].withUnsafeBytes { Checksum.hash($0, seed: 0) }
        let checksum = bytes[24...].withUnsafeBytes { Checksum.hash($0, seed: seed) }
        store(checksum, in: &bytes, at: 16)
    }

    private static func sealPart(_ bytes: inout [UInt8]) {
        guard bytes.count >= 56 else { return }
        let seed = bytes[..<48].withUnsafeBytes { Checksum.hash($0, seed: 1) }
        store(bytes[56...].withUnsafeBytes { Checksum.hash($0, seed: seed) }, in: &bytes, at: 48)
    }

    static func store<Integer: FixedWidthInteger>(_ number: Integer, in bytes: inout [UInt8], at offset: Int) {
        withUnsafeBytes(of: number.littleEndian) { source in
            for (index, byte) in source.enumerated() { bytes[offset + index] = byte }
        }
    }

    /// A message with this content after `published` 0.
    static func message(_ kind: UInt8, _ content: [UInt8]) -> [UInt8] {
        var bytes: [UInt8] = [0x89, 0x41, 0x4d, 1, kind, 0, 0, 0] + [UInt8](repeating: 0, count: 16) + [0] + content
        seal(&bytes)
        return bytes
    }

    /// Digits, and `00 x 8` for eight zeros.
    static func bytes(_ text: String) -> [UInt8] {
        [UInt8](hex: text.replacingOccurrences(of: "00 x 8", with: "0000000000000000"))
    }

    /// Numbers that limits, signs and overflows turn on.
    private static let interesting: [[UInt8]] = [
        [0x80], [0xff], [0x7f], [0x80, 0x00], [0xff, 0xff, 0xff, 0xff, 0x0f], [0xff, 0xff, 0xff, 0xff, 0x07],
        [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
        [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
        [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01], [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f],
    ]

    /// Changes a few bytes after the magic, most often in the content.
    static func change(_ bytes: inout [UInt8], _ random: inout SeededRandom) {
        for _ in 0...random.next(below: 3) where bytes.count > 25 {
            let first = random.next(below: 8) == 0 ? 3 : 24
            let offset = first + random.next(below: bytes.count - first)
            switch random.next(below: 7) {
            case 0: bytes[offset] ^= 1 << UInt8(random.next(below: 8))
            case 1: bytes[offset] = UInt8(truncatingIfNeeded: random.next())
            case 2: bytes[offset] = UInt8(random.next(below: 16))
            case 3: bytes.replaceSubrange(offset..<offset + 1, with: random.one(of: interesting))
            case 4: bytes.removeSubrange(offset..<min(bytes.count, offset + 1 + random.next(below: 9)))
            case 5:
                let source = 24 + random.next(below: bytes.count - 24)
                let copied = Array(bytes[source..<min(bytes.count, source + 1 + random.next(below: 24))])
                bytes.insert(contentsOf: copied, at: offset)
            default: bytes[offset] &+= random.next(below: 2) == 0 ? 1 : .max
            }
        }
    }
}

@Suite struct MessageFuzzTests {
    /// Each suite of rounds changes messages of its own.
    @Test(arguments: 0..<8)
    func changedMessagesDecodeOrThrow(part: UInt64) throws {
        var samples = try MessageSamples.all.map { try $0.message.encoded() }
        for index in 0..<40 {
            var random = MessageRandom(part << 32 | UInt64(index))
            samples.append(try random.message().encoded())
        }
        samples += try MessagePart.bodies(of: MessageSamples.all[0].message, maximumBodyBytes: 128)
        // The messages are short, so that a change meets a field.
        samples = samples.filter { $0.count < 400 }
        var decoded = 0
        for round in 0..<25000 {
            let seed = part << 40 | UInt64(round)
            var random = SeededRandom(seed)
            var bytes = random.one(of: samples)
            MessageForger.change(&bytes, &random)
            if random.next(below: 8) > 0 { MessageForger.seal(&bytes) }
            do throws(StoreError) {
                if try MessageFuzz.decode(bytes) { decoded += 1 }
            } catch {
                Issue.record("Seed \(seed): \(error)\n\(bytes.hex)")
                return
            }
        }
        // Changes that pass the checksum reach every field, and some of them make another message.
        #expect(decoded > 1000, "\(decoded)")
    }
}
