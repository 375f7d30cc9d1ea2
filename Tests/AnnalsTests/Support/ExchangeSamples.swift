// Stores that export to each other.

import Annals
import Foundation
import TestSupport
import Testing

/// Everything that is to be applied next, through its text form.
func relay(
    from source: Store, to target: Store, conflicts: ConflictPolicy = .error, leavingOut: Bool = false
) throws -> [ApplyResult] {
    let place = try target.lastApplied(from: source.identifier)
    return try source.export(
        after: place.map { .number($0.number) }, to: leavingOut ? target.identifier : nil
    ).map { exported in
        let line = exported.jsonLine
        let read = try ExportedTransaction(jsonLine: line)
        #expect(read == exported)
        #expect(read.jsonLine == line)
        return try target.apply(read, conflicts: conflicts)
    }
}

/// The objects of a store whatever their IDs, those that they refer to by a value of their own: a line for each,
/// sorted. `name` is an attribute that tells objects apart.
func contents(of store: Store, name: String = "name", attributes: [String: [String]] = [:]) throws -> [String] {
    let snapshot = try store.snapshot()
    func text(_ object: ObjectID) throws -> String {
        guard let row = try snapshot.row(object) else { return "gone" }
        return "\(row.entity)/\(row[name]?.string ?? "?")"
    }
    var lines: [String] = []
    for entity in try snapshot.entities {
        for row in try snapshot.rows(of: entity.name) {
            var parts: [String] = []
            for attribute in attributes[entity.name] ?? row.attributes.sorted() {
                let value = try #require(row[attribute])
                let shown =
                    switch value {
                    case .object(let object): try text(object)
                    case .orderedObjects(let objects): try objects.map(text).joined(separator: "+")
                    case .objects(let objects): try objects.map(text).sorted().joined(separator: "|")
                    case .double(let double): "#\(double.bitPattern)"
                    default: "\(value)"
                    }
                parts.append("\(attribute)=\(shown)")
            }
            lines.append("\(entity.name): \(parts.joined(separator: ", "))")
        }
    }
    return lines.sorted()
}

enum ExchangeSample {
    static let item = EntityDescription(
        "Item",
        attributes: [
            AttributeDescription("name", .string, isUnique: true), AttributeDescription("rank", .int),
            AttributeDescription("size", .int, defaultValue: 5),
            AttributeDescription("parent", .object, target: "Item"),
            AttributeDescription("children", .orderedObjects, target: "Item"),
            AttributeDescription("friends", .objects, target: "Item"),
        ])

    static let everything = EntityDescription(
        "Thing", attributes: AttributeType.allCases.map { AttributeDescription("\($0)", $0) })
}

/// A folder for each of several stores, all with the same entities or none.
struct ExchangeFolders {
    let folders: [StoreFolder]
    let stores: [Store]

    init(_ count: Int, _ entities: [EntityDescription] = [ExchangeSample.item], inAll: Bool = false) throws {
        folders = try (0..<count).map { _ in try StoreFolder() }
        stores = try folders.enumerated().map { try $1.open($0 == 0 || inAll ? entities : []) }
    }

    func expectIntact(sourceLocation: SourceLocation = #_sourceLocation) throws {
        for store in stores { try store.close() }
        for folder in folders { try folder.expectIntact(sourceLocation: sourceLocation) }
    }
}
