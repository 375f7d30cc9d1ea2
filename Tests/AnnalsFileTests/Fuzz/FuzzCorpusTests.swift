// The fuzz targets over their stored inputs and some seeded mutations, and proof that a broken invariant is noticed.

import Annals
import FoundationEssentials
import FuzzTargets
import TestSupport
import Testing

@Suite(.serialized) struct FuzzCorpusTests {
    init() throws { try FuzzCorpus.writeIfAsked() }

    @Test func theCorpusExistsAndIsSmall() throws {
        let inputs = try FuzzCorpus.inputs(of: "file") + FuzzCorpus.inputs(of: "records")
        #expect(inputs.count > 120)
        #expect(inputs.reduce(0) { $0 + $1.bytes.count } < 1 << 20)
        let kinds = Set(try FuzzCorpus.inputs(of: "records").compactMap { $0.bytes.first })
        #expect(kinds.isSuperset(of: FuzzTargets.RecordKind.allCases.map(\.rawValue)))
    }

    /// An input that nobody can make again is refused for its form once the format has changed, and tests nothing.
    @Test func everyInputIsMadeByTheGenerator() throws {
        for (target, made) in [("file", try FuzzCorpus.files()), ("records", try FuzzCorpus.records())] {
            let stored = try FuzzCorpus.inputs(of: target)
            #expect(stored.map(\.name) == made.map(\.name).sorted())
            for input in made {
                let isStored = stored.contains { $0.name == input.name && $0.bytes == input.bytes }
                #expect(isStored, "\(target)/\(input.name) is another one: ANNALS_WRITE_CORPUS=1 writes it")
            }
        }
    }

    /// Each finding comes as far as the rule that it is for.
    @Test func findingsReachTheirRules() throws {
        let files = try FuzzCorpus.inputs(of: "file").filter { $0.name.hasPrefix("finding-") }
        let rules: [String: [String]] = [
            "base-ends-in-value": ["F24"], "base-without-a-next-number": ["F1"], "hint-of-nothing": ["F3"],
            "mark-of-dropped-member": ["F9"], "newer-checkpoint": ["F21", "F29"], "spare-page": ["F4"],
            "untrue-set-and-bad-hint": ["F3"],
        ]
        for file in files {
            let found = try check(file.bytes).findings.map(\.rule)
            #expect(found == rules[String(file.name.dropFirst(8))] ?? [], "\(file.name)")
        }
        #expect(Set(rules.keys).isSubset(of: files.map { String($0.name.dropFirst(8)) }))
    }

    @Test func noStoredFileBreaksAnInvariant() throws {
        var opened = 0
        for input in try FuzzCorpus.inputs(of: "file") {
            if case .opened = FuzzTargets.fileOutcome(input.bytes) { opened += 1 }
        }
        #expect(opened > 10)
    }

    @Test func noStoredRecordBreaksAnInvariant() throws {
        for input in try FuzzCorpus.inputs(of: "records") { FuzzTargets.records(input.bytes) }
    }

    @Test func mutationsBreakNoInvariantAndReachTheEngine() throws {
        let environment = ProcessInfo.processInfo.environment
        let first = environment["ANNALS_FUZZ_SEED"].flatMap { UInt64($0) } ?? 1
        #if DEBUG
            let usual = 1000
        #else
            let usual = 2000
        #endif
        let count = environment["ANNALS_FUZZ_RUNS"].flatMap { Int($0) } ?? usual
        let counts = MutationRun.run(try FuzzCorpus.inputs(of: "file").map(\.bytes), first: first, count: count)
        #expect(counts.opened * 6 > counts.runs, "\(counts)")
        #expect(counts.committed * 6 > counts.runs, "\(counts)")
    }

    @Test func aMutationIsTheSameForTheSameSeed() throws {
        let inputs = try FuzzCorpus.inputs(of: "file").map(\.bytes)
        for seed: UInt64 in 1...200 {
            #expect(MutationRun.mutated(inputs, seed) == MutationRun.mutated(inputs, seed))
        }
    }

    @Test func sealingDoesNotChangeAGoodFile() throws {
        for name in ["types", "schema", "clock", "unsealed", "several-frames", "base", "compacted"] {
            let input = try #require(try FuzzCorpus.inputs(of: "file").first { $0.name == name })
            #expect(FuzzMutator.sealed(input.bytes) == input.bytes, "\(name)")
        }
    }

    // MARK: The harness can fail

    @Test(arguments: [
        ("file", "types", "forgottenTransaction"), ("records", "transaction", "changedByte"),
        ("file", "types", "slowness"),
    ])
    func aBrokenInvariantEndsTheProcess(target: String, prefix: String, planted: String) throws {
        let input = try #require(try FuzzCorpus.inputs(of: target).first { $0.name.hasPrefix(prefix) })
        let arguments = ["fuzz", target, FuzzCorpus.folder.appending(path: "\(target)/\(input.name)").path]
        #expect(try runTool(arguments, name: "crash-helper").status == 0)
        #expect(try runTool(arguments + [planted], name: "crash-helper").status != 0)
    }
}
