// What contexts leave when they are gone: nothing. Tests/run leaks runs more of them.

import TestSupport
import Testing

@Suite struct ContextLeakTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    @Test func contextsLeaveNothing() throws {
        let run = try runTool(["leaks", folder.path, "200"], name: "process-helper")
        #expect(run.status == 0 && run.output.hasPrefix("leaks, 200 contexts, nothing left"), "\(run.errors)")
        try folder.expectIntact()
    }

    @Test(arguments: [
        ("object", "left: leaked object"), ("context", "left: leaked context"), ("thread", "threads left"),
        ("descriptor", "descriptors left"), ("memory", "bytes left"),
    ])
    func aLeakIsNoticed(_ plant: String, _ message: String) throws {
        let run = try runTool(["leaks", folder.path, "200", plant], name: "process-helper")
        if plant == "memory", run.output.contains("memory not counted") { return }
        #expect(run.status == 1 && run.errors.contains(message), "\(run.errors)")
        try folder.expectIntact()
    }
}
