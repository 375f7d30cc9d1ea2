// Judges a place where reading stopped: the end, a torn tail, or damage. A pure decision table (Recovery.md).

/// The facts about a place where no further frame of the chain could be read.
package struct StopFindings: Equatable, Hashable, Sendable {
    package var asker: Asker
    package var place: Place
    /// Whether the frames read last belong to a transaction whose commit frame was not reached.
    package var isInsideTransaction: Bool
    package var above: Above
    package var secondLook: SecondLook

    package init(
        asker: Asker, place: Place, isInsideTransaction: Bool, above: Above = .notLooked, secondLook: SecondLook = .none
    ) {
        (self.asker, self.place, self.isInsideTransaction) = (asker, place, isInsideTransaction)
        (self.above, self.secondLook) = (above, secondLook)
    }

    package enum Asker: CaseIterable, Sendable {
        /// An open reader that follows.
        case follower
        /// Opening, verifying, or about to write.
        case judge
    }

    package enum Place: CaseIterable, Sendable {
        /// The file ends here, or the next 64 bytes are zeros.
        case nothing
        /// Bytes that are not a good frame of this chain.
        case bad
        /// A header that checks, written by a newer program.
        case unsupported
        /// A good frame of the chain that breaks a rule of the format, or a header that checks but has impossible
        /// sizes.
        case invalid
    }

    package enum Above: CaseIterable, Sendable {
        case notLooked
        case zeros
        case otherBytes
        /// A hint, or a frame header that checks, proves that bytes above the place are durable.
        case evidence
    }

    package enum SecondLook: CaseIterable, Sendable {
        case none
        case same
        case changed
    }
}

package enum Verdict: Equatable, Sendable {
    /// Nothing more for now.
    case endForNow
    /// Look at the bytes above, then ask again.
    case lookAbove
    /// Read the place once more, then ask again.
    case lookAgain
    /// A writer has finished in between: read on.
    case readOn
    case end
    case tornTail
    case damage
    case unsupported
}

/// One row of the table: nil means any value.
package struct VerdictRow: Sendable {
    package var asker: StopFindings.Asker?
    package var place: StopFindings.Place?
    package var isInsideTransaction: Bool?
    package var above: StopFindings.Above?
    package var secondLook: StopFindings.SecondLook?
    package var verdict: Verdict
    package var reason: String

    package func matches(_ findings: StopFindings) -> Bool {
        (asker ?? findings.asker) == findings.asker && (place ?? findings.place) == findings.place
            && (isInsideTransaction ?? findings.isInsideTransaction) == findings.isInsideTransaction
            && (above ?? findings.above) == findings.above
            && (secondLook ?? findings.secondLook) == findings.secondLook
    }
}

extension Verdict {
    /// Exactly one row matches any findings; a test enumerates them all.
    package static let table: [VerdictRow] = [
        VerdictRow(
            place: .unsupported, verdict: .unsupported,
            reason: "A newer program wrote it: it is neither torn nor damaged."),
        VerdictRow(place: .invalid, verdict: .damage, reason: "No crash writes a good frame that breaks the rules."),
        VerdictRow(
            asker: .follower, place: .nothing, verdict: .endForNow, reason: "An open reader has read everything."),
        VerdictRow(
            asker: .follower, place: .bad, verdict: .endForNow,
            reason: "A writer may still be writing this frame: the next reading looks again."),
        VerdictRow(
            asker: .judge, place: .nothing, above: .notLooked, verdict: .lookAbove,
            reason: "Zeros may be a hole before frames that were acknowledged."),
        VerdictRow(
            asker: .judge, place: .bad, above: .notLooked, verdict: .lookAbove,
            reason: "Torn or damaged: the later bytes decide."),
        VerdictRow(
            asker: .judge, place: .nothing, above: .evidence, secondLook: StopFindings.SecondLook.none,
            verdict: .lookAgain, reason: "A writer may have finished this frame while we looked at later bytes."),
        VerdictRow(
            asker: .judge, place: .bad, above: .evidence, secondLook: StopFindings.SecondLook.none,
            verdict: .lookAgain, reason: "A writer may have finished this frame while we looked at later bytes."),
        VerdictRow(
            asker: .judge, place: .nothing, above: .evidence, secondLook: .changed, verdict: .readOn,
            reason: "A writer has finished the frame."),
        VerdictRow(
            asker: .judge, place: .bad, above: .evidence, secondLook: .changed, verdict: .readOn,
            reason: "A writer has finished the frame."),
        VerdictRow(
            asker: .judge, place: .nothing, above: .evidence, secondLook: .same, verdict: .damage,
            reason: "Later bytes were durable, so this frame was too. It was lost or corrupted."),
        VerdictRow(
            asker: .judge, place: .bad, above: .evidence, secondLook: .same, verdict: .damage,
            reason: "Later bytes were durable, so this frame was too. It was lost or corrupted."),
        VerdictRow(
            asker: .judge, place: .nothing, isInsideTransaction: false, above: .zeros, verdict: .end,
            reason: "Nothing was written here."),
        VerdictRow(
            asker: .judge, place: .nothing, isInsideTransaction: true, above: .zeros, verdict: .tornTail,
            reason: "The transaction's commit frame is missing: it never counted."),
        VerdictRow(
            asker: .judge, place: .nothing, above: .otherBytes, verdict: .tornTail,
            reason: "A write that did not finish left a hole here."),
        VerdictRow(
            asker: .judge, place: .bad, above: .zeros, verdict: .tornTail, reason: "A write did not finish."),
        VerdictRow(
            asker: .judge, place: .bad, above: .otherBytes, verdict: .tornTail,
            reason: "A write did not finish."),
    ]

    package static func of(_ findings: StopFindings) -> Verdict {
        for row in table where row.matches(findings) { return row.verdict }
        preconditionFailure("The verdict table has no row for \(findings).")
    }
}
