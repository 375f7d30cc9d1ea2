// Peers with a folder each, and a synchronizer that copies files between them late, in part, twice and in any order.

import Annals
import AnnalsMirror
import TestSupport
import Testing

@Suite struct FolderSynchronizerTests {
    /// Copies files that one folder has and another does not have whole. It never changes a file that is whole.
    private struct Synchronizer {
        let folders: [FolderOnDisk]
        var random: SeededRandom
        /// One step: a part of a file, or a whole one, or one that is whole already.
        mutating func step() throws {
            let from = random.next(below: folders.count)
            let to = random.next(below: folders.count)
            // Temporary files are carried as well: a synchronizer does not know them.
            guard from != to, let file = folders[from].files.randomElement(using: &random) else { return }
            try copy(file, from: from, to: to, mayBePart: true)
        }

        private mutating func copy(_ file: String, from: Int, to: Int, mayBePart: Bool) throws {
            let bytes = try folders[from].read(file)
            let old = folders[to].files.contains(file) ? try folders[to].read(file) : []
            if old.count >= bytes.count && !random.happens(0.2) { return }
            let isPart = mayBePart && random.happens(0.3)
            let count = isPart ? random.next(below: bytes.count + 1) : bytes.count
            if count < old.count { return }
            try folders[to].write(Array(bytes[..<count]), to: file)
        }

        /// Copies everything, and longer files over shorter ones.
        mutating func finish() throws {
            for from in folders.indices {
                for to in folders.indices where from != to {
                    for file in folders[from].files { try copy(file, from: from, to: to, mayBePart: false) }
                }
            }
        }
    }

    @Test(arguments: [2, 3], 0..<8 as Range<UInt64>)
    func peersReceiveEachMessageOnce(count: Int, seed: UInt64) throws {
        let note: Comment = "The seed is \(seed), with \(count) peers."
        var random = SeededRandom(seed)
        let folders = try (0..<count).map { _ in try FolderOnDisk() }
        let names = (0..<count).map { "peer \($0)" }
        let readers = try zip(names, folders).map { TestReader(try $1.folderCourier(for: $0)) }
        // FORMAT is in each folder before the synchronizer comes.
        for reader in readers { try reader.drain() }
        var synchronizer = Synchronizer(folders: folders, random: SeededRandom(seed ^ 0xf01d))
        var sent = [UInt64](repeating: 0, count: count)
        for _ in 0..<120 {
            let index = random.next(below: count)
            switch random.next(below: 6) {
            case 0, 1:
                let last = sent[index] + 1 + random.next(below: 4 as UInt64)
                try readers[index].courier.append(testMessages(sent[index] + 1...last, from: names[index]))
                sent[index] = last
            case 2: try readers[index].drain(maximumBytes: 1 + random.next(below: 200))
            case 3 where random.happens(0.3):
                readers[index].courier = try folders[index].folderCourier(for: names[index])
            default: for _ in 0..<4 { try synchronizer.step() }
            }
        }
        // Parts of one folder are copied to others, so once is not enough.
        for _ in 0..<count { try synchronizer.finish() }
        for reader in readers {
            try reader.drain()
            for (name, last) in zip(names, sent) {
                let numbers = reader.numbers(of: name)
                #expect(numbers.sorted() == (last == 0 ? [] : Array(1...last)), note)
            }
            #expect(reader.messages.allSatisfy { $0.body == testBody($0.number, of: $0.sender) }, note)
            #expect(reader.timesBegunAgain == 0, note)
        }
    }

    /// Each peer discards what all have read, as a mirror does.
    @Test(arguments: 0..<8 as Range<UInt64>)
    func peersOfOneFolderDiscardWhatAllHaveRead(seed: UInt64) throws {
        let note: Comment = "The seed is \(seed)."
        var random = SeededRandom(seed)
        let folder = try FolderOnDisk()
        let names = ["anna", "ben", "cleo"]
        let readers = try names.map { TestReader(try folder.folderCourier(for: $0)) }
        var sent = [0, 0, 0] as [UInt64]
        for _ in 0..<150 {
            let index = random.next(below: 3)
            switch random.next(below: 8) {
            case 0...2:
                let last = sent[index] + 1 + random.next(below: 4 as UInt64)
                try readers[index].courier.append(testMessages(sent[index] + 1...last, from: names[index]))
                sent[index] = last
            case 3...5: try readers[index].drain(maximumBytes: 1 + random.next(below: 200))
            case 6:
                let read = readers.map { Set($0.numbers(of: names[index])) }
                let all = (0...sent[index]).last { number in
                    number == 0 || read.allSatisfy { $0.isSuperset(of: 1...number) }
                }
                try readers[index].courier.discard(through: all ?? 0)
            default: readers[index].courier = try folder.folderCourier(for: names[index])
            }
        }
        for reader in readers {
            try reader.drain()
            for (name, last) in zip(names, sent) {
                #expect(reader.numbers(of: name).sorted() == (last == 0 ? [] : Array(1...last)), note)
            }
            #expect(reader.timesBegunAgain == 0, note)
        }
    }
}
