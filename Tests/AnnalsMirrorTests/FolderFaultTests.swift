// Writers that die or fail at every step, full disks, and folders that cannot be written.

import Annals
import AnnalsMirror
import Glibc
import Testing

@Suite struct FolderFaultTests {
    /// Counts the steps of a writer, and fails one of them, or all from it on.
    private final class Saboteur {
        var step = 0
        let failing: Int
        /// The process is dead: its cleaning up does not happen either.
        let isKill: Bool
        let number: Int32

        init(failing: Int, isKill: Bool, number: Int32 = EIO) {
            self.failing = failing
            self.isKill = isKill
            self.number = number
        }

        func attach(to courier: FolderCourier) {
            courier.beforeStep = { [self] (name) throws(MirrorSystem.Failure) in
                defer { step += 1 }
                if step == failing || (isKill && step > failing) { throw MirrorSystem.Failure("\(name)", number) }
            }
        }
    }

    /// The work of a writer: new messages in several segments, a state, and discarding.
    private func work(_ courier: FolderCourier) throws {
        try courier.append(testMessages(1...3, from: "anna", bytes: 1500) + testMessages(4...5, from: "anna"))
        try store(1, courier)
        try courier.append(testMessages(6...7, from: "anna", bytes: 1500))
        try courier.discard(through: 3)
        try store(2, courier)
    }

    private func store(_ version: UInt8, _ courier: FolderCourier) throws {
        var parts: [[UInt8]] = [[version], [UInt8](repeating: version, count: 1500), [version]]
        try courier.storeState(named: "state") { parts.isEmpty ? nil : parts.removeFirst() }
    }

    /// A courier that writes small segments in small steps.
    private func courier(in folder: FolderOnDisk) throws -> FolderCourier {
        let courier = try folder.folderCourier(for: "anna")
        courier.maximumSegmentBytes = 4096
        courier.pieceBytes = 1000
        return courier
    }

    private func stepsOfWork() throws -> Int {
        let folder = try FolderOnDisk()
        let courier = try courier(in: folder)
        let counter = Saboteur(failing: .max, isKill: false)
        counter.attach(to: courier)
        try work(courier)
        return counter.step
    }

    /// A reader finds whole messages with their own bodies, and a whole state or none.
    private func check(_ folder: FolderOnDisk, _ step: Int) throws {
        let reader = TestReader(try folder.folderCourier(for: "ben"))
        try reader.drain()
        for message in reader.messages {
            let bytes = (4...5).contains(message.number) ? 20 : 1500
            #expect(message.body == testBody(message.number, of: "anna", bytes: bytes), "The step is \(step).")
        }
        var state: [UInt8] = []
        if try reader.courier.fetchState(named: "state", part: { state += $0 }) {
            #expect(state.count == 1502 && Set(state).count == 1, "The step is \(step).")
        }
    }

    @Test func writerThatDiesAtAnyStepLeavesWholeFiles() throws {
        let steps = try stepsOfWork()
        #expect(steps > 30)
        for step in 0..<steps {
            let folder = try FolderOnDisk()
            let dying = try courier(in: folder)
            Saboteur(failing: step, isKill: true).attach(to: dying)
            #expect(throws: StoreError.self, "The step is \(step).") { try work(dying) }
            try check(folder, step)
            let next = try courier(in: folder)
            for file in folder.files where file.hasSuffix(".tmp") { folder.age(file, seconds: 25 * 3600) }
            try work(next)
            try check(folder, step)
            let reader = TestReader(next)
            try reader.drain()
            #expect(Set(reader.numbers(of: "anna")).isSuperset(of: 4...7), "The step is \(step).")
            let left = folder.files.filter { $0.hasSuffix(".tmp") }
            #expect(left.isEmpty, "The step is \(step).")
        }
    }

    @Test func stepThatFailsOnceIsMadeGoodByTheNextCall() throws {
        let steps = try stepsOfWork()
        for step in 0..<steps {
            let folder = try FolderOnDisk()
            let courier = try courier(in: folder)
            Saboteur(failing: step, isKill: false, number: ENOSPC).attach(to: courier)
            let error = storeError { try work(courier) }
            #expect(error?.code == .courierFull, "The step is \(step).")
            #expect(error?.path?.hasPrefix(folder.path) == true, "The step is \(step).")
            try check(folder, step)
            try work(courier)
            try check(folder, step)
            // A temporary file whose removal failed stays for a day.
            #expect(folder.files.filter { $0.hasSuffix(".tmp") }.isEmpty, "The step is \(step).")
        }
    }

    @Test(arguments: [
        (ENOSPC, StoreError.Code.courierFull), (EDQUOT, .courierFull), (EFBIG, .courierFull), (EACCES, .courierRefused),
        (EPERM, .courierRefused), (EROFS, .courierRefused), (EIO, .courierUnreachable), (ESTALE, .courierUnreachable),
        (ENOTCONN, .courierUnreachable), (EMFILE, .tooManyFiles), (ENFILE, .tooManyFiles),
        (ENAMETOOLONG, .invalidArgument),
    ])
    func failureOfTheSystemHasACodeAndACure(number: Int32, code: StoreError.Code) throws {
        let folder = try FolderOnDisk()
        let courier = try folder.folderCourier(for: "anna")
        try courier.append(testMessages(1...1, from: "anna"))
        Saboteur(failing: 1, isKill: false, number: number).attach(to: courier)
        let error = storeError { try courier.append(testMessages(2...2, from: "anna")) }
        #expect(error?.code == code)
        #expect(error?.systemError == number)
        #expect(error?.path == folder.path + "/peer-anna")
        #expect(error?.message.contains(":") == true || error?.message.contains("Check") == true)
        #expect(folder.files.filter { $0.hasSuffix(".tmp") }.isEmpty)
    }
}

// MARK: Real file systems

/// A file system in memory over a folder; nil if this process may not mount.
private final class SmallFileSystem {
    private typealias Mount =
        @convention(c) (
            UnsafePointer<CChar>, UnsafePointer<CChar>, UnsafePointer<CChar>, UInt, UnsafePointer<CChar>
        ) -> Int32
    private typealias Unmount = @convention(c) (UnsafePointer<CChar>) -> Int32

    let path: String
    private(set) var isMounted = true

    init?(_ path: String, options: String) {
        self.path = path
        if Self.mount(path, 0, options) { return }
        print("Skipped: this test mounts a file system, which needs root. Run it as root.")
        return nil
    }

    deinit { unmount() }

    private static func mount(_ path: String, _ flags: UInt, _ options: String) -> Bool {
        guard let symbol = dlsym(nil, "mount") else { return false }
        // Sound: the type is that of the manual page.
        return unsafeBitCast(symbol, to: Mount.self)("tmpfs", path, "tmpfs", flags, options) == 0
    }

    /// MS_REMOUNT, with MS_RDONLY for reading only.
    func setReadOnly(_ isReadOnly: Bool) -> Bool { Self.mount(path, 32 | (isReadOnly ? 1 : 0), "") }

    func unmount() {
        guard isMounted, let symbol = dlsym(nil, "umount") else { return }
        // Sound: the type is that of the manual page.
        isMounted = unsafeBitCast(symbol, to: Unmount.self)(path) != 0
    }
}

@Suite struct FolderFileSystemTests {
    @Test func fullDiskLeavesNothingHalfWritten() throws {
        let folder = try FolderOnDisk()
        guard let disk = SmallFileSystem(folder.path, options: "size=512k") else { return }
        let anna = try folder.folderCourier(for: "anna")
        for number in 1...3 as ClosedRange<UInt64> {
            try anna.append(testMessages(number...number, from: "anna", bytes: 100_000))
        }
        let error = storeError { try anna.append(testMessages(4...4, from: "anna", bytes: 400_000)) }
        #expect(error?.code == .courierFull)
        #expect(error?.message.contains("free some space") == true)
        #expect(error?.path == folder.path + "/peer-anna")
        #expect(code { try anna.storeState(named: "state") { [UInt8](repeating: 1, count: 100_000) } } == .courierFull)
        #expect(folder.files.count == 4, "\(folder.files)")
        try anna.discard(through: 2)
        try anna.append(testMessages(4...4, from: "anna", bytes: 200_000))
        let reader = TestReader(try folder.folderCourier(for: "ben"))
        try reader.drain()
        #expect(reader.numbers(of: "anna") == [2, 3, 4])
        #expect(try anna.weaknesses().count == 1)
        disk.unmount()
    }

    @Test func readOnlyFolderIsReadAndRefusesMessages() throws {
        let folder = try FolderOnDisk()
        guard let disk = SmallFileSystem(folder.path, options: "size=1m") else { return }
        let anna = try folder.folderCourier(for: "anna")
        try anna.append(testMessages(1...2, from: "anna"))
        try #require(disk.setReadOnly(true))
        let error = storeError { try anna.append(testMessages(3...3, from: "anna")) }
        #expect(error?.code == .courierRefused)
        #expect(error?.message.contains("mount it for writing") == true)
        let reader = TestReader(try folder.folderCourier(for: "ben"))
        try reader.drain()
        #expect(reader.numbers(of: "anna") == [1, 2])
        try #require(disk.setReadOnly(false))
        try anna.append(testMessages(3...3, from: "anna"))
        disk.unmount()
    }

    /// Without its file system the folder is empty. Messages written there would be hidden by the next mount.
    @Test func unmountedFolderIsUnreachableAndStaysEmpty() throws {
        let folder = try FolderOnDisk()
        guard let disk = SmallFileSystem(folder.path, options: "size=1m") else { return }
        let anna = try folder.folderCourier(for: "anna")
        try anna.append(testMessages(1...2, from: "anna"))
        disk.unmount()
        #expect(!disk.isMounted)
        let error = storeError { try anna.append(testMessages(3...3, from: "anna")) }
        #expect(error?.code == .courierUnreachable)
        #expect(error?.message.contains("mount it again") == true)
        #expect(code { _ = try anna.messages(after: nil, maximumBytes: 1, waitSeconds: 0) } == .courierUnreachable)
        #expect(folder.files.isEmpty)
    }

    @Test func folderWithoutPermissionsIsRefused() throws {
        if getuid() == 0 {
            print("Skipped: root may use every folder. Run this test as another user.")
            return
        }
        let folder = try FolderOnDisk()
        chmod(folder.path, 0)
        defer { chmod(folder.path, 0o700) }
        let anna = try folder.folderCourier(for: "anna")
        #expect(code { try anna.append(testMessages(1...1, from: "anna")) } == .courierRefused)
    }
}
