// What a folder courier reads: late, in part, twice, out of order, damaged, and of others.

import Annals
import AnnalsMirror
import Glibc
import Testing

@Suite struct FolderReadingTests {
    /// A folder with segments of Anna, one for each number, and their files in order.
    private func folder(withSegments count: UInt64) throws -> (FolderOnDisk, [(file: String, bytes: [UInt8])]) {
        let folder = try FolderOnDisk()
        let anna = try folder.folderCourier(for: "anna")
        for number in 1...count { try anna.append(testMessages(number...number, from: "anna")) }
        return (folder, try folder.segments(of: "anna").map { ($0, try folder.read($0)) })
    }

    @Test func lateSegmentIsDeliveredWhenItComes() throws {
        let (folder, segments) = try folder(withSegments: 5)
        for segment in segments { folder.remove(segment.file) }
        let reader = TestReader(try folder.folderCourier(for: "ben"))
        for index in [3, 0, 4, 2, 1] {
            try folder.write(segments[index].bytes, to: segments[index].file)
            try reader.drain()
            reader.courier = try folder.folderCourier(for: "ben")
            try reader.drain()
        }
        #expect(reader.numbers(of: "anna") == [4, 1, 5, 3, 2])
        #expect(reader.timesBegunAgain == 0)
    }

    @Test func segmentThatIsDeliveredTwiceIsReadOnce() throws {
        let (folder, segments) = try folder(withSegments: 2)
        let reader = TestReader(try folder.folderCourier(for: "ben"))
        try reader.drain()
        folder.remove(segments[0].file)
        try reader.drain()
        try folder.write(segments[0].bytes, to: segments[0].file)
        let copy = segments[1].file.dropLast(".segment".count) + " (conflicted copy).segment"
        try folder.write(segments[1].bytes, to: String(copy))
        try reader.drain()
        #expect(reader.numbers(of: "anna") == [1, 2])
    }

    @Test func partOfASegmentIsNotThereYet() throws {
        let (folder, segments) = try folder(withSegments: 3)
        let reader = TestReader(try folder.folderCourier(for: "ben"))
        let second = segments[1]
        for count in [0, 1, 30, second.bytes.count / 2, second.bytes.count - 1] {
            try folder.write(Array(second.bytes[..<count]), to: second.file)
            try reader.drain()
            #expect(reader.numbers(of: "anna") == [1, 3], "The first \(count) bytes are there.")
        }
        try folder.write(second.bytes, to: second.file)
        try reader.drain()
        #expect(reader.numbers(of: "anna") == [1, 3, 2])
    }

    @Test func damagedSegmentIsReportedOnceAndReadAgain() throws {
        let (folder, segments) = try folder(withSegments: 3)
        var bytes = segments[1].bytes
        bytes[bytes.count - 12] ^= 1
        try folder.write(bytes, to: segments[1].file)
        let reader = TestReader(try folder.folderCourier(for: "ben"))
        let error = storeError { try reader.drain() }
        #expect(error?.code == .courierDamaged)
        #expect(error?.path == folder.path + "/" + segments[1].file)
        #expect(error?.message.contains("sender sends what is missing") == true)
        try reader.drain()
        #expect(reader.numbers(of: "anna") == [1, 3])
        bytes[bytes.count - 13] ^= 1
        try folder.write(bytes, to: segments[1].file)
        try reader.drain()
        try folder.write(segments[1].bytes, to: segments[1].file)
        try reader.drain()
        #expect(reader.numbers(of: "anna") == [1, 3, 2])
    }

    /// A synchronizer may reserve the room of a file before it writes it.
    @Test func segmentThatStillChangesIsNotReported() throws {
        let (folder, segments) = try folder(withSegments: 2)
        try folder.write([UInt8](repeating: 0, count: segments[1].bytes.count), to: segments[1].file)
        let courier = try folder.folderCourier(for: "ben")
        courier.settlingSeconds = 1000
        let reader = TestReader(courier)
        try reader.drain()
        try folder.write(segments[1].bytes, to: segments[1].file)
        try reader.drain()
        #expect(reader.numbers(of: "anna") == [1, 2])
    }

    @Test func damageThatTheDiskMendsIsReadAgain() throws {
        let (folder, segments) = try folder(withSegments: 1)
        var bytes = segments[0].bytes
        bytes[40] ^= 1
        try folder.write(bytes, to: segments[0].file)
        let courier = try folder.folderCourier(for: "ben")
        courier.rereadingSeconds = 0
        let reader = TestReader(courier)
        #expect(code { try reader.drain() } == .courierDamaged)
        for _ in 0..<3 { try reader.drain() }
        #expect(reader.messages.isEmpty)
    }

    @Test func segmentUnderTheNameOfAnotherIsDamage() throws {
        let (folder, segments) = try folder(withSegments: 2)
        try folder.write(segments[0].bytes, to: segments[1].file)
        let reader = TestReader(try folder.folderCourier(for: "ben"))
        #expect(code { try reader.drain() } == .courierDamaged)
        try reader.drain()
        #expect(reader.numbers(of: "anna") == [1])
        let moved = segments[0].file.replacing("peer-anna", with: "peer-cleo")
        try folder.write(segments[0].bytes, to: moved)
        #expect(code { try reader.drain() } == .courierDamaged)
    }

    @Test func fileThatIsTooLargeIsDamage() throws {
        let (folder, segments) = try folder(withSegments: 1)
        try folder.write([UInt8](repeating: 0, count: (4 << 20) + 1), to: segments[0].file)
        #expect(code { try TestReader(try folder.folderCourier(for: "ben")).drain() } == .courierDamaged)
    }

    @Test func otherFilesAreIgnored() throws {
        let (folder, _) = try folder(withSegments: 1)
        for file in ["desktop.ini", "peer-ben", "peer-_ZZ/x", "peer-anna/note.txt", "other/0.segment", "states/x"] {
            try folder.write([1, 2, 3], to: file)
        }
        let reader = TestReader(try folder.folderCourier(for: "cleo"))
        try reader.drain()
        #expect(reader.messages.count == 1)
        #expect(try !reader.courier.fetchState(named: "x") { _ in })
    }

    @Test func pipeInTheFolderDoesNotStopTheReader() throws {
        let (folder, segments) = try folder(withSegments: 2)
        folder.remove(segments[0].file)
        try #require(mkfifo(folder.path + "/" + segments[0].file, 0o600) == 0)
        let reader = TestReader(try folder.folderCourier(for: "ben"))
        // Reading a pipe at an offset fails, which is reported once.
        _ = code { try reader.drain() }
        try reader.drain()
        #expect(reader.numbers(of: "anna") == [2])
    }

    @Test func discardedSegmentThatAReaderDidNotHaveIsReported() throws {
        let folder = try FolderOnDisk()
        let anna = try folder.folderCourier(for: "anna")
        let reader = TestReader(try folder.folderCourier(for: "ben"))
        try anna.append(testMessages(1...1, from: "anna"))
        try reader.drain()
        try anna.append(testMessages(2...2, from: "anna"))
        try anna.append(testMessages(3...3, from: "anna"))
        try anna.discard(through: 3)
        try anna.append(testMessages(4...4, from: "anna"))
        try reader.drain()
        #expect(reader.numbers(of: "anna") == [1, 3, 4])
        #expect(reader.timesBegunAgain == 1)
    }

    @Test func gapOfTheNewestPlaceIsDeliveredLate() throws {
        let (folder, segments) = try folder(withSegments: 3)
        try folder.write(Array(segments[1].bytes.dropLast()), to: segments[1].file)
        let reader = TestReader(try folder.folderCourier(for: "ben"))
        reader.place = try reader.courier.newestPlace()
        try reader.drain()
        #expect(reader.messages.isEmpty)
        try folder.write(segments[1].bytes, to: segments[1].file)
        try reader.drain()
        #expect(reader.numbers(of: "anna") == [2])
    }

    @Test func peersTakeTurns() throws {
        let folder = try FolderOnDisk()
        let anna = try folder.folderCourier(for: "anna")
        for number in 1...50 as ClosedRange<UInt64> { try anna.append(testMessages(number...number, from: "anna")) }
        try folder.folderCourier(for: "ben").append(testMessages(1...1, from: "ben"))
        let batch = try anna.messages(after: nil, maximumBytes: 40, waitSeconds: 0)
        #expect(Set(batch.messages.map(\.sender)) == ["anna", "ben"])
    }
}

// MARK: Waiting

@Suite struct FolderWaitingTests {
    @Test func waitEndsAfterItsTime() throws {
        let folder = try FolderOnDisk()
        let anna = try folder.folderCourier(for: "anna")
        let start = ContinuousClock.now
        let batch = try anna.messages(after: nil, maximumBytes: 100, waitSeconds: 0.2)
        #expect(batch.messages.isEmpty)
        #expect(ContinuousClock.now - start >= .milliseconds(200))
    }

    @Test func interruptionEndsAWait() throws {
        let folder = try FolderOnDisk()
        let interruption = try Interruption()
        let anna = try FolderCourier(path: folder.path, group: "notes", peer: "anna", interruption: interruption)
        let interrupting = try TestThread {
            usleep(100_000)
            interruption.interrupt()
        }
        let start = ContinuousClock.now
        let batch = try anna.messages(after: nil, maximumBytes: 100, waitSeconds: 600)
        #expect(batch.messages.isEmpty)
        #expect(ContinuousClock.now - start < .seconds(60))
        interrupting.join()
        #expect(code { try anna.append(testMessages(1...1, from: "anna")) } == .cancelled)
        interruption.clear()
        try anna.append(testMessages(1...1, from: "anna"))
    }

    @Test func waitEndsWhenASegmentArrives() throws {
        let folder = try FolderOnDisk()
        let anna = try folder.folderCourier(for: "anna")
        let path = folder.path
        let appending = try TestThread {
            usleep(100_000)
            let ben = try? FolderCourier(path: path, group: "notes", peer: "ben", interruption: Interruption())
            try? ben?.append(testMessages(1...1, from: "ben"))
        }
        let batch = try anna.messages(after: nil, maximumBytes: 100, waitSeconds: 60)
        #expect(batch.messages.count == 1)
        appending.join()
    }
}
