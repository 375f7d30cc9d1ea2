// Changing what a transaction has written already, or not yet, when its body has ended.

extension PendingTransaction {
    /// Sets attributes of objects that exist, whatever the transaction has done to them.
    package func amend(_ amendments: [ObjectID: [(position: Int, value: StoredValue)]]) throws(StoreError) {
        if amendments.isEmpty { return }
        // In an order that does not depend on the process.
        let objects = amendments.keys.sorted()
        let own = objects.filter { isChangedHere($0) }
        let others = objects.filter { !isChangedHere($0) }
        // Folding a change into an earlier one takes as long as its frame is, which must not be complete.
        if builder.isOneFrame, own.count <= Self.maximumFolded {
            for object in own { try update(object, amendments[object, default: []]) }
        } else if !own.isEmpty {
            try rewrite(deleting: []) { (object, _, _) in amendments[object, default: []] }
        }
        for object in others { try update(object, amendments[object, default: []]) }
    }

    private static let maximumFolded = 16

    /// Writes the transaction anew: each change as it is, with the values that `amended` gives, and without the objects
    /// of `gone`. Linear in its size.
    func rewrite(
        deleting gone: Set<ObjectID>,
        _ amended: (ObjectID, RowImage, RowLayout) throws(StoreError) -> [(position: Int, value: StoredValue)]
    ) throws(StoreError) {
        let old = builder
        let new = try old.successor()
        try old.forEachEntry(withRows: true) { (change, bytes) throws(StoreError) in
            let object = change.object
            let layout = try layout(object.entityNumber)
            let row = try bytes.map { (bytes) throws(StoreError) in try RowImage(bytes, layout: layout) }
            if gone.contains(object) {
                try delete(change, row, layout, in: new)
                return true
            }
            var values = try row.map { (row) throws(StoreError) in try old.values(of: row, for: new) }
            var amendedPositions: [Int] = []
            if change.kind != .delete, let row {
                for (position, value) in try amended(object, row, layout) {
                    values?[position] = value
                    amendedPositions.append(position)
                }
            }
            switch change.kind {
            case .insert, .base: try new.insert(object, values ?? [], afterDeletion: change.previous)
            case .update:
                guard let previous = change.previous else { return true }
                let positions = layout.slots.indices.filter { change.contains(attributePosition: $0) }
                try new.update(object, values ?? [], positions: positions + amendedPositions, previous: previous)
            case .delete:
                guard let previous = change.previous else { return true }
                try new.delete(object, preserved: values, previous: previous)
            }
            return true
        }
        old.exchangeContent(with: new)
    }

    /// What is deleted now and was inserted or updated before.
    private func delete(
        _ change: ChangeView, _ row: RowImage?, _ layout: RowLayout, in new: TransactionBuilder
    ) throws(StoreError) {
        // One that was inserted here never existed. One that had been deleted before stays deleted.
        guard change.kind == .update, let previous = change.previous, let row else {
            return noteVanished(change.object)
        }
        let preserved = try preserved(layout) { row }
        try new.delete(change.object, preserved: preserved, previous: previous)
    }
}
