// F23: every reference leads to an existing large value; and F22: the value has the form that the attribute requires.

/// A large value, or a reference to one.
struct ValueRecord: SortRecord {
    /// Offset of the value's first frame, with bit 0 for a reference.
    private var place: UInt64
    private var valueBytes: UInt64
    private var checksum: UInt64
    /// The number of its transaction.
    var number: UInt64
    /// For a reference: the offset of its row.
    var row: UInt64
    /// The forms that the value has, or those that the reference requires.
    private var forms: ValueForms

    init(definedAt offset: UInt64, valueBytes: UInt64, checksum: UInt64, number: UInt64, forms: ValueForms) {
        place = offset
        (self.valueBytes, self.checksum, self.number) = (valueBytes, checksum, number)
        row = 0
        self.forms = forms
    }

    init(use reference: LargeValueReference, type: AttributeType, row: UInt64, number: UInt64) {
        place = reference.offset | 1
        valueBytes = reference.valueBytes
        checksum = reference.checksum
        self.number = number
        self.row = row
        forms = .needed(for: type)
    }

    private var isUse: Bool { place & 1 == 1 }

    static func < (left: ValueRecord, right: ValueRecord) -> Bool {
        left.place != right.place ? left.place < right.place : left.row < right.row
    }

    /// Checks sorted values and references, ignoring transactions after `lastNumber`, which do not count (CF2).
    static func check(
        _ values: ExternalSorter<ValueRecord>, lastNumber: UInt64, into findings: inout FindingList
    ) throws(StoreError) {
        var value: ValueRecord?
        try values.drain { record throws(StoreError) in
            guard record.number <= lastNumber else { return }
            guard record.isUse else {
                value = record
                return
            }
            if let (rule, sentence) = record.fault(of: value) { findings.add(rule, at: record.row, sentence) }
        }
    }

    private func fault(of value: ValueRecord?) -> (rule: String, sentence: String)? {
        guard let value, value.place | 1 == place else {
            return ("F23", "A reference points to an offset where no large value begins.")
        }
        guard value.valueBytes == valueBytes, value.checksum == checksum else {
            return ("F23", "A reference has a wrong size or checksum for its large value.")
        }
        guard value.number <= number else {
            return ("F23", "A reference points to a large value of a later transaction.")
        }
        guard value.place < row else { return ("F23", "A reference precedes its large value.") }
        return forms.isSubset(of: value.forms)
            ? nil : ("F22", "A large value does not have the type of an attribute that refers to it.")
    }
}
