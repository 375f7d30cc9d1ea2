// The parts of a report's page: safe HTML, tables, and pictures of tables in SVG that fit any width.

internal import Annals

/// HTML made from literals. Interpolated texts are escaped, so no name can add markup.
struct HTML: ExpressibleByStringInterpolation {
    struct StringInterpolation: StringInterpolationProtocol {
        fileprivate var text = ""

        init(literalCapacity: Int, interpolationCount: Int) {}
        mutating func appendLiteral(_ literal: String) { text += literal }
        mutating func appendInterpolation(_ plain: String) { text += HTML.escaped(plain) }
        mutating func appendInterpolation(_ number: some BinaryInteger) { text += "\(number)" }
        mutating func appendInterpolation(_ html: HTML) { text += html.text }
        mutating func appendInterpolation(_ parts: [HTML]) { for part in parts { text += part.text } }
        /// A coordinate, with two digits after the point.
        mutating func appendInterpolation(_ number: Double) { text += "\((number * 100).rounded() / 100)" }
    }

    let text: String

    init(stringLiteral text: String) { self.text = text }
    init(stringInterpolation: StringInterpolation) { text = stringInterpolation.text }

    private static func escaped(_ plain: String) -> String {
        let marks: [Unicode.Scalar: String] = ["&": "&amp;", "<": "&lt;", ">": "&gt;", "\"": "&quot;", "'": "&#39;"]
        return Output.escaped(plain).unicodeScalars.reduce(into: "") { $0 += marks[$1] ?? String($1) }
    }
}

protocol ReportCell {}

extension String: ReportCell {}
extension UInt64: ReportCell {}

struct ReportTable {
    /// More rows would make the page slow.
    static let mostRows = 400
    let id: String
    /// The columns. The first one names the row.
    let columns: [String]
    let rows: [[any ReportCell]]

    /// The rows as names and numbers.
    fileprivate var series: [(name: String, numbers: [UInt64])] {
        rows.map { ($0[0] as? String ?? "", $0.compactMap { $0 as? UInt64 }) }
    }

    var html: HTML {
        let head = columns.map { "<th scope=\"col\">\($0)</th>" as HTML }
        let body = rows.prefix(Self.mostRows).map { row in
            let cells = row.enumerated().map { (place, cell) -> HTML in
                if let number = cell as? UInt64 {
                    return "<td><data value=\"\(number)\">\(String(grouped: number))</data></td>"
                }
                let text = Terminal.cut(cell as? String ?? "", to: 120)
                return place == 0 ? "<th scope=\"row\">\(text)</th>" : "<td>\(text)</td>"
            }
            return "<tr>\(cells)</tr>\n" as HTML
        }
        let left = rows.count - body.count
        return """
            <div class="scroll"><table id="\(id)"><thead><tr>\(head)</tr></thead><tbody>
            \(body)</tbody></table></div>\(left > 0 ? "<p>\(left) more rows are not shown.</p>" as HTML : "")
            """
    }
}

/// Pictures of tables. Positions across are shares of the width, so texts keep their size on every screen. The colour
/// of a series is its number, modulo 8.
enum Picture {
    typealias Drawing = (height: Int, shapes: [HTML])

    /// A picture with its title above, and its table below.
    static func figure(
        _ title: String, _ drawing: Drawing, _ table: ReportTable, legend: [String] = [], note: HTML = ""
    ) -> HTML {
        let entries = legend.enumerated().map { (place, text) -> HTML in
            let sample: HTML = "<rect class=\"c\((place + 1) % 8)\" width=\"12\" height=\"12\"/>"
            return "<li><svg width=\"12\" height=\"12\" aria-hidden=\"true\">\(sample)</svg> \(text)</li>"
        }
        return """
            <figure><figcaption>\(title)</figcaption>
            <svg role="img" width="100%" height="\(drawing.height)"><title>\(title)</title>
            \(drawing.shapes)</svg>\(entries.isEmpty ? "" : "<ul>\(entries)</ul>" as HTML)
            <p>\(note)</p><details><summary>The numbers</summary>\(table.html)</details></figure>

            """
    }

    /// The rows as parts of one bar, with labels in those that are wide enough.
    static func share(_ table: ReportTable) -> Drawing {
        let total = table.series.reduce(0) { $0 + $1.numbers[0] }
        var (start, shapes) = (0.0, [HTML]())
        for (place, (name, numbers)) in table.series.enumerated() {
            let width = 100 * Double(numbers[0]) / max(1, Double(total))
            let label = width < 10 ? "" : (width < 36 ? "" : name + " ") + ReportNumber.share(numbers[0], of: total)
            shapes.append(
                """
                <rect class="c\(place + 1)" x="\(start)%" y="2" width="\(width)%" height="40"/>
                <text class="t\(place + 1) middle" x="\(start + width / 2)%" y="27">\(label)</text>

                """)
            start += width
        }
        return (44, shapes)
    }

    /// The rows as bars across, each with its name in front, or above if names are long.
    static func bars(
        _ table: ReportTable, color: Int, isLong: Bool = true, _ text: (Int, UInt64) -> String
    ) -> Drawing {
        let most = max(1, Double(table.series.map(\.numbers[0]).max() ?? 1))
        let (height, start, room) = isLong ? (42, 0.0, 55.0) : (24, 36.0, 40.0)
        let shapes = table.series.prefix(15).enumerated().map { (row, series) -> HTML in
            let top = row * height + (isLong ? 18 : 2)
            let width = room * Double(series.numbers[0]) / most
            let name: HTML =
                isLong
                ? "<text y=\"\(top - 5)\">\(Terminal.cut(series.name, to: 60))</text>"
                : "<text class=\"end\" x=\"\(start - 1.5)%\" y=\"\(top + 14)\">\(series.name)</text>"
            return """
                \(name)<rect class="c\(color)" x="\(start)%" y="\(top)" width="\(width)%" height="18"/>
                <text x="\(start + width)%" dx="6" y="\(top + 14)">\(text(row, series.numbers[0]))</text>

                """
        }
        return (shapes.count * height + 2, shapes)
    }

    /// The rows as columns, each with a part for each number, from the bottom up.
    static func columns(_ table: ReportTable, _ unit: (Double) -> String) -> Drawing {
        let most = Double(table.series.map { $0.numbers.reduce(0, +) }.max() ?? 0)
        let (top, bottom, left) = (12.0, 192.0, 16.0)
        let step = step(most)
        let highest = max(step, (most / step).rounded(.up) * step)
        func y(_ value: Double) -> Double { bottom - (bottom - top) * value / highest }
        var shapes = stride(from: 0, through: highest, by: step).map { (value) -> HTML in
            """
            <line x1="\(left)%" x2="100%" y1="\(y(value))" y2="\(y(value))"/>
            <text class="end" x="\(left - 1)%" y="\(y(value) + 4)">\(unit(value))</text>

            """
        }
        let width = (100 - left) / Double(max(1, table.rows.count))
        for (place, series) in table.series.enumerated() {
            let x = left + width * (Double(place) + 0.08)
            var sum = 0.0
            for (part, number) in series.numbers.enumerated() where number > 0 {
                let (low, high) = (y(sum), y(sum + Double(number)))
                sum += Double(number)
                let size: HTML = "width=\"\(width * 0.84)%\" height=\"\(low - high)\""
                shapes.append("<rect class=\"c\((part + 1) % 8)\" x=\"\(x)%\" y=\"\(high)\" \(size)/>\n")
            }
        }
        let names = table.series.map(\.name)
        if let first = names.first { shapes.append("<text x=\"\(left)%\" y=\"212\">\(first)</text>\n") }
        if names.count > 1 {
            shapes.append("<text class=\"end\" x=\"100%\" y=\"212\">\(names[names.count - 1])</text>\n")
        }
        return (220, shapes)
    }

    /// The distance of grid lines: 1, 2 or 5 times a power of ten, for at most five lines.
    private static func step(_ most: Double) -> Double {
        var power = 1.0
        while most / (5 * power) > 4 { power *= 10 }
        return [1.0, 2, 5].first { most / ($0 * power) <= 4 }.map { $0 * power } ?? power
    }
}

enum ReportNumber {
    static func count(_ number: UInt64, _ noun: String, _ plural: String? = nil) -> String {
        String(grouped: number) + " " + (number == 1 ? noun : plural ?? noun + "s")
    }

    static func share(_ part: UInt64, of total: UInt64) -> String {
        let share = 100 * Double(part) / max(1, Double(total))
        return part > 0 && share < 1 ? "under 1%" : "\(Int(share.rounded()))%"
    }

    static func short(_ number: Double) -> String {
        number < 10_000 ? String(grouped: UInt64(number)) : scaled(number, ["", "k", "M", "G", "T", "P"])
    }

    static func bytes(_ number: Double) -> String { scaled(number, ["bytes", "kB", "MB", "GB", "TB", "PB"]) }

    private static func scaled(_ number: Double, _ units: [String]) -> String {
        var (number, place) = (number, 0)
        while number >= 999.5, place + 1 < units.count { (number, place) = (number / 1000, place + 1) }
        let tenths = (number * 10).rounded() / 10
        return (number >= 100 || tenths == tenths.rounded() ? "\(Int(tenths.rounded()))" : "\(tenths)") + " "
            + units[place]
    }

    /// A duration in its largest unit, such as “3 days”.
    static func duration(microseconds: Double) -> String {
        let units = [(31_557_600e6, "year"), (86_400e6, "day"), (3600e6, "hour"), (60e6, "minute"), (1e6, "second")]
        guard let (size, name) = units.first(where: { microseconds >= $0.0 * 0.995 }) else { return "under a second" }
        return count(UInt64((microseconds / size).rounded()), name)
    }
}
