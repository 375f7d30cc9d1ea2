// A table for people: columns as wide as their content, cut to the width of the terminal.

/// Prints rows as they come. The first ones decide the widths, and later ones widen a column if there is room.
struct Table {
    typealias Cell = [StyledText]

    private static let sampleRows = 500
    private static let leastColumns = 8
    private static let gap = "  "
    private let output: Output
    private let names: [String]
    private let isNumber: [Bool]
    /// The width to fit in; nil for any.
    private let columns = Terminal.columns
    private let indent: String
    private var sample: [[Cell]] = []
    private var widths: [Int]?

    /// A name that begins with “#” is that of a column of numbers, aligned right, and shown without it.
    init(_ output: Output, _ names: [String], hasHead: Bool = true, indent: Int = 0) {
        self.output = output
        isNumber = names.map { $0.hasPrefix("#") }
        self.names = hasHead ? names.map { Output.escaped($0.hasPrefix("#") ? String($0.dropFirst()) : $0) } : []
        self.indent = String(repeating: " ", count: indent)
    }

    mutating func add(_ row: [String]) { add(row.map { [StyledText($0)] }) }

    mutating func add(_ row: [Cell]) {
        // The terminal's columns are those of the escaped text.
        let row = row.map { $0.map { StyledText(Output.escaped($0.text), $0.style) } }
        if widths != nil {
            widen(for: row)
            return print(row, widths ?? [])
        }
        sample.append(row)
        if sample.count == Self.sampleRows { show() }
    }

    mutating func show() {
        guard widths == nil, !sample.isEmpty else { return }
        var widths = isNumber.indices.map { column in
            max(
                names.isEmpty ? 0 : Terminal.width(of: names[column]),
                sample.map { Self.width(of: $0[column]) }.max() ?? 0)
        }
        if let room { Self.shrink(&widths, isNumber, to: room) }
        self.widths = widths
        if !names.isEmpty { print(names.map { [StyledText($0, .strong)] }, widths) }
        for row in sample { print(row, widths) }
        sample = []
    }

    /// The columns for all cells of a row; nil for any number.
    private var room: Int? { columns.map { $0 - indent.count - Self.gap.count * (isNumber.count - 1) } }

    private mutating func widen(for row: [Cell]) {
        guard var widths else { return }
        for column in row.indices {
            let free = room.map { $0 - widths.reduce(0, +) } ?? .max
            widths[column] += max(0, min(free, Self.width(of: row[column]) - widths[column]))
        }
        self.widths = widths
    }

    private static func width(of cell: Cell) -> Int { cell.reduce(0) { $0 + Terminal.width(of: $1.text) } }

    /// Takes from the widest texts first. Numbers stay whole.
    private static func shrink(_ widths: inout [Int], _ isNumber: [Bool], to total: Int) {
        var excess = widths.reduce(0, +) - total
        while excess > 0 {
            let texts = widths.indices.filter { !isNumber[$0] && widths[$0] > leastColumns }
            guard let widest = texts.max(by: { widths[$0] < widths[$1] }) else { return }
            let others = texts.filter { $0 != widest }.map { widths[$0] }.max() ?? leastColumns
            let step = min(excess, max(1, widths[widest] - max(others, leastColumns)))
            widths[widest] -= step
            excess -= step
        }
    }

    private static func cut(_ cell: Cell, to width: Int) -> Cell {
        guard self.width(of: cell) > width else { return cell }
        var (left, result) = (width, Cell())
        for part in cell {
            let text = Terminal.cut(part.text, to: left)
            result.append(StyledText(text, part.style))
            left -= Terminal.width(of: text)
            // The next part would begin without room for a mark.
            if text != part.text || left < 1 { break }
        }
        return result
    }

    private func print(_ row: [Cell], _ widths: [Int]) {
        var line = [StyledText(indent)]
        for (column, cell) in row.enumerated() {
            let cell = isNumber[column] ? cell : Self.cut(cell, to: widths[column])
            let space = StyledText(String(repeating: " ", count: max(0, widths[column] - Self.width(of: cell))))
            if column > 0 { line.append(StyledText(Self.gap)) }
            line += isNumber[column] ? [space] + cell : cell + [space]
        }
        // Nothing needs space at the end of a line.
        while let last = line.last, last.text.allSatisfy({ $0 == " " }), line.count > 1 { line.removeLast() }
        output.line(line)
    }
}

extension Output {
    func table(_ names: [String], hasHead: Bool = true, _ rows: [[String]]) {
        var table = Table(self, names, hasHead: hasHead)
        for row in rows { table.add(row) }
        table.show()
    }
}

extension String {
    /// A number with a comma after each three digits.
    init(grouped number: UInt64) {
        let digits = Array(String(number))
        self = ""
        for (place, digit) in digits.enumerated() {
            if place > 0, (digits.count - place).isMultiple(of: 3) { append(",") }
            append(digit)
        }
    }
}
