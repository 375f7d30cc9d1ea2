// Catching up: adds the commits made during the build of an index from the history, usually while other handles write.

extension IndexBuild {
    /// Leaves little for `finish`: few transactions, and few unwritten nodes.
    func catchUp() throws(StoreError) {
        try catchUpInRounds()
        try writeNodes()
        try catchUpInRounds()
    }

    /// Each round applies the commits made during the one before, until these are few.
    private func catchUpInRounds() throws(StoreError) {
        var last = UInt64.max
        while true {
            let taken = try catchUpOnce(engine.view())
            if taken <= UInt64(engine.options.indexSliceBytes / 16) { return }
            if taken >= last { return try catchUpUnderLock() }
            last = taken
        }
    }

    /// If other handles write faster than this reads, they wait while a piece is applied, then one twice as long, until
    /// the index is complete.
    private func catchUpUnderLock() throws(StoreError) {
        var piece = UInt64(engine.options.indexSliceBytes / 4)
        var isDone = false
        while !isDone {
            try engine.log.locked(.relaxed, mayKeepLock: true) { (appender) throws(StoreError) in
                let newest = engine.indexes.view(of: appender.state.progress)
                var taken: UInt64 = 0
                while number < newest.number, taken < piece {
                    taken += try apply(newest, atMost: piece - taken)
                    if hasManyNodes { try writeNodes(appender) }
                }
                isDone = number == newest.number
            }
            piece = min(piece * 2, 1 << 62)
        }
    }

    private func catchUpOnce(_ newest: View) throws(StoreError) -> UInt64 {
        var taken: UInt64 = 0
        repeat {
            taken += try apply(newest, atMost: .max)
            if hasManyNodes { try writeNodes() }
        } while number < newest.number
        return taken
    }

    /// Whether memory holds as many nodes as it may. (J3)
    var hasManyNodes: Bool {
        indexes.reduce(0) { $0 + $1.content.dirtyBytes } >= engine.options.dirtyNodeBytes
    }

    private func writeNodes() throws(StoreError) {
        for place in indexes.indices { try write(place) }
    }

    /// In the current hold of the lock.
    private func writeNodes(_ appender: Appender) throws(StoreError) {
        for place in indexes.indices {
            while indexes[place].content.dirtyBytes > 0 {
                try engine.appendNodes(of: &indexes[place].content, appender)
                engine.log.publish(appender)
            }
        }
    }

    /// The last round: applies the rest up to the state on which the transaction is appended. With the writer lock.
    func finish(_ newest: View) throws(StoreError) {
        repeat { _ = try apply(newest, atMost: .max) } while number < newest.number
        assert(number == newest.number, "J1: an index is not of the newest state.")
    }

    /// Applies transactions up to a view. Stops after `bytes` of them, or when memory holds as many changed nodes as it
    /// may. Returns the number of bytes read.
    ///
    /// Duplicates refuse the index even if a later transaction has removed them, because it could not be unique at that
    /// moment.
    private func apply(_ newest: View, atMost bytes: UInt64) throws(StoreError) -> UInt64 {
        guard newest.catalog.newestVersion == version else { throw Self.overtaken }
        var taken: UInt64 = 0
        try engine.tracked(newest).forEachTransaction(after: number) { (transaction) throws(StoreError) in
            try apply(transaction, newest)
            assert(transaction.number == number + 1, "J1: a transaction was passed over.")
            number = transaction.number
            taken += transaction.end - transaction.start
            return taken < bytes && !hasManyNodes
        }
        try refuseDuplicates()
        return taken
    }

    /// Removes all old keys first, so that objects may exchange keys. Two passes, for a transaction of any length.
    private func apply(_ transaction: TransactionView, _ newest: View) throws(StoreError) {
        for isInserting in [false, true] {
            try transaction.forEachChange { (change) throws(StoreError) in
                for place in indexes.indices where indexes[place].shape.id.entity == change.object.entityNumber {
                    try apply(change, place, isInserting, newest.core)
                }
                return true
            }
        }
    }

    private func apply(
        _ change: ChangeView, _ place: Int, _ isInserting: Bool, _ core: ReadCore
    ) throws(StoreError) {
        let index = indexes[place].shape
        if index.isOfList { return try applyElements(change, place, isInserting, core) }
        keys.truncate()
        var (hasOld, hasNew, hasAbsent) = (false, false, false)
        if change.kind != .insert, case .row(let offset) = change.previous {
            _ = try appendKey(at: offset, index, core)
            hasOld = true
        }
        let oldBytes = keys.count
        if change.kind != .delete, let row = change.rowOffset {
            hasAbsent = try appendKey(at: change.frameOffset + UInt64(row), index, core)
            hasNew = true
        }
        let old = keys.bytes.slice(0, oldBytes)
        let new = keys.bytes.slice(oldBytes, keys.count - oldBytes)
        if hasOld, hasNew, old.count == new.count, old.elementsEqual(new) { return }
        if hasOld, !isInserting { try indexes[place].content.remove(old, change.object, core.file) }
        guard hasNew, isInserting else { return }
        if index.id.isUnique, !hasAbsent, let other = try indexes[place].content.first(new, core.file),
            other != change.object
        {
            note(duplicate: change.object, of: other, place)
        }
        try indexes[place].content.insert(new, change.object, core.file)
    }

    /// The same for the elements of a list that only one of the rows has.
    private func applyElements(
        _ change: ChangeView, _ place: Int, _ isInserting: Bool, _ core: ReadCore
    ) throws(StoreError) {
        var before: Set<ObjectID> = []
        var after: Set<ObjectID> = []
        if change.kind != .insert, case .row(let offset) = change.previous {
            before = try elements(at: offset, place, core)
        }
        if change.kind != .delete, let row = change.rowOffset {
            after = try elements(at: change.frameOffset + UInt64(row), place, core)
        }
        for element in (isInserting ? after.subtracting(before) : before.subtracting(after)).inOrder() {
            keys.truncate()
            IndexKey.append(element: element, to: &keys)
            if isInserting {
                try indexes[place].content.insert(keys.bytes, change.object, core.file)
            } else {
                try indexes[place].content.remove(keys.bytes, change.object, core.file)
            }
        }
    }

    private func elements(at offset: UInt64, _ place: Int, _ core: ReadCore) throws(StoreError) -> Set<ObjectID> {
        let index = indexes[place].shape
        return Set(
            try index.elements(
                of: try core.row(at: offset, index.id.entity, shape), large: IndexShape.noLargeKeys))
    }

    /// In the read section that reads history.
    private func appendKey(at offset: UInt64, _ index: IndexShape, _ core: ReadCore) throws(StoreError) -> Bool {
        let row = try core.row(at: offset, index.id.entity, shape)
        return try index.appendKey(of: row, to: &keys, large: IndexShape.noLargeKeys)
    }
}
