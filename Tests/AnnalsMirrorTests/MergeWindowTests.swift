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

    private struct Entry {
        var place: MergeWindow.Place
        var resources: MergeResources
    }

    private static func entry(
        _ number: UInt64, lamport: UInt64? = nil, of writer: UInt8 = 2, _ resources: MergeResources = MergeResources()
    ) -> Entry {
        let stamp = Stamp(lamport ?? number, MergeTests.identifier(writer))
        return Entry(place: MergeWindow.Place(number: number, stamp: stamp, origin: number), resources: resources)
    }

    /// The stamps of the entries that are connected with these resources, from pair to pair.
    private static func connected(_ first: MergeResources, _ entries: [Entry]) -> [Stamp] {
        var found: [Entry] = []
        var open = entries.filter { areConnected(first, $0.resources) }
        while let entry = open.popLast() {
            guard !found.contains(where: { $0.place == entry.place }) else { continue }
            found.append(entry)
            open += entries.filter { areConnected(entry.resources, $0.resources) }
        }
        return found.map(\.place.stamp).sorted()
    }

    @Test(arguments: 1...12 as ClosedRange<UInt64>)
    func connectedEntriesAreThoseOfTheSearch(seed: UInt64) throws {
        var random = SeededRandom(seed)
        let objects = 20 + Int(seed) * 3
        var window = MergeWindow()
        var entries: [Entry] = []
        for number in 1...120 as ClosedRange<UInt64> {
            // Some come late.
            let lamport = random.happens(0.8) ? number * 10 : number * 5 + 1
            let entry = Self.entry(number, lamport: lamport, Self.resources(&random, objects: objects))
            guard !entries.contains(where: { $0.place.stamp == entry.place.stamp }) else { continue }
            entries.append(entry)
            window.append(entry.place, entry.resources)
            let looked = Self.resources(&random, objects: objects)
            let expected = Self.connected(looked, entries)
            let found = window.connected(with: looked, before: Self.first)
            #expect(found.map(\.stamp).sorted() == expected, "seed \(seed), entry \(number)")
            #expect(found.map(\.number) == found.map(\.number).sorted())
            #expect(window.latest(connectedWith: looked) == expected.last, "seed \(seed), entry \(number)")
            for resource in looked.changed {
                let changing = entries.filter { $0.resources.changed.contains(resource) }.map(\.place.number)
                #expect(window.places(changing: resource).map(\.number).sorted() == changing)
            }
            // The resources that are left out connect with nothing more.
            let further = Self.resources(&random, objects: objects)
            let rest = window.unknown(further, besides: looked).union(looked)
            #expect(Self.connected(rest, entries) == Self.connected(further.union(looked), entries))
        }
    }

    @Test(arguments: 1...4 as ClosedRange<UInt64>)
    func removedEntriesConnectNothingForGood(seed: UInt64) throws {
        var random = SeededRandom(seed)
        var window = MergeWindow()
        var entries: [Entry] = []
        for number in 1...4000 as ClosedRange<UInt64> {
            let entry = Self.entry(number, Self.resources(&random, objects: 400))
            entries.append(entry)
            window.append(entry.place, entry.resources)
            if random.happens(0.05) {
                let count = Int.random(in: 0...min(entries.count, 40), using: &random)
                entries.removeFirst(count)
                window.removeFirst(count)
            }
            guard number % 100 == 0 else { continue }
            #expect(Array(window.places) == entries.map(\.place) && window.count == entries.count)
            let looked = Self.resources(&random, objects: 400)
            // There may be more of them, until the groups are made again.
            let found = Set(window.connected(with: looked, before: Self.first).map(\.stamp))
            #expect(found.isSuperset(of: Self.connected(looked, entries)), "seed \(seed), entry \(number)")
            #expect(found.isSubset(of: Set(entries.map(\.place.stamp))))
        }
        let all = entries.count
        window.removeFirst(all)
        var everything = MergeResources()
        for number in 1...400 { everything.changed.insert(.object(Self.object(number))) }
        #expect(window.latest(connectedWith: everything) == nil)
        #expect(window.connected(with: everything, before: Self.first).isEmpty)
    }

    @Test func groupsAreMadeAgainAfterRemovals() throws {
        var window = MergeWindow()
        func changing(_ objects: Int...) -> MergeResources {
            var resources = MergeResources()
            for number in objects { resources.changed.insert(.object(Self.object(number))) }
            return resources
        }
        // The first entry connects the objects 1 and 2, of the last two.
        window.append(Self.entry(1).place, changing(1, 2))
        for number in 2...2000 as ClosedRange<UInt64> { window.append(Self.entry(number).place, changing(3)) }
        for (number, object) in [(2001, 1), (2002, 2)] as [(UInt64, Int)] {
            window.append(Self.entry(number).place, changing(object))
        }
        #expect(window.connected(with: changing(1), before: Self.first).map(\.number) == [1, 2001, 2002])
        window.removeFirst(2000)
        #expect(window.connected(with: changing(1), before: Self.first).map(\.number) == [2001])
    }

    /// Compared with the definitions, over more entries than a chunk has.
    @Test(arguments: 1...4 as ClosedRange<UInt64>)
    func placesAreFoundAsInAList(seed: UInt64) throws {
        var random = SeededRandom(seed)
        var window = MergeWindow()
        var entries: [Entry] = []
        var confirmed: [UUID: UInt64] = [:]
        var lamport: UInt64 = 10
        for number in 1...2400 as ClosedRange<UInt64> {
            lamport += UInt64.random(in: 0...2, using: &random)
            // Most are in order.
            let late = random.happens(0.01) ? UInt64.random(in: 0...min(40, lamport - 1), using: &random) : 0
            let writer = UInt8.random(in: 2...4, using: &random)
            let entry = Self.entry(number * 3, lamport: lamport - late, of: writer)
            entries.append(entry)
            window.append(entry.place, entry.resources)
            guard number % 150 == 0 else { continue }
            let stable = lamport - UInt64.random(in: 0...min(lamport - 1, 300), using: &random)
            let lamports = entries.map(\.place.stamp.lamport)
            let low = lamports.prefix { $0 < stable }.count
            let count = (0...low).last { $0 == 0 || lamports[..<$0].max()! < lamports[$0...].min() ?? .max } ?? 0
            #expect(window.settled(below: stable) == count, "seed \(seed), entry \(number)")
            let wanted = UInt64.random(in: 0...number * 3, using: &random)
            #expect(window.place(after: wanted) == entries.first { $0.place.number > wanted }?.place)
            let peer = MergeTests.identifier(writer)
            let range = wanted...wanted + 30
            let first = entries.first { $0.place.stamp.peer == peer && range.contains($0.place.origin) }
            #expect(window.firstPlace(of: peer, range) == first?.place)
            // A member that joins has confirmed nothing.
            confirmed[peer] = random.happens(0.1) ? 0 : wanted
            let unconfirmed = Set(entries.map(\.place.stamp.peer)).compactMap { peer in
                entries.first { $0.place.stamp.peer == peer && $0.place.origin > confirmed[peer] ?? 0 }?.place.stamp
            }
            let found = window.firstUnconfirmed { confirmed[$0] ?? 0 }
            #expect(found == unconfirmed.min(), "seed \(seed), entry \(number)")
            let removed = min(count, Int.random(in: 0...80, using: &random))
            window.removeFirst(removed)
            entries.removeFirst(removed)
        }
    }

    @Test func entriesThatOnlyReadAnObjectAreNotConnected() throws {
        var window = MergeWindow()
        func resources(reads: Int?, changes: MergeResource?) -> MergeResources {
            var resources = MergeResources()
            if let reads { resources.read.insert(.object(Self.object(reads))) }
            if let changes { resources.changed.insert(changes) }
            return resources
        }
        // Two notes of one folder.
        window.append(Self.entry(1).place, resources(reads: 1, changes: .object(Self.object(2))))
        window.append(Self.entry(2).place, resources(reads: 1, changes: .object(Self.object(3))))
        let note = resources(reads: 1, changes: .object(Self.object(2)))
        #expect(window.connected(with: note, before: Self.first).map(\.number) == [1])
        // The folder is deleted.
        window.append(Self.entry(3).place, resources(reads: nil, changes: .object(Self.object(1))))
        #expect(window.connected(with: note, before: Self.first).map(\.number) == [1, 2, 3])
    }
}
