// Every power cut, at every step of every workload; at each of them a sample of the disks that it may leave.
//
// A larger sample: Tests/run crashes.

import Annals
import FoundationEssentials
import SimulatedDisk
import TestSupport
import Testing

@Suite struct CrashTests {
    /// Whether more images of each moment are looked at than in the suite.
    static let looksAtMore = ProcessInfo.processInfo.environment["ANNALS_CRASH_IMAGES"] == "more"

    /// The numbers of images depend on how many there are.
    static func replayVariables(_ workload: String, _ image: CrashImage) -> String {
        (looksAtMore ? "ANNALS_CRASH_IMAGES=more " : "")
            + "ANNALS_CRASH='\(workload):\(image.crashPoint):\(image.number)'"
    }

    /// Small frames and large ones; a mapping that is too small, and none.
    private static let limits: [(name: String, limits: LogLimits)] = [
        ("small", .lowered),
        (
            "large",
            {
                var limits = LogLimits()
                limits.minimumPreallocationBytes = 4096
                limits.maximumPreallocationBytes = 16384
                limits.mappingReserveBytes = 1 << 20
                limits.windowBytes = 1 << 16
                return limits
            }()
        ),
    ]

    @Test func everyCrashImageRecovers() async throws {
        let chosen = ProcessInfo.processInfo.environment["ANNALS_CRASH"]?.split(separator: ":").map(String.init)
        var distinct = 0
        var repeated = 0
        try await withThrowingTaskGroup(of: (Int, Int, CrashFailure?).self) { group in
            for (limitsName, limits) in Self.limits {
                for (index, workload) in CrashWorkloads.all.enumerated() {
                    let name = "\(workload.name)/\(limitsName)"
                    if let chosen, chosen.first != name { continue }
                    group.addTask {
                        try await LongTests.run(besideOthers: !CrashTests.looksAtMore) {
                            Self.run(name, workload.run, limits, seed: UInt64(index + 1), chosen)
                        }
                    }
                }
            }
            for try await (images, repetitions, failure) in group {
                if ProcessInfo.processInfo.environment["ANNALS_CRASH_COUNTS"] != nil { print(images, repetitions) }
                distinct += images
                repeated += repetitions
                if let failure { Issue.record(failure) }
            }
        }
        print("\(distinct) distinct crash images (and \(repeated) repetitions)")
        if chosen == nil { #expect(distinct >= 100_000) }
    }

    private static func run(
        _ name: String, _ workload: @Sendable (CrashRun) throws -> Void, _ limits: LogLimits, seed: UInt64,
        _ chosen: [String]?
    ) -> (Int, Int, CrashFailure?) {
        var options = CrashOptions(seed: seed)
        options.maximumSizes = 3
        if !looksAtMore { options.exhaustiveBits = 7 }
        options.randomChoices = looksAtMore ? 16 : 4
        options.maximumOfEachList = looksAtMore ? 16 : 4
        options.fills = [.zeros, .garbage, .stale(staleBytes(seed))]
        var replay: (Int, Int)?
        if let chosen, chosen.count == 3, let point = Int(chosen[1]), let image = Int(chosen[2]) {
            replay = (point, image)
        }
        let run = CrashRun(name: name, limits: limits, seed: seed, imageOptions: options, replay: replay)
        var failure: CrashFailure?
        do {
            try workload(run)
            run.lookOnceMore()
        } catch {
            failure = CrashFailure(description: "\(name): the workload itself failed: \(error)")
        }
        return (run.tally.images.count, run.repeated, run.failure ?? failure)
    }

    /// Former content of the disk: the same store as it would be with another salt.
    private static func staleBytes(_ seed: UInt64) -> [UInt8] {
        do {
            let machine = Machine(seed: seed &+ 1000, limits: .lowered)
            let log = try machine.create()
            try log.defineNotes()
            for number in 1...20 { try log.insertNote(number, Note.row("stale \(number)")) }
            return machine.disk.contents(of: Machine.path) ?? []
        } catch {
            preconditionFailure("A store could not be made: \(error)")
        }
    }
}
