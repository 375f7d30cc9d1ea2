// The recovery table: every input that there is matches exactly one row, and the page about it says the same.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct VerdictTests {
    private static var everyFinding: [StopFindings] {
        var all: [StopFindings] = []
        for asker in StopFindings.Asker.allCases {
            for place in StopFindings.Place.allCases {
                for isInside in [false, true] {
                    for above in StopFindings.Above.allCases {
                        for look in StopFindings.SecondLook.allCases {
                            all.append(
                                StopFindings(
                                    asker: asker, place: place, isInsideTransaction: isInside, above: above,
                                    secondLook: look))
                        }
                    }
                }
            }
        }
        return all
    }

    @Test func exactlyOneRowMatchesAnyFindings() {
        #expect(Self.everyFinding.count == 2 * 4 * 2 * 4 * 3)
        for findings in Self.everyFinding {
            let rows = Verdict.table.filter { $0.matches(findings) }
            #expect(rows.count == 1, "\(findings): \(rows.map(\.verdict))")
        }
    }

    @Test func everyRowMatchesSomeFindings() {
        for row in Verdict.table {
            #expect(Self.everyFinding.contains { row.matches($0) }, "\(row) matches nothing")
        }
    }

    /// What must never happen, said without the table.
    @Test func noWriterOverwritesDurableBytes() {
        for findings in Self.everyFinding where findings.above == .evidence && findings.secondLook == .same {
            let verdict = Verdict.of(findings)
            #expect(verdict != .tornTail && verdict != .end, "\(findings)")
        }
        for findings in Self.everyFinding where findings.asker == .follower {
            #expect(
                [.endForNow, .damage, .unsupported].contains(Verdict.of(findings)),
                "a reader decides nothing: \(findings)")
        }
    }

    @Test func thePageHasTheSameTable() throws {
        let page = PackageFolder.url("Sources/Annals/Annals.docc/Recovery.md")
        let text = try String(decoding: Data(contentsOf: page), as: UTF8.self)
        let rows = text.split(separator: "\n").filter { $0.hasPrefix("| ") && $0.contains("`") }.map(String.init)
        let expected = Verdict.table.map { row in
            "| " + (row.asker.map { "\($0)" } ?? "any") + " | " + (row.place.map { "\($0)" } ?? "any") + " | "
                + (row.isInsideTransaction.map { $0 ? "yes" : "no" } ?? "any") + " | "
                + (row.above.map { "\($0)" } ?? "any") + " | " + (row.secondLook.map { "\($0)" } ?? "any")
                + " | `\(row.verdict)` | \(row.reason) |"
        }
        #expect(rows == expected, "\(expected.joined(separator: "\n"))")
    }
}
