// Rules about the source text that no compiler checks: who may call the system, what may be imported, who knows whom.

import TestSupport
import Testing

@Suite struct SourceRulesTests {
    /// The folders of the library in their rank: a folder may use itself and the folders before it.
    static let folders =
        [
            "System", "Format", "Log", "Index", "Draft", "Engine", "Upkeep", "Handle",
        ].map { "File/" + $0 }
        + ["Model", "Store", "History", "Exchange", "Search", "Modelling", "Fetching", "Objects", "Tracking"]

    /// What a folder may import. Only two folders use the C library: one for the system, one for memory.
    static func allowedImports(_ folder: String) -> Set<Substring> {
        switch folder {
        case "File/System", "File/Format": ["Glibc", "Musl", "Synchronization"]
        case _ where folder.hasPrefix("File/"): ["Synchronization"]
        case "Tracking": ["FoundationEssentials", "Glibc", "Musl", "Synchronization"]
        case "Modelling", "Fetching", "Objects": ["FoundationEssentials", "Observation", "Synchronization"]
        default: ["FoundationEssentials", "Synchronization"]
        }
    }

    /// The C library's functions; a method of the same name (`files.open(`) is another matter.
    static let calls = [
        "access", "arc4random", "clock_gettime", "clock_nanosleep", "close", "dlsym", "dup", "dup2", "fallocate",
        "fchmod", "fchown", "fcntl", "fdatasync", "fork", "fstat", "fstatat", "fsync", "ftruncate", "getentropy",
        "getenv", "getpid", "gettimeofday", "inotify_add_watch", "inotify_init1", "inotify_rm_watch", "kill", "linkat",
        "lockf", "lseek", "lstat", "madvise", "mmap", "msync", "munmap", "nanosleep", "open", "openat", "opendir",
        "pipe", "poll", "posix_fallocate", "pread", "preadv", "pthread_atfork", "pthread_cond_init",
        "pthread_cond_wait",
        "pthread_create", "pthread_join", "pthread_mutex_init", "pthread_mutex_lock", "pthread_self", "pwrite",
        "pwritev", "read", "readdir", "readlink", "realpath", "rename", "renameat", "stat", "strerror", "sysconf",
        "time", "unlink", "unlinkat", "usleep", "write", "writev",
    ]

    private static let library = SourceFile.all(under: "Sources/Annals")

    var sources: [SourceFile] { Self.library }

    @Test func theSourcesAreFound() {
        #expect(sources.count > 8)
        #expect(sources.contains { $0.name == "SystemCalls.swift" && $0.folder == "File/System" })
    }

    @Test func onlySystemCallsCallTheSystem() {
        for (folder, files) in Dictionary(grouping: sources, by: \.folder) where folder.hasPrefix("File/") {
            let declared = folder == "File/System" ? [] : Self.functions(in: files)
            for file in files where !file.name.hasPrefix("SystemCalls") {
                #expect(Self.callsOfTheSystem(in: file, except: declared) == [])
            }
        }
    }

    @Test func eachFolderImportsOnlyAllowedModules() {
        for file in sources { #expect(Self.foreignImports(in: file) == [], "\(file.path)") }
    }

    /// OD2: a path that is cut by counting leads to another file as soon as a name has more bytes than characters.
    @Test func onlyPathTypesJoinAndSplitPaths() {
        let others = sources.filter {
            !["Modelling", "Fetching", "Objects"].contains($0.folder) && !Self.cutsPaths.contains($0.name)
        }
        #expect(others.count > 200)
        for file in others { #expect(Self.pathSurgery(in: file.text) == [], "\(file.path)") }
        let planted = """
            let parent = path.dropLast(name.utf8.count + 1)
            let inside = directoryPath + "/" + name
            let last = url.path.split(separator: "/")
            let end = log.path.utf8.lastIndex(of: slash)
            // path.dropLast(1)
            let name = StorePlace.path(of: name, in: path)
            """
        #expect(Self.pathSurgery(in: planted) == [1, 2, 3, 4])
    }

    private static let cutsPaths = [
        "StorePlace.swift", "RealFileSystem.swift", "MemoryFolder.swift", "RealEnvironment.swift",
    ]

    private static func pathSurgery(in text: String) -> [Int] {
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        // Otherwise “log.path” is one word.
        let cut = /\b([pP]ath|directory|folder)(\.utf8)?\.(drop|prefix|suffix|split|(last|first)Index|remove)/
            .wordBoundaryKind(.simple)
        let join = /\b(\w*[pP]ath|directory|folder) \+ "\//.wordBoundaryKind(.simple)
        return lines.indices.filter { index in
            let isComment = lines[index].drop { $0 == " " }.hasPrefix("//")
            return !isComment && (lines[index].contains(cut) || lines[index].contains(join))
        }.map { $0 + 1 }
    }

    /// `swift build -c release --build-tests`, as the scripts for longer runs build them, makes no module testable.
    @Test func noTestUsesATestableImport() {
        let tests = SourceFile.all(under: "Tests")
        #expect(tests.count > 50)
        for file in tests {
            #expect(!file.codeLines.contains { $0.line.hasPrefix("@testable ") }, "\(file.path)")
        }
    }

    @Test func noFolderUsesALaterOne() {
        let violations = Self.layerViolations(in: sources)
        #expect(violations == [])
        let strangers = sources.filter { !Self.folders.contains($0.folder) }
        #expect(strangers.map(\.path) == [])
    }

    @Test func everyInvariantHasItsOwnNumberAndAssertsQuoteOnlyThese() {
        let all = sources + SourceFile.all(under: "Sources/AnnalsTool")
        let found = Self.invariants(in: all)
        #expect(found.count > 100)
        #expect(Set(found).count == found.count, "\(found.filter { name in found.count { $0 == name } > 1 })")
        let quoted = Self.quotedInvariants(in: all)
        #expect(quoted.count > 80)
        #expect(Set(quoted).subtracting(found) == [])
    }

    /// An invariant that nothing quotes is forgotten when code breaks it.
    @Test func everyInvariantIsQuoted() {
        let all = sources + SourceFile.all(under: "Sources/AnnalsTool")
        let found = Set(Self.invariants(in: all))
        let quoted = Self.quotes(of: found, in: all + ["Tests", "Fuzz"].flatMap { SourceFile.all(under: $0) })
        #expect(found.subtracting(quoted).sorted() == [])
    }

    @Test func theFileLayerHasEnoughAssertions() {
        let files = sources.filter { $0.folder.hasPrefix("File/") && !Self.tables.contains($0.name) }
        let lines = files.reduce(0) { $0 + $1.text.count { $0 == "\n" } }
        #expect(lines > 20_000)
        #expect(Self.assertions(in: files) * 1000 >= lines * 8)
    }

    /// Data that a script makes.
    private static let tables = ["CaseTables.swift", "CompositionTables.swift", "UnicodeTables.swift"]

    @Test func noLineIsLongerThan120Columns() {
        let files = ["Sources", "Tests", "Fuzz"].flatMap { SourceFile.all(under: $0) }
        for file in files + Self.scripts { #expect(Self.longLines(in: file.text) == [], "\(file.path)") }
        #expect(Self.longLines(in: "// a\n// " + String(repeating: "b", count: 118) + "\n") == [2])
        #expect(Self.longLines(in: "// " + String(repeating: "é", count: 117)) == [])
    }

    private static func longLines(in text: String) -> [Int] {
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        return lines.indices.filter { lines[$0].count > 120 }.map { $0 + 1 }
    }

    private static let scripts = [".sh", ".py"].flatMap { SourceFile.all(under: "Tests/Scripts", ending: $0) }

    /// `Tests/run` lists the sentences, and prints the whole comment.
    @Test func everyScriptBeginsWithItsPurposeAndItsUsage() {
        let runnable = Self.scripts.filter { $0.folder.isEmpty }
        #expect(runnable.count > 20)
        for script in runnable {
            #expect(Self.faults(ofScript: script.name, script.text) == [], "\(script.path)")
            #expect(script.isExecutable, "\(script.path)")
        }
        let text = "#!/usr/bin/env bash\n# Does it.\n#\n# Usage: Tests/run it [ALL]\n"
        #expect(Self.faults(ofScript: "it.sh", text) == [])
        #expect(Self.faults(ofScript: "it.py", "#!/bin/sh\nset -eu\n").count == 3)
        #expect(Self.faults(ofScript: "that.sh", text).count == 1)
    }

    private static func faults(ofScript file: String, _ text: String) -> [String] {
        let isPython = file.hasSuffix(".py")
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        var faults: [String] = []
        if lines[0] != "#!/usr/bin/env " + (isPython ? "python3" : "bash") { faults.append("another interpreter") }
        let sentence = lines.count > 1 ? lines[1] : ""
        // The list has them in 120 columns, after the names.
        let isSentence = sentence.hasPrefix(isPython ? "\"\"\"" : "# ") && sentence.hasSuffix(".")
        if !isSentence || sentence.count > 105 { faults.append("no sentence in the second line, or a long one") }
        let usage = "Usage: Tests/run " + file.prefix { $0 != "." }
        if !lines.contains(where: { $0.hasSuffix(usage) || $0.contains(usage + " ") }) { faults.append("no usage") }
        return faults
    }

    @Test func everyEnvironmentVariableOfTestsIsInTheTable() throws {
        let page = try #require(SourceFile.read(PackageFolder.path + "Sources/Annals/Annals.docc/Testing.md"))
        let files = SourceFile.all(under: "Tests") + Self.scripts
        let name = /\bANNALS_[A-Z]+(_[A-Z]+)*/
        let names = Set(files.flatMap { $0.text.matches(of: name).map(\.output.0) })
        #expect(names.count > 15)
        // Those of LongRun, which puts the name of a random test in the middle.
        let ofRandomTests = /ANNALS_[A-Z]+_(SEED|OPERATIONS)/
        #expect(names.filter { !page.contains("`\($0)`") && $0.wholeMatch(of: ofRandomTests) == nil } == [])
    }

    @Test func everyFileBeginsWithItsPurpose() {
        let roots = ["Sources/Annals", "Sources/AnnalsTool", "Tests/AnnalsFileTests"].flatMap {
            SourceFile.all(under: $0)
        }
        for file in roots { #expect(file.text.hasPrefix("//"), "\(file.path) begins without a sentence") }
    }

    /// What Swift's own protocols ask for needs no comment: it means what they say.
    @Test func everyPublicDeclarationIsDocumented() {
        let missing = sources.flatMap { file in Self.undocumented(file.text).map { "\(file.path): \($0)" } }
        #expect(missing == [])
        let planted = "/// A.\npublic struct A {\n    public let b: Int\n    public var description: String { }\n}\n"
        #expect(Self.undocumented(planted) == ["public let b: Int"])
    }

    private static func undocumented(_ text: String) -> [Substring] {
        var found: [Substring] = []
        var isDocumented = false
        let declaration = /^(@\S+ )*public (?!import|extension)/
        for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
            let line = line.drop { $0 == " " }
            if line.hasPrefix("///") {
                isDocumented = true
            } else if !line.hasPrefix("@") || line.contains(" public ") {
                let isDeclaration = line.firstMatch(of: declaration) != nil
                if isDeclaration, !isDocumented, line.firstMatch(of: ofProtocols) == nil { found.append(line) }
                isDocumented = false
            }
        }
        return found
    }

    nonisolated(unsafe) private static let ofProtocols =
        #/
        static\ func\ (==|<)|func\ (hash|encode|makeAsyncIterator|next)\(|typealias|rawValue|Literal|var\ description
        |init\(from
        /#

    /// The rules must be able to fail.
    @Test func plantedViolationsAreFound() {
        func planted(_ folder: String, _ text: String) -> SourceFile {
            SourceFile(
                path: "Sources/Annals/\(folder)/Planted.swift", name: "Planted.swift", folder: folder, text: text)
        }
        let text = """
            import Foundation
            internal import Glibc
            @preconcurrency package import Dispatch
            // open( in a comment, "pread(" in a string, files.write( and SystemCalls.closeFile( are no calls
            let a = open("x", 0); files.pread(1); let p = "mmap("
            let b = Musl.getpid()
            func read(_ x: Int) {}
            /* fsync(1) */ let c = [fcntl (1, 2)]
            """
        let file = planted("File/Log", text)
        #expect(Self.callsOfTheSystem(in: file) == ["open (line 5)", "Musl.getpid (line 6)", "fcntl (line 8)"])
        #expect(Self.callsOfTheSystem(in: file, except: ["open"]).first == "Musl.getpid (line 6)")
        #expect(Self.functions(in: [file]) == ["read"])
        #expect(Self.foreignImports(in: file) == ["Foundation (line 1)", "Glibc (line 2)", "Dispatch (line 3)"])

        let invariants = "// Invariants:\n// Q1  One.\n//     More.\n// Q1  Two.\n\n// Q7  Not one."
        #expect(Self.invariants(in: [planted("Model", invariants)]) == ["Q1", "Q1"])
        let asserts = "assert(\n  a(1), \"Q3: no.\")\nassert(b, \"No.\")"
        #expect(Self.quotedInvariants(in: [planted("Model", asserts)]) == ["Q3"])
        #expect(Self.assertions(in: [planted("Model", asserts + "\nprecondition(c)\n// assert(d)")]) == 3)
        let quotes = "// Q1  One.\n/// By Q2, and (Q4).\nlet Q5 = QQ6 // Q60\nassert(\n  a, \"Q7: no.\")"
        let numbers: Set<Substring> = ["Q1", "Q2", "Q4", "Q5", "Q6", "Q7"]
        #expect(Self.quotes(of: numbers, in: [planted("Model", quotes)]) == ["Q2", "Q4", "Q7"])

        let early = planted("File/Format", "let x: LaterThing? = nil // EarlierThing")
        let late = planted("File/Upkeep", "package final class LaterThing { struct Inner {} }")
        let same = planted("File/Upkeep", "typealias Alias = LaterThing")
        #expect(
            Self.layerViolations(in: [early, late, same]) == [
                "File/Format/Planted.swift names LaterThing of File/Upkeep"
            ]
        )
        #expect(Self.layerViolations(in: [planted("File/Format", "let y = 1"), late, same]) == [])
    }
}

// MARK: The rules

extension SourceRulesTests {
    /// A bare `read(8)` in a folder that declares a `read` of its own is a call of that one.
    static func callsOfTheSystem(in file: SourceFile, except declared: Set<Substring> = []) -> [String] {
        let names = Set(calls.map { Substring($0) }).subtracting(declared)
        let call = /\b((?:Glibc|Musl)\.)?([a-z_0-9]+) ?\(/
        return file.codeLines.flatMap { number, line in
            line.matches(of: call).compactMap { match in
                let before = line[..<match.range.lowerBound]
                if let module = match.output.1 { return "\(module)\(match.output.2) (line \(number))" }
                // A declaration of a method with that name, or a call of one on something.
                if before.hasSuffix("func ") || before.last == "." { return nil }
                return names.contains(match.output.2) ? "\(match.output.2) (line \(number))" : nil
            }
        }
    }

    /// The numbers in the headers "Invariants:" of files, which end with the comment that they stand in.
    static func invariants(in files: [SourceFile]) -> [Substring] {
        let number = #/^// ([A-Z]+[0-9]+)  /#
        return files.flatMap { file -> [Substring] in
            guard let header = file.text.firstRange(of: "// Invariants:\n") else { return [] }
            let lines = file.text[header.upperBound...].split(separator: "\n", omittingEmptySubsequences: false)
            return lines.prefix { $0.hasPrefix("//") }.compactMap { line in
                line.firstMatch(of: number)?.output.1
            }
        }
    }

    static func quotedInvariants(in files: [SourceFile]) -> [Substring] {
        let quote = #/\bassert\([^"]*"([A-Z]+[0-9]+): /#
        return files.flatMap { $0.text.matches(of: quote).map(\.output.1) }
    }

    /// The numbers that comments, and messages of asserts, name outside of the lines that declare them.
    static func quotes(of numbers: Set<Substring>, in files: [SourceFile]) -> Set<Substring> {
        var quoted: Set<Substring> = []
        let declaration = #/// [A-Z]+[0-9]+  /#
        for line in files.lazy.flatMap({ $0.text.split(separator: "\n") }) {
            guard let start = line.firstRange(of: "//")?.lowerBound ?? line.firstIndex(of: "\"") else { continue }
            if line.hasPrefix("// "), line.prefixMatch(of: declaration) != nil { continue }
            let words = line[start...].split { !$0.isASCII || !$0.isLetter && !$0.isNumber }
            for word in words where numbers.contains(word) { quoted.insert(word) }
        }
        return quoted
    }

    /// The number of statements that check something in debug builds, or always.
    static func assertions(in files: [SourceFile]) -> Int {
        files.reduce(0) { count, file in
            count
                + file.text.split(separator: "\n").count { line in
                    let code = line.drop { $0 == " " }
                    return code.hasPrefix("assert(") || code.hasPrefix("precondition(")
                }
        }
    }

    static func functions(in files: [SourceFile]) -> Set<Substring> {
        let declaration = /\bfunc (\w+)/
        let lines = files.flatMap { $0.codeLines }.map(\.line).filter { $0.contains("func ") }
        return Set(lines.flatMap { $0.matches(of: declaration).map(\.output.1) })
    }

    static func foreignImports(in file: SourceFile) -> [String] {
        let statement = /^\s*(?:@\w+\s+)*(?:package |internal |public |private |fileprivate )?import (?:\w+ )?(\w+)/
        return file.codeLines.compactMap { number, line in
            guard line.contains("import "), let module = line.firstMatch(of: statement)?.output.1,
                !allowedImports(file.folder).contains(module)
            else { return nil }
            return "\(module) (line \(number))"
        }
    }

    /// Names of types outside others, with their folder; a name that an earlier folder declares too is not a later
    /// folder's.
    static func layerViolations(in files: [SourceFile]) -> [String] {
        let declaration = /^(?:[a-z]+ |@\w+(?:\(\w+\))? )*(?:struct|class|enum|protocol|actor|typealias) ([A-Z]\w+)/
        let inner = /^ +.*\b(?:struct|enum) ([A-Z]\w+)/
        let name = /\b[A-Z]\w+/
        var owner: [Substring: Int] = [:]
        for file in files {
            guard let rank = folders.firstIndex(of: file.folder) else { continue }
            for (_, line) in file.codeLines where line.first?.isWhitespace == false {
                for match in line.matches(of: declaration) {
                    owner[match.output.1] = min(owner[match.output.1] ?? rank, rank)
                }
            }
        }
        var violations: Set<String> = []
        for file in files {
            guard let rank = folders.firstIndex(of: file.folder) else { continue }
            // A type within another one may be called as a later folder's.
            let lines = file.codeLines.map(\.line)
            let own = lines.flatMap { $0.matches(of: inner).map(\.output.1) }
            for line in lines {
                for match in line.matches(of: name) where !own.contains(match.output) {
                    guard let declared = owner[match.output], declared > rank else { continue }
                    violations.insert("\(file.folder)/\(file.name) names \(match.output) of \(folders[declared])")
                }
            }
        }
        return violations.sorted()
    }
}
