// What a store holds, folded from its log alone: the engine's answers are held against it.

internal import AnnalsFile

/// The rows of objects that there are behind some transaction.
struct StoreFold {
    /// Where the row of each object stands.
    private(set) var rows: [ObjectID: UInt64] = [:]
    /// Whether there are rows without history, which the engine does not read yet.
    private(set) var hasBaseRows = false

    /// What is there behind transaction `number`.
    init(of log: Log, through number: UInt64) {
        do throws(FileError) {
            try log.forEachFrame { (frame, _) throws(FileError) in
                if frame.header.kind == .rows { hasBaseRows = true }
                guard frame.header.number <= number else { return }
                try take(frame)
            }
        } catch {
            // Who compares has a checker's word that changes can be read.
            FuzzTargets.requireByteError(error, "Folding the log")
        }
    }

    private mutating func take(_ frame: FrameView) throws(FileError) {
        guard frame.header.kind == .transaction || frame.header.kind == .part else { return }
        var cursor = ChangeCursor(frame)
        while let change = try cursor.next() {
            let row = change.rowOffset.map { frame.offset + UInt64($0) }
            rows[change.object] = change.kind == .delete ? nil : row
        }
    }

    func objects(of entity: UInt16) -> [ObjectID] { rows.keys.filter { $0.entity == entity }.sorted() }
}
