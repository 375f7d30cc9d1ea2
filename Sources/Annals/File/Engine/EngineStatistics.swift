// Figures about a store's content.

package struct EngineStatistics: Sendable {
    /// The log's end, and the size of the file with reserved space.
    package var end: UInt64 = 0
    package var fileBytes: UInt64 = 0
    package var lastNumber: UInt64 = 0
    package var schemaVersion: UInt16 = 0
    /// The number of transactions in the file.
    package var transactions: UInt64 = 0
    /// By kind: the bytes of frames with their headers.
    package var frameBytes: [FrameKind: UInt64] = [:]
    /// By entity number: the number of live objects.
    package var liveObjects: [UInt16: UInt64] = [:]
    /// Memory of index nodes that are not in the file yet.
    package var dirtyNodeBytes = 0
    /// The end of the newest checkpoint.
    package var checkpointEnd: UInt64 = 0
    package var durableEnd: UInt64 = 0
}

extension Engine {
    /// Counts of the newest state. Waits for a running commit of this handle.
    package func statistics() throws(StoreError) -> EngineStatistics {
        try requireNotWriting()
        _ = try viewOfThisFile()
        let fileBytes = try log.whileOpen { () throws(StoreError) in try log.files.size(log.file) }
        return log.writer.withLock {
            log.follow.withLock {
                var statistics = EngineStatistics()
                statistics.end = log.known.state.end
                statistics.fileBytes = fileBytes
                statistics.lastNumber = log.known.state.lastNumber
                statistics.schemaVersion = log.known.state.schemaVersion
                statistics.transactions = indexes.counts.transactions
                for kind in FrameKind.allCases {
                    statistics.frameBytes[kind] = indexes.counts[kind]
                }
                for entity in 0..<indexes.totals.entityLimit {
                    let totals = indexes.totals[UInt16(entity)]
                    guard totals.nextNumber > 1 else { continue }
                    statistics.liveObjects[UInt16(entity)] = totals.live
                }
                statistics.dirtyNodeBytes = indexes.dirtyBytes
                statistics.checkpointEnd = indexes.checkpoint.end
                statistics.durableEnd = log.ledger.mark
                return statistics
            }
        }
    }
}
