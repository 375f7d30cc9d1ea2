// Verifies every invariant of FileFormat.md over a whole file. It only reads, takes no lock, and needs little memory.

/// Checks a store file from its first byte to its last, in one pass and a few sorts.
///
/// Rules F4 to F16 and F24 to F26 are those of the log itself: the check finds the errors of opening a store, in the
/// same words. Nothing above a break in the chain of frames can be checked: `CheckReport.stoppedAt` is the offset of
/// the break.
package enum Checker {
    /// Throws only if the file cannot be read: `notFound`, `permissionDenied`, `notARegularFile`, `inputOutput` and the
    /// like, or if there is no space to sort. Faults in the content are in the report. Other processes may write to the
    /// store at the same time.
    ///
    /// `progress` receives the number of bytes read and the total.
    package static func check(
        _ path: String, options: CheckOptions = CheckOptions(), files: any FileSystem,
        progress: ((_ done: UInt64, _ total: UInt64) -> Void)? = nil
    ) throws(StoreError) -> CheckReport {
        do throws(StoreError) {
            let file = try files.openStoreFile(path)
            defer { files.close(file) }
            var attempts = 1
            while true {
                var pass = CheckPass(files, file, options)
                do throws(StoreError) {
                    return try pass.run(progress)
                } catch {
                    // A writer has replaced a torn tail while it was read: the notes about it never counted.
                    guard error.code == .busy, attempts < 10 else { throw error }
                    attempts += 1
                }
            }
        } catch {
            throw error.at(path: path)
        }
    }
}

/// One check of one open file.
struct CheckPass {
    private let files: any FileSystem
    private let file: Descriptor
    private let options: CheckOptions
    private let window: ByteWindow
    private var report = CheckReport()

    init(_ files: any FileSystem, _ file: Descriptor, _ options: CheckOptions) {
        (self.files, self.file, self.options) = (files, file, options)
        window = ByteWindow(files, file, stepBytes: options.windowBytes)
    }

    mutating func run(_ progress: ((UInt64, UInt64) -> Void)?) throws(StoreError) -> CheckReport {
        report.fileBytes = try files.size(file)
        let header: FileHeader
        let hints: [HintSlot]
        do throws(StoreError) {
            (header, hints) = try Log.readHeader(window)
        } catch  where error.isAboutContent {
            var findings = FindingList(maximum: options.maximumFindings)
            findings.add(error, rule: "F1", isDamage: error.code != .unsupportedVersion)
            report.stoppedAt = 0
            return finish(findings)
        }
        report.header = header
        let checker = try FrameChecker(files, file, options, header: header, hints: hints)
        try checkHintSlots(hints, checker)
        var walk = LogWalk(state: LogState(header: header), window: window)
        try read(&walk, checker, progress)
        // The targets of hints, links and references can only be judged after reading everything.
        if report.stoppedAt == nil {
            do throws(StoreError) {
                try checker.finish(end: walk.state.end, lastNumber: walk.state.lastNumber, walk.state.catalog)
            } catch  where error.code == .unsupportedVersion {
                stop(at: error.offset ?? 0, error, checker)
            }
        }
        report.end = walk.state.end
        report.lastNumber = walk.state.lastNumber
        report.schemaVersion = walk.state.schemaVersion
        report.isSealed = walk.state.isSealed
        report.counts = checker.counts
        return finish(checker.findings)
    }

    private mutating func finish(_ findings: FindingList) -> CheckReport {
        report.findings = findings.kept
        report.omittedFindings = findings.omitted
        report.hasDamage = findings.hasDamage
        return report
    }

    /// A slot that looks bad may just be being written: it is read twice.
    private func checkHintSlots(_ hints: [HintSlot], _ checker: FrameChecker) throws(StoreError) {
        guard hints.contains(.bad) else { return }
        window.forget()
        let (_, again) = try Log.readHeader(window)
        for (index, slot) in again.enumerated() where slot == .bad && hints[index] == .bad {
            checker.findings.add(
                "F3", at: UInt64(HintField.slots[index]),
                "A hint slot is neither empty nor valid. A power failure may cause this, and nothing is lost.",
                isDamage: false)
        }
    }

    // MARK: Frames

    private mutating func read(
        _ walk: inout LogWalk, _ checker: FrameChecker, _ progress: ((UInt64, UInt64) -> Void)?
    ) throws(StoreError) {
        let total = report.fileBytes
        let step: UInt64 = 16 << 20
        var next = step
        do throws(StoreError) {
            let end = try walk.toTheEnd(asker: .judge, mayRepeat: false) { (frame, _, state) throws(StoreError) in
                try checker.check(frame, state)
                if frame.end >= next {
                    progress?(frame.end, max(total, frame.end))
                    next = frame.end + step
                }
            }
            report.fileBytes = try files.size(file)
            progress?(report.fileBytes, report.fileBytes)
            try checkEnd(end, walk.state, checker)
        } catch  where error.isAboutContent {
            stop(at: error.offset ?? walk.state.reach, error, checker)
        }
    }

    private mutating func stop(at place: UInt64, _ error: StoreError, _ checker: FrameChecker) {
        report.stoppedAt = place
        checker.findings.add(error, rule: "F4", isDamage: error.code != .unsupportedVersion)
    }

    // MARK: The end

    private mutating func checkEnd(
        _ end: WalkEnd, _ state: LogState, _ checker: FrameChecker
    ) throws(StoreError) {
        if state.isSealed, report.fileBytes < state.end + UInt64(FormatLimits.pageBytes) {
            checker.findings.add(
                "F27", at: report.fileBytes, "The file was cut: the spare page after the seal is missing.")
        }
        guard end.verdict == .tornTail else { return }
        let dropped = report.fileBytes > state.end ? report.fileBytes - state.end : 0
        report.tornTail = CheckReport.TornTail(offset: state.end, bytes: dropped)
        let (rule, reason) = tornTailReason(end, state)
        checker.findings.add(
            rule, at: end.place,
            "\(reason): the bytes from offset \(state.end) on are an unfinished write, and do not count.",
            isDamage: false)
    }

    private func tornTailReason(_ end: WalkEnd, _ state: LogState) -> (String, String) {
        if state.isSealed { return ("F27", "Bytes after the seal are not zero") }
        if end.stop == .nothing {
            return state.open == nil
                ? ("F4", "Bytes after a hole are not zero") : ("F9", "A transaction's commit frame is missing")
        }
        let error = StoreError(.damaged, end.stop.sentence).under("F4")
        return (error.rule ?? "F4", String(error.message.dropFirst((error.rule?.utf8.count ?? 0) + 2)))
    }
}

extension StoreError {
    /// Whether the file was read and is not a good store; other errors mean that it could not be read.
    var isAboutContent: Bool {
        switch code {
        case .notAStore, .unsupportedVersion, .damaged, .truncated: true
        default: false
        }
    }

    /// Whether the content breaks a rule. Content that only a newer program can read breaks none.
    var isBreach: Bool { isAboutContent && code != .unsupportedVersion }
}
