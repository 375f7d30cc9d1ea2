// An object as one line of CSV: `dump` and `find` print it.

internal import Annals

/// Prints the objects of one entity as a table.
struct CSVFields {
    private let entity: EntityHandle
    private let isBare: Bool
    private let columns: [Int]

    /// - Parameters:
    ///   - isBare: Leaves out “_entity” and “_id”.
    ///   - columns: The positions of the attributes, in their order; nil for all.
    init(_ entity: EntityHandle, isBare: Bool, columns: [Int]? = nil) {
        self.entity = entity
        self.isBare = isBare
        self.columns = columns ?? Array(entity.attributes.indices)
    }

    /// The first line.
    func printNames(_ output: inout Output) throws(ToolFailure) {
        let names = columns.map { MemberNames.dumped(entity.attributes[$0]) }
        try Self.print((isBare ? [] : ["_entity", "_id"]) + names, &output)
    }

    func print(_ row: borrowing RowView, _ output: inout Output) throws(ToolFailure) {
        var fields: [String?] = isBare ? [] : [entity.name, row.id.description]
        for position in columns {
            do throws(StoreError) {
                let value = try row.value(at: position)
                fields.append(value.isNull ? nil : ValueConversion.field(value))
            } catch {
                throw ToolFailure(error)
            }
        }
        try Self.print(fields, &output)
    }

    /// Unchanged for other programs; on a terminal, without control characters.
    private static func print(_ fields: [String?], _ output: inout Output) throws(ToolFailure) {
        let line = CSV.line(fields)
        if output.isTerminal { try output.line(String(line.dropLast())) } else { try output.data(Array(line.utf8)) }
    }
}
