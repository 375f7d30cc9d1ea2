// Reads the tables of FileFormat.md, so that tests can hold the code's constants against them.

import Foundation
import TestSupport
import Testing

/// The page, as far as its tables go.
struct FormatDocument {
    struct Field: Equatable {
        var offset: Int
        var bytes: Int
    }

    /// Rows `| offset | bytes | `group.field` | ...`, by the full name.
    let fields: [String: Field]
    /// Rows `| `name` | value | ...` of the section "Limits".
    let limits: [String: UInt64]
    /// Rows `| number | `name` | ...`, by section and name; the cells after the name are kept.
    let numbered: [String: [String: (number: Int, cells: [String])]]

    init() throws {
        let page = PackageFolder.url("Sources/Annals/Annals.docc/FileFormat.md")
        try self.init(text: String(contentsOf: page, encoding: .utf8))
    }

    init(text: String) throws {
        var fields: [String: Field] = [:]
        var limits: [String: UInt64] = [:]
        var numbered: [String: [String: (number: Int, cells: [String])]] = [:]
        var section = ""
        for line in text.split(separator: "\n") {
            if line.hasPrefix("#") { section = line.drop { $0 == "#" || $0 == " " }.description }
            guard line.hasPrefix("|") else { continue }
            let cells = line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
            if cells.count >= 3, let offset = Int(cells[0]), let bytes = Int(cells[1]), let name = Self.code(cells[2]) {
                try #require(
                    fields.updateValue(Field(offset: offset, bytes: bytes), forKey: name) == nil, "\(name) twice")
            } else if cells.count >= 2, let number = Int(cells[0]), let name = Self.code(cells[1]) {
                numbered[section, default: [:]][name] = (number, Array(cells.dropFirst(2)))
            } else if section == "Limits", cells.count >= 2, let name = Self.code(cells[0]) {
                let value: UInt64 = try #require(UInt64(cells[1]))
                limits[name] = value
            }
        }
        self.fields = fields
        self.limits = limits
        self.numbered = numbered
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

    private static func code(_ cell: String) -> String? {
        guard cell.count > 2, cell.hasPrefix("`"), cell.hasSuffix("`") else { return nil }
        return String(cell.dropFirst().dropLast())
    }
}
