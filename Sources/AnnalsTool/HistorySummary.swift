// `annals history STORE --summary`: how much each author, entity or hour has changed.

internal import Annals

enum HistorySummary {
    enum Grouping: String, CaseIterable { case author, entity, hour }

    struct Group {
        private(set) var transactions: UInt64 = 0
        private(set) var (inserts, updates, deletes): (UInt64, UInt64, UInt64) = (0, 0, 0)
        private(set) var (first, last): (Int64, Int64) = (.max, .min)
        /// The last transaction that was counted.
        private var counted: UInt64 = 0

        var changes: UInt64 { inserts + updates + deletes }
        var numbers: [UInt64] { [transactions, changes, inserts, updates, deletes] }

        /// Counts a change, or with nil only the transaction.
        mutating func count(_ kind: HistoryChange.Kind?, in number: UInt64, at time: Int64) {
            if counted != number || transactions == 0 { transactions += 1 }
            switch kind {
            case .insert: inserts += 1
            case .update: updates += 1
            case .delete: deletes += 1
            case nil: break
            }
            (first, last, counted) = (min(first, time), max(last, time), number)
        }
    }

    /// The columns after the name of a group.
    static let columns = ["transactions", "changes", "inserts", "updates", "deletes", "first", "last"]

    struct Groups {
        private var indices: [IdentifierName: Int] = [:]
        private(set) var names: [String] = []
        var groups: [Group] = []

        mutating func index(of name: String) -> Int {
            if let index = indices[IdentifierName(name)] { return index }
            indices[IdentifierName(name)] = names.count
            names.append(name)
            groups.append(Group())
            return names.count - 1
        }

        /// Indices, with the most changes first.
        var sorted: [Int] { names.indices.sorted { (groups[$1].changes, names[$0]) < (groups[$0].changes, names[$1]) } }
    }

    /// Takes the memory of the groups.
    static func print(_ request: HistoryRequest, by grouping: Grouping, of store: Store, _ output: Output) throws {
        var groups = Groups()
        try store.forEachTransaction(request) { (transaction) throws(StoreError) in
            let (number, time) = (transaction.number, transaction.microseconds)
            func count(_ kind: HistoryChange.Kind?, in name: String) {
                let index = groups.index(of: name)
                groups.groups[index].count(kind, in: number, at: time)
            }
            let whole: String? =
                switch grouping {
                case .author: transaction.author ?? ""
                case .hour: String(Timestamp.local(time).prefix(13)) + ":00"
                case .entity: nil
                }
            if let whole { count(nil, in: whole) }
            try transaction.forEachChange { (change) throws(StoreError) in
                count(change.kind, in: whole ?? change.entity ?? "?")
                return true
            }
            return true
        }
        let names = groups.names
        let sorted = grouping == .hour ? names.indices.sorted { names[$0] < names[$1] } : groups.sorted
        var table = Table(output, [grouping.rawValue] + columns.dropLast(2).map { "#" + $0 } + columns.suffix(2))
        for index in sorted {
            let (name, group) = (names[index], groups.groups[index])
            if output.isJSON {
                let times = [group.first, group.last].map { Timestamp.text($0) }
                let values: [any JSONPart] = [name] + group.numbers + times
                output.data(JSONLine(Array(zip([grouping.rawValue] + columns, values))))
            } else {
                table.add(
                    [name.isEmpty ? "-" : name] + group.numbers.map { String(grouped: $0) }
                        + [group.first, group.last].map(Timestamp.local))
            }
        }
        table.show()
    }
}
