// Inserting a deleted object again, under its ID. This is how a deletion is undone.

extension Draft {
    /// Inserts a deleted object under its own ID. Throws `invalidArgument` if it exists or never existed.
    ///
    /// - Parameters:
    ///   - known: The positions that `set` sets; nil for all. The other attributes keep their deleted values. A
    ///     reference among them that leads to no object after the body becomes null.
    ///   - kept: The deleted values, by attribute, for a file that no longer has them. Without them, defaults are used.
    ///   - set: Sets attributes, in the order of their positions.
    package func insertAgain(
        _ object: ObjectID, setting known: Set<Int>? = nil, kept: [UInt16: StoredValue] = [:],
        _ set: (inout RowWriter) throws(StoreError) -> Void
    ) throws(StoreError) {
        let layout = try layout(object.entityNumber)
        let newest = try base.core.reading { () throws(StoreError) in
            try base.core.newestVersion(object, below: base.end)
        }
        // Compaction forgets deleted objects, but not that their numbers were used.
        let isForgotten = newest == 0 && object.number < base.nextNumber(of: object.entityNumber)
        guard isForgotten || newest & 1 == 1, !isChangedHere(object), !reserved.contains(object.rawValue) else {
            throw StoreError(.invalidArgument, "Only a deleted object can be inserted again.")
        }
        let previous = isForgotten ? nil : PreviousVersion(rawValue: newest)
        try withKeptRow(object, layout, keeps: known.map { $0.count < layout.count } ?? false, kept) {
            (old) throws(StoreError) in
            try frames.write(.init(.insert, object, previous: previous), layout, old: old, .objectAgain, set)
            guard old != nil, let known else { return }
            let references = layout.slots.indices.filter { layout.slots[$0].type.isReference && !known.contains($0) }
            if !references.isEmpty { carried[object] = references }
        }
        changed.insert(object.rawValue)
        didWrite(object)
    }

    /// Lends a row with the object's deleted values; nil if none are kept.
    private func withKeptRow(
        _ object: ObjectID, _ layout: RowLayout, keeps: Bool, _ kept: [UInt16: StoredValue],
        _ body: (RowImage?) throws(StoreError) -> Void
    ) throws(StoreError) {
        guard keeps else { return try body(nil) }
        if try base.withDeletedRow(object, body) { return }
        if kept.isEmpty { return try body(nil) }
        let values = try frames.moveOutLargeValues(
            layout.entity.attributes.map { kept[$0.number] ?? $0.valueBeforeItExisted }, of: layout.entity)
        var bytes = ByteWriter(capacity: 256)
        withUnsafeMutablePointer(to: &bytes) { bytes in
            var row = RowWriter(layout, bytes, frames, distance: 0, old: nil, .deletion)
            for (position, value) in values.enumerated() { row.store(value, at: position) }
            row.finish()
        }
        try body(try RowImage(bytes.bytes, layout: layout))
    }

    /// Removes references to missing objects from objects that were inserted again. Called once, after the body. Throws
    /// `requiredMissing`.
    func settleCarried() throws(StoreError) {
        let carried = carried
        self.carried = [:]
        for object in carried.keys.inOrder() {
            guard let positions = carried[object], let layout = newestLayout(object.entityNumber) else { continue }
            var changes: [(position: Int, value: StoredValue)] = []
            _ = try withRow(object) { (row) throws(StoreError) in
                for position in positions {
                    let value = try value(row, at: position)
                    let left = try withoutMissing(value)
                    guard left != value else { continue }
                    if left != .absent || layout.slots[position].isOptional {
                        changes.append((position, left))
                    } else {
                        try refuse(Self.required(position, layout, of: object))
                    }
                }
            }
            if !changes.isEmpty { try update(object, changes) }
        }
    }
}

extension View {
    /// Lends the row removed by the newest deletion of an object. False if the object exists, or the file no longer has
    /// the row.
    func withDeletedRow(
        _ object: ObjectID, _ body: (RowImage) throws(StoreError) -> Void
    ) throws(StoreError) -> Bool {
        try core.reading { () throws(StoreError) in
            guard shape.has(object.entityNumber), let row = try core.deletedRow(object, below: end, shape) else {
                return false
            }
            try body(row)
            return true
        }
    }

    /// The values that the newest deletion of an object deleted, one for each attribute of a layout; nil if the file no
    /// longer has them. Long values are references to them.
    func valuesOfDeleted(_ object: ObjectID, _ layout: RowLayout) throws(StoreError) -> [StoredValue]? {
        var values: [StoredValue] = []
        let isFound = try withDeletedRow(object) { (row) throws(StoreError) in
            for attribute in layout.entity.attributes {
                if let place = row.layout.position(ofAttribute: attribute.number) {
                    values.append(try row.value(at: place))
                } else {
                    values.append(attribute.valueBeforeItExisted)
                }
            }
        }
        return isFound ? values : nil
    }
}

extension ReadCore {
    /// The row removed by an object's newest deletion; nil if the object exists, or the file no longer has it. Inside a
    /// read section.
    func deletedRow(_ object: ObjectID, below end: UInt64, _ shape: StoreShape) throws(StoreError) -> RowImage? {
        let newest = try newestVersion(object, below: end)
        guard newest & 1 == 1, let previous = try previousVersion(entry: newest & ~1, object),
            case .row(let offset) = PreviousVersion(rawValue: previous)
        else { return nil }
        return try row(at: offset, object.entityNumber, shape)
    }
}
