// Derived values in mirrored stores: each store computes its own, and all come to the same.

import Annals
import AnnalsMirror
import FoundationEssentials
import TestSupport
import Testing

private struct Club: Entity {
    var name = ""
    var town = ""
    var title = ""
    var memberCount = 0
    var points = 0
    var changed = Date.distantPast
    var members = ToMany<Member>()

    static let schema = Schema<Club> {
        Attribute(\.name, .unique)
        Attribute(\.title, .indexed, .derived { $0.name + " of " + $0.town })
        Attribute(\.memberCount, .indexed, .derived(count: \.members))
        Attribute(\.points, .derived(sum: \.members, \.points))
        Attribute(\.changed, .derived(.lastChange))
    }
}

private struct Member: Entity {
    var name = ""
    var points = 0
    var club: Reference<Club>?

    static let schema = Schema<Member> { Relationship(\.club, inverse: \.members) }
}

@Suite struct MirrorDerivedTests {
    private final class Machine {
        let store: Store
        var peer: MirrorPeer
        private var run: UInt64 = 1
        private let exchange: SimulatedExchange

        init(_ store: Store, _ exchange: SimulatedExchange) throws {
            (self.store, self.exchange) = (store, exchange)
            peer = try Self.begin(store, exchange, 1)
        }

        private static func begin(_ store: Store, _ exchange: SimulatedExchange, _ run: UInt64) throws -> MirrorPeer {
            try MirrorPeer.begin(
                store, exchange.courier(for: store.identifier.uuidString), firstNumber: run * 1_000_000, instance: run,
                clock: { exchange.now })
        }

        func restart() throws {
            try peer.save()
            run += 1
            peer = try Self.begin(store, exchange, run)
        }

        private func objects<E: Entity>(_ type: E.Type) throws -> [(reference: Reference<E>, value: E)] {
            let snapshot = try store.snapshot()
            return try snapshot.references(to: type).map { ($0, try #require(try snapshot[$0])) }
        }

        func write(_ random: inout SeededRandom) throws {
            let clubs = try objects(Club.self).map(\.reference)
            let members = try objects(Member.self).map(\.reference)
            let (club, member) = (clubs.randomElement(using: &random), members.randomElement(using: &random))
            let kind = Int.random(in: 0..<10, using: &random)
            let number = Int.random(in: 0..<6, using: &random)
            do {
                try store.write { transaction in
                    switch (kind, club, member) {
                    case (0...1, _, _), (_, nil, _):
                        try transaction.insert(Club(name: "club \(number)", town: "town \(number)"))
                    case (2...4, let club?, _):
                        try transaction.insert(Member(name: "member \(number)", points: number, club: club))
                    case (5, let club?, _): try transaction.update(club) { $0.name = "club \(number)" }
                    case (6, let club?, _): try transaction.update(club) { $0.town = "town \(number)" }
                    case (7, let club?, let member?): try transaction.update(member) { $0.club = club }
                    case (8, _, let member?): try transaction.update(member) { $0.points = number }
                    case (9, let club?, let member?):
                        if number == 0 { try transaction.delete(club) } else { try transaction.delete(member) }
                    default: break
                    }
                }
            } catch let error as StoreError where error.code == .uniqueViolation {
                // Another club has the name.
            }
        }

        /// The derived values do not contradict the objects.
        func expectRight(_ note: String) throws {
            let members = try objects(Member.self)
            for club in try objects(Club.self) {
                let own = members.filter { $0.value.club == club.reference }
                #expect(club.value.title == club.value.name + " of " + club.value.town, "\(note)")
                #expect(club.value.memberCount == own.count, "\(note)")
                #expect(club.value.points == own.reduce(0) { $0 + $1.value.points }, "\(note)")
            }
        }

        func picture() throws -> [String] {
            let clubs = try objects(Club.self)
            let names = Dictionary(uniqueKeysWithValues: clubs.map { ($0.reference, $0.value.name) })
            let members = try objects(Member.self).map { member in
                "\(member.value.name) \(member.value.points) \(member.value.club.flatMap { names[$0] } ?? "-")"
            }
            let lines = clubs.map { club in
                "\(club.value.name) \(club.value.town) \(club.value.title) \(club.value.memberCount) "
                    + "\(club.value.points) \(club.value.changed.timeIntervalSince1970)"
            }
            return (lines + members).sorted()
        }
    }

    @Test(arguments: 1...24 as ClosedRange<UInt64>)
    func allStoresComputeTheSame(seed: UInt64) throws {
        var random = SeededRandom(seed)
        let exchange = SimulatedExchange(seed: seed, faults: seed % 2 == 0 ? .rough : .none)
        let machines = try (0..<3).map { _ in try Machine(try Store(inMemory: [Club.self, Member.self]), exchange) }
        func step(_ machine: Machine) throws {
            do {
                try machine.peer.step()
            } catch let error as StoreError where error.code == .courierUnreachable {
                // It tries again.
            }
        }
        for _ in 0..<200 {
            let machine = machines[Int.random(in: 0..<3, using: &random)]
            switch Int.random(in: 0..<20, using: &random) {
            case 0: try machine.restart()
            case 1...9: try machine.write(&random)
            default: try step(machine)
            }
            exchange.advance(by: Double.random(in: 0..<0.3, using: &random))
        }
        exchange.calm()
        var rounds = 0
        while !machines.allSatisfy(\.peer.isQuiet) || rounds < 3 {
            rounds += 1
            try #require(rounds < 300, "seed \(seed): \(machines.map { $0.peer.obstacles })")
            for machine in machines { try step(machine) }
            exchange.advance(by: 1)
        }
        for machine in machines { try machine.expectRight("seed \(seed)") }
        let pictures = try machines.map { try $0.picture() }
        #expect(!pictures[0].isEmpty)
        for picture in pictures.dropFirst() { #expect(picture == pictures[0], "seed \(seed)") }
        for machine in machines {
            let report = try Checker.check(
                machine.store.path, options: CheckOptions(), files: try Store.files(for: machine.store.path))
            #expect(report.isIntact, "seed \(seed): \(report.findings)")
        }
    }
}
