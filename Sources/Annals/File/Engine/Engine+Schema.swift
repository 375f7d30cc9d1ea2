// Committing a schema change. The indexes that it needs are built before the writer lock is taken.

extension Engine {
    /// Appends a schema change and makes it durable as asked. Indexes over existing objects are built first, while
    /// other handles read and write. An index is in a checkpoint before another handle may write, so no handle builds
    /// it again.
    ///
    /// A failed build leaves the store as it was, apart from unused nodes. Throws the errors of `commit`, and
    /// `uniqueViolation` with the objects that have the same key.
    @inline(never)
    func commitSchema(_ draft: Draft, _ durability: Durability) throws(StoreError) -> AppendedTransaction {
        let build = try IndexBuild(self, draft.frames)
        try build?.run()
        try log.enter()
        defer { log.leave() }
        let appended = try appendingIndexes(durability) { (appender) throws(StoreError) -> Appended? in
            try draft.requireStillNewest(indexes, lastNumber: appender.state.lastNumber)
            try build?.finish(indexes.view(of: appender.state.progress))
            return try append(draft, appender, build?.indexes ?? [])
        }
        guard let appended else { preconditionFailure("A commit without an error has appended a transaction.") }
        try finish(appended, durability)
        return appended.transaction
    }

    /// Installs indexes that were built for the present schema, in a file that no other handle writes to.
    func install(_ build: IndexBuild) throws(StoreError) {
        try log.locked(.relaxed, mayKeepLock: true) { (appender) throws(StoreError) in
            try build.finish(indexes.view(of: appender.state.progress))
            for prepared in build.indexes {
                guard let place = indexes.shape.indexes.firstIndex(where: { $0.id == prepared.shape.id }) else {
                    continue
                }
                indexes.install(prepared.content, at: place)
            }
        }
    }

    /// Runs `body` with the writer lock; the caller holds the handle open. If an index was built and no checkpoint has
    /// it, a checkpoint follows in the same hold. Only a crash in between leaves a store in which the next writer must
    /// build the index.
    @inline(__always)
    func appendingIndexes(
        _ durability: Durability, _ body: (Appender) throws(StoreError) -> Appended?
    ) throws(StoreError) -> Appended? {
        var appended: Appended?
        do throws(StoreError) {
            try log.locked(durability, isHeld: true, mayKeepLock: true) { (appender) throws(StoreError) in
                appended = try body(appender)
                guard appended != nil, indexes.checkpoint.hasBuiltIndex else { return }
                log.publish(appender)
                try writeCheckpoint(appender)
                appended?.checkpoint = .none
            }
        } catch {
            // A checkpoint only saves time. The transaction is in the store without it.
            guard appended != nil else { throw error }
            log.wakeBackgroundSync()
        }
        return appended
    }

    /// Writes nodes of an unfinished index after the end, in one short hold of the writer lock. No checkpoint names
    /// them yet (J2).
    ///
    /// If it throws, the index is useless and the store is unchanged.
    func appendSlice(of index: inout OrderedIndex, ofSchema version: UInt16) throws(StoreError) {
        try log.locked(.relaxed, mayKeepLock: true) { (appender) throws(StoreError) in
            guard appender.state.schemaVersion == version else { throw IndexBuild.overtaken }
            try appendNodes(of: &index, appender)
        }
    }

    /// The same, with the writer lock.
    func appendNodes(of index: inout OrderedIndex, _ appender: Appender) throws(StoreError) {
        let file = indexes.core.file
        file.beginReading()
        defer { file.endReading() }
        try appendNodes(appender) { (writer) throws(StoreError) in
            try index.writeNodes(ofBytes: options.indexSliceBytes, file) { (node) throws(StoreError) in
                try writer.add(node)
            }
        }
    }
}
