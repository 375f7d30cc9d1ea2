// `annals mirror run` and `annals mirror status`: their usage, their ends, and what they print.

import Annals
import Glibc
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(20))) struct MirrorToolTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    @Test(arguments: [
        ([], "needs run"), (["begin"], "needs run"), (["run"], "needs STORE"),
        (["run", "s"], "--nats or --folder"), (["run", "s", "--folder", "f"], "--group is missing"),
        (["run", "s", "--group", "g", "--folder", "f", "--nats", "h"], "cannot be given together"),
        (["run", "s", "--group", "g", "--folder", "f", "--token", "t"], "--token belongs to --nats"),
        (["run", "s", "--group", "g", "--folder", "f", "--require-replicas", "3"], "belongs to --nats"),
        (["run", "s", "--group", "g", "--nats", "h", "--password", "p"], "--password needs --user"),
        (["run", "s", "--group", "g", "--nats", "h", "--user", "u"], "--user needs a password"),
        (["run", "s", "--group", "g", "--nats", "h", "--user", "u", "--token", "t"], "cannot be given together"),
        (["run", "s", "--group", "g", "--nats", "h", "--require-replicas", "x"], "takes a whole number"),
        (["status"], "needs STORE"), (["status", "s", "--group", "g"], "has no option"),
    ])
    func wrongUsageIsRefusedWithAHint(arguments: [String], words: String) throws {
        let run = try runTool(["mirror"] + arguments)
        #expect(run.status == 64 && run.output == "")
        #expect(run.errors.contains(words) && run.errors.contains("\nTry: annals help mirror"), "\(run.errors)")
    }

    @Test(arguments: [["help", "mirror"], ["mirror", "--help"], ["mirror", "-h"]])
    func helpListsTheCommandsOfTwoWords(arguments: [String]) throws {
        let run = try runTool(arguments)
        #expect(run.status == 0 && run.errors == "")
        #expect(run.output.contains("annals mirror run ") && run.output.contains("annals mirror status "))
    }

    @Test(arguments: [["help", "mirror", "run"], ["mirror", "run", "--help"]])
    func helpExplainsACommandOfTwoWords(arguments: [String]) throws {
        let run = try runTool(arguments)
        #expect(run.status == 0 && run.output.hasPrefix("usage: annals mirror run [OPTION…] STORE\n"))
    }

    @Test func anImpossibleAddressIsWrongUsage() throws {
        try folder.open([ChangeSignalTests.clip]).close()
        for options in [["--nats", "tls://host"], ["--nats", "h", "--require-replicas", "9"], ["--folder", ""]] {
            let run = try runTool(["mirror", "run", folder.path, "--group", "g"] + options)
            #expect(run.status == 64 && run.output == "", "\(run.errors)")
        }
        try folder.expectIntact()
    }

    @Test func theStatusOfAStoreWithoutAMirrorIsNoFailure() throws {
        try folder.open([ChangeSignalTests.clip]).close()
        let json = try runTool(["mirror", "status", folder.path])
        #expect(json.status == 0 && json.output == "{\"mirrored\":false}\n" && json.errors == "")
        let text = try runTool(["mirror", "status", folder.path, "--format", "text"])
        #expect(text.status == 0 && text.output.hasPrefix("This store was never mirrored."))
        try folder.expectIntact()
    }

    @Test(arguments: [SIGTERM, SIGINT]) func aSignalEndsTheMirrorWithSuccess(number: Int32) throws {
        let shared = try TemporaryDirectory()
        let store = try folder.open([ChangeSignalTests.clip])
        try store.write { try $0.insert("Clip", ["title": "t"]) }
        let tool = try RunningTool(["mirror", "run", folder.path, "--group", "g", "--folder", shared.path])
        var line = try #require(tool.line())
        #expect(line.hasPrefix("{\"running\":true,\"bytesSent\":"))
        while line.contains(",\"published\":0,") { line = try #require(tool.line()) }
        tool.signal(number)
        while let next = tool.line() { line = next }
        let run = tool.end()
        #expect(run.status == 0, "\(run.errors)")
        #expect(line.hasPrefix("{\"running\":false,"), "\(line)")
        try store.close()
        try folder.expectIntact(beside: ["s.annals.mirror"])
    }

    @Test func anErrorIsPrintedOnceAndTheMirrorGoesOn() throws {
        let shared = try TemporaryDirectory()
        let store = try folder.open([ChangeSignalTests.clip])
        try store.write { try $0.insert("Clip", ["title": "t"]) }
        let missing = shared.path("missing")
        let tool = try RunningTool(["mirror", "run", folder.path, "--group", "g", "--folder", missing])
        var line = ""
        while !line.contains("\"code\":\"courierUnreachable\"") { line = try #require(tool.line()) }
        mkdir(missing, 0o700)
        while !line.contains("\"error\":null") { line = try #require(tool.line()) }
        tool.signal(SIGTERM)
        let run = tool.end()
        #expect(run.status == 0)
        #expect(run.errors.split(separator: "\n").count { $0.contains("does not exist") } == 1, "\(run.errors)")
        try store.close()
        try folder.expectIntact(beside: ["s.annals.mirror"])
    }
}
