// The lease: one mirror of a store at a time, whichever process it runs in. A lock belongs to the open file
// description, so a second one in this process is excluded like one of another process.

import Annals
import AnnalsMirror
import FoundationEssentials
import TestSupport
import Testing

@Suite(.serialized) struct MirrorLeaseTests {
    private let folder: TemporaryDirectory
    private let store: Store
    private var path: String { store.path }

    init() throws {
        folder = try TemporaryDirectory()
        store = try Store(at: folder.path("notes"), entities: MergeModel.entities)
    }

    private func check() throws {
        try store.close()
        let report = try Checker.check(path, options: CheckOptions(), files: try Store.files(for: path))
        #expect(report.isIntact, "\(report.findings)")
    }

    /// A process that another test is just starting holds the lock, too, until its program begins.
    private func take() throws -> MirrorLease {
        let deadline = ContinuousClock.now + .seconds(10)
        while true {
            do {
                return try #require(try MirrorLease.take(store))
            } catch let error as StoreError where error.code == .mirroredElsewhere && ContinuousClock.now < deadline {
                RealEnvironment().sleep(microseconds: 1000)
            }
        }
    }

    // MARK: Exclusion

    @Test func oneHolderAtATime() throws {
        #expect(try MirrorLease.holder(of: store) == nil)
        var first: MirrorLease? = try take()
        let error = storeError { _ = try MirrorLease.take(store) }
        #expect(error?.code == .mirroredElsewhere)
        let own = RealEnvironment().processID()
        #expect(error?.message.contains("\(own)") == true)
        #expect(try MirrorLease.holder(of: store) == own)
        #expect(first?.isInPlace == true)
        let mark = try first?.mark()
        first = nil
        #expect(try MirrorLease.holder(of: store) == nil)
        // The random bytes stay.
        #expect(try take().mark() == mark)
        try check()
    }

    @Test func twoMirrorsOfOneStoreExcludeEachOther() async throws {
        let shared = folder.path("shared")
        try FileManager.default.createDirectory(atPath: shared, withIntermediateDirectories: false)
        let second = try Store(at: path)
        let mirrors = try [store, second].map { try Mirror($0, group: "notes", through: .folder(shared)) }
        try await mirrors[0].start()
        try await until(mirrors) { mirrors[0].status.published > 0 }
        try await mirrors[1].start()
        try await until(mirrors) { mirrors[1].status.lastError?.code == .mirroredElsewhere }
        #expect(mirrors[1].status.isRunning && mirrors[1].status.published == 0)
        let schema = mirrors[0].status.published
        try await store.write { try $0.insert("Tag", ["name": "one"]) }
        try await until(mirrors) { mirrors[0].status.published > schema }
        #expect(mirrors[1].status.published == 0 && mirrors[1].status.lastError?.code == .mirroredElsewhere)
        // The second takes over.
        await mirrors[0].stop()
        let published = mirrors[0].status.published
        try await until(mirrors) { mirrors[1].status.published >= published && mirrors[1].status.lastError == nil }
        await mirrors[1].stop()
        #expect(try MirrorLease.holder(of: store) == nil)
        try second.close()
        try check()
    }

    private func until(_ mirrors: [Mirror], _ holds: () throws -> Bool) async throws {
        let deadline = ContinuousClock.now + .seconds(20)
        while try !holds() {
            try #require(ContinuousClock.now < deadline, "It never held: \(mirrors.map(\.status))")
            try await Task.sleep(for: .milliseconds(10))
        }
    }

    @Test func storesInMemoryHaveNoLease() throws {
        let store = try Store(inMemory: MergeModel.entities)
        #expect(try MirrorLease.take(store) == nil)
        #expect(try MirrorLease.holder(of: store) == nil)
        let report = try Checker.check(store.path, options: CheckOptions(), files: try Store.files(for: store.path))
        #expect(report.isIntact, "\(report.findings)")
    }

    @Test func lookingCreatesNoFile() throws {
        #expect(try MirrorLease.holder(of: store) == nil)
        #expect(folder.names == ["notes"])
        try check()
    }

    @Test func aRemovedLeaseIsNoticed() throws {
        let first = try take()
        try first.requireInPlace()
        try FileManager.default.removeItem(atPath: path + ".mirror")
        #expect(code { try first.requireInPlace() } == .mirroredElsewhere)
        let second = try take()
        #expect(second.isInPlace && !first.isInPlace)
        #expect(try second.mark().lease != first.mark().lease)
        try check()
    }

    // MARK: The file

    @Test(arguments: [Store.Sharing.user, .group])
    func theFileHasThePermissionsOfTheStore(sharing: Store.Sharing) throws {
        let shared = try Store(
            at: folder.path("shared"), entities: MergeModel.entities, options: .init(sharing: sharing))
        let lease = try #require(try MirrorLease.take(shared))
        let files = RealFileSystem()
        let place = try files.openPlace(shared.path)
        defer { files.close(place.directory) }
        let found = try ["shared", "shared.mirror"].map { (name) throws(StoreError) in
            let file = try files.open(name, in: place.directory, access: .readOnly)
            defer { files.close(file) }
            let status = try files.status(file)
            return [status.mode, status.owner, status.group]
        }
        #expect(found[0] == found[1])
        #expect(found[1][0] == (sharing == .user ? 0o600 : 0o660))
        withExtendedLifetime(lease) {}
        try shared.close()
        let report = try Checker.check(shared.path, options: CheckOptions(), files: files)
        #expect(report.isIntact, "\(report.findings)")
        try check()
    }

    private static let digits = "0123456789abcdef0123456789abcdef"

    @Test func theContentIsText() throws {
        let content = MirrorFile(digits: Self.digits, processID: 4321)
        let text = "Annals mirror lease\nversion 1\nmark \(Self.digits)\nprocess 4321      \n"
        #expect(String(decoding: content.encoded, as: UTF8.self) == text)
        #expect(content.encoded.count == MirrorFile.bytes)
        #expect(Array(content.encoded.dropFirst(MirrorFile.processOffset)) == content.encodedProcess)
        #expect(MirrorFile.content(content.encoded) == .complete(content))
        let largest = MirrorFile(digits: Self.digits, processID: .max)
        #expect(MirrorFile.content(largest.encoded) == .complete(largest))
        #expect(MirrorFile(processID: 1) != MirrorFile(processID: 1))
    }

    /// A process was killed while it created the file, or the power failed.
    @Test func anIncompleteFileIsCompleted() throws {
        let whole = MirrorFile(digits: Self.digits, processID: 1).encoded
        let incomplete = (0..<whole.count).map { Array(whole.prefix($0)) } + [[UInt8](repeating: 0, count: whole.count)]
        for bytes in incomplete {
            try folder.write(String(decoding: bytes, as: UTF8.self), to: "notes.mirror")
            let mark = try take().mark()
            #expect(mark.lease.utf8.count == 32 && mark.lease != Self.digits)
            #expect(folder.read("notes.mirror")?.utf8.count == MirrorFile.bytes)
            #expect(try take().mark() == mark)
        }
        try check()
    }

    @Test(arguments: [
        ("Notes of a person", StoreError.Code.alreadyExists),
        ("Annals mirror lease\nversion 2\nsomething else", .unsupportedVersion),
        (
            "Annals mirror lease\nversion 1\nmark 0123456789abcdef0123456789abcdef\nprocess 1         \nmore",
            .alreadyExists
        ),
        ("Annals mirror lease\nversion 1\nmark 0123456789abcdef-123456789abcdef\nprocess 1         \n", .alreadyExists),
    ])
    func anotherFileOfTheNameStays(content: String, expected: StoreError.Code) throws {
        try folder.write(content, to: "notes.mirror")
        #expect(code { _ = try MirrorLease.take(store) } == expected)
        #expect(folder.read("notes.mirror") == content)
        try check()
        try Store.destroy(at: path)
        // A later version's file is one of a mirror.
        #expect(folder.names == (expected == .alreadyExists ? ["notes.mirror"] : []))
    }

    @Test func aFolderOfTheNameStays() throws {
        try FileManager.default.createDirectory(atPath: path + ".mirror", withIntermediateDirectories: false)
        #expect(code { _ = try MirrorLease.take(store) } == .alreadyExists)
        try check()
        try Store.destroy(at: path)
        #expect(folder.names == ["notes.mirror"])
    }

    @Test func theFileIsDestroyedWithTheStore() throws {
        #expect(try take().isInPlace)
        #expect(folder.names == ["notes", "notes.mirror"])
        try check()
        try Store.destroy(at: path)
        #expect(folder.names == [])
    }

    @Test func aStoreThatWasRemovedGetsNoFile() throws {
        try check()
        try Store.destroy(at: path)
        #expect(code { _ = try MirrorLease.take(store) } == .storeRemoved)
        #expect(folder.names == [])
    }

    @Test func aLongNameIsShortened() throws {
        let long = String(repeating: "n", count: 255)
        let name = MirrorFile.name(forStore: long)
        #expect(name.utf8.count == 24 && name.hasSuffix(".mirror") && name.hasPrefix("."))
        let other = try Store(at: folder.path(long), entities: MergeModel.entities)
        let lease = try #require(try MirrorLease.take(other))
        #expect(lease.isInPlace && folder.names == [name, long, "notes"].sorted())
        try other.close()
        try Store.destroy(at: other.path)
        #expect(folder.names == ["notes"])
        try check()
    }
}
