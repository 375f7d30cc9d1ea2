// The page about messages and the code agree: fields, kinds, types, limits, and the worked example.

import AnnalsMirror
import Foundation
import TestSupport
import Testing

@Suite struct MessagePageTests {
    private let page: String

    init() throws {
        page = try String(
            contentsOf: PackageFolder.url("Sources/Annals/Annals.docc/MirrorMessages.md"), encoding: .utf8)
    }

    private func section(_ title: String) throws -> Substring {
        let start = try #require(page.range(of: "\n## \(title)\n"), "\(title)")
        let rest = page[start.upperBound...]
        return rest.range(of: "\n## ").map { rest[..<$0.lowerBound] } ?? rest
    }

    /// The offsets of a record's fields by name. Checks that there is no gap up to its size.
    private func offsets(of record: String, bytes: Int) throws -> [String: Int] {
        var offsets: [String: Int] = [:]
        var end = 0
        for line in page.split(separator: "\n") {
            guard let match = line.wholeMatch(of: #/ +([0-9]+) +([0-9]+)  ([a-z]+)\.(\w+)(?: .*)?/#),
                match.output.3 == record, let offset = Int(match.output.1), let size = Int(match.output.2)
            else { continue }
            #expect(offset == end, "\(line)")
            offsets[String(match.output.4)] = offset
            end = offset + size
        }
        #expect(end == bytes)
        return offsets
    }

    @Test func theHeadersHaveTheFieldsOfThePage() throws {
        typealias Field = MessageFormat.Field
        #expect(
            try offsets(of: "message", bytes: MessageFormat.headerBytes) == [
                "magic": Field.magic, "version": Field.version, "kind": Field.kind, "optional": Field.optional,
                "required": Field.required, "zero": Field.zero, "contentBytes": Field.contentBytes,
                "extensionBytes": Field.extensionBytes, "checksum": Field.checksum,
            ])
        typealias Part = MessageFormat.PartField
        #expect(
            try offsets(of: "part", bytes: MessageFormat.partHeaderBytes) == [
                "magic": Part.magic, "version": Part.version, "zero": Part.zero, "optional": Part.optional,
                "required": Part.required, "zero2": Part.zero2, "index": Part.index, "count": Part.count,
                "messageBytes": Part.messageBytes, "zero3": Part.zero3, "published": Part.published,
                "transaction": Part.transaction, "messageChecksum": Part.messageChecksum, "checksum": Part.checksum,
            ])
    }

    /// Lines `number  name  ...`.
    private func numbers(in title: String) throws -> [String: UInt8] {
        var numbers: [String: UInt8] = [:]
        for line in try section(title).split(separator: "\n") {
            guard let match = line.wholeMatch(of: #/ *([0-9]+)  (\w+) .*/#) else { continue }
            numbers[String(match.output.2)] = UInt8(match.output.1)
        }
        return numbers
    }

    @Test func theKindsAreThoseOfThePage() throws {
        typealias Kind = MessageFormat.Kind
        #expect(
            try numbers(in: "Kinds") == [
                "transaction": Kind.transaction, "state": Kind.state, "receipt": Kind.receipt, "request": Kind.request,
                "join": Kind.join, "leave": Kind.leave, "stateBeginning": Kind.stateBeginning,
                "stateStretches": Kind.stateStretches, "stateObjects": Kind.stateObjects, "stateEnd": Kind.stateEnd,
                "stateAliases": Kind.stateAliases, "stateRequest": Kind.stateRequest,
            ])
        for (name, message) in MessageSamples.all {
            #expect(try message.encoded()[MessageFormat.Field.kind] == numbers(in: "Kinds")[name], "\(name)")
        }
    }

    @Test func theValuesHaveTheTypesOfThePage() throws {
        #expect(
            try numbers(in: "Values") == [
                "null": ValueTag.null, "false": ValueTag.no, "int": ValueTag.int, "double": ValueTag.double,
                "string": ValueTag.string, "data": ValueTag.data, "date": ValueTag.date, "uuid": ValueTag.uuid,
                "decimal": ValueTag.decimal, "json": ValueTag.json, "object": ValueTag.object,
                "orderedObjects": ValueTag.orderedObjects, "objects": ValueTag.objects, "true": ValueTag.yes,
            ])
    }

    @Test func theLimitsAreThoseOfThePage() throws {
        let limits = try section("Limits")
        #expect(limits.contains("maximumMessageBytes  \(MessageFormat.maximumMessageBytes)  "))
        #expect(limits.contains("maximumLamport       \(MessageFormat.maximumLamport)  "))
        #expect(limits.contains("minimumBodyBytes             \(MessageFormat.minimumBodyBytes)  "))
    }

    @Test func theWorkedExampleIsTheMessageThatTheCodeWrites() throws {
        let example = try section("A worked example")
        let code = example.split(separator: "```")[1]
        let bytes = code.split(separator: "\n").map { line in
            line.drop { $0 == " " }.split(separator: "  ", maxSplits: 1)[0]
        }
        let hex = bytes.joined().filter { $0 != " " }
        #expect(try hex == MessageSamples.all[0].message.encoded().hex)
        #expect(example.contains("in \(hex.utf8.count / 2) bytes"))
    }
}
