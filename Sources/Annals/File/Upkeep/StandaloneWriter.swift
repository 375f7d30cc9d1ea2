// Metadata, marks, consumers and schemas of a compacted file.

/// Appends standalone frames to a file that compaction makes.
struct StandaloneWriter {
    private let target: Engine
    private var records: [UInt8] = []
    private static let maximumTableBytes = 1 << 15

    init(_ target: Engine) { self.target = target }

    /// Adds a record to a metadata frame.
    mutating func add(_ record: MetadataRecord, _ appender: Appender) throws(StoreError) {
        if records.count >= Self.maximumTableBytes { try finish(appender) }
        record.append(to: &records)
        if case .objectNumbers(let entity, let next) = record { target.indexes.raise(nextNumber: next, of: entity) }
    }

    mutating func finish(_ appender: Appender) throws(StoreError) {
        if records.isEmpty { return }
        try append(.metadata, records, appender)
        records = []
    }

    func append(_ kind: FrameKind, _ table: [UInt8], _ appender: Appender) throws(StoreError) {
        assert(table.count % 8 == 0, "A table is not padded.")
        let offset = appender.state.end
        var frame = ByteWriter(capacity: FrameField.bytes + table.count)
        frame.appendZeros(FrameField.bytes)
        frame.append(table)
        let header = try appender.append(
            copied: frame.mutableBytes(0..<frame.count), kind: kind, isMember: false, tableBytes: table.count)
        target.indexes.note(header, at: offset)
    }
}
