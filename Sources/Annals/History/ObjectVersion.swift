// An object's past: every change that history holds of it, with who made it and when.

internal import AnnalsFile
public import FoundationEssentials

/// One change that an object has gone through, and its transaction.
public struct ObjectVersion: Hashable, Sendable {
    /// The transaction's number and the place behind it.
    public let number: UInt64
    public let token: HistoryToken
    /// When it was committed: microseconds since 1970, UTC.
    public let microseconds: Int64
    public let author: String?
    public let contextName: String?
    public let processID: UInt32
    /// The file name of the program.
    public let process: String?
    /// With the object before and after.
    public let change: HistoryChange

    /// The nearest `Date`.
    public var timestamp: Date { Microseconds.date(microseconds) }
}

extension Store {
    /// Gives `body` every change that history holds of an object, newest first, each with its transaction, until it returns false.
    ///
    /// `change.after()` is the version of the object that the change made. Nothing is given where history holds none, or where there was never
    /// such an object. Follows the links between versions instead of looking through history: some 10 to 100 microseconds a version.
    /// Throws `damaged`, `closed`, and what `body` throws.
    ///
    /// - Parameter snapshot: Where the past begins; nil for the newest state.
    public func forEachVersion(
        of object: ObjectID, in snapshot: Snapshot? = nil,
        _ body: (borrowing HistoryTransactionView, borrowing HistoryChangeView) throws(StoreError) -> Bool
    ) throws(StoreError) {
        let engine = engine
        let view = try view(of: snapshot, engine)
        guard !view.reservedEntities.contains(object.entityNumber) else { return }
        var lending = HistoryLending(self, view)
        try mapping { () throws(FileError) in
            try engine.forEachVersion(of: object.file, in: view) { (transaction, change) throws(FileError) in
                let context = lending.show(transaction)
                do throws(StoreError) {
                    return try body(HistoryTransactionView(context), HistoryChangeView(change, context))
                } catch {
                    context.pointee.fail(error)
                    return false
                }
            }
        }
        try lending.finish()
    }

    /// The versions of an object as values, newest first, at most so many. Throws `damaged`, `closed`.
    public func versions(of object: ObjectID, limit: Int? = nil) throws(StoreError) -> [ObjectVersion] {
        var versions: [ObjectVersion] = []
        guard limit.map({ $0 > 0 }) ?? true else { return [] }
        try forEachVersion(of: object) { (transaction, change) throws(StoreError) in
            versions.append(
                ObjectVersion(
                    number: transaction.number, token: transaction.token, microseconds: transaction.microseconds,
                    author: transaction.author, contextName: transaction.contextName,
                    processID: transaction.processID, process: transaction.process,
                    change: try change.value(includingValues: true)))
            return limit.map { versions.count < $0 } ?? true
        }
        return versions
    }
}
