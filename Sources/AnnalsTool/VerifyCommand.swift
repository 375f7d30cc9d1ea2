// `annals verify STORE` checks a whole store file against every rule of its format, and `annals frames STORE` lists its
// frames. Neither changes it.

internal import Annals
internal import FoundationEssentials

enum VerifyCommand {
    static let command = Command(
        "verify", "Checks every byte of a store.",
        details: """
            The file is only read, and other processes may write to it at the same time. A torn tail, which a power
            failure or a killed writer leaves, is reported and is not damage. Checksums find accidents; they do not
            protect against forgery. The check ends where it can no longer follow the file, usually at the first damaged
            frame. For large stores, temporary files are written to TMPDIR, or to /tmp.

            If the file is intact, the store's search indexes are compared with its objects. The exit status is 65 if
            they differ.

            Each finding names a rule of the file format. “annals verify --explain F7” explains one.
            """, operands: ["[STORE]"],
        options: [
            Option("explain", value: "RULE", "the meaning of a rule, the cause of a breach, and the remedy"),
            .textOrJSON,
        ]
    ) { arguments, output -> ExitStatus in
        if let rule = arguments.value(of: "explain"), arguments.operands.isEmpty {
            explain(
                try FormatRule(rule).orThrow(
                    arguments.refusal("“\(rule)” is no rule of the format: they are F1 to F\(FormatRule.count).")),
                output)
            return .done
        }
        guard let path = arguments.operands.first, !arguments.has("explain") else {
            throw arguments.refusal("“annals verify” needs either STORE or --explain RULE.")
        }
        var options = CheckOptions()
        options.spillDirectory = Terminal.environment("TMPDIR") ?? "/tmp"
        let report: CheckReport
        do {
            let progress = Progress("bytes")
            report = try Checker.check(path, options: options, files: RealFileSystem()) { progress.show($0, of: $1) }
        }
        let (indexes, faults) = report.isIntact ? try searchIndexFaults(path) : (0, [])
        if output.isJSON {
            output.data(json(report, faults, path))
        } else {
            text(report, faults, path, output)
            if indexes > 0 { output.line("search indexes compared with the rows: \(indexes)") }
        }
        if report.hasDamage || !faults.isEmpty { return .damaged }
        return report.isIntact ? .done : .failed
    }

    private static func explain(_ rule: FormatRule, _ output: Output) {
        if output.isJSON {
            return output.data([
                "rule": rule.name, "meaning": rule.meaning, "cause": rule.cause, "remedy": rule.remedy,
            ])
        }
        for text in ["\(rule.name): \(rule.meaning)", "Cause: " + rule.cause, "Remedy: " + rule.remedy] {
            for line in HelpCommand.wrapped(text) { output.line(line) }
        }
    }

    private static func searchIndexFaults(_ path: String) throws -> (indexes: Int, faults: [SearchIndexFault]) {
        try StoreAccess.with(path, .readOnly) { store in
            let progress = Progress("objects")
            let faults = try store.searchIndexFaults { progress.show(UInt64(clamping: $1)) }
            return (faults.isEmpty ? try store.searchIndexes.count : 0, faults)
        }
    }

    private static func text(_ report: CheckReport, _ faults: [SearchIndexFault], _ path: String, _ output: Output) {
        output.line("\(path): \(summary(report))" + (faults.isEmpty ? "" : ", but a search index is wrong"))
        for fault in faults { output.line("  search index: \(fault.description)") }
        for finding in report.findings {
            let kind = finding.isDamage ? "damage" : "notice"
            output.line("  \(kind), \(finding.rule), offset \(finding.offset): \(finding.sentence)")
        }
        if report.omittedFindings > 0 { output.line("  and \(report.omittedFindings) more") }
        if let stopped = report.stoppedAt { output.line("  Nothing from offset \(stopped) on was checked.") }
        if let tail = report.tornTail {
            output.line(
                "  A torn tail begins at offset \(tail.offset), \(tail.bytes) bytes before the end of the file, "
                    + "with reserved space.")
        }
        guard let header = report.header else { return }
        output.line("store \(header.storeID.text), generation \(header.generation)")
        let end =
            report.stoppedAt == nil
            ? "the end at \(report.end), \(report.isSealed ? "closed cleanly" : "not closed")"
            : "of which the first \(report.end) were checked:"
        output.line("\(report.fileBytes) bytes, \(end)")
        let counts = report.counts
        output.line(
            "\(counts.transactions) transactions, the last \(report.lastNumber); schema version "
                + "\(report.schemaVersion)")
        output.line(
            "\(counts.frames) frames, \(counts.changes) changes, \(counts.rows) rows, \(counts.values) values, "
                + "\(counts.largeValues) large values")
        for kind in FrameKind.allCases where counts.bytes(of: kind) > 0 {
            output.line(String(counts.bytes(of: kind)).leftPadded(to: 16) + " bytes of \(kind) frames")
        }
    }

    private static func summary(_ report: CheckReport) -> String {
        if report.hasDamage { return "damaged" }
        if !report.isIntact { return "not checked to the end" }
        return report.tornTail == nil ? "intact" : "intact, with a torn tail"
    }

    private static func json(_ report: CheckReport, _ faults: [SearchIndexFault], _ path: String) -> JSONLine {
        let tail: JSONLine? = report.tornTail.map { ["offset": $0.offset, "bytes": $0.bytes] }
        return [
            "store": path, "intact": report.isIntact, "damaged": report.hasDamage, "sealed": report.isSealed,
            "storeID": report.header?.storeID.text ?? "", "generation": report.header?.generation,
            "fileBytes": report.fileBytes, "end": report.end, "lastNumber": report.lastNumber,
            "schemaVersion": report.schemaVersion, "stoppedAt": report.stoppedAt, "tornTail": tail,
            "counts": json(report.counts), "findings": report.findings.map(json),
            "omittedFindings": report.omittedFindings, "searchIndexFaults": faults.map(json),
        ]
    }

    private static func json(_ counts: CheckCounts) -> JSONLine {
        let bytes = JSONLine(FrameKind.allCases.map { ("\($0)", counts.bytes(of: $0)) })
        return [
            "frames": counts.frames, "transactions": counts.transactions, "changes": counts.changes,
            "rows": counts.rows, "values": counts.values, "largeValues": counts.largeValues, "frameBytes": bytes,
        ]
    }

    private static func json(_ fault: SearchIndexFault) -> JSONLine {
        ["entity": fault.entity, "object": fault.object?.description, "sentence": fault.description]
    }

    private static func json(_ finding: Finding) -> JSONLine {
        ["rule": finding.rule, "offset": finding.offset, "damage": finding.isDamage, "sentence": finding.sentence]
    }
}

extension UUIDBytes {
    var text: String { UUID(self).uuidString.lowercased() }
}

enum FramesCommand {
    static let command = Command(
        "frames", "Lists the frames of a store, one per line.",
        details: """
            The file is only read, along its chain of checksums, and every checksum is verified. The last line
            names what follows the last frame: the end, a torn tail (a write that did not finish; the exit status is 0),
            damage (65), or something that only a newer version of Annals knows (1). A frame with a good header and
            bad content is listed with its fault. With --limit, nothing is read beyond it.
            """, operands: ["STORE"],
        options: [
            .format(["text", "jsonl"], "text (the default), or jsonl: one JSON object per line"),
            Option("after", value: "OFFSET", "only frames that begin after this offset"),
            Option("limit", value: "N", "at most N frames"),
        ]
    ) { arguments, output -> ExitStatus in
        let after = try arguments.number(of: "after")
        var left = try arguments.number(of: "limit") ?? .max
        let path = arguments.operands[0]
        let lister = try FrameLister(path, files: RealFileSystem())
        while left > 0, !output.hasFailed, let frame = try lister.next() {
            if let after, frame.offset <= after { continue }
            left -= 1
            output.line(json: json(frame), text: text(frame))
        }
        guard let end = lister.ending else { return .done }
        output.line(json: json(end), text: text(end))
        return switch end.verdict {
        case .end, .tornTail: .done
        case .damage: .damaged
        case .unsupported: .failed
        }
    }

    private static func text(_ frame: ListedFrame) -> String {
        let header = frame.header
        let columns = [
            String(frame.offset).leftPadded(to: 12), "\(header.kind)" + (header.isMember ? " (member)" : ""),
            "\(header.frameBytes) bytes", "number \(header.number)", "mark \(header.durableMark)",
        ]
        return columns.joined(separator: "  ") + "  " + (frame.fault ?? "ok")
    }

    private static func json(_ frame: ListedFrame) -> JSONLine {
        [
            "offset": frame.offset, "kind": "\(frame.header.kind)", "member": frame.header.isMember,
            "bytes": frame.header.frameBytes, "tableBytes": frame.header.tableBytes,
            "number": frame.header.number, "durableMark": frame.header.durableMark,
            "checksum": HistoryToken.digits(frame.header.checksum), "state": frame.fault ?? "ok",
        ]
    }

    private static func text(_ end: FrameListEnd) -> String {
        let verdict =
            switch end.verdict {
            case .end: "the end"
            case .tornTail: "a torn tail; what counts ends at \(end.end)"
            case .damage: "damage; \(end.sentence)"
            case .unsupported: "unknown; \(end.sentence)"
            }
        return String(end.offset).leftPadded(to: 12) + "  " + verdict
    }

    private static func json(_ end: FrameListEnd) -> JSONLine {
        ["offset": end.offset, "verdict": end.verdict.rawValue, "end": end.end, "reason": end.sentence]
    }
}

extension String {
    func leftPadded(to width: Int) -> String { String(repeating: " ", count: Swift.max(0, width - count)) + self }
}
