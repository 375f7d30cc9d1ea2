// Objects as a table for people: `find` prints it.

internal import Annals

/// Prints the objects of one entity as they come.
struct ObjectTable {
    private let labels: Labels
    private let isBare: Bool
    private let columns: [Int]
    private var table: Table

    /// - Parameters:
    ///   - isBare: Leaves out the IDs.
    ///   - columns: The positions of the attributes, in their order; nil for all.
    init(_ entity: EntityHandle, _ labels: Labels, isBare: Bool, columns: [Int]? = nil) {
        (self.labels, self.isBare) = (labels, isBare)
        self.columns = columns ?? Array(entity.attributes.indices)
        let names = self.columns.map { position in
            let isNumber = [.int, .double, .decimal].contains(entity.types[position])
            return (isNumber ? "#" : "") + entity.attributes[position]
        }
        // An ID is useful as a whole only.
        table = Table((isBare ? [] : ["#id"]) + names)
    }

    mutating func print(_ row: borrowing RowView, _ output: inout Output) throws(ToolFailure) {
        var cells = isBare ? [] : [row.id.description]
        for position in columns {
            do throws(StoreError) {
                let value = try row.value(at: position)
                switch value {
                case .object, .objects, .orderedObjects: cells.append(labels.text(value))
                default: cells.append(ValueConversion.field(value))
                }
            } catch {
                throw ToolFailure(error)
            }
        }
        try table.add(cells, &output)
    }

    /// Prints the rows that wait.
    mutating func finish(_ output: inout Output) throws(ToolFailure) { try table.show(&output) }
}
