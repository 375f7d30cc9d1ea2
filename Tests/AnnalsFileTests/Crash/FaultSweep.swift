// A workload under every error of every call that it makes, each once and for ever.

import Annals
import SimulatedDisk
import Testing

struct FaultSweep {
    /// The errors of every call.
    var errors: [Int32]
    /// Bytes after which a write is cut.
    var cutWrites: [Int]
    /// Runs the workload under a fault. Returns how many calls of each kind were made.
    var run: @Sendable (Fault?) throws -> [CallKind: Int]

    /// Records the faults under which the workload fails. Returns the number of faults.
    func everyFault() async throws -> Int {
        let clean = try run(nil)
        var faults: [Fault] = []
        for kind in CallKind.allCases {
            for occurrence in 1...max(1, clean[kind] ?? 0) where clean[kind] ?? 0 > 0 {
                for isPermanent in [false, true] {
                    faults += effects(of: kind).map {
                        Fault($0, on: kind, occurrence: occurrence, isPermanent: isPermanent)
                    }
                }
            }
        }
        let halves = [0, 1].map { half in faults.indices.filter { $0 % 2 == half }.map { faults[$0] } }
        try await withThrowingTaskGroup(of: [String].self) { group in
            for half in halves {
                group.addTask {
                    half.compactMap { fault in
                        do {
                            _ = try run(fault)
                            return nil
                        } catch {
                            return "\(fault): \(error)"
                        }
                    }
                }
            }
            for try await failures in group {
                for failure in failures.prefix(10) { Issue.record("\(failure)") }
            }
        }
        #expect(faults.count > 1000)
        return faults.count
    }

    private func effects(of kind: CallKind) -> [Fault.Effect] {
        var effects = errors.map { Fault.Effect.failure($0) }
        if kind == .synchronize { effects += [.synchronize(.cleanAndLost), .synchronize(.cacheReverted)] }
        if kind == .write { effects += cutWrites.map { .short($0) } }
        if kind == .read { effects.append(.short(50)) }
        return effects
    }
}

extension Fault {
    /// Only these leave it open what is durable: a sync that failed, an input/output error in a write.
    var poisons: Bool {
        switch (call, effect) {
        case (.synchronize, _), (.synchronizeDirectory, _): true
        case (.write, .failure(5)): true
        default: false
        }
    }

    /// The body's result; nil if it throws an error of the store under a fault.
    static func tolerating<Result>(_ fault: Fault?, _ body: () throws -> Result) throws -> Result? {
        do {
            return try body()
        } catch let error as StoreError {
            if fault == nil { throw error }
            return nil
        }
    }
}

extension SimulatedDisk {
    /// How many calls of each kind were made. Ends all faults.
    func callsUntilFaultsEnd() -> [CallKind: Int] {
        defer { removeAllFaults() }
        return Dictionary(uniqueKeysWithValues: CallKind.allCases.map { ($0, callCount(of: $0)) })
    }

    /// Kills the process. Throws if it leaves descriptors or mappings, or if other files than the store have names.
    func requireClean(after process: UInt32) throws {
        kill(process)
        guard openDescriptorCount() == 0, mappingCount == 0 else {
            throw CrashFailure(description: "descriptors or mappings are left open")
        }
        guard names(in: "/data").allSatisfy({ $0 == "s.annals" }) else {
            throw CrashFailure(description: "files are left: \(names(in: "/data"))")
        }
    }
}
