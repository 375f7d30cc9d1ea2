// A tracker that has nothing to do makes no system call.

import Annals
import FoundationEssentials
import Glibc
import TestSupport
import Testing

@Suite struct TrackerIdleTests {
    /// How often the threads of a process were given a processor: a thread that makes no system call and does not
    /// compute is not counted. Left out is the thread of the runtime that looks at its pool once a second, in every
    /// program that has tasks.
    private func turns(of process: UInt32) throws -> [String: Int] {
        var turns: [String: Int] = [:]
        for thread in try FileManager.default.contentsOfDirectory(atPath: "/proc/\(process)/task") {
            let name = (try? String(contentsOfFile: "/proc/\(process)/task/\(thread)/comm", encoding: .utf8)) ?? ""
            if name.hasSuffix("-qos.overcommit\n") { continue }
            // A thread may end meanwhile.
            let status = (try? String(contentsOfFile: "/proc/\(process)/task/\(thread)/status", encoding: .utf8)) ?? ""
            turns[thread] = status.split(separator: "\n").filter { $0.contains("ctxt_switches") }
                .compactMap { Int($0.split(separator: "\t").last ?? "") }.reduce(0, +)
        }
        return turns
    }

    @Test func anIdleTrackerDoesNothing() async throws {
        let folder = try StoreFolder()
        let process = try RunningTool(["idle", folder.path], name: "process-helper")
        var lines: Set<String> = []
        while lines.count < 2 { lines.insert(try #require(process.line(), "it has not come so far")) }
        #expect(lines == ["seen", "idle"])
        // The threads of the pool end after some seconds. A thread that looked in intervals would never be still.
        var before = try turns(of: process.processID)
        var isStill = false
        for _ in 0..<40 where !isStill {
            try await Task.sleep(for: .seconds(3))
            let now = try turns(of: process.processID)
            isStill = now == before
            before = now
        }
        #expect(isStill, "\(before)")
        process.signal(SIGKILL)
        #expect(process.end().signal == SIGKILL)
        try folder.expectIntact()
    }
}
