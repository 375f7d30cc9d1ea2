// F3, F10 and F26: the offsets in marks, hints and seals must be the end of a group, or a checkpoint.

/// An offset at which something is, or to which something refers.
struct OffsetRecord: SortRecord {
    enum Role: UInt64 {
        case groupEnd = 0
        case checkpoint = 1
        // References to one of these follow.
        case durableMark = 2
        case sealCheckpoint = 3
        case hintEnd = 4
        case hintCheckpoint = 5
    }

    /// The offset, with the role in its free bits.
    private var key: UInt64
    /// The source of a reference: the offset of a frame or a hint slot.
    private var source: UInt64

    init(_ role: Role, _ place: UInt64, source: UInt64) {
        key = place & ~7 | role.rawValue
        self.source = source
    }

    private var place: UInt64 { key & ~7 }
    private var role: Role { Role(rawValue: key & 7) ?? .groupEnd }

    static func < (left: OffsetRecord, right: OffsetRecord) -> Bool {
        left.key != right.key ? left.key < right.key : left.source < right.source
    }

    /// Checks sorted offsets: for each, first the item there, then the references to it.
    static func check(_ places: ExternalSorter<OffsetRecord>, into findings: inout FindingList) throws(StoreError) {
        var groupEnd: UInt64?
        var checkpoint: UInt64?
        try places.drain { record throws(StoreError) in
            switch record.role {
            case .groupEnd: groupEnd = record.place
            case .checkpoint: checkpoint = record.place
            case .durableMark, .hintEnd:
                if groupEnd != record.place { record.report(into: &findings) }
            case .sealCheckpoint, .hintCheckpoint:
                if checkpoint != record.place { record.report(into: &findings) }
            }
        }
    }

    func report(into findings: inout FindingList) {
        switch role {
        case .groupEnd, .checkpoint: break
        case .durableMark: findings.add("F10", at: source, "A durable mark is not the end of a group.")
        case .sealCheckpoint: findings.add("F26", at: source, "A seal refers to a missing checkpoint.")
        case .hintEnd: findings.add("F3", at: source, "The durable end of a hint is not the end of a group.")
        case .hintCheckpoint: findings.add("F3", at: source, "A hint refers to a missing checkpoint.")
        }
    }
}
