// What a test has checked in a process of its own, because it takes something from the whole process or ends it.

import Annals
import FoundationEssentials
import FuzzTargets
import Glibc

/// `descriptors DIRECTORY`, `file-limit DIRECTORY`, and `fuzz file|records INPUT [PLANTED]`. What is wrong ends the
/// process with a status other than 0.
enum LimitedProcess {
    /// Without standard streams no file of a store takes their numbers.
    static func descriptors(_ path: String) throws -> Never {
        for stream in Int32(0)...2 { close(stream) }
        let files = RealFileSystem()
        let directory = try files.openDirectory(path)
        let made = try files.createExclusively("a", in: directory, mode: 0o600)
        let unnamed = try files.createUnnamed(in: directory, mode: 0o600)
        let opened = try files.open("a", in: directory, access: .readOnly)
        exit([directory, made, unnamed, opened].allSatisfy { $0.number > 2 } ? 0 : 2)
    }

    /// A write over the limit is short, and the next one has no space.
    static func fileLimit(_ path: String) throws -> Never {
        signal(SIGXFSZ, SIG_IGN)
        var limit = rlimit(rlim_cur: 4096, rlim_max: 4096)
        setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit)
        let files = RealFileSystem()
        let directory = try files.openDirectory(path)
        let file = try files.createExclusively("a", in: directory, mode: 0o600)
        let bytes = [UInt8](repeating: 1, count: 8192)
        guard try bytes.withUnsafeBytes({ try files.write(file, at: 0, from: $0) }) == 4096 else { exit(2) }
        do {
            _ = try bytes.withUnsafeBytes { try files.write(file, at: 4096, from: $0) }
        } catch let error as StoreError {
            exit(error.code == .noSpace ? 0 : 4)
        }
        exit(3)
    }

    /// Runs a target of the fuzzer once; planted faults must end the process.
    static func fuzz(_ target: String, _ path: String, _ planted: String?) throws {
        let bytes = try [UInt8](Data(contentsOf: URL(filePath: path)))
        let fault = planted.flatMap { FuzzTargets.Planted(rawValue: $0) }
        // Who plants something and sees the process end well is told that nothing was planted.
        guard planted == nil || fault != nil else { exit(0) }
        bytes.withUnsafeBytes { bytes in
            switch target {
            case "file": _ = FuzzTargets.fileOutcome(bytes, planted: fault)
            default: FuzzTargets.records(bytes, planted: fault)
            }
        }
    }
}
