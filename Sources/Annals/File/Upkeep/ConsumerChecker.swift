// F33: the tag of a consumer is that of the transaction that it has seen.

/// A transaction in a consumer frame.
struct SeenRecord: SortRecord {
    let number: UInt64
    let tag: UInt64
    /// Offset of the consumer frame.
    let source: UInt64

    static func < (left: SeenRecord, right: SeenRecord) -> Bool {
        left.number != right.number ? left.number < right.number : left.source < right.source
    }
}

/// Compares the tags in consumer frames with the transactions in the file.
///
/// Most consumers have seen the last transaction, which is at hand. The rest are noted, and looked up in the end by
/// landmarks; each frame of the file is read once at most.
struct ConsumerChecker {
    private let header: FileHeader
    private let seen: ExternalSorter<SeenRecord>

    init(_ header: FileHeader, _ seen: ExternalSorter<SeenRecord>) { (self.header, self.seen) = (header, seen) }

    /// Checks an accepted frame; `state` is the log's state after it.
    func check(_ frame: FrameView, _ state: LogState, into findings: inout FindingList) throws(StoreError) {
        guard frame.header.kind == .consumer else { return }
        let record = try ConsumerRecord.decode(frame)
        if record.cursor <= header.baseNumber {
            if let tag = header.tag(ofFolded: record.cursor), tag != record.tag { report(frame.offset, &findings) }
        } else if record.cursor == state.lastNumber {
            if record.tag != state.lastTag { report(frame.offset, &findings) }
        } else {
            try seen.append(SeenRecord(number: record.cursor, tag: record.tag, source: frame.offset))
        }
    }

    /// Checks the noted consumers. `first` are the first frames of each MiB.
    func finish(_ window: ByteWindow, _ first: Landmarks, into findings: inout FindingList) throws(StoreError) {
        var cursor = FrameCursor(window, salt: header.salt, at: UInt64(FormatLimits.pageBytes))
        var found: (number: UInt64, tag: UInt64)?
        try seen.drain { record throws(StoreError) in
            if found?.number != record.number {
                // The numbers ascend, so no frame is read twice.
                cursor.position = max(cursor.position, first.last(number: record.number - 1)?.offset ?? 0)
                found = try Self.tag(of: record.number, &cursor).map { (record.number, $0) }
            }
            if found?.tag != record.tag { report(record.source, &findings) }
        }
    }

    /// The tag of a transaction whose commit frame is at the cursor or above it; leaves the cursor there.
    private static func tag(of number: UInt64, _ cursor: inout FrameCursor) throws(StoreError) -> UInt64? {
        while let header = try cursor.header(), header.number <= number {
            if header.kind == .transaction, header.number == number {
                let place = cursor.position + UInt64(FrameField.bytes + TransactionField.tag)
                let bytes = try cursor.window.bytes(at: place, count: 8)
                return bytes.count == 8 ? bytes.integer(at: 0, as: UInt64.self) : nil
            }
            cursor.position += UInt64(header.frameBytes)
        }
        return nil
    }

    private func report(_ offset: UInt64, _ findings: inout FindingList) {
        findings.add("F33", at: offset, "The tag of a consumer does not match the transaction that it has read.")
    }
}
