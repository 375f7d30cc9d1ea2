// `annals history STORE --summary`: how much each author, entity or hour has changed.

internal import Annals

enum HistorySummary {
    enum Grouping: String, CaseIterable {
        case author, entity, hour
    }

    private struct Group {
        var transactions: UInt64 = 0
        var counts: [HistoryChange.Kind: UInt64] = [:]
        var (first, last): (Int64, Int64) = (.max, .min)
        /// The last transaction that was counted.
        var counted: UInt64 = 0
    }

    /// Takes the memory of the groups.
    static func print(
        _ request: HistoryRequest, by grouping: Grouping, of store: Store, isJSON: Bool, _ output: inout Output
    ) throws {
        var groups: [ExactText: Group] = [:]
        try store.forEachTransaction(request) { (transaction) throws(StoreError) in
            let (number, time) = (transaction.number, transaction.microseconds)
            func count(_ kind: HistoryChange.Kind?, in name: String) {
                var group = groups[ExactText(name)] ?? Group()
                if group.counted != number || group.transactions == 0 { group.transactions += 1 }
                if let kind { group.counts[kind, default: 0] += 1 }
                (group.first, group.last) = (min(group.first, time), max(group.last, time))
                group.counted = number
                groups[ExactText(name)] = group
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
            isByTime ? a.key.text < b.key.text : (changes(b.value), a.key.text) < (changes(a.value), b.key.text)
        }
        var table = Table([
            grouping.rawValue, "#transactions", "#changes", "#inserts", "#updates", "#deletes", "first", "last",
        ])
        for (key, group) in sorted {
            let name = key.text
            let kinds = [HistoryChange.Kind.insert, .update, .delete].map { group.counts[$0] ?? 0 }
            if isJSON {
                var line = JSONLine()
                line.add(grouping.rawValue, name)
                line.add("transactions", group.transactions)
                line.add("changes", changes(group))
                for (title, count) in zip(["inserts", "updates", "deletes"], kinds) { line.add(title, count) }
                line.add("first", Timestamp.text(group.first))
                line.add("last", Timestamp.text(group.last))
                try output.line(line.text)
            } else {
                let numbers = ([group.transactions, changes(group)] + kinds).map { String(grouped: $0) }
                try table.add(
                    [name.isEmpty ? "-" : name] + numbers + [group.first, group.last].map(Timestamp.local), &output)
            }
        }
        try table.show(&output)
    }

    private static func changes(_ group: Group) -> UInt64 { group.counts.values.reduce(0, +) }
}
