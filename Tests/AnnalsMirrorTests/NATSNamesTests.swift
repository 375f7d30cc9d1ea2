// Names, places, times and numbers of the NATS engine.

import Annals
import AnnalsMirror
import TestSupport
import Testing

@Suite struct NATSNamesTests {
    @Test func plainNamesRemain() throws {
        let names = try NATSNames(group: "my-Notes_1", peer: "laptop")
        #expect(names.stream == "ANNALS_my-Notes_1")
        #expect(names.subjects == "annals.my-Notes_1.*")
        #expect(names.ownSubject == "annals.my-Notes_1.laptop")
        #expect(names.statesStream == "ANNALS_my-Notes_1_STATES")
    }

    @Test(arguments: ["a.b", "*", ">", "ü ", "a=b", "=", "\0", "日本", "a\r\nPUB x 0", "peer:1"])
    func otherNamesAreEncoded(name: String) throws {
        let token = try NATSNames.token(name, kind: "peer")
        #expect(token.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7f && !".*>:".utf8.contains($0) })
        #expect(NATSNames.name(ofToken: token[...]) == name)
        let names = try NATSNames(group: name, peer: name)
        #expect(names.peer(ofSubject: names.ownSubject) == name)
    }

    @Test func differentNamesHaveDifferentTokens() throws {
        let names = ["a", "A", "a.b", "a=2Eb", "a_b", "a-b", "_", "=5F"]
        #expect(Set(try names.map { try NATSNames.token($0, kind: "peer") }).count == names.count)
    }

    @Test(arguments: ["", String(repeating: "a", count: 65), String(repeating: "ü", count: 33)])
    func emptyOrLongNameIsRefused(name: String) {
        #expect(code { _ = try NATSNames(group: name, peer: "a") } == .invalidArgument)
        #expect(code { _ = try NATSNames(group: "a", peer: name) } == .invalidArgument)
    }

    @Test func groupCannotHaveTheStreamOfAnothersStates() throws {
        let group = try NATSNames(group: "a", peer: "p")
        let other = try NATSNames(group: "a_STATES", peer: "p")
        #expect(group.statesStream != other.stream)
    }

    @Test(arguments: ["=41", "=4", "=4g", "a.b", "", "=2e", "=FF"])
    func strangeTokenIsNoName(token: String) {
        #expect(NATSNames.name(ofToken: token[...]) == nil)
    }
}

@Suite struct NATSPlaceTests {
    @Test func writtenPlaceIsReadUnchanged() {
        let place = NATSPlace(created: 1_795_922_855_557_714_573, sequence: .max, stored: 7)
        #expect(NATSPlace(place.courierPlace) == place)
    }

    @Test(arguments: ["", "n", "n.1.2", "n.1.2.3.4", "x.1.2.3", "n.a.2.3", "n..2.3", "n.1.2.-3"])
    func otherTextIsNoPlace(text: String) {
        #expect(NATSPlace(CourierPlace(text)) == nil)
    }

    @Test(
        arguments: [
            ("1970-01-01T00:00:00Z", 0),
            ("1970-01-01T00:00:01.5Z", 1_500_000_000),
            ("2000-02-29T12:00:00Z", 951_825_600_000_000_000),
            ("2026-11-29T03:27:37.01254571Z", 1_795_922_857_012_545_710),
            ("2026-11-29T04:27:37.01254571+01:00", 1_795_922_857_012_545_710),
            ("2026-11-28T21:57:37.01254571-05:30", 1_795_922_857_012_545_710),
        ] as [(String, UInt64)])
    func timeIsRead(text: String, nanoseconds: UInt64) {
        #expect(NATSTime.nanoseconds(text) == nanoseconds)
    }

    @Test(
        arguments: [
            "", "0001-01-01T00:00:00Z", "2026-13-01T00:00:00Z", "2026-01-01", "2026-01-01T00:00:00", "now",
            "2026-01-01T00:00:00.Z", "2026-01-01T00:00:00.1234567890Z", "2026-01-01T00:00:00+1:00",
            "9999-01-01T00:00:00Z", "2026-01-01T24:00:00Z",
        ])
    func otherTextIsNoTime(text: String) {
        #expect(NATSTime.nanoseconds(text) == nil)
    }
}

@Suite struct NATSSentNumbersTests {
    @Test(arguments: 1...100 as ClosedRange<UInt64>)
    func nothingNewerIsBeforeTheSequence(seed: UInt64) {
        var random = SeededRandom(seed)
        var numbers = NATSSentNumbers()
        var stored: [(number: UInt64, sequence: UInt64)] = []
        var sequence: UInt64 = 0
        var discarded: UInt64 = 0
        var newest: UInt64 = 0
        for _ in 0..<400 {
            sequence += 1 + random.next(below: 3)
            if random.happens(0.8) || newest == 0 { newest += 1 }
            let number = random.happens(0.7) ? newest : 1 + random.next(below: newest)
            numbers.add(number: number, sequence: sequence)
            stored.append((number, sequence))
            if random.happens(0.05) {
                discarded = max(discarded, random.next(below: newest + 1))
                let end = numbers.firstSequence(after: discarded)
                #expect(!stored.contains { $0.number > discarded && $0.sequence < end })
                numbers.forget(through: discarded)
            }
        }
        #expect(numbers.firstSequence(after: .max) == sequence + 1)
    }

    @Test func unknownNumbersDiscardNothing() {
        #expect(NATSSentNumbers().firstSequence(after: .max) == 0)
    }

    @Test func checksumIsThatOfTheStandard() {
        var checksum = NATSChecksum()
        checksum.add(Array("1234".utf8))
        checksum.add(Array("56789".utf8))
        #expect(checksum.value == 0xe306_9283)
    }
}

@Suite struct NATSJSONTests {
    @Test func configurationKeepsUnknownFields() throws {
        let text =
            #"{"a_b":[1,-2.5,null,true,"x"],"metadata":{"_nats.level":"0","snake_case":"y"},"big":9007199254740993}"#
        let value = try NATSJSON.decode(NATSJSONValue.self, from: Array(text.utf8))
        #expect(value["a_b"] == .list([.integer(1), .number(-2.5), .null, .bool(true), .string("x")]))
        #expect(value["metadata"]?["snake_case"] == .string("y"))
        #expect(value["big"] == .integer(9_007_199_254_740_993))
        let again = try NATSJSON.decode(NATSJSONValue.self, from: try NATSJSON.encode(value))
        #expect(again == value)
    }

    @Test(arguments: ["", "{", "[]", "null", "{\"error\": 5}", String(repeating: "[", count: 100_000)])
    func otherTextIsDamage(text: String) {
        struct Wanted: Decodable { var error: JetStreamFailure }
        #expect(code { _ = try NATSJSON.decode(Wanted.self, from: Array(text.utf8)) } == .courierDamaged)
    }
}
