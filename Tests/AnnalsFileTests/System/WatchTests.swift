// What the watch tells, what it makes of the kernel's bytes, and that nothing is missed when a file is replaced.

import Annals
import Glibc
import TestSupport
import Testing

@Suite struct InotifyEventTests {
    typealias Mask = InotifyEvent.Mask

    /// One event as the kernel writes it: the name filled up with zeros.
    static func bytes(_ watch: Int32, _ mask: UInt32, name: String = "", length: UInt32? = nil) -> [UInt8] {
        let padded = name.isEmpty ? 0 : (name.utf8.count / 16 + 1) * 16
        let words: [UInt32] = [UInt32(bitPattern: watch), mask, 0, length ?? UInt32(padded)]
        let header = words.flatMap { word in withUnsafeBytes(of: word) { Array($0) } }
        return header + Array(name.utf8) + [UInt8](repeating: 0, count: padded - name.utf8.count)
    }

    @Test func severalEventsAreParsedInOrder() {
        let bytes = Self.bytes(1, Mask.modified) + Self.bytes(2, Mask.movedTo, name: "store") + Self.bytes(-1, 0x4000)
        let (events, isComplete) = InotifyEvent.parse(bytes[...])
        #expect(isComplete)
        #expect(
            events == [
                InotifyEvent(watch: 1, mask: Mask.modified),
                InotifyEvent(watch: 2, mask: Mask.movedTo, name: Array("store".utf8)),
                InotifyEvent(watch: -1, mask: Mask.overflow),
            ])
    }

    @Test func emptyBufferHoldsNothing() {
        let (events, isComplete) = InotifyEvent.parse([])
        #expect(events.isEmpty && isComplete)
    }

    @Test func nameWithoutAnEndReachesToTheEndOfItsField() {
        let name = String(repeating: "n", count: 16)
        let bytes = Self.bytes(1, Mask.created, length: 16) + Array(name.utf8)
        #expect(InotifyEvent.parse(bytes[...]).events.first?.name == Array(name.utf8))
    }

    @Test(arguments: [UInt32(1), 17, 0x7fff_ffff, 0x8000_0000, .max])
    func lengthBeyondTheBufferEndsTheList(length: UInt32) {
        let bytes = Self.bytes(1, Mask.modified) + Self.bytes(2, Mask.created, length: length)
        let (events, isComplete) = InotifyEvent.parse(bytes[...])
        #expect(events.count == 1 && !isComplete)
    }

    @Test func everyTruncationIsNoticedAndEveryOffsetIsSafe() {
        let bytes = Self.bytes(1, Mask.created, name: "store") + Self.bytes(2, Mask.modified)
        for end in bytes.indices {
            let (events, isComplete) = InotifyEvent.parse(bytes[..<end])
            #expect(isComplete == (end == 0 || end == 32))
            #expect(events.count == (end < 32 ? 0 : 1))
            _ = InotifyEvent.parse(bytes[end...])
        }
    }

    @Test func waitsAreRoundedUp() {
        let table: [(UInt64?, UInt64, Int32)] = [
            (nil, 5, -1), (5, 5, 0), (4, 5, 0), (6, 5, 1), (1005, 5, 1), (1006, 5, 2), (.max, 0, .max),
        ]
        for (deadline, now, expected) in table {
            #expect(InotifyWatch.milliseconds(until: deadline, from: now) == expected)
        }
    }
}

@Suite(.timeLimit(.minutes(20))) struct InotifyWatchTests {
    let temporary: TemporaryDirectory
    let watch: InotifyWatch

    init() throws {
        temporary = try TemporaryDirectory()
        watch = try InotifyWatch()
    }

    /// Everything told until nothing more comes for a while.
    func news(milliseconds: UInt64 = 50) throws -> Set<WatchNews> {
        var all: Set<WatchNews> = []
        while true {
            let deadline = RealEnvironment().monotonicMicroseconds() + milliseconds * 1000
            let news = try watch.wait(untilMonotonicMicroseconds: deadline)
            if news.isEmpty { return all }
            all.formUnion(news)
        }
    }

    @Test func writingToTheFileIsReported() throws {
        try temporary.write("a", to: "store")
        try temporary.write("b", to: "other")
        let file = try watch.add(directory: temporary.path, name: "store")
        #expect(try news() == [])
        try temporary.write("c", to: "other")
        #expect(try news() == [])
        try temporary.write("d", to: "store")
        #expect(try news() == [.changed(file)])
    }

    @Test func replacedFileIsWatchedFromThenOn() throws {
        try temporary.write("a", to: "store")
        let file = try watch.add(directory: temporary.path, name: "store")
        let old = open(temporary.path("store"), O_WRONLY)
        for round in 0..<3 {
            try temporary.write("new \(round)", to: "new")
            rename(temporary.path("new"), temporary.path("store"))
            #expect(try news().contains(.replaced(file)))
            try temporary.write("more", to: "store")
            #expect(try news() == [.changed(file)])
        }
        // Nobody wants to know about the file that had the name before.
        #expect(write(old, "x", 1) == 1)
        close(old)
        #expect(try news() == [])
    }

    @Test func aFileThatIsRemovedAndCreatedAgainIsReportedAsReplaced() throws {
        let file = try watch.add(directory: temporary.path, name: "store")
        #expect(try news() == [])
        try temporary.write("a", to: "store")
        #expect(try news().contains(.replaced(file)))
        unlink(temporary.path("store"))
        #expect(try news() == [.replaced(file)])
        try temporary.write("b", to: "store")
        #expect(try news().contains(.replaced(file)))
    }

    @Test func aMovedOrRemovedDirectoryIsReported() throws {
        mkdir(temporary.path("inner"), 0o700)
        let file = try watch.add(directory: temporary.path("inner"), name: "store")
        rename(temporary.path("inner"), temporary.path("moved"))
        #expect(try news() == [.gone(file)])
        rmdir(temporary.path("moved"))
        #expect(try news() == [.gone(file)])
        #expect(throws: StoreError.self) { try watch.add(directory: temporary.path("inner"), name: "store") }
    }

    @Test func handlesOfOneStoreAreNotifiedSeparately() throws {
        try temporary.write("a", to: "store")
        let first = try watch.add(directory: temporary.path, name: "store")
        let second = try watch.add(directory: temporary.path, name: "store")
        let other = try watch.add(directory: temporary.path, name: "other")
        try temporary.write("b", to: "store")
        #expect(try news() == [.changed(first), .changed(second)])
        watch.remove(first)
        try temporary.write("c", to: "store")
        #expect(try news() == [.changed(second)])
        watch.remove(second)
        try temporary.write("d", to: "store")
        try temporary.write("e", to: "other")
        #expect(try news().contains(.replaced(other)))
        watch.remove(other)
        try temporary.write("f", to: "other")
        #expect(try news() == [])
    }

    @Test func aWaitWithoutNewsEndsAtItsDeadline() throws {
        let before = RealEnvironment().monotonicMicroseconds()
        #expect(try watch.wait(untilMonotonicMicroseconds: before + 20_000) == [])
        #expect(RealEnvironment().monotonicMicroseconds() >= before + 20_000)
        #expect(try watch.wait(untilMonotonicMicroseconds: 0) == [])
    }

    @Test func cancelEndsTheWaitAndAllLaterOnes() throws {
        let watch = watch
        let thread = try BackgroundThread(name: "cancels") {
            RealEnvironment().sleep(microseconds: 20_000)
            watch.cancel()
        }
        #expect(try watch.wait(untilMonotonicMicroseconds: nil) == [.cancelled])
        #expect(try watch.wait(untilMonotonicMicroseconds: nil) == [.cancelled])
        thread.join()
    }

    /// More events than the kernel keeps: the watch must say that some are lost.
    @Test func floodIsReportedAsOverflow() throws {
        _ = try flood()
        #expect(try news().contains(.overflow))
    }

    /// What was lost may have been that another file took the name: from then on it must be watched.
    @Test func fileReplacedInAFloodIsWatchedAfterwards() throws {
        let store = try flood()
        try temporary.write("new", to: "new")
        rename(temporary.path("new"), temporary.path("store"))
        #expect(try news().contains(.overflow))
        try temporary.write("more", to: "store")
        #expect(try news() == [.changed(store)])
    }

    @Test func aDirectoryRemovedInAFloodIsReported() throws {
        mkdir(temporary.path("inner"), 0o700)
        let inner = try watch.add(directory: temporary.path("inner"), name: "store")
        _ = try flood()
        rmdir(temporary.path("inner"))
        #expect(try news().isSuperset(of: [.overflow, .gone(inner)]))
    }

    @Test func wakeEndsOneWait() throws {
        try temporary.write("a", to: "store")
        let file = try watch.add(directory: temporary.path, name: "store")
        let watch = watch
        let thread = try BackgroundThread(name: "wakes") {
            RealEnvironment().sleep(microseconds: 20_000)
            watch.wake()
        }
        #expect(try watch.wait(untilMonotonicMicroseconds: nil) == [])
        thread.join()
        // Several at once end one wait, and none that comes later.
        watch.wake()
        watch.wake()
        #expect(try watch.wait(untilMonotonicMicroseconds: nil) == [])
        let before = RealEnvironment().monotonicMicroseconds()
        #expect(try watch.wait(untilMonotonicMicroseconds: before + 20_000) == [])
        #expect(RealEnvironment().monotonicMicroseconds() >= before + 20_000)
        // News are told all the same.
        watch.wake()
        try temporary.write("b", to: "store")
        #expect(try news() == [.changed(file)])
    }

    /// Fills the queue beyond its limit with writes to two files, of which “store” is returned.
    private func flood() throws -> WatchedFile {
        try temporary.write("a", to: "store")
        try temporary.write("a", to: "other")
        let store = try watch.add(directory: temporary.path, name: "store")
        _ = try watch.add(directory: temporary.path, name: "other")
        let limit = SourceFile.read("/proc/sys/fs/inotify/max_queued_events").flatMap { Int($0.prefix { $0 != "\n" }) }
        let count = (limit ?? 16_384) + 100
        try #require(count < 1 << 20, "the queue of this machine is too long for a test")
        let files = [open(temporary.path("store"), O_WRONLY), open(temporary.path("other"), O_WRONLY)]
        // Taking turns, because equal events one after the other become one.
        for index in 0..<count { #expect(pwrite(files[index % 2], "x", 1, 0) == 1) }
        for file in files { close(file) }
        return store
    }
}
