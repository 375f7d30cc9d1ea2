// The README's program for tracking, as three processes.

import Annals
import TestSupport
import Testing

@Suite struct TrackingSampleTests {
    @Test func threeProcessesFollowEachOther() throws {
        let folder = try StoreFolder()
        let processes = try ["import", "share", "app"].map { role in
            try RunningTool([folder.path, role], name: "sample-tracking")
        }
        var lines: [String] = []
        while let line = processes[2].line() { lines.append(line) }
        let runs = processes.map { $0.end() }
        for run in runs { #expect(run.status == 0, "\(run.output)\(run.errors)") }
        // The default logger says what is unusual, and not what was done.
        for run in runs { #expect(!run.errors.contains("HistoryTracker info"), "\(run.errors)") }
        // Who of the two others comes first is open.
        #expect(Set(lines.dropLast()) == ["3 new clips", "500 new clips"] && lines.count == 3)
        #expect(lines.last == "Not saved 503 true")
        let store = try folder.open()
        #expect(try store.horizon > 0 && store.consumers.map(\.name).sorted() == ["app", "share"])
        try store.close()
        try folder.expectIntact()
    }
}
