// Folders that a courier cannot use, and what it says about them.

import Annals
import AnnalsMirror
import Testing

@Suite struct FolderFormatTests {
    private func error(_ folder: FolderOnDisk) throws -> StoreError? {
        let courier = try folder.folderCourier(for: "anna")
        let reading = storeError { _ = try courier.messages(after: nil, maximumBytes: 1, waitSeconds: 0) }
        let writing = storeError { try courier.append(testMessages(1...1, from: "anna")) }
        #expect(reading == writing)
        return reading
    }

    @Test(arguments: [
        ("Annals mirror folder\nversion 1\ngroup other\n", StoreError.Code.courierSettings, "group “other”"),
        ("Annals mirror folder\nversion 1\ngroup notes 2\n", .courierSettings, "group “notes 2”"),
        ("Annals mirror folder\nversion 2\ngroup notes\nmore\n", .courierSettings, "update Annals"),
        ("Annals mirror folder\nversion 1\n\n", .courierSettings, "group"),
        ("something else", .courierSettings, "give the mirror an empty folder"),
        ("", .courierUnreachable, "not complete yet"),
        ("Annals mirror folder\nversion 1\ngroup not", .courierUnreachable, "not complete yet"),
    ])
    func folderOfAnotherKindIsRefused(content: String, code: StoreError.Code, words: String) throws {
        let folder = try FolderOnDisk()
        try folder.write(Array(content.utf8), to: "FORMAT")
        let error = try error(folder)
        #expect(error?.code == code)
        #expect(error?.message.contains(words) == true, "\(String(describing: error))")
        #expect(error?.path == folder.path + "/FORMAT")
        #expect(folder.files == ["FORMAT"])
    }

    @Test func segmentOfAnotherGroupIsRefused() throws {
        let folder = try FolderOnDisk()
        try folder.folderCourier(for: "anna", group: "other").append(testMessages(1...1, from: "anna"))
        folder.remove("FORMAT")
        let error = storeError { try TestReader(try folder.folderCourier(for: "ben")).drain() }
        #expect(error?.code == .courierSettings)
        #expect(error?.path == folder.path + "/" + folder.segments(of: "anna")[0])
    }

    @Test func segmentOfALaterVersionIsRefused() throws {
        let folder = try FolderOnDisk()
        try folder.folderCourier(for: "anna").append(testMessages(1...1, from: "anna"))
        let file = folder.segments(of: "anna")[0]
        var bytes = try folder.read(file)
        bytes[8] = 2
        let end = Int(SegmentBytes.number(UInt32.self, in: bytes, at: 12)) - 8
        var sum: [UInt8] = []
        SegmentBytes.append(SegmentBytes.checksum(bytes[..<end], seed: SegmentSeed.header), to: &sum)
        bytes.replaceSubrange(end..<end + 8, with: sum)
        try folder.write(bytes, to: file)
        let reader = TestReader(try folder.folderCourier(for: "ben"))
        for _ in 0..<2 {
            let error = storeError { try reader.drain() }
            #expect(error?.code == .courierSettings)
            #expect(error?.message.contains("update Annals") == true)
        }
    }

    @Test func missingFolderIsUnreachable() throws {
        let courier = try FolderCourier(
            path: "/nonexistent/notes", group: "notes", peer: "anna", interruption: Interruption())
        let error = storeError { try courier.append(testMessages(1...1, from: "anna")) }
        #expect(error?.code == .courierUnreachable)
        #expect(error?.message.contains("mount or create it") == true)
        #expect(error?.path == "/nonexistent/notes")
    }

    @Test func fileInsteadOfAFolderIsRefused() throws {
        let folder = try FolderOnDisk()
        try folder.write([1], to: "file")
        let courier = try FolderCourier(
            path: folder.path + "/file", group: "notes", peer: "anna", interruption: Interruption())
        let error = storeError { try courier.append(testMessages(1...1, from: "anna")) }
        #expect(error?.code == .courierSettings)
        #expect(error?.message.contains("not a folder") == true)
    }

    @Test(arguments: [(0x6969, "NFS"), (0xFE53_4D42, "SMB"), (0x6573_5546, "FUSE"), (0x0102_1994, "memory")])
    func weakFileSystemIsNamed(kind: UInt32, word: String) {
        let sentences = FolderKind.weaknesses(kind: kind)
        #expect(sentences.count == 1)
        #expect(sentences[0].contains(word) && sentences[0].hasSuffix("."))
    }

    @Test func localDiskHasNoWeakness() throws {
        #expect(FolderKind.weaknesses(kind: 0xEF53) == [])
        let folder = try FolderOnDisk()
        #expect(try folder.folderCourier(for: "anna").weaknesses().count <= 1)
    }
}
