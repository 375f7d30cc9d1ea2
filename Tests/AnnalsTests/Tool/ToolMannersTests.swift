// Manners of the tool: wrong invocations, questions, explanations, completion, progress.

import Annals
import FoundationEssentials
import TestSupport
import Testing
import annals

@Suite struct ToolMannersTests {
    private static let item = EntityDescription(
        "Item", attributes: [AttributeDescription("name", .string, isUnique: true)])

    // MARK: Wrong invocations

    private struct Known {
        var name: String
        /// With the name of the value, or none.
        var options: [(name: String, value: String?)] = []
        /// The required ones, and whether more may follow.
        var operands: [String] = []
        var takesMore = false
    }

    /// The commands as help shows them.
    private func commands() throws -> [Known] {
        let help = try runTool(["help"]).output.split(separator: "\n", omittingEmptySubsequences: false)
        let table = help.drop { !$0.hasPrefix("  ") }.prefix { $0.hasPrefix("  ") }
        let names = table.compactMap { $0.firstMatch(of: /^ {2}([a-z-]+(?: [a-z]+)?) {2}/).map { String($0.output.1) } }
        return try names.map { name in
            let text = try runTool(["help"] + name.split(separator: " ").map(String.init)).output
            var known = Known(name: name)
            for line in text.split(separator: "\n") {
                guard let match = line.firstMatch(of: /^ {2}--([a-z-]+)(?: ([A-Z][A-Z.…,=]*))?/) else { continue }
                known.options.append((String(match.1), match.2.map(String.init)))
            }
            let usage = text.prefix { $0 != "\n" }.replacing("usage: annals " + name, with: "")
            let operands = usage.split(separator: " ").filter { !$0.hasPrefix("[OPTION") }
            known.operands = operands.filter { !$0.hasPrefix("[") }.map(String.init)
            known.takesMore = operands.last?.contains("…") ?? false
            if !known.takesMore {
                known.operands.append(contentsOf: operands.filter { $0.hasPrefix("[") }.map(String.init))
            }
            return known
        }
    }

    /// Every command refuses each kind of mistake before it prints or writes anything. The message has the mistake, and
    /// the right form or the way to it.
    @Test func everyMistakeIsNamed() throws {
        let temporary = try TemporaryDirectory()
        var count = 0
        func expect(_ arguments: [String], names mistake: String, _ right: String = "") throws {
            count += 1
            let run = try runTool(arguments)
            let comment = Comment(rawValue: "\(arguments): \(run)")
            #expect(run.status == 64 && run.output == "", comment)
            #expect(run.errors.hasPrefix("annals: ") && run.errors.contains(mistake), comment)
            #expect(run.errors.contains(right) && run.errors.contains("Try: annals help"), comment)
        }
        let commands = try commands()
        #expect(commands.count > 25)
        for known in commands {
            let words = known.name.split(separator: " ").map(String.init)
            let required = known.operands.filter { !$0.hasPrefix("[") }
            let operands = required.map { temporary.path($0.filter(\.isLetter)) }
            // Letters that are exchanged, missing or doubled.
            if words.count == 1, known.name.count > 3 {
                var letters = Array(known.name)
                letters.swapAt(1, 2)
                if letters[1] != letters[2] { try expect([String(letters)], names: "“\(String(letters))”", known.name) }
                try expect([known.name + "x"], names: "“\(known.name)x”", "Did you mean")
                try expect([String(known.name.dropLast())], names: "no command", "Did you mean")
            }
            for option in known.options {
                let typed = "--" + option.name.dropLast()
                try expect(words + operands + [typed], names: "“\(typed)”")
                if option.name.count > 4 {
                    try expect(
                        words + operands + ["--" + option.name + "s"], names: "--\(option.name)s", "Did you mean")
                }
                if option.value == nil {
                    try expect(words + operands + ["--\(option.name)=1"], names: "“--\(option.name)” takes no value")
                    try expect(words + operands + ["--\(option.name)", "--\(option.name)"], names: "given twice")
                } else {
                    try expect(words + operands + ["--\(option.name)"], names: "“--\(option.name)” needs a value")
                }
            }
            if let last = required.last, !required.isEmpty {
                try expect(words + operands.dropLast(), names: last)
            }
            if !known.takesMore {
                let many = (0...known.operands.count).map { "operand\($0)" }
                try expect(words + many, names: "“operand\(known.operands.count)”")
            }
            try expect(words + operands + ["-x"], names: "“-x”")
            try expect(words + operands + ["--format", "xml"], names: "xml")
        }
        #expect(count > 300, "\(count)")
        #expect(temporary.names == [])
    }

    // MARK: Questions

    @Test func removingTheHistoryOfAnEntityAsksFirst() throws {
        let folder = try StoreFolder()
        let store = try folder.open([Self.item])
        for name in ["a", "b"] { try store.write { try $0.insert("Item", ["name": .string(name)]) } }
        try store.close()
        let command = ["retention", folder.path, "off", "--entity", "Item"]
        let loss =
            "This removes the history of “Item”: the changes of its objects in 2 transactions. The objects stay.\n"
        for answer in ["n", "", "perhaps"] {
            let refused = try runOnTerminal(command, columns: 120, input: answer + "\n")
            #expect(refused.status == 1 && refused.output.contains(loss), "\(refused)")
            #expect(refused.output.hasSuffix("annals: Nothing was changed.\n"), "\(refused)")
        }
        #expect(try runTool(["history", folder.path, "--entity", "Item", "--count"]).output == "2\n")
        let done = try runOnTerminal(command, columns: 120, input: "y\n")
        #expect(done.status == 0 && done.output.contains("No history of Item is kept."), "\(done)")
        // Nothing is lost any more, so there is no question.
        #expect(try !runOnTerminal(command, columns: 120).output.contains("This removes"))
        #expect(try runTool(["retention", folder.path, "full", "--entity", "Item"]).status == 0)
        #expect(try runTool(["insert", folder.path, "Item", "name=c"]).status == 0)
        // Without a terminal, or with --yes, it does not ask.
        let piped = try runTool(command)
        #expect(piped.status == 0 && piped.errors.contains("in 1 transactions"), "\(piped)")
        #expect(try runTool(["retention", folder.path, "full", "--entity", "Item"]).status == 0)
        #expect(try runOnTerminal(command + ["--yes"], columns: 120).status == 0)
        let unknown = try runTool(["retention", folder.path, "off", "--entity", "Itm"])
        #expect(unknown.status == 1 && unknown.errors.contains("“Itm”"), "\(unknown)")
        try folder.expectIntact()
    }

    // MARK: Explanations

    /// Each rule of FileFormat.md is explained.
    @Test func everyRuleOfTheFormatIsExplained() throws {
        let page = try String(
            contentsOf: PackageFolder.url("Sources/Annals/Annals.docc/FileFormat.md"), encoding: .utf8)
        let rules = page.matches(of: /\n- \*\*(F\d+)\*\*/).map { String($0.output.1) }
        #expect(rules.count >= 37)
        for rule in rules {
            let run = try runTool(["verify", "--explain", rule.lowercased()])
            #expect(run.status == 0 && run.output.hasPrefix(rule + ": "), "\(run)")
            #expect(run.output.contains("\nCause: ") && run.output.contains("\nRemedy: "), "\(run)")
        }
        for wrong in ["F\(rules.count + 1)", "F0", "7", "", "F7x"] {
            let run = try runTool(["verify", "--explain", wrong])
            #expect(run.status == 64 && run.errors.contains("F1 to F\(rules.count)"), "\(run)")
        }
        #expect(try runTool(["verify"]).status == 64)
        #expect(try runTool(["verify", "store", "--explain", "F7"]).status == 64)
    }

    // MARK: Shells and manuals

    @Test func bashCompletesCommandsAndOptions() throws {
        let temporary = try TemporaryDirectory()
        try temporary.write(try runTool(["completion", "bash"]).output, to: "script")
        try temporary.write("", to: "shop.annals")
        func completed(_ words: [String]) throws -> Set<String> {
            let array = words.map { "'" + $0.replacing("'", with: "'\\''") + "'" }.joined(separator: " ")
            let script = """
                cd \(temporary.path("")); source ./script; COMP_WORDS=(\(toolPath("annals")) \(array))
                COMP_CWORD=\(words.count)
                _annals; printf '%s\\n' "${COMPREPLY[@]}"
                """
            let run = try runTool(["-c", script], name: "/bin/bash")
            #expect(run.status == 0 && run.errors == "", "\(run)")
            return Set(run.output.split(separator: "\n").map(String.init))
        }
        #expect(try completed(["hi"]) == ["history"])
        #expect(try completed(["re"]) == ["retention", "revert", "restore", "report"])
        #expect(try completed(["mirror", ""]) == ["run", "status", "leave", "forget", "adopt"])
        #expect(try completed(["mirror", "status", "--"]) == ["--format", "--help"])
        #expect(try completed(["history", "--not-"]) == ["--not-author", "--not-context", "--not-entity"])
        #expect(try completed(["history", "shop.annals", "--foll"]) == ["--follow"])
        // The shell completes files itself.
        #expect(try completed(["history", "sh"]) == [])
        #expect(try completed(["help", "histo"]) == ["history"])
        #expect(try completed(["help", "mirror", "st"]) == ["status"])
        #expect(try completed(["completion", "f"]) == ["fish"])
        #expect(try completed(["find", "shop.annals", "Item", "--format", ""]) == ["jsonl", "json", "csv", "table"])
        // A word that the tool does not know is a file, and so is the value of an option.
        #expect(try completed(["histo", "sh"]) == [])
        #expect(try completed(["verify", "--format=", "--exp"]) == ["--explain"])
        #expect(try completed(["backup", "shop.annals", "a b's $(x)"]) == [])
        #expect(try runTool(["completion", "zsh"]).output.contains("bashcompinit"))
        #expect(try runTool(["completion", "fish"]).output.contains("(annals completion fish -- "))
        let described = try runTool(["completion", "fish", "--", "history", "--not-"]).output
        #expect(described.contains("--not-author\tno transactions"), "\(described)")
        #expect(try runTool(["completion", "csh"]).status == 64)
    }

    @Test func theManualPageHasEveryCommandAndOption() throws {
        let page = try runTool(["help", "--man"]).output
        #expect(page.hasPrefix(".TH ANNALS 1"))
        for known in try commands() {
            let name = known.name.replacing("-", with: "\\-")
            #expect(page.contains("\n.SS annals \(name)"), "\(name)")
            for option in known.options {
                let text = "--" + option.name + (option.value.map { " " + $0 } ?? "")
                #expect(page.contains("\n.B \(text.replacing("-", with: "\\-"))"), "\(text)")
            }
        }
        #expect(try runTool(["help", "load", "--man"]).status == 64)
    }

    // MARK: Errors and formats

    @Test func errorsNameObjectsByTheirLabels() throws {
        let folder = try StoreFolder()
        let store = try folder.open([Self.item])
        for number in 1...12 { try store.write { try $0.insert("Item", ["name": .string("n\(number)")]) } }
        try store.close()
        let taken = try runTool(["set", folder.path, "Item", "n12", "name=n1"])
        #expect(taken.status == 1 && taken.errors.contains("object n1 (1:1) has this value"), "\(taken)")
        let other = try runTool(["insert", folder.path, "Item", "name=n12"])
        #expect(other.status == 1 && other.errors.contains("object n12 (1:12) has this value"), "\(other)")
        try folder.expectIntact()
    }

    @Test func findPrintsAnArray() throws {
        let folder = try StoreFolder()
        let store = try folder.open([Self.item])
        for name in ["a", "b"] { try store.write { try $0.insert("Item", ["name": .string(name)]) } }
        try store.close()
        func found(_ arguments: String...) throws -> String {
            try runTool(["find", folder.path, "Item", "--bare"] + arguments).output
        }
        #expect(try found("--format", "json") == "[{\"name\":\"a\"}\n,{\"name\":\"b\"}\n]\n")
        #expect(try found("--format", "json", "--limit", "0") == "[]\n")
        #expect(try found("--format", "jsonl") == "{\"name\":\"a\"}\n{\"name\":\"b\"}\n")
        try folder.expectIntact()
    }

    // MARK: Progress

    @Test(
        arguments: [
            (1_200_000, "rows", 0.41, 27, "41 %: 1,200,000 rows, 44,444 a second, 39s left"),
            (0, "rows", 0, 0, "0 rows, 0 a second"), (500, "rows", nil, 2, "500 rows, 250 a second"),
            (50_000_000, "bytes", 0.5, 1, "50 %: 50 MB, 50 MB a second, 1s left"),
            (10, "rows", 0.01, 60, "1 %: 10 rows, 0 a second, 1h 39min left"),
            (10, "rows", 0.1, 60, "10 %: 10 rows, 0 a second, 9min left"),
            (10, "rows", 1.0, 10, "100 %: 10 rows, 1 a second, 0s left"),
        ] as [(UInt64, String, Double?, Double, String)])
    func progressHasRateAndRemainingTime(count: UInt64, unit: String, part: Double?, seconds: Double, text: String) {
        #expect(Progress.line(count, unit, part: part, seconds) == text)
    }
}
