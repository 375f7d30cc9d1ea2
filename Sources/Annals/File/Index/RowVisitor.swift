// What is done with the rows of a reading.

/// A closure in an object. The optimizer copies a function, and all functions that it calls, for each closure that it
/// is passed: without this, a tenth of the code would be copies of the reading of ranges. An object it passes on.
final class RowVisitor {
    /// Whether reading goes on.
    let visit: (ObjectID, RowImage) throws(StoreError) -> Bool

    init(_ visit: @escaping (ObjectID, RowImage) throws(StoreError) -> Bool) { self.visit = visit }
}
