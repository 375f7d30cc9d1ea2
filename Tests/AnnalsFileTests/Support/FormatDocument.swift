// Reads the records and lists of constants of FileFormat.md, so that tests can hold the code's constants against them.

import Foundation
import TestSupport
import Testing

/// The page, as far as its aligned lists go.
struct FormatDocument {
    struct Field: Equatable {
        var offset: Int
        var bytes: Int
    }

    /// Lines `offset bytes  group.field  ...`, by the full name.
    let fields: [String: Field]
    /// Lines `name  value  ...` of the section "Limits".
    let limits: [String: UInt64]
    /// Lines `number  name  bytes  ...` of the section "Rows".
    let types: [String: (number: Int, slotBytes: Int, content: String)]

    init() throws {
        let page = PackageFolder.url("Sources/Annals/Annals.docc/FileFormat.md")
        try self.init(text: String(contentsOf: page, encoding: .utf8))
    }

    init(text: String) throws {
        var fields: [String: Field] = [:]
        var limits: [String: UInt64] = [:]
        var types: [String: (number: Int, slotBytes: Int, content: String)] = [:]
        var section = ""
        for line in text.split(separator: "\n") {
            if line.hasPrefix("#") { section = line.drop { $0 == "#" || $0 == " " }.description }
            if let match = line.wholeMatch(of: #/ +([0-9]+) +([0-9]+)  ([a-z]+\.\w+)(?: .*)?/#) {
                let (offset, bytes) = try (#require(Int(match.output.1)), #require(Int(match.output.2)))
                let name = String(match.output.3)
                try #require(
                    fields.updateValue(Field(offset: offset, bytes: bytes), forKey: name) == nil, "\(name) twice")
            } else if section == "Limits", let match = line.wholeMatch(of: #/(\w+) +([0-9]+)  .*/#) {
                let limit: UInt64 = try #require(UInt64(match.output.2))
                limits[String(match.output.1)] = limit
            } else if section == "Rows", let match = line.wholeMatch(of: #/ *([0-9]+)  (\w+) +([0-9]+)  (.*)/#) {
                let (number, bytes) = try (#require(Int(match.output.1)), #require(Int(match.output.3)))
                types[String(match.output.2)] = (number, bytes, String(match.output.4))
            }
        }
        self.fields = fields
        self.limits = limits
        self.types = types
    }

    /// The fields of one group without its name, such as those of `row.`.
    func fields(of group: String) -> [String: Field] {
        var found: [String: Field] = [:]
        for (name, field) in fields where name.hasPrefix(group + ".") {
            found[String(name.dropFirst(group.count + 1))] = field
        }
        return found
    }

    /// Holds the constants of one group against the page: all of its fields, and no gap from 0 to the record's size.
    func check(
        _ group: String, _ offsets: [String: Int], bytes: Int, sourceLocation: SourceLocation = #_sourceLocation
    ) {
        let page = fields(of: group)
        #expect(page.mapValues(\.offset) == offsets, "\(group)", sourceLocation: sourceLocation)
        var end = 0
        for field in page.values.sorted(by: { $0.offset < $1.offset }) {
            #expect(field.offset == end, "\(group)", sourceLocation: sourceLocation)
            end = field.offset + field.bytes
        }
        #expect(end == bytes, "\(group)", sourceLocation: sourceLocation)
    }
}
