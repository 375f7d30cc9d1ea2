// The files of states: in part, damaged, and left behind.

import Annals
import AnnalsMirror
import Testing

@Suite struct FolderStateTests {
    private func store(_ parts: [[UInt8]], _ courier: FolderCourier) throws {
        var rest = parts[...]
        try courier.storeState(named: "State 1") { rest.popFirst() }
    }

    private func fetch(_ courier: FolderCourier) throws -> [UInt8]? {
        var bytes: [UInt8] = []
        return try courier.fetchState(named: "State 1") { bytes += $0 } ? bytes : nil
    }

    @Test func laterStateRemovesTheEarlier() throws {
        let folder = try FolderOnDisk()
        let anna = try folder.folderCourier(for: "anna")
        try store([[1]], anna)
        try store([[2]], anna)
        let files = folder.files.filter { $0.hasPrefix("states/") }
        #expect(files.count == 1)
        #expect(files[0].hasPrefix("states/_53tate_201.2."))
    }

    @Test func partOfAStateIsNotThereYet() throws {
        let folder = try FolderOnDisk()
        let anna = try folder.folderCourier(for: "anna")
        try store([[1, 2, 3], [4, 5]], anna)
        let file = try #require(folder.files.last)
        let bytes = try folder.read(file)
        for count in 0..<bytes.count {
            try folder.write(Array(bytes[..<count]), to: file)
            #expect(try fetch(anna) == nil, "The first \(count) bytes are a state.")
        }
    }

    @Test func earlierStateServesWhileTheLaterIsDelivered() throws {
        let folder = try FolderOnDisk()
        let anna = try folder.folderCourier(for: "anna")
        try store([[1]], anna)
        let (early, earlyBytes) = (folder.files[1], try folder.read(folder.files[1]))
        try store([[2]], anna)
        let (late, lateBytes) = (folder.files[1], try folder.read(folder.files[1]))
        try folder.write(earlyBytes, to: early)
        #expect(try fetch(anna) == [2])
        try folder.write(Array(lateBytes.dropLast()), to: late)
        #expect(try fetch(anna) == [1])
        folder.remove(late)
        try store([[3]], anna)
        #expect(try fetch(anna) == [3])
        #expect(folder.files.count == 2)
    }

    @Test func flippedByteNeverDeliversOtherBytes() throws {
        let folder = try FolderOnDisk()
        let anna = try folder.folderCourier(for: "anna")
        let whole: [UInt8] = [1, 2, 3, 4, 5]
        try store([[1, 2, 3], [4, 5]], anna)
        let file = try #require(folder.files.last)
        let bytes = try folder.read(file)
        for index in bytes.indices {
            for change: UInt8 in [1, 0x80, 0xff] {
                var flipped = bytes
                flipped[index] ^= change
                try folder.write(flipped, to: file)
                var delivered: [UInt8] = []
                let error = storeError {
                    let isThere = try anna.fetchState(named: "State 1") { delivered += $0 }
                    #expect(!isThere, "Byte \(index) changed by \(change) is a state.")
                }
                #expect(whole.starts(with: delivered), "Byte \(index) changed by \(change) delivers other bytes.")
                #expect(
                    error == nil || error?.code == .courierDamaged,
                    "Byte \(index) changed by \(change): \(String(describing: error))")
            }
        }
    }

    @Test func stateOfAnotherGroupIsRefused() throws {
        let folder = try FolderOnDisk()
        try store([[1]], try folder.folderCourier(for: "anna", group: "other"))
        folder.remove("FORMAT")
        #expect(code { _ = try fetch(try folder.folderCourier(for: "anna")) } == .courierSettings)
    }
}
