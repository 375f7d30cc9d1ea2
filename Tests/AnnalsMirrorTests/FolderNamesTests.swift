// Names of files and folders, and the texts of places.

import AnnalsMirror
import TestSupport
import Testing

@Suite struct FolderNamesTests {
    @Test(arguments: [
        ("anna", "anna"), ("Anna", "_41nna"), ("a_b.c", "a_5fb_2ec"), ("ä", "_c3_a4"), ("..", "_2e_2e"),
        ("a/b", "a_2fb"), ("con", "con"),
    ])
    func namesAreEncodedForEveryFileSystem(name: String, text: String) {
        #expect(FolderNames.encoded(name) == text)
        #expect(FolderNames.decoded(text) == name)
    }

    @Test(arguments: ["", "Anna", "_", "_4", "_41", "_zz", "_61", "_+1", "a b", "_ff", "anna (conflicted copy)"])
    func otherTextsAreNotNames(text: String) {
        let decoded = FolderNames.decoded(text)
        #expect(decoded == nil || (text == "_41" && decoded == "A"))
    }

    @Test func segmentNamesAreReadAsTheyWere() throws {
        let name = SegmentName(run: 0xabc, serial: 12, numbers: 3...18_446_744_073_709_551_615)
        #expect(name.text == "0000000000000abc.0000000012.3-18446744073709551615.segment")
        #expect(SegmentName(name.text) == name)
    }

    @Test(arguments: [
        "0000000000000abc.12.3-4.segment", "0000000000000ABC.0000000012.3-4.segment",
        "0000000000000abc.0000000012.3-4.segment.tmp", "0000000000000abc.0000000012.4-3.segment",
        "0000000000000abc.0000000000.3-4.segment", "0000000000000abc.0000000012.+3-4.segment",
        "0000000000000abc.0000000012.3-4 (1).segment", ".0000000000000abc.tmp", "FORMAT",
        "0000000000000abc.9999999999999999999.3-4.segment",
    ])
    func otherFilesAreNotSegments(text: String) {
        #expect(SegmentName(text) == nil)
    }
}

@Suite struct FolderPlaceTests {
    @Test(arguments: 0..<20 as Range<UInt64>)
    func serialsInAnyOrderAreKnown(seed: UInt64) throws {
        var random = SeededRandom(seed)
        var place = FolderPlace()
        var known: Set<UInt64> = []
        for serial in (1...60 as ClosedRange<UInt64>).shuffled(using: &random) {
            place.insert("Anna", 5, serial)
            if random.happens(0.2) { place.insert("Anna", 5, serial) }
            known.insert(serial)
            for other in 1...61 as ClosedRange<UInt64> {
                #expect(place.contains("Anna", 5, other) == known.contains(other), "The seed is \(seed).")
            }
            #expect(FolderPlace(place.text) == place, "The seed is \(seed).")
        }
        #expect(place.text == "folder1 _41nna=5:60")
    }

    @Test(arguments: 0..<20 as Range<UInt64>)
    func skippedSerialsAreReportedIfOneWasMissing(seed: UInt64) {
        var random = SeededRandom(seed)
        for _ in 0..<200 {
            var progress = FolderPlace.Progress()
            var known: Set<UInt64> = []
            for _ in 0..<random.next(below: 12) {
                let serial = 1 + random.next(below: 15 as UInt64)
                progress.insert(serial)
                known.insert(serial)
            }
            let limit = random.next(below: 18 as UInt64)
            let isMissing = (0..<limit).contains { !known.contains($0 + 1) }
            #expect(progress.skip(through: limit) == isMissing, "The seed is \(seed).")
            for serial in 1...20 as ClosedRange<UInt64> {
                let expected = serial <= limit || known.contains(serial)
                #expect(progress.contains(serial) == expected, "The seed is \(seed).")
            }
            var place = FolderPlace()
            place.peers["a"] = [1: progress]
            #expect(FolderPlace(place.text) == place, "The seed is \(seed).")
        }
    }

    @Test func placeWithManyGapsGivesUpTheOldest() throws {
        var place = FolderPlace()
        for serial in stride(from: 2 as UInt64, to: 20_000, by: 2) { place.insert("anna", 5, serial) }
        #expect(place.text.utf8.count > FolderPlace.maximumTextBytes)
        #expect(place.shorten() == true)
        #expect(place.text.utf8.count <= FolderPlace.maximumTextBytes)
        #expect(place.contains("anna", 5, 3))
        #expect(!place.contains("anna", 5, 19_997))
        #expect(place.contains("anna", 5, 19_998))
        #expect(place.shorten() == false)
    }

    @Test func placeWithTooManyRunsCannotBeShortened() {
        var place = FolderPlace()
        for run in 1...2000 as ClosedRange<UInt64> { place.insert("anna", run << 40, 1) }
        #expect(place.shorten() == nil)
    }

    @Test(arguments: [
        "", "folder2", "nats 5", "folder1 ", "folder1 anna", "folder1 anna=", "folder1 anna=5", "folder1 anna=5:x",
        "folder1 anna=5:1,2", "folder1 anna=5:1,9-8", "folder1 anna=5:1,5,4", "folder1 Anna=5:1",
        "folder1 anna=5:99999999999999999999", "folder1 anna=5:18446744073709551615,3", "folder1 @anna=5:1",
        "folder1 anna=5:1,18446744073709551615", "folder1 @anna=5:1:99999999999999999999", "folder1 anna=5:1,3-4-5",
    ])
    func otherTextsAreNotPlaces(text: String) {
        #expect(FolderPlace(text) == nil)
    }
}
