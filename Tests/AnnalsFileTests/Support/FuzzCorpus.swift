// The stored inputs of the fuzz targets, and how they are made: `ANNALS_WRITE_CORPUS=1 swift test` writes them anew.

import Annals
import FoundationEssentials
import FuzzTargets
internal import SimulatedDisk
import TestSupport
import Testing

enum FuzzCorpus {
    typealias Input = (name: String, bytes: [UInt8])

    static let folder = PackageFolder.url("Fuzz/Corpus")

    /// The stored inputs of a target, by name.
    static func inputs(of target: String) throws -> [Input] {
        let folder = folder.appending(path: target)
        return try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted().map { name in
            (name, try [UInt8](Data(contentsOf: folder.appending(path: name))))
        }
    }

    static func writeIfAsked() throws {
        guard ProcessInfo.processInfo.environment["ANNALS_WRITE_CORPUS"] == "1" else { return }
        for (target, inputs) in [("file", try files()), ("records", try records())] {
            let folder = folder.appending(path: target)
            for name in try FileManager.default.contentsOfDirectory(atPath: folder.path) {
                try FileManager.default.removeItem(at: folder.appending(path: name))
            }
            for input in inputs { try Data(input.bytes).write(to: folder.appending(path: input.name)) }
        }
    }

    // MARK: Files

    static func files() throws -> [Input] {
        var files: [Input] = []
        for (name, make) in GoldenStores.all {
            let store = trimmed(try make())
            if store.count <= FuzzTargets.maximumStoreBytes { files.append((name, store)) }
        }
        let several = trimmed(try severalFrames())
        files += [("several-frames", several), ("base", trimmed(try CompactedStores.forged()))]
        let checkpoints = trimmed(try CheckpointStores.small())
        files += [("checkpoints", checkpoints), ("checkpoints-cut", Array(checkpoints.dropLast(72)))]
        let unsealed = try #require(files.first { $0.name == "unsealed" }).bytes
        files += tornVariants(unsealed, "unsealed") + tornVariants(several, "several-frames")
        files += headerVariants(unsealed)
        return files + (try findings(unsealed: unsealed)).map { ($0.name, trimmed($0.bytes)) }
    }

    /// Without reserved space, but for what the last frame may have of zeros at its end.
    static func trimmed(_ bytes: [UInt8]) -> [UInt8] {
        let used = (bytes.lastIndex { $0 != 0 } ?? 0) + 1
        return Array(bytes[..<min(bytes.count, max(4096, (used + 64) & ~7))])
    }

    /// A transaction of parts and large values, in few bytes.
    private static func severalFrames() throws -> [UInt8] {
        try GoldenStores.store(limits: .lowered) { log, _ in
            try log.defineNotes()
            let transaction = log.makeFrames()
            for number in 1...12 {
                let body = [UInt8](repeating: UInt8(number), count: number * 100)
                try transaction.insert(Note.object(number), Note.row("note \(number)", Int64(number), body))
            }
            try log.commit(transaction)
            let long = log.makeFrames()
            try long.insert(Note.object(13), Note.row("long", 13, [UInt8](repeating: 13, count: 5000)))
            try log.commit(long)
        }
    }

    private static func tornVariants(_ store: [UInt8], _ name: String) -> [Input] {
        var variants: [Input] = []
        for (index, cut) in [store.count - 72, store.count - 160, store.count - 400, store.count / 2 + 2048, 4160]
            .enumerated()
        {
            variants.append(("\(name)-cut-\(index)", Array(store[..<min(store.count, cut)])))
        }
        var hole = store
        for offset in (store.count - 224)..<(store.count - 160) { hole[offset] = 0 }
        variants.append(("\(name)-hole", hole))
        hole = store
        hole[store.count - 104] ^= 1
        variants += [("\(name)-flipped", hole), ("\(name)-resealed", FuzzMutator.sealed(hole))]
        return variants
    }

    /// Numbers and times at their ends, and clocks as the file target sets them.
    private static func headerVariants(_ store: [UInt8]) -> [Input] {
        func with(_ name: String, _ changes: [(offset: Int, value: UInt64)], clock: UInt8 = 0) -> Input {
            var bytes = store
            for change in changes {
                for index in 0..<8 { bytes[change.offset + index] = UInt8(change.value >> UInt64(8 * index) & 0xFF) }
            }
            if clock != 0 { bytes[HeaderField.storeID] = clock }
            return (name, FuzzMutator.sealed(bytes))
        }
        let latest = UInt64(Int64.max)
        let time = HeaderField.baseTime
        let number = HeaderField.baseNumber
        let last = FormatLimits.maximumTransactionNumber
        return [
            with("finding-last-number", [(HeaderField.generation, 1), (number, last - 4)]),
            // What adds one to the number of the base has ended the process.
            with("finding-base-without-a-next-number", [(HeaderField.generation, 1), (number, .max)]),
            with("number-wraps", [(HeaderField.generation, 1), (number, last)]),
            with("generation", [(HeaderField.generation, .max), (number, 1 << 40), (HeaderField.baseTag, 7)]),
            with("latest-time", [(time, latest - 1)]), with("salt-zero", [(HeaderField.salt, 0)]),
            with("clock-latest", [], clock: 0xFF), with("clock-earliest", [], clock: 0xFE),
            // A newer program's file, which is only read.
            with("write-version", [(HeaderField.readVersion, 4096 << 32 | 2 << 16 | 1), (HeaderField.zero, 7)]),
        ]
    }
}
