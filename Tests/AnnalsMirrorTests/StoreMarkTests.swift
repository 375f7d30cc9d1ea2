// Recognizing a store: every combination of facts, and real files that are copied, moved, compacted and restored.

import Annals
import AnnalsMirror
import FoundationEssentials
import TestSupport
import Testing

@Suite struct StoreMarkTests {
    // MARK: The table

    private enum Match: CaseIterable { case same, other, unknown }

    private struct Facts {
        var machine: Match
        var lease: Match
        var leaseInode: Match
        var leaseTime: Match
        var storeInode: Match
        var storeTime: Match
    }

    /// The rows of the documentation. Exactly one is right for all facts.
    private static let rows: [(StoreMark.Comparison, @Sendable (Facts) -> Bool)] = [
        (.otherMachine, { $0.machine == .other }),
        (.same, { $0.machine != .other && hasSameLease($0) }),
        (.same, { $0.machine != .other && !hasSameLease($0) && hasSameFile($0) }),
        (.copied, { $0.machine != .other && !hasSameLease($0) && !hasSameFile($0) }),
    ]

    private static func hasSameLease(_ facts: Facts) -> Bool {
        facts.lease == .same && facts.leaseInode == .same && facts.leaseTime != .other
    }

    private static func hasSameFile(_ facts: Facts) -> Bool {
        facts.storeInode == .same && facts.storeTime == .same
    }

    /// All facts, with the values that one side or the other does not know.
    private static var allFacts: [Facts] {
        let known: [Match] = [.same, .other]
        var all: [Facts] = []
        for machine in Match.allCases {
            for lease in known {
                for leaseInode in known {
                    for leaseTime in Match.allCases {
                        for storeInode in known {
                            for storeTime in Match.allCases {
                                all.append(
                                    Facts(
                                        machine: machine, lease: lease, leaseInode: leaseInode, leaseTime: leaseTime,
                                        storeInode: storeInode, storeTime: storeTime))
                            }
                        }
                    }
                }
            }
        }
        return all
    }

    private static func mark(_ facts: Facts?, isUnknown: Bool) -> StoreMark {
        func value<Value>(_ match: Match?, _ same: Value, _ other: Value) -> Value? {
            match == .unknown && isUnknown ? nil : match == .other ? other : same
        }
        return StoreMark(
            lease: value(facts?.lease, "aa", "bb") ?? "",
            leaseFile: .init(inode: value(facts?.leaseInode, 7, 8) ?? 0, created: value(facts?.leaseTime, 70, 80)),
            storeFile: .init(inode: value(facts?.storeInode, 9, 10) ?? 0, created: value(facts?.storeTime, 90, 100)),
            machine: value(facts?.machine, "m", "n"))
    }

    @Test func everyCombinationHasOneResult() {
        var results: Set<StoreMark.Comparison> = []
        for facts in Self.allFacts {
            let matching = Self.rows.filter { $0.1(facts) }
            #expect(matching.count == 1, "\(facts)")
            // A fact is unknown on one side, the other side, or both.
            for (isRecordUnknown, isFoundUnknown) in [(false, true), (true, false), (true, true)] {
                var original = facts
                for path in [\Facts.machine, \.lease, \.leaseInode, \.leaseTime, \.storeInode, \.storeTime]
                where original[keyPath: path] == .other { original[keyPath: path] = .same }
                let result = StoreMark.compare(
                    recorded: Self.mark(original, isUnknown: isRecordUnknown),
                    found: Self.mark(facts, isUnknown: isFoundUnknown))
                #expect(result == matching.first?.0, "\(facts)")
                results.insert(result)
            }
        }
        #expect(results.count == 3)
    }

    @Test func aMarkIsTheSameAfterCoding() throws {
        let mark = StoreMark(
            lease: "0f", leaseFile: .init(inode: .max, created: nil), storeFile: .init(inode: 1, created: .max),
            machine: nil)
        #expect(try JSONDecoder().decode(StoreMark.self, from: try JSONEncoder().encode(mark)) == mark)
        let old = Data(#"{"lease":"0f","leaseFile":{"inode":2},"storeFile":{"inode":1,"created":5},"later":1}"#.utf8)
        #expect(try JSONDecoder().decode(StoreMark.self, from: old).storeFile.created == 5)
    }

    // MARK: Files

    private let folder: TemporaryDirectory
    private var path: String { folder.path("notes") }
    private var lease: String { folder.path("notes.mirror") }
    private var copy: String { folder.path("copy") }

    init() throws { folder = try TemporaryDirectory() }

    /// Opens the store as a mirror does, and keeps the mark in the store itself.
    private func start(_ path: String, machineFile: String = "/etc/machine-id") throws {
        let store = try Store(at: path, options: .init(createsIfMissing: false))
        defer { try? store.close() }
        let lease = try #require(try MirrorLease.take(store))
        let found = try lease.mark(machineFile: machineFile)
        let content = try store.mergeState()?.content.map { Data($0) }
        let recorded = try content.map { try JSONDecoder().decode(StoreMark.self, from: $0) }
        try lease.requireOwn(recorded, found: found)
        if found != recorded { try keep(found, in: store) }
    }

    private func keep(_ mark: StoreMark, in store: Store) throws {
        try store.setMergeState(MergeRecord(order: 0, content: Array(try JSONEncoder().encode(mark))))
    }

    private func isCopied(_ path: String) -> Bool { code { try start(path) } == .storeCopied }

    /// A store with some objects, that was mirrored.
    private func makeStore() throws {
        let store = try Store(at: path, entities: MergeModel.entities)
        try store.write { for number in 0..<100 { try $0.insert("Tag", ["name": .string("tag \(number)")]) } }
        try store.close()
        try start(path)
        try start(path)
    }

    private func check(_ paths: String...) throws {
        for path in paths {
            let report = try Checker.check(path, options: CheckOptions(), files: try Store.files(for: path))
            #expect(report.isIntact, "\(report.findings)")
        }
    }

    private func move(_ from: String, to: String) throws {
        // `rename` replaces what has the name.
        let files = RealFileSystem()
        let (source, target) = (try files.openPlace(from), try files.openPlace(to))
        defer { for place in [source, target] { files.close(place.directory) } }
        try files.rename(source.name, to: target.name, in: source.directory)
    }

    private func duplicate(_ from: String, to: String) throws {
        try FileManager.default.copyItem(atPath: from, toPath: to)
    }

    @Test func aCopyIsNoticed() throws {
        try makeStore()
        try duplicate(path, to: copy)
        #expect(isCopied(copy))
        // A refused start does not make the copy known.
        #expect(isCopied(copy))
        #expect(!isCopied(path))
        try check(path, copy)
    }

    @Test func aCopyWithItsLeaseIsNoticed() throws {
        try makeStore()
        try duplicate(path, to: copy)
        try duplicate(lease, to: folder.path("copy.mirror"))
        #expect(isCopied(copy))
        #expect(!isCopied(path))
        try check(path, copy)
    }

    @Test func aBackupIsNoticed() throws {
        try makeStore()
        let store = try Store(at: path)
        try store.backup(to: copy)
        try store.close()
        #expect(isCopied(copy))
        #expect(!isCopied(path))
        try check(path, copy)
    }

    @Test func aCopyWithAnIdentityOfItsOwnMayPublish() throws {
        try makeStore()
        let store = try Store(at: path)
        try store.backup(to: copy, newIdentity: true)
        try store.close()
        #expect(!isCopied(copy))
        try check(path, copy)
    }

    @Test func aMovedStoreIsTheSame() throws {
        try makeStore()
        try move(path, to: copy)
        #expect(!isCopied(copy))
        // Its new lease is in the record, so compaction changes nothing.
        let store = try Store(at: copy)
        try store.compact()
        try store.close()
        #expect(!isCopied(copy))
        try check(copy)
    }

    @Test func aMovedStoreWithItsLeaseIsTheSame() throws {
        try makeStore()
        let store = try Store(at: path)
        try store.compact()
        try store.close()
        try move(path, to: copy)
        try move(lease, to: folder.path("copy.mirror"))
        #expect(!isCopied(copy))
        try check(copy)
    }

    @Test func aCompactedStoreIsTheSame() throws {
        try makeStore()
        for _ in 0..<2 {
            let store = try Store(at: path)
            try store.compact()
            try store.close()
            #expect(!isCopied(path))
        }
        // And by its own file, if the lease is lost afterwards.
        try FileManager.default.removeItem(atPath: lease)
        #expect(!isCopied(path))
        try check(path)
    }

    /// The history shows it: `OwnHistoryCheck`.
    @Test func aRestoredBackupIsTheSameFileOrTheSameLease() throws {
        try makeStore()
        let store = try Store(at: path)
        try store.backup(to: copy)
        try store.close()
        try move(copy, to: path)
        #expect(!isCopied(path))
        try check(path)
    }

    @Test func aStoreOfAnotherMachineIsNoticed() throws {
        try makeStore()
        try folder.write("0123456789abcdef0123456789abcdef\n", to: "machine-id")
        try folder.write("uninitialized\n", to: "no-machine-id")
        try start(path, machineFile: folder.path("no-machine-id"))
        try start(path, machineFile: folder.path("machine-id"))
        try folder.write("f123456789abcdef0123456789abcdef\n", to: "machine-id")
        let error = storeError { try start(path, machineFile: folder.path("machine-id")) }
        #expect(error?.code == .storeCopied)
        #expect(error?.message.contains("another machine") == true)
        try start(path, machineFile: folder.path("missing"))
        try check(path)
    }

    @Test func anAdoptedCopyMayPublish() throws {
        try makeStore()
        try duplicate(path, to: copy)
        #expect(isCopied(copy))
        let store = try Store(at: copy)
        try MirrorLease.adopt(store) { try keep($0, in: store) }
        try store.close()
        #expect(!isCopied(copy))
        try check(path, copy)
    }

    @Test func aStoreThatIsMirroredIsNotAdopted() throws {
        try makeStore()
        let store = try Store(at: path)
        let lease = try #require(try MirrorLease.take(store))
        #expect(code { try MirrorLease.adopt(store) { _ in Issue.record("It was adopted.") } } == .mirroredElsewhere)
        withExtendedLifetime(lease) {}
        try store.close()
        try check(path)
    }
}
