// A store that is open while the process forks: the parent's it stays, the child is told so, and can open it anew.

import TestSupport
import Testing

@Suite struct ForkTests {
    @Test func aChildGetsAnErrorAndNotTheStore() throws {
        let directory = try TemporaryDirectory()
        for round in 0..<5 {
            let run = try runTool(["fork", directory.path("\(round).annals")], name: "crash-helper")
            #expect(run.status == 0, "\(run.output)\(run.errors)")
        }
    }

    @Test func aChildHasItsOwnStoresInMemory() throws {
        let run = try runTool(["fork-memory"], name: "crash-helper")
        #expect(run.status == 0, "\(run.output)\(run.errors)")
    }
}
