// The tool from outside: what it prints, where, and with which status it ends; and its arguments from inside.

import Annals
import Glibc
import TestSupport
import Testing
import annals

@Suite struct ToolTests {
    @Test(arguments: [["help"], ["--help"], ["-h"]]) func helpListsCommandsAndStatuses(arguments: [String]) throws {
        let run = try runTool(arguments)
        #expect(run.status == 0 && run.errors == "")
        #expect(run.output.hasPrefix("annals: ") && run.output.hasSuffix("\n"))
        for words in ["  help  ", "  0    done", "  64   wrong usage", "  65   ", "  75   ", "  141  "] {
            #expect(run.output.contains(words), "\(words)")
        }
    }

    @Test(arguments: [["help", "help"], ["help", "--help"], ["help", "-h", "--unknown"], ["--help", "help"]])
    func helpExplainsOneCommand(arguments: [String]) throws {
        let run = try runTool(arguments)
        #expect(run.status == 0 && run.errors == "")
        #expect(run.output.hasPrefix("usage: annals help [OPTION…] [COMMAND…]\n"))
    }

    @Test(arguments: [
        [], [""], ["unknown"], ["-x"], ["--"], ["help", "unknown"], ["help", "help", "help"], ["help", "--option"],
        ["help", "-x"], ["help", "--", "--help"],
    ])
    func wrongUsageIsRefusedWithAHint(arguments: [String]) throws {
        let run = try runTool(arguments)
        #expect(run.status == 64 && run.output == "")
        #expect(run.errors.hasPrefix("annals: ") && run.errors.contains("\nTry: annals help"))
    }

    @Test func controlCharactersDoNotReachTheTerminal() throws {
        let run = try runTool(["\u{1b}[2J\n\u{202e}\u{7f}ä"])
        #expect(run.status == 64)
        #expect(run.errors.contains("“\\u{1b}[2J\\u{a}\\u{202e}\\u{7f}ä”"))
    }

    @Test func outputThatCannotBeWrittenIsAFailure() throws {
        let full = try runTool(["help"], standardOutput: "/dev/full")
        #expect(full.status == 1 && full.errors.contains("no space is left"))
        let closed = try runTool(["help"], closing: [1])
        #expect(closed.status == 1 && closed.errors.contains("could not be written"))
        let silent = try runTool(["help"], standardOutput: "/dev/full", closing: [2])
        #expect(silent.status == 1)
    }

    @Test func aPipeWithoutAReaderEndsTheToolSilently() throws {
        let temporary = try TemporaryDirectory()
        mkfifo(temporary.path("pipe"), 0o600)
        let reader = open(temporary.path("pipe"), O_RDONLY | O_NONBLOCK | O_CLOEXEC)
        let writer = open(temporary.path("pipe"), O_WRONLY | O_CLOEXEC)
        close(reader)
        defer { close(writer) }
        let run = try runTool(["help"], descriptor: writer)
        #expect(run.signal == nil && run.status == 141 && run.errors == "")
    }
}

@Suite struct ArgumentsTests {
    static let command = Command(
        "list", "Lists.", operands: ["STORE", "[NAME]"],
        options: [.init("limit", value: "NUMBER", "At most so many."), .init("all", "Everything.")],
        run: { (_, _) throws(ToolFailure) in ExitStatus.done })

    func parse(_ arguments: [String]) throws -> Arguments { try Arguments(arguments, for: Self.command) }

    @Test func optionsMayBeAnywhere() throws {
        for arguments in [
            ["--limit", "5", "--all", "store", "name"], ["store", "--limit=5", "name", "--all"],
            ["--all", "store", "--limit", "5", "--", "name"],
        ] {
            let parsed = try parse(arguments)
            #expect(parsed.operands == ["store", "name"] && parsed.has("all"))
            #expect(try parsed.number(of: "limit") == 5)
        }
        let bare = try parse(["-"])
        #expect(bare.operands == ["-"] && !bare.has("all") && bare.value(of: "limit") == nil)
        #expect(try bare.number(of: "limit") == nil)
        #expect(try parse(["--", "--all", "--"]).operands == ["--all", "--"])
        #expect(try parse(["s", "--limit=--a=b"]).value(of: "limit") == "--a=b")
        #expect(try parse(["s", "--limit="]).value(of: "limit") == "")
        #expect(try parse(["s", "--limit", "-1"]).value(of: "limit") == "-1")
    }

    @Test(arguments: [
        ([], "needs STORE"), (["--all"], "needs STORE"), (["a", "b", "c"], "“c”"), (["a", "--none"], "“--none”"),
        (["a", "--none=1"], "“--none”"), (["a", "-all"], "“-all”"), (["a", "---all"], "“---all”"),
        (["a", "--all=1"], "takes no value"), (["a", "--all", "--all"], "twice"), (["a", "--limit"], "needs a value"),
        (["a", "--limit", "--all"], "needs a value"), (["a", "--limit=1", "--limit=1"], "twice"),
        (["a", "--=x"], "“--”"),
    ])
    func otherArgumentsAreRefused(arguments: [String], words: String) {
        let failure = #expect(throws: ToolFailure.self) { try parse(arguments) }
        #expect(failure?.status == .usage && failure?.hint == "Try: annals help list")
        #expect(failure?.message.contains(words) == true, "\(failure?.message ?? "")")
    }

    @Test(arguments: ["", "+5", "-5", "5 ", "0x5", "٥", "18446744073709551616"])
    func invalidNumbersAreRefused(text: String) throws {
        let parsed = try parse(["s", "--limit=" + text])
        #expect(throws: ToolFailure.self) { try parsed.number(of: "limit") }
    }

    @Test func errorsOfTheLibraryHaveTheirStatus() {
        let expected: [(StoreError.Code, annals::ExitStatus)] = [
            (.damaged, .damaged), (.truncated, .damaged), (.diverged, .damaged), (.notAStore, .damaged),
            (.busy, .busy), (.invalidArgument, .usage), (.noSpace, .failed), (.tokenExpired, .failed),
        ]
        for (code, status) in expected {
            #expect(ToolFailure(StoreError(code, "Something.")).status == status, "\(code)")
        }
    }
}
