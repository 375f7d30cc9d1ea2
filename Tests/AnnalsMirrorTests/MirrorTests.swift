// Whole mirrors, each with a thread, over a folder and over a NATS server.

import Annals
import AnnalsMirror
import FoundationEssentials
import TestSupport
import Testing

@Suite(.serialized) struct MirrorTests {
    private func mirror(through route: Mirror.Route) async throws {
        let stores = try (0..<3).map { _ in try Store(inMemory: MergeModel.entities) }
        let mirrors = try stores.map { try Mirror($0, group: "notes", through: route) }
        // Inserted concurrently, with the same unique values.
        for (index, store) in stores.enumerated() {
            for number in 0..<10 {
                try await store.write(author: "app \(index)") {
                    try $0.insert("Tag", ["name": .string("tag \(number)"), "rank": .int(Int64(index))])
                }
            }
        }
        for mirror in mirrors { try await mirror.start() }
        for (index, store) in stores.enumerated() {
            for number in 0..<10 {
                try await store.write(author: "app \(index)") {
                    try $0.insert("Folder", ["name": .string("folder \(index) \(number)")])
                }
            }
        }
        func isEqual() throws -> Bool {
            let pictures = try stores.map(StorePicture.lines)
            return pictures[0].count == 40 && pictures.allSatisfy { $0 == pictures[0] }
        }
        try await until(mirrors) { try isEqual() }
        for mirror in mirrors {
            await mirror.stop()
            #expect(!mirror.status.isRunning && mirror.status.lastError == nil, "\(mirror.status)")
            #expect(mirror.status.peers.count == 2)
        }
        // Edits go on while it is off.
        try await stores[0].write { try $0.insert("Tag", ["name": "while off"]) }
        try await mirrorAgain(stores, mirrors)
        for store in stores {
            let report = try Checker.check(store.path, options: CheckOptions(), files: try Store.files(for: store.path))
            #expect(report.isIntact, "\(report.findings)")
        }
    }

    private func mirrorAgain(_ stores: [Store], _ mirrors: [Mirror]) async throws {
        for mirror in mirrors { try await mirror.start() }
        try await until(mirrors) {
            try stores[2].snapshot().rows(of: "Tag").contains { $0["name"]?.string == "while off" }
        }
        for mirror in mirrors { await mirror.stop() }
    }

    /// Waits until something holds. A failure shows what the mirrors know.
    private func until(_ mirrors: [Mirror], _ holds: () throws -> Bool) async throws {
        let deadline = ContinuousClock.now + .seconds(Self.longestSeconds)
        while try !holds() {
            try #require(ContinuousClock.now < deadline, "it never held: \(mirrors.map(\.status))")
            try await Task.sleep(for: .milliseconds(10))
        }
    }

    private static let longestSeconds = 20

    @Test func threeStoresOverAFolderBecomeEqual() async throws {
        let folder = try TemporaryDirectory()
        try await mirror(through: .folder(folder.path))
    }

    @Test(.enabled(if: NATSLiveServer.program != nil, NATSLiveServer.whyNot))
    func threeStoresOverNATSBecomeEqual() async throws {
        let server = try NATSLiveServer()
        try await mirror(through: .nats(server.url))
    }
}
