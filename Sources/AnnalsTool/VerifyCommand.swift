// `annals verify STORE`: checks a whole store file against every rule of its format, without changing it.

internal import Annals

extension Command {
    static let verify = Command(
        "verify", "Checks every byte of a store.",
        details: """
            The file is only read, and other processes may write to it at the same time. A torn tail, which a power
            failure or a killed writer leaves, is reported and is not damage. Checksums find accidents; they do not
            protect against forgery. The check ends where it can no longer follow the file, usually at the first damaged
            frame. For large stores, temporary files are written to TMPDIR, or to /tmp.

            Each finding names a rule of the file format. “annals verify --explain F7” explains one.
            """,
        operands: ["[STORE]"],
        options: [
            Option("explain", value: "RULE", "the meaning of a rule, the cause of a breach, and the remedy"),
            .textOrJSON,
        ], run: VerifyCommand.run)
}

enum VerifyCommand {
    static func run(_ arguments: Arguments, _ output: inout Output) throws -> ExitStatus {
        let format = try arguments.format(["text", "json"], for: .verify)
        if let rule = arguments.value(of: "explain"), arguments.operands.isEmpty {
            try explain(try RuleExplanation(rule), format, &output)
            return .done
        }
        guard let path = arguments.operands.first, !arguments.has("explain") else {
            throw Command.verify.refusal("“annals verify” needs either STORE or --explain RULE.")
        }
        var options = CheckOptions()
        options.spillDirectory = Terminal.environment("TMPDIR") ?? "/tmp"
        let progress = Progress("bytes")
        let report: CheckReport
        do {
            defer { progress.clear() }
            report = try Checker.check(path, options: options, files: RealFileSystem()) { progress.show($0, of: $1) }
        }
        if format == "json" { try output.data(json(report, path)) } else { try text(report, path, &output) }
        if report.hasDamage { return .damaged }
        return report.isIntact ? .done : .failed
    }

    private static func explain(_ rule: RuleExplanation, _ format: String, _ output: inout Output) throws {
        guard format == "text" else {
            return try output.data([
                "rule": rule.rule, "meaning": rule.meaning, "cause": rule.cause, "remedy": rule.remedy,
            ])
        }
        for text in ["\(rule.rule): \(rule.meaning)", "Cause: " + rule.cause, "Remedy: " + rule.remedy] {
            for line in HelpCommand.wrapped(text) { try output.line(line) }
        }
    }

    // MARK: Text

    private static func text(_ report: CheckReport, _ path: String, _ output: inout Output) throws {
        try output.line("\(path): \(summary(report))")
        for finding in report.findings {
            let kind = finding.isDamage ? "damage" : "notice"
            try output.line("  \(kind), \(finding.rule), offset \(finding.offset): \(finding.sentence)")
        }
        if report.omittedFindings > 0 { try output.line("  and \(report.omittedFindings) more") }
        if let stopped = report.stoppedAt { try output.line("  Nothing from offset \(stopped) on was checked.") }
        if let tail = report.tornTail {
            try output.line(
                "  A torn tail begins at offset \(tail.offset), \(tail.bytes) bytes before the end of the file, "
                    + "with reserved space.")
        }
        guard let header = report.header else { return }
        try output.line("store \(header.storeID.text), generation \(header.generation)")
        let end =
            report.stoppedAt == nil
            ? "the end at \(report.end), \(report.isSealed ? "closed cleanly" : "not closed")"
            : "of which the first \(report.end) were checked:"
        try output.line("\(report.fileBytes) bytes, \(end)")
        let counts = report.counts
        try output.line(
            "\(counts.transactions) transactions, the last \(report.lastNumber); schema version "
                + "\(report.schemaVersion)")
        try output.line(
            "\(counts.frames) frames, \(counts.changes) changes, \(counts.rows) rows, \(counts.values) values, "
                + "\(counts.largeValues) large values")
        for kind in FrameKind.allCases where counts.bytes(of: kind) > 0 {
            try output.line(String(counts.bytes(of: kind)).leftPadded(to: 16) + " bytes of \(kind) frames")
        }
    }

    private static func summary(_ report: CheckReport) -> String {
        if report.hasDamage { return "damaged" }
        if !report.isIntact { return "not checked to the end" }
        return report.tornTail == nil ? "intact" : "intact, with a torn tail"
    }

    // MARK: JSON

    private static func json(_ report: CheckReport, _ path: String) -> JSONLine {
        let tail: JSONLine? = report.tornTail.map { ["offset": $0.offset, "bytes": $0.bytes] }
        return [
            "store": path, "intact": report.isIntact, "damaged": report.hasDamage, "sealed": report.isSealed,
            "storeID": report.header?.storeID.text ?? "", "generation": report.header?.generation,
            "fileBytes": report.fileBytes, "end": report.end, "lastNumber": report.lastNumber,
            "schemaVersion": report.schemaVersion, "stoppedAt": report.stoppedAt, "tornTail": tail,
            "counts": json(report.counts), "findings": report.findings.map(json),
            "omittedFindings": report.omittedFindings,
        ]
    }

    private static func json(_ counts: CheckCounts) -> JSONLine {
        var bytes = JSONLine()
        for kind in FrameKind.allCases { bytes.add("\(kind)", counts.bytes(of: kind)) }
        return [
            "frames": counts.frames, "transactions": counts.transactions, "changes": counts.changes,
            "rows": counts.rows, "values": counts.values, "largeValues": counts.largeValues, "frameBytes": bytes,
        ]
    }

    private static func json(_ finding: Finding) -> JSONLine {
        ["rule": finding.rule, "offset": finding.offset, "damage": finding.isDamage, "sentence": finding.sentence]
    }
}

extension UUIDBytes {
    /// The form of RFC 9562.
    var text: String {
        let digits = Array(hexadecimal(high) + hexadecimal(low))
        return [0..<8, 8..<12, 12..<16, 16..<20, 20..<32].map { String(digits[$0]) }.joined(separator: "-")
    }
}
