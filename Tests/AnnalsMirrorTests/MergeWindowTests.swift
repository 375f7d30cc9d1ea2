// The window of a merging store: which of its transactions are connected, compared with a search through all pairs.

import Annals
import AnnalsMirror
import FoundationEssentials
import TestSupport
import Testing

@Suite struct MergeWindowTests {
    private static func object(_ number: Int) -> GroupObject {
        GroupObject(MergeTests.identifier(1), ObjectID(entityNumber: 1, number: UInt64(number))!)
    }

    /// Before all entries.
    private static let first = Stamp(0, MergeTests.identifier(1))

    private static func resources(_ random: inout SeededRandom, objects: Int) -> MergeResources {
        var resources = MergeResources()
        for _ in 0..<Int.random(in: 1...3, using: &random) {
            resources.read.insert(.object(object(Int.random(in: 1...objects, using: &random))))
        }
        if random.happens(0.6) {
            let name = object(Int.random(in: 1...objects, using: &random))
            resources.changed.insert(random.happens(0.5) ? .object(name) : .content(name))
        }
        return resources
    }

    private static func areConnected(_ one: MergeResources, _ other: MergeResources) -> Bool {
        !one.changed.isDisjoint(with: other.changed.union(other.read)) || !one.read.isDisjoint(with: other.changed)
    }

    /// The stamps of the entries that are connected with these resources, from pair to pair.
    private static func connected(_ first: MergeResources, _ entries: [MergeEntry]) -> [Stamp] {
        var found: [MergeEntry] = []
        var open = entries.filter { areConnected(first, $0.resources) }
        while let entry = open.popLast() {
            guard !found.contains(where: { $0.stamp == entry.stamp }) else { continue }
            found.append(entry)
            open += entries.filter { areConnected(entry.resources, $0.resources) }
        }
        return found.map(\.stamp).sorted()
    }

    @Test(arguments: 1...12 as ClosedRange<UInt64>)
    func connectedEntriesAreThoseOfTheSearch(seed: UInt64) throws {
        var random = SeededRandom(seed)
        let objects = 20 + Int(seed) * 3
        var window = MergeWindow()
        var entries: [MergeEntry] = []
        for number in 1...120 as ClosedRange<UInt64> {
            // Some come late.
            let stamp = Stamp(random.happens(0.8) ? number * 10 : number * 5 + 1, MergeTests.identifier(2))
            guard !entries.contains(where: { $0.stamp == stamp }) else { continue }
            let entry = MergeEntry(MergeTransaction(stamp, []), Self.resources(&random, objects: objects))
            entries.append(entry)
            window.append(entry, number: number)
            let looked = Self.resources(&random, objects: objects)
            let expected = Self.connected(looked, entries)
            let found = window.connected(with: looked, before: Self.first).map(\.entry.stamp).sorted()
            #expect(found == expected, "seed \(seed), entry \(number)")
            #expect(window.latest(connectedWith: looked) == expected.last, "seed \(seed), entry \(number)")
        }
    }

    @Test(arguments: 1...4 as ClosedRange<UInt64>)
    func removedEntriesConnectNothingForGood(seed: UInt64) throws {
        var random = SeededRandom(seed)
        var window = MergeWindow()
        var entries: [MergeEntry] = []
        for number in 1...3000 as ClosedRange<UInt64> {
            let entry = MergeEntry(
                MergeTransaction(Stamp(number, MergeTests.identifier(2)), []),
                Self.resources(&random, objects: 400))
            entries.append(entry)
            window.append(entry, number: number)
            if random.happens(0.05) {
                let count = Int.random(in: 0...min(entries.count, 40), using: &random)
                entries.removeFirst(count)
                window.removeFirst(count)
            }
            guard number % 100 == 0 else { continue }
            #expect(window.entries.map(\.number) == entries.map(\.stamp.lamport))
            let looked = Self.resources(&random, objects: 400)
            // There may be more of them, until the groups are made again.
            let found = Set(window.connected(with: looked, before: Self.first).map(\.entry.stamp))
            #expect(found.isSuperset(of: Self.connected(looked, entries)), "seed \(seed), entry \(number)")
            #expect(found.isSubset(of: Set(entries.map(\.stamp))))
        }
        let all = entries.count
        window.removeFirst(all)
        var everything = MergeResources()
        for number in 1...400 { everything.changed.insert(.object(Self.object(number))) }
        #expect(window.latest(connectedWith: everything) == nil)
        #expect(window.connected(with: everything, before: Self.first).isEmpty)
    }

    @Test func entriesThatOnlyReadAnObjectAreNotConnected() throws {
        var window = MergeWindow()
        func entry(_ number: UInt64, reads: Int?, changes: MergeResource?) -> MergeEntry {
            var resources = MergeResources()
            if let reads { resources.read.insert(.object(Self.object(reads))) }
            if let changes { resources.changed.insert(changes) }
            return MergeEntry(MergeTransaction(Stamp(number, MergeTests.identifier(2)), []), resources)
        }
        // Two notes of one folder.
        window.append(entry(1, reads: 1, changes: .object(Self.object(2))), number: 1)
        window.append(entry(2, reads: 1, changes: .object(Self.object(3))), number: 2)
        let note = entry(3, reads: 1, changes: .object(Self.object(2))).resources
        #expect(window.connected(with: note, before: Self.first).map(\.entry.stamp.lamport) == [1])
        // The folder is deleted.
        window.append(entry(4, reads: nil, changes: .object(Self.object(1))), number: 3)
        #expect(window.connected(with: note, before: Self.first).map(\.entry.stamp.lamport) == [1, 2, 4])
    }
}
