// Rules about the source text that no compiler checks: who may call the system, what may be imported, who knows whom.

import Testing

@Suite struct SourceRulesTests {
    /// Folders of AnnalsFile in the order in which they may know each other: only earlier ones and themselves.
    static let folders = ["System", "Bytes", "Format", "Log", "Index", "Compaction", "Check", "Salvage"]
    static let imports: Set<Substring> = ["Glibc", "Synchronization"]
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

    let sources = SourceFile.all(under: "Sources/AnnalsFile")

    @Test func theSourcesAreFound() {
        #expect(sources.count > 8)
        #expect(sources.contains { $0.name == "SystemCalls.swift" && $0.folder == "System" })
    }

    @Test func onlySystemCallsCallTheSystem() {
        for file in sources where !file.name.hasPrefix("SystemCalls") {
            let others = file.folder == "System" ? [] : sources.filter { $0.folder == file.folder }
            let declared = Self.functions(in: others)
            #expect(Self.callsOfTheSystem(in: file, except: declared) == [])
        }
    }

    /// Above the seam the C library is of use for memory only.
    @Test func onlySystemAndBytesImportTheCLibrary() {
        for file in sources where file.folder != "System" && file.folder != "Bytes" {
            #expect(!file.codeLines.contains { $0.line.contains(/\bimport Glibc\b/) }, "\(file.path)")
        }
    }

    @Test func onlyTheSystemsModulesAreImported() {
        for file in sources { #expect(Self.foreignImports(in: file) == []) }
    }

    /// `swift build -c release --build-tests`, as the scripts for longer runs build them, makes no module testable.
    @Test func noTestImportsWhatOnlySomeBuildsHave() {
        let tests = SourceFile.all(under: "Tests")
        #expect(tests.count > 50)
        for file in tests { #expect(!file.codeLines.contains { $0.line.contains(/^@testable\b/) }, "\(file.path)") }
    }

    @Test func noFolderKnowsALaterOne() {
        let violations = Self.layerViolations(in: sources)
        #expect(violations == [])
        let strangers = sources.filter { $0.folder != "" && !Self.folders.contains($0.folder) }
        #expect(strangers.map(\.path) == [])
    }

    @Test func everyFileSaysFirstWhatItIsFor() {
        let roots = ["Sources/AnnalsFile", "Sources/AnnalsTool", "Tests/AnnalsFileTests"].flatMap {
            SourceFile.all(under: $0)
        }
        for file in roots { #expect(file.text.hasPrefix("//"), "\(file.path) begins without a sentence") }
    }

    /// The rules must be able to fail.
    @Test func plantedViolationsAreFound() {
        func planted(_ folder: String, _ text: String) -> SourceFile {
            SourceFile(
                path: "Sources/AnnalsFile/\(folder)/Planted.swift", name: "Planted.swift", folder: folder, text: text)
        }
        let text = """
            import Foundation
            internal import Glibc
            @preconcurrency package import Dispatch
            // open( in a comment, "pread(" in a string, files.write( and SystemCalls.close( are no calls
            let a = open("x", 0); files.pread(1); let p = "mmap("
            let b = Glibc.getpid()
            func read(_ x: Int) {}
            /* fsync(1) */ let c = [fcntl (1, 2)]
            """
        let file = planted("Log", text)
        #expect(Self.callsOfTheSystem(in: file) == ["open (line 5)", "Glibc.getpid (line 6)", "fcntl (line 8)"])
        #expect(Self.callsOfTheSystem(in: file, except: ["open"]).first == "Glibc.getpid (line 6)")
        #expect(Self.functions(in: [file]) == ["read"])
        #expect(Self.foreignImports(in: file) == ["Foundation (line 1)", "Dispatch (line 3)"])

        let early = planted("Bytes", "let x: LaterThing? = nil // EarlierThing")
        let late = planted("Check", "package final class LaterThing { struct Inner {} }")
        let same = planted("Check", "typealias Alias = LaterThing")
        #expect(Self.layerViolations(in: [early, late, same]) == ["Bytes/Planted.swift names LaterThing of Check"])
        #expect(Self.layerViolations(in: [planted("Bytes", "let y = 1"), late, same]) == [])
    }
}

// MARK: The rules

extension SourceRulesTests {
    /// A bare `read(8)` in a folder that declares a `read` of its own is a call of that one.
    static func callsOfTheSystem(in file: SourceFile, except declared: Set<Substring> = []) -> [String] {
        let names = Set(calls.map { Substring($0) }).subtracting(declared)
        let call = /\b(Glibc\.)?([a-z_0-9]+) ?\(/
        return file.codeLines.flatMap { number, line in
            line.matches(of: call).compactMap { match in
                let before = line[..<match.range.lowerBound]
                if match.output.1 != nil { return "Glibc.\(match.output.2) (line \(number))" }
                // A declaration of a method with that name, or a call of one on something.
                if before.hasSuffix("func ") || before.last == "." { return nil }
                return names.contains(match.output.2) ? "\(match.output.2) (line \(number))" : nil
            }
        }
    }

    static func functions(in files: [SourceFile]) -> Set<Substring> {
        Set(files.flatMap { file in file.codeLines.flatMap { $0.line.matches(of: /\bfunc (\w+)/).map(\.output.1) } })
    }

    static func foreignImports(in file: SourceFile) -> [String] {
        let statement = /^\s*(?:@\w+\s+)*(?:package |internal |public |private |fileprivate )?import (?:\w+ )?(\w+)/
        return file.codeLines.compactMap { number, line in
            guard let module = line.firstMatch(of: statement)?.output.1, !imports.contains(module) else { return nil }
            return "\(module) (line \(number))"
        }
    }

    /// Type names found with their folder; a name that an earlier folder declares too is not a later folder's.
    static func layerViolations(in files: [SourceFile]) -> [String] {
        let declaration = /\b(?:struct|class|enum|protocol|actor|typealias) ([A-Z]\w+)/
        var owner: [Substring: Int] = [:]
        for file in files {
            guard let rank = folders.firstIndex(of: file.folder) else { continue }
            for (_, line) in file.codeLines {
                for match in line.matches(of: declaration) {
                    owner[match.output.1] = min(owner[match.output.1] ?? rank, rank)
                }
            }
        }
        var violations: Set<String> = []
        for file in files {
            guard let rank = folders.firstIndex(of: file.folder) else { continue }
            for (_, line) in file.codeLines {
                for match in line.matches(of: /\b[A-Z]\w+/) {
                    guard let declared = owner[match.output], declared > rank else { continue }
                    violations.insert("\(file.folder)/\(file.name) names \(match.output) of \(folders[declared])")
                }
            }
        }
        return violations.sorted()
    }
}
