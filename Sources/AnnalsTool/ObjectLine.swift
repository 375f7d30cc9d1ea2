// An object as one line of JSON: `dump`, `get` and `find` print it, and `load` reads it.

internal import Annals

/// Builds the lines of one entity's objects, in a buffer that is used again.
struct ObjectLine {
    private let entity: EntityHandle
    private let isBare: Bool
    private let start: String
    /// The positions of the attributes to print, and their names.
    private let columns: [(position: Int, name: String)]
    private var line: [UInt8] = []

    /// - Parameters:
    ///   - isBare: Leaves out “_entity” and “_id”.
    ///   - columns: The positions of the attributes to print, in their order; nil for all.
    init(_ entity: EntityHandle, isBare: Bool = false, columns: [Int]? = nil) {
        self.entity = entity
        self.isBare = isBare
        start = isBare ? "{" : "{\"_entity\":\(JSONText.string(entity.name)),\"_id\":\""
        self.columns = (columns ?? Array(entity.attributes.indices)).map { position in
            (position, JSONText.string(MemberNames.dumped(entity.attributes[position])) + ":")
        }
    }

    /// The line of an object, with its line feed.
    mutating func bytes(of row: borrowing RowView) throws(ToolFailure) -> [UInt8] {
        line.removeAll(keepingCapacity: true)
        line += start.utf8
        if !isBare { line += "\(row.id)\"".utf8 }
        for (index, column) in columns.enumerated() {
            if index > 0 || !isBare { line.append(UInt8(ascii: ",")) }
            line += column.name.utf8
            try append(row, column.position, entity.types[column.position])
        }
        line += "}\n".utf8
        return line
    }

    private mutating func append(
        _ row: borrowing RowView, _ position: Int, _ type: AttributeType
    ) throws(ToolFailure) {
        do throws(StoreError) {
            switch type {
            case .string:
                let isThere = try row.withBytes(at: position) { JSONText.appendString($0, to: &line) }
                if !isThere { line += "null".utf8 }
            case .date:
                if let date = row.date(at: position) {
                    line += "\"\(DateText.text(date))\"".utf8
                } else {
                    line += "null".utf8
                }
            default: ValueConversion.append(try row.value(at: position), to: &line)
            }
        } catch {
            throw ToolFailure(error)
        }
    }
}
