// The action on the rows of a reading.

/// A closure in an object. The optimizer copies a function, and all functions that it calls, for each closure that it
/// is passed: without this, a tenth of the code would be copies of the reading of ranges. It passes an object on.
final class RowVisitor {
    /// Returns whether reading continues.
    let visit: (ObjectID, RowImage) throws(StoreError) -> Bool

    init(_ visit: @escaping (ObjectID, RowImage) throws(StoreError) -> Bool) { self.visit = visit }
}
