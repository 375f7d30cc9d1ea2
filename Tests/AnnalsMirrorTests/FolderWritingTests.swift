// What a folder courier writes: names, sizes, runs, and what it removes.

import Annals
import AnnalsMirror
import Testing

@Suite struct FolderWritingTests {
    private func decoded(_ file: String, in folder: FolderOnDisk) throws -> Segment {
        guard case .complete(let segment) = Segment.read(try folder.read(file)) else {
            throw StoreError(.courierDamaged, "\(file) is not a segment: look into it.")
        }
        return segment
    }

    @Test func appendWritesOneSegmentWithItsNumbers() throws {
        let folder = try FolderOnDisk()
        let anna = try folder.folderCourier(for: "Anna")
        try anna.append(testMessages(5...1004, from: "Anna"))
        let files = folder.files
        #expect(files.count == 2, "\(files)")
        #expect(files.first == "FORMAT")
        #expect(
            String(decoding: try folder.read("FORMAT"), as: UTF8.self)
                == "Annals mirror folder\nversion 1\ngroup notes\n")
        let segment = try decoded(files[1], in: folder)
        #expect(files[1].hasPrefix("peer-_41nna/") && files[1].hasSuffix(".0000000001.5-1004.segment"), "\(files)")
        #expect(segment.group == "notes" && segment.sender == "Anna" && segment.serial == 1)
        #expect(segment.messages == testMessages(5...1004, from: "Anna"))
    }

    @Test func largeAppendIsDividedIntoSegments() throws {
        let folder = try FolderOnDisk()
        let anna = try folder.folderCourier(for: "anna")
        try anna.append(testMessages(1...10, from: "anna", bytes: 1 << 20))
        let sizes = try folder.segments(of: "anna").map { try folder.read($0).count }
        #expect(sizes.count == 4)
        #expect(sizes.allSatisfy { $0 <= 4 << 20 }, "\(sizes)")
        let reader = TestReader(anna)
        try reader.drain(maximumBytes: 1)
        #expect(reader.numbers(of: "anna") == Array(1...10))
    }

    @Test func restartedWriterContinuesTheRunThatItsStoreHasRead() throws {
        let folder = try FolderOnDisk()
        let reader = TestReader(try folder.folderCourier(for: "anna"))
        try reader.courier.append(testMessages(1...1, from: "anna"))
        try reader.drain()
        try reader.courier.append(testMessages(2...2, from: "anna"))
        reader.courier = try folder.folderCourier(for: "anna")
        try reader.drain()
        try reader.courier.append(testMessages(3...3, from: "anna"))
        let segments = try folder.segments(of: "anna").map { try decoded($0, in: folder) }
        #expect(Set(segments.map(\.run)).count == 1)
        #expect(segments.map(\.serial) == [1, 2, 3])
        try reader.drain()
        #expect(reader.numbers(of: "anna") == [1, 2, 3])
    }

    @Test func writerWithoutAPlaceBeginsARun() throws {
        let folder = try FolderOnDisk()
        try folder.folderCourier(for: "anna").append(testMessages(1...1, from: "anna"))
        try folder.folderCourier(for: "anna").append(testMessages(2...2, from: "anna"))
        let segments = try folder.segments(of: "anna").map { try decoded($0, in: folder) }
        #expect(Set(segments.map(\.run)).count == 2)
        #expect(segments.map(\.serial) == [1, 1])
        let reader = TestReader(try folder.folderCourier(for: "ben"))
        try reader.drain()
        #expect(reader.numbers(of: "anna") == [1, 2])
    }

    /// Its readers know serials that it does not know any more.
    @Test func writerBeginsARunAfterItsFolderWasRestored() throws {
        let folder = try FolderOnDisk()
        let reader = TestReader(try folder.folderCourier(for: "anna"))
        for number in 1...3 as ClosedRange<UInt64> {
            try reader.courier.append(testMessages(number...number, from: "anna"))
        }
        try reader.drain()
        folder.remove(folder.segments(of: "anna")[2])
        for isRestarted in [false, true] {
            if isRestarted { reader.courier = try folder.folderCourier(for: "anna") }
            try reader.drain()
            try reader.courier.append(testMessages(4...4, from: "anna"))
        }
        try reader.drain()
        #expect(reader.numbers(of: "anna") == [1, 2, 3, 4, 4])
    }

    /// Both copies of a store continue the same run. Nothing is overwritten.
    @Test func copiedStoreNeverOverwritesASegment() throws {
        let folder = try FolderOnDisk()
        let original = TestReader(try folder.folderCourier(for: "anna"))
        try original.courier.append(testMessages(1...1, from: "anna"))
        try original.drain()
        let copy = TestReader(try folder.folderCourier(for: "anna"))
        copy.place = original.place
        try copy.drain()
        for number in 2...5 as ClosedRange<UInt64> {
            let body = [UInt8(number)]
            try original.courier.append([OutgoingMessage(number: number, body: body + [1])])
            try copy.courier.append([OutgoingMessage(number: number, body: body + [2])])
        }
        let reader = TestReader(try folder.folderCourier(for: "ben"))
        try reader.drain()
        #expect(reader.messages.count == 9)
        #expect(Set(reader.messages.map(\.body)).count == 9)
    }

    @Test func discardKeepsTheNewestSegmentThatAllKnow() throws {
        let folder = try FolderOnDisk()
        let anna = try folder.folderCourier(for: "anna")
        try anna.discard(through: 10)
        for number in stride(from: 1 as UInt64, to: 9, by: 2) {
            try anna.append(testMessages(number...number + 1, from: "anna"))
        }
        #expect(folder.segments(of: "anna").count == 4)
        try anna.discard(through: 5)
        #expect(try folder.segments(of: "anna").map { try decoded($0, in: folder).serial } == [2, 3, 4])
        try anna.discard(through: 100)
        #expect(try folder.segments(of: "anna").map { try decoded($0, in: folder).serial } == [4])
        try anna.append(testMessages(9...9, from: "anna"))
        let last = try decoded(folder.segments(of: "anna")[1], in: folder)
        #expect(last.serial == 5 && last.oldestKept == 4)
        try folder.folderCourier(for: "anna").discard(through: 8)
        #expect(folder.segments(of: "anna").count == 2)
        try folder.folderCourier(for: "anna").discard(through: 9)
        #expect(folder.segments(of: "anna").count == 1)
    }

    @Test func discardTouchesOnlyOwnSegments() throws {
        let folder = try FolderOnDisk()
        try folder.folderCourier(for: "ben").append(testMessages(1...1, from: "ben"))
        try folder.folderCourier(for: "ben").append(testMessages(2...2, from: "ben"))
        try folder.folderCourier(for: "anna").discard(through: .max)
        #expect(folder.segments(of: "ben").count == 2)
    }

    @Test func temporaryFilesOfDeadWritersGoAfterADay() throws {
        let folder = try FolderOnDisk()
        try folder.folderCourier(for: "anna").append(testMessages(1...1, from: "anna"))
        try folder.write([1], to: "peer-anna/.0123456789abcdef.tmp")
        try folder.write([1], to: "peer-anna/.1123456789abcdef.tmp")
        try folder.write([1], to: "peer-anna/other.tmp")
        try folder.write([1], to: "states/.2123456789abcdef.tmp")
        folder.age("peer-anna/.0123456789abcdef.tmp", seconds: 25 * 3600)
        folder.age("states/.2123456789abcdef.tmp", seconds: 25 * 3600)
        folder.age("peer-anna/other.tmp", seconds: 25 * 3600)
        let anna = try folder.folderCourier(for: "anna")
        try anna.append(testMessages(2...2, from: "anna"))
        try anna.storeState(named: "state") { nil }
        #expect(
            folder.files.filter { $0.hasSuffix(".tmp") } == ["peer-anna/.1123456789abcdef.tmp", "peer-anna/other.tmp"])
    }

    @Test(arguments: ["", "a\nb", String(repeating: "Ä", count: 40)])
    func nameThatCannotBeAFileIsRefused(name: String) throws {
        let folder = try FolderOnDisk()
        #expect(code { _ = try folder.folderCourier(for: name) } == .invalidArgument)
        #expect(code { _ = try folder.folderCourier(for: "anna", group: name) } == .invalidArgument)
        let anna = try folder.folderCourier(for: "anna")
        #expect(code { try anna.storeState(named: name) { nil } } == .invalidArgument)
    }
}
