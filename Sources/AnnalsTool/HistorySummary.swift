// `annals history STORE --summary`: how much each author, entity or hour has changed.

internal import Annals

enum HistorySummary {
    enum Grouping: String, CaseIterable {
        case author, entity, hour
    }

    /// The transactions and changes of an author, entity or hour.
    struct Group {
        private(set) var transactions: UInt64 = 0
        private(set) var (inserts, updates, deletes): (UInt64, UInt64, UInt64) = (0, 0, 0)
        private(set) var (first, last): (Int64, Int64) = (.max, .min)
        /// The last transaction that was counted.
        private var counted: UInt64 = 0

        var changes: UInt64 { inserts + updates + deletes }

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

    /// Takes the memory of the groups.
    static func print(
        _ request: HistoryRequest, by grouping: Grouping, of store: Store, isJSON: Bool, _ output: inout Output
    ) throws {
        var groups: [ExactText: Group] = [:]
        try store.forEachTransaction(request) { (transaction) throws(StoreError) in
            let (number, time) = (transaction.number, transaction.microseconds)
            func count(_ kind: HistoryChange.Kind?, in name: String) {
                groups[ExactText(name), default: Group()].count(kind, in: number, at: time)
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
        let isByTime = grouping == .hour
        let sorted = groups.sorted { a, b in
            isByTime ? a.key.text < b.key.text : (b.value.changes, a.key.text) < (a.value.changes, b.key.text)
        }
        var table = Table([
            grouping.rawValue, "#transactions", "#changes", "#inserts", "#updates", "#deletes", "first", "last",
        ])
        for (key, group) in sorted {
            let name = key.text
            let kinds = [group.inserts, group.updates, group.deletes]
            if isJSON {
                var line = JSONLine()
                line.add(grouping.rawValue, name)
                line.add("transactions", group.transactions)
                line.add("changes", group.changes)
                for (title, count) in zip(["inserts", "updates", "deletes"], kinds) { line.add(title, count) }
                line.add("first", Timestamp.text(group.first))
                line.add("last", Timestamp.text(group.last))
                try output.line(line.text)
            } else {
                let numbers = ([group.transactions, group.changes] + kinds).map { String(grouped: $0) }
                try table.add(
                    [name.isEmpty ? "-" : name] + numbers + [group.first, group.last].map(Timestamp.local), &output)
            }
        }
        try table.show(&output)
    }
}
