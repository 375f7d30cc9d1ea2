// `annals frames STORE`: lists the frames of a store file, one a line, without changing it.

internal import Annals

extension Command {
    static let frames = Command(
        "frames", "Lists the frames of a store, one per line.",
        details: """
            The file is only read, along its chain of checksums, and every checksum is verified. The last line
            names what follows the last frame: the end, a torn tail (a write that did not finish; the exit status is 0),
            damage (65), or something that only a newer version of Annals knows (1). A frame with a good header and
            bad content is listed with its fault. With --limit, nothing is read beyond it.
            """,
        operands: ["STORE"],
        options: [
            Option("format", value: "FORMAT", "text (the default), or jsonl: one JSON object per line"),
            Option("after", value: "OFFSET", "only frames that begin after this offset"),
            Option("limit", value: "N", "at most N frames"),
        ], run: FramesCommand.run)
}

enum FramesCommand {
    static func run(_ arguments: Arguments, _ output: inout Output) throws -> ExitStatus {
        let format = try arguments.format(["text", "jsonl"], for: .frames)
        let after = try arguments.number(of: "after", for: .frames)
        var left = try arguments.number(of: "limit", for: .frames) ?? .max
        let path = arguments.operands[0]
        let lister = try FrameLister(path, files: RealFileSystem())
        while left > 0, let frame = try lister.next() {
            if let after, frame.offset <= after { continue }
            left -= 1
            try output.line(format, json: json(frame), text: text(frame))
        }
        guard let end = lister.ending else { return .done }
        try output.line(format, json: json(end), text: text(end))
        return switch end.verdict {
        case .end, .tornTail: .done
        case .damage: .damaged
        case .unsupported: .failed
        }
    }

    // MARK: Frames

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
            "checksum": hexadecimal(frame.header.checksum), "state": frame.fault ?? "ok",
        ]
    }

    // MARK: The end

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
