// Looks for phrases in rows: the positions of an attribute's words need not be in its index.

/// Counts phrases in the texts of rows of one state. A class, because closures over rows change it. For one thread.
final class SearchedRows {
    private let snapshot: Snapshot
    private let scope: SearchedEntity
    private let plan: SearchPlan
    /// Few searches need it.
    private lazy var document = DocumentTerms(plan, attributes: scope.columns.count)

    init(_ snapshot: Snapshot, _ scope: SearchedEntity, _ plan: SearchPlan) {
        (self.snapshot, self.scope, self.plan) = (snapshot, scope, plan)
    }

    /// How often a leaf of the plan occurs in a column of an object. Throws `damaged` if it does not exist.
    func frequency(_ leaf: Int, _ column: Int, _ number: UInt64) throws(StoreError) -> UInt32 {
        let object = try scope.object(number)
        let (snapshot, layout, position) = (snapshot, scope.layout, scope.columns[column].position)
        document.reset()
        let isThere = try snapshot.view.withRow(object) { (row) throws(StoreError) in
            try snapshot.lend(object, row, layout) { (row) throws(StoreError) in
                _ = try row.withBytes(at: position) { document.read($0, attribute: column) }
            }
        }
        guard isThere else { throw SearchBlocks.damaged("the number of an object") }
        return document.frequency(leaf, column)
    }
}
