// The page of a report: a summary in words, and for each question a heading that answers it, a picture and a table.

internal import Annals

struct ReportPage {
    static let beginning = "<!DOCTYPE html>\n<!-- A report of annals. -->"
    private static let shownObjects = 15
    private let facts: ReportFacts
    private let shownAuthors: [Int]
    private var state: StoreFacts { facts.state }
    private var statistics: StoreStatistics { facts.state.statistics }

    init(_ facts: ReportFacts) {
        self.facts = facts
        shownAuthors = Array(facts.authors.sorted.prefix(7))
    }

    var html: HTML {
        let name = Terminal.cut(state.path.split(separator: "/").last.map(String.init) ?? state.path, to: 60)
        return """
            \(HTML(stringLiteral: Self.beginning))
            <html lang="en"><head><meta charset="utf-8"/><title>\(name): report</title>
            <meta name="viewport" content="width=device-width, initial-scale=1"/>
            <style>\(Self.style)</style></head><body><main>
            <header><h1>\(name)</h1>\(summary)</header>
            \(space)\(time)\(sizes)\(most)\(consumers)\(cleaning)\(growth)\(content)
            <footer><p>Made by “annals report” at \(Timestamp.local(facts.made)). Times are local. Long names are
            cut.</p></footer></main></body></html>

            """
    }

    private func section(_ heading: String, _ parts: HTML...) -> HTML {
        "<section><h2>\(Terminal.cut(heading, to: 120))</h2>\n\(parts)</section>\n"
    }

    private func count(_ number: UInt64, _ noun: String, _ plural: String? = nil) -> String {
        ReportNumber.count(number, noun, plural)
    }

    private func bytes(_ number: UInt64) -> String { ReportNumber.bytes(Double(number)) }

    // MARK: In words

    private var summary: HTML {
        let objects = count(statistics.objects.values.reduce(0, +), "object")
        let entities = count(UInt64(state.entities.count), "entity", "entities")
        let since = facts.since.map { "Of history, only transactions after \(String(grouped: $0)) are shown. " } ?? ""
        let steady = facts.isSteady ? "" : " Programs are writing: sizes, consumers and cleaning are a moment newer."
        return """
            <p class="lead">\(objects) of \(entities) in \(bytes(statistics.fileBytes)), as of transaction
            \(String(grouped: state.token.number)). \(period)</p>
            <p class="lead"><strong>\(advice)</strong></p>
            <p>\(since + (facts.note ?? "") + steady)</p>

            """
    }

    private var period: String {
        guard facts.transactions > 0 else { return "There is no history to show." }
        let length = ReportNumber.duration(microseconds: Double(facts.latest) - Double(facts.earliest))
        return "History: \(count(facts.transactions, "transaction")) with \(count(facts.changes, "change")) by "
            + "\(count(UInt64(facts.authors.names.count), "author")), from \(Timestamp.local(facts.earliest)) to "
            + "\(Timestamp.local(facts.latest)) (\(length))."
    }

    private var advice: String {
        if let lost { return "Cleaning has passed consumer “\(cut(lost))”: it must read everything again." }
        if let daysLeft, daysLeft < 30 {
            return "The disk is full in about \(days(daysLeft)) at this rate: free space."
        }
        if let slowest, slowest.consumer.lag >= 1000 || (waiting(slowest) ?? 0) > 86_400e6 {
            let lag = count(slowest.consumer.lag, "transaction")
            return slowest.consumer.isOwn
                ? "The search indexes hold up \(lag): “annals search-index --update” brings them up to date."
                : "Consumer “\(cut(slowest))” holds up \(lag): let it read, or remove it."
        }
        if InfoCommand.isCompactionDue(statistics) {
            return "Compaction is due: “annals compact” frees about \(bytes(statistics.space.garbageBytes))."
        }
        if facts.plan.regainedBytes > max(10_000_000, statistics.endBytes / 2) {
            return "“annals clean” and “annals compact” free about \(bytes(facts.plan.regainedBytes))."
        }
        return "Nothing needs to be done."
    }

    // MARK: Space

    private var space: HTML {
        let space = statistics.space
        let parts = [
            ("live rows", space.liveBytes), ("history", space.historyBytes), ("indexes", space.indexBytes),
            ("garbage", space.garbageBytes), ("reserved", space.freeBytes),
        ]
        let table = ReportTable(id: "space", columns: ["use", "bytes"], rows: parts.map { [$0.0, $0.1] })
        let total = parts.reduce(0) { $0 + $1.1 }
        func share(_ bytes: UInt64) -> String { ReportNumber.share(bytes, of: total) }
        let most = parts.max { $0.1 < $1.1 } ?? parts[0]
        let kinds = InfoCommand.kinds(statistics)
        let frames = ReportTable(id: "frames", columns: ["kind of frame", "bytes"], rows: kinds.map { [$0, $1] })
        return section(
            "Space: \(share(most.1)) of the file is \(most.0)",
            Picture.figure(
                "The file by use", Picture.share(table), table,
                legend: parts.map { "\($0.0) \(bytes($0.1)) (\(share($0.1)))" },
                note: """
                    The \(bytes(statistics.fileBytes)) of the file by use. All but “reserved” are estimates. History is
                    changes, and rows that newer ones have replaced. Compaction frees the garbage.
                    """), "<details><summary>The file by kinds of frames</summary>\(frames.html)</details>")
    }

    // MARK: Authors over time

    private func name(_ author: Int) -> String {
        let name = facts.authors.names[author]
        return name.isEmpty ? "no author" : Terminal.cut(name, to: 30)
    }

    private var time: HTML {
        guard let first = shownAuthors.first else { return section("Authors: there is no history") }
        let share = ReportNumber.share(facts.authors.groups[first].changes, of: facts.changes)
        let isAlone = facts.authors.names.count == 1
        return section(
            "Authors: "
                + (isAlone ? "all changes are by \(name(first))" : "\(name(first)) made \(share) of the changes"),
            overTime("Changes") { $0.changes }, overTime("Transactions") { $0.transactions },
            groups("authors", "author", facts.authors))
    }

    /// A picture of one measure: a column for each period, with a part for each author.
    private func overTime(_ title: String, _ measure: (Timeline.Amount) -> UInt64) -> HTML {
        let (unit, periods) = (facts.timeline.unitName, facts.timeline.periods)
        let rest = facts.authors.names.indices.filter { !shownAuthors.contains($0) }
        let parts = shownAuthors.map { [$0] } + (rest.isEmpty ? [] : [rest])
        let names = shownAuthors.map(name) + (rest.isEmpty ? [] : [count(UInt64(rest.count), "other author")])
        let sums = periods.map { period in parts.map { $0.reduce(0) { $0 + (period.amounts[$1].map(measure) ?? 0) } } }
        let rows = zip(periods, sums).map { (period, sums) -> [any ReportCell] in [period.label] + sums }
        let table = ReportTable(id: title.lowercased() + "-over-time", columns: ["from"] + names, rows: rows)
        return Picture.figure(
            "\(title) per \(unit), by author", Picture.columns(table, ReportNumber.short), table,
            legend: names.enumerated().map { (part, name) in
                "\(name): " + String(grouped: sums.reduce(0) { $0 + $1[part] })
            })
    }

    private func groups(_ id: String, _ title: String, _ groups: HistorySummary.Groups) -> HTML {
        let columns = [title] + HistorySummary.columns
        let rows = groups.sorted.map { index -> [any ReportCell] in
            let (name, group) = (groups.names[index], groups.groups[index])
            return [name.isEmpty ? "-" : name] + group.numbers + [group.first, group.last].map(Timestamp.local)
        }
        return ReportTable(id: id, columns: columns, rows: rows).html
    }

    // MARK: Sizes and gaps

    private var sizes: HTML {
        guard let usual = facts.sizes.rows.max(by: { $0.count < $1.count }) else { return "" }
        let largest = String(grouped: UInt64(facts.sizes.largest))
        return section(
            "Sizes: most often \(usual.label) \(usual.label == "1" ? "change" : "changes") in a transaction, at most "
                + largest, histogram("sizes", "changes", facts.sizes, "Transactions by their number of changes"),
            facts.transactions < 2
                ? "" : histogram("gaps", "time", facts.gaps, "Transactions by the time since the one before"))
    }

    private func histogram(_ id: String, _ column: String, _ histogram: Histogram, _ title: String) -> HTML {
        let rows = histogram.rows
        let table = ReportTable(id: id, columns: [column, "transactions"], rows: rows.map { [$0, $1] })
        let total = rows.reduce(0) { $0 + $1.count }
        let picture = Picture.bars(table, color: 5, isLong: false) { (_, number) in
            "\(String(grouped: number)) (\(ReportNumber.share(number, of: total)))"
        }
        return Picture.figure(title, picture, table)
    }

    // MARK: Objects and attributes

    private var most: HTML {
        guard facts.changes > 0 else { return "" }
        let (objects, excess) = (facts.objects.most(Self.shownObjects), facts.objects.excess)
        let atMost = excess > 0 ? "at most " : ""
        let labels = try? Labels(state.snapshot)
        let names = objects.map { label($0.object, labels) }
        let most = objects.first.map { counter in
            Terminal.cut(names[0], to: 80) + ", \(atMost)" + count(counter.count + excess, "time")
        }
        let table = ReportTable(
            id: "objects", columns: ["object", "changes", "at least"],
            rows: zip(names, objects).map { [$0, $1.count + excess, $1.count] })
        let picture = Picture.bars(table, color: 1) { atMost + String(grouped: $1) }
        let bound: HTML =
            excess == 0
            ? "All objects were counted exactly."
            : """
            There are more objects than the report's \(FrequentObjects.capacity) counters. So each count is an upper
            bound, and may be too high by \(String(grouped: excess)).
            """
        return section(
            "Most changed: " + (most ?? "no object more than once"),
            objects.isEmpty
                ? "<p>No object has certainly changed more than once. \(bound)</p>"
                : Picture.figure("Objects by their number of changes", picture, table, note: bound), attributes)
    }

    private func label(_ object: ObjectID, _ labels: Labels?) -> String {
        let isThere = (try? state.snapshot.withRow(object) { (_) throws(StoreError) in }) ?? false
        return "\(facts.entityName(object)) \(labels?.text(object) ?? object.description)"
            + (isThere ? "" : ", deleted")
    }

    private var attributes: HTML {
        let all = facts.updates.flatMap { (entity, counts) in
            counts.map { (name: "\(facts.entities.names[entity]).\($0.key.text)", count: $0.value) }
        }
        let most = all.sorted { ($1.count, $0.name) < ($0.count, $1.name) }.prefix(Self.shownObjects)
        let rows = most.map { [$0.name, $0.count] as [any ReportCell] }
        let table = ReportTable(id: "attributes", columns: ["attribute", "updates"], rows: rows)
        guard !rows.isEmpty else { return "<p>No object was updated.</p>" }
        let picture = Picture.bars(table, color: 3) { String(grouped: $1) }
        return Picture.figure("Attributes by their number of updates", picture, table, note: "These counts are exact.")
    }

    // MARK: Consumers

    private var lost: ReportFacts.Reader? { facts.readers.first(where: \.consumer.isLost) }

    private var slowest: ReportFacts.Reader? {
        facts.readers.filter { $0.unreadSince != nil }.max { $0.consumer.lag < $1.consumer.lag }
    }

    private func cut(_ reader: ReportFacts.Reader) -> String { Terminal.cut(reader.consumer.name, to: 40) }

    /// Microseconds since the first transaction that it has not read.
    private func waiting(_ reader: ReportFacts.Reader) -> Double? {
        reader.unreadSince.map { max(0, Double(facts.made) - Double($0)) }
    }

    private var consumers: HTML {
        guard !facts.readers.isEmpty else { return section("Consumers: none, so cleaning waits for no reader") }
        let columns = ["consumer", "behind", "kind", "place", "unread since", "holds up bytes, about", "last seen"]
        let sorted = facts.readers.sorted { $0.consumer.lag > $1.consumer.lag }
        let rows = sorted.map { reader -> [any ReportCell] in
            let consumer = reader.consumer
            return [
                consumer.name, consumer.lag, ConsumersCommand.kinds(consumer).joined(separator: ", "),
                consumer.cursor.number, consumer.isLost ? "lost" : reader.unreadSince.map(Timestamp.local) ?? "-",
                reader.heldBytes, Timestamp.local(consumer.lastSeen),
            ]
        }
        let table = ReportTable(id: "consumers", columns: columns, rows: rows)
        let picture = Picture.bars(table, color: 2) { (row, lag) in
            let wait = waiting(sorted[row]).map { " (\(ReportNumber.duration(microseconds: $0)))" } ?? ""
            let consumer = sorted[row].consumer
            guard consumer.kind.contains(.reads) else { return "does not read" }
            return String(grouped: lag) + (consumer.isLost ? ", lost" : wait)
        }
        let heading =
            lost.map { "“\(cut($0))” is lost" }
            ?? slowest.map { "“\(cut($0))” holds up \(count($0.consumer.lag, "transaction"))" }
        return section(
            "Consumers: " + (heading ?? "no reader holds up cleaning"),
            Picture.figure(
                "Transactions that a consumer has not read, and since when", picture, table,
                note: """
                    Cleaning waits for readers, as long as retention allows: history is kept for
                    \(RetentionCommand.text(state.retention)). The bytes are those that cleaning and compaction would
                    free more if the consumer had read everything.
                    """))
    }

    // MARK: Cleaning

    private var cleaning: HTML {
        let (plan, whole) = (facts.plan, facts.wholePlan)
        let rows: [[any ReportCell]] = [
            ["“annals compact” alone", statistics.space.garbageBytes, 0 as UInt64],
            ["“annals clean”, then compact", plan.regainedBytes, plan.transactions],
            ["cleaning all history, then compact", whole.regainedBytes, whole.transactions],
        ]
        let columns = ["commands", "frees bytes, about", "removes transactions"]
        let table = ReportTable(id: "cleaning", columns: columns, rows: rows)
        let picture = Picture.bars(table, color: 6) { (_, number) in
            "\(bytes(number)) (\(ReportNumber.share(number, of: statistics.endBytes)))"
        }
        return section(
            "Cleaning: it frees about \(bytes(plan.regainedBytes)), with all history \(bytes(whole.regainedBytes))",
            Picture.figure(
                "Bytes that are freed", picture, table,
                note: """
                    Estimates, and their share of the file. “annals clean” removes
                    \(count(plan.transactions, "transaction")): what all consumers have read, and what retention does
                    not keep.
                    """))
    }

    // MARK: Growth

    /// Bytes a day; nil if history covers less than an hour, or the file did not grow.
    private var growthRate: Double? {
        guard let first = facts.first, let last = facts.last, last.fileEnd > first.fileEnd else { return nil }
        let microseconds = Double(last.time) - Double(first.time)
        return microseconds < 3600e6 ? nil : Double(last.fileEnd - first.fileEnd) / microseconds * 86_400e6
    }

    private var daysLeft: Double? {
        guard let growthRate, let left = facts.diskBytes else { return nil }
        return Double(left) / growthRate
    }

    private func days(_ count: Double) -> String {
        count > 36_525 ? "over 100 years" : ReportNumber.duration(microseconds: count * 86_400e6)
    }

    private var growth: HTML {
        let (unit, periods) = (facts.timeline.unitName, facts.timeline.periods)
        guard facts.transactions > 0 else { return "" }
        var end: UInt64 = 0
        let rows = periods.map { period -> [any ReportCell] in
            end = max(end, period.fileEnd)
            return [period.label, end]
        }
        let table = ReportTable(id: "growth", columns: ["from", "file's end in bytes"], rows: rows)
        let rate = growthRate.map { "about \(ReportNumber.bytes($0)) a day" }
        let full = daysLeft.map { "; the disk is full in \(days($0))" } ?? ""
        return section(
            "Growth: " + (rate.map { $0 + full } ?? "unknown, because history covers too little time"),
            Picture.figure(
                "The end of the file after each \(unit)", Picture.columns(table, ReportNumber.bytes), table,
                note: """
                    The rate is the distance in the file from the first
                    transaction to the last, divided by the time between them. Cleaning and compaction make the file
                    smaller. The disk has \(facts.diskBytes.map(bytes) ?? "an unknown number of bytes") left.
                    """))
    }

    // MARK: Contents

    private var content: HTML {
        let table = ReportTable(
            id: "contents", columns: ["entity", "objects", "history"],
            rows: state.entities.map { [$0.name, statistics.objects[$0.name] ?? 0, $0.history.rawValue] })
        let facts = [
            ("transactions in the file", statistics.transactions), ("last transaction", state.token.number),
            ("history begins after", state.horizon), ("bytes of the file", statistics.fileBytes),
            ("end of its content", statistics.endBytes),
        ]
        let store = ReportTable(id: "store", columns: ["fact", "value"], rows: facts.map { [$0, $1] })
        return section(
            "Contents: \(count(UInt64(state.entities.count), "entity", "entities"))", table.html,
            "<h3>Changes by entity</h3>", groups("entities", "entity", self.facts.entities), "<h3>The store</h3>",
            store.html)
    }

    /// Colours of Okabe and Ito, lighter on a dark page.
    private static let style: HTML = """
        :root { color-scheme: light dark; --back: #fff; --text: #1a1a1a; --faint: #5c5c5c; --grid: #ddd; --in: #fff;
          --c0: #999; --c1: #e69f00; --c2: #0072b2; --c3: #009e73; --c4: #cc79a7; --c5: #56b4e9; --c6: #d55e00;
          --c7: #d9c800; }
        @media screen and (prefers-color-scheme: dark) { :root { --back: #161616; --text: #eee; --faint: #aaa;
          --grid: #3a3a3a; --in: #000; --c2: #3d9bdc; --c6: #e8752a; --c7: #f0e442; } }
        * { box-sizing: border-box; }
        body { margin: 0; background: var(--back); color: var(--text); font: 16px/1.5 system-ui, sans-serif; }
        main { max-width: 900px; margin: 0 auto; padding: 16px; overflow-wrap: anywhere; }
        h1, h2 { line-height: 1.25; margin: 40px 0 8px; font-size: 20px; } h1 { font-size: 28px; margin: 8px 0; }
        h3 { font-size: 16px; margin: 20px 0 4px; } p { margin: 8px 0; } .lead { font-size: 18px; }
        figure { margin: 8px 0 16px; } figcaption { font-weight: 600; margin: 20px 0 6px; }
        figure p, footer, details { color: var(--faint); font-size: 14px; }
        svg { display: block; } svg text { font-size: 12px; fill: var(--text); } line { stroke: var(--grid); }
        .end { text-anchor: end; } .middle { text-anchor: middle; }
        .c0 { fill: var(--c0); } .c1 { fill: var(--c1); } .c2 { fill: var(--c2); } .c3 { fill: var(--c3); }
        .c4 { fill: var(--c4); } .c5 { fill: var(--c5); } .c6 { fill: var(--c6); } .c7 { fill: var(--c7); }
        svg .t1, svg .t3, svg .t4, svg .t5 { fill: #000; } svg .t2 { fill: var(--in); }
        ul { display: flex; flex-wrap: wrap; gap: 2px 18px; margin: 6px 0; padding: 0; list-style: none; }
        li { font-size: 14px; } li svg { display: inline-block; vertical-align: -1px; } summary { cursor: pointer; }
        .scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: 14px; margin: 8px 0; }
        th, td { text-align: left; padding: 2px 14px 2px 0; border-bottom: 1px solid var(--grid); }
        td, thead th { white-space: nowrap; font-variant-numeric: tabular-nums; } thead th { font-weight: 600; }
        th { font-weight: 400; } th[scope=row] { min-width: 130px; } td:has(data) { text-align: right; }
        @media print { :root { color-scheme: light; } * { print-color-adjust: exact; } main { max-width: none; }
          figure > svg, ul, tr, h2, h3 { break-inside: avoid; } h2, h3 { break-after: avoid; }
          td { white-space: normal; } .scroll { overflow: visible; } table { font-size: 10px; }
          details::details-content { content-visibility: visible; display: block; height: auto; } }
        """
}
