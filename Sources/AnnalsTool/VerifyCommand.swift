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
            explain(try RuleExplanation(rule), output)
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

    private static func explain(_ rule: RuleExplanation, _ output: Output) {
        if output.isJSON {
            return output.data([
                "rule": rule.rule, "meaning": rule.meaning, "cause": rule.cause, "remedy": rule.remedy,
            ])
        }
        for text in ["\(rule.rule): \(rule.meaning)", "Cause: " + rule.cause, "Remedy: " + rule.remedy] {
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

/// A rule of the file format: its meaning, the cause of a breach, and the remedy.
package struct RuleExplanation: Sendable {
    private let number: Int

    init(_ text: String) throws(ToolFailure) {
        number = try (1...Self.meanings.count).first { "F\($0)" == text.uppercased() }.orThrow(
            VerifyCommand.command.refusal(
                "“\(text)” is no rule of the format: they are F1 to F\(Self.meanings.count)."))
    }

    var rule: String { "F\(number)" }
    var meaning: String { Self.meanings[number - 1] }

    var cause: String {
        if let cause = Self.harmlessCauses[number] { return cause }
        return Self.rulesOfBytes.contains(number)
            ? "Bytes of the file have changed since they were written: by a failing disk or memory, by another "
                + "program, or because the file was copied or cut while it was in use."
            : "The checksums are right, so the file has what a program wrote. The program or the memory of its machine "
                + "was at fault."
    }

    var remedy: String {
        let restoring =
            "End the programs that use the store, keep a copy of the file, and put a backup in its place. Without a "
            + "backup, “annals salvage STORE NEW” saves the readable part."
        if Self.harmlessCauses[number] != nil {
            return "If it is a notice, nothing needs to be done. If it is damage: " + restoring
        }
        return restoring
            + (Self.rulesOfBytes.contains(number)
                ? " Then test the disk and the memory."
                : " Report the fault with the output of “annals verify STORE --format json”.")
    }

    private static let rulesOfBytes: Set = [1, 2, 4, 5, 6, 7, 9]

    /// The causes of breaches that can be harmless, by rule.
    private static let harmlessCauses = [
        3: "A hint is written without waiting for the disk. A power failure can leave a bad one.",
        27: "A killed program or a power failure leaves a torn tail, which the next writer removes.",
        35: "Under the rule noAction, a deleted object may still be named. It is read as null.",
    ]

    private static let meanings = [
        "The first page identifies the file, its version and its beginning, and has a checksum.",
        "The rest of the first page consists of zeros.",
        "A hint on the first page names the newest checkpoint, so that the store opens fast.",
        "Frames follow one another without gaps, and each header has a checksum.",
        "Each frame has the checksum of the frame before it.",
        "The sizes of a frame are possible, and unused bytes are zeros.",
        "The table and the body of each frame have checksums.",
        "The kind of a frame is known, and its flags fit the kind.",
        "The frames of a transaction come directly before its commit frame.",
        "The mark of the durable part never falls, and is the end of a group of frames.",
        "The transactions are numbered without gaps.",
        "The times of transactions agree with the recorded steps of the clock.",
        "The record of a transaction agrees with its frames.",
        "The tag of a transaction is computed from its content.",
        "Authors, contexts and processes have names that are defined before their use.",
        "Schema versions count up, and a transaction has the newest one.",
        "The list of a frame's changes has the right form.",
        "A change names the previous version of its object, and fits it.",
        "A transaction changes an object at most once.",
        "Each row lies at its place, and leads back to its change.",
        "A row fits the schema version that it names.",
        "Each value has the form of its type, and a required attribute has a value.",
        "A row refers only to long values that exist.",
        "The pieces of a long value are complete and in order.",
        "The definitions of a schema are complete and possible.",
        "Frames of the store's own records have the right form.",
        "After a clean close, one page of zeros ends the file.",
        "The nodes of the indexes have the right form.",
        "A checkpoint agrees with the frames before it.",
        "The index of rows has the newest version of each object.",
        "The indexes of attributes have exactly the keys of the rows.",
        "The landmarks of a checkpoint name transactions of the file.",
        "Consumers and cleaning marks name transactions that exist.",
        "No two objects have one value of a unique attribute or key.",
        "References lead to objects that exist.",
        "A file that needs a newer program declares the features.",
        "Values that an index uses are stored in their rows.",
    ]
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
