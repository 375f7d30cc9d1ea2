// Merging: whatever the order in which transactions arrive, every peer computes the same objects.

import Annals
import AnnalsMirror
import FoundationEssentials
import TestSupport
import Testing

@Suite struct MergeTests {
    static func identifier(_ number: UInt8) -> UUID {
        UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, number))
    }

    /// Runs peers that write and read each other's transactions in random orders. Returns the number of replays.
    @discardableResult
    static func run(seed: UInt64, peers count: Int, steps: Int, settles: Bool) throws -> Int {
        var random = SeededRandom(seed)
        let peers = (0..<count).map { MergePeer(identifier(UInt8($0 + 1))) }
        /// By writer: its transactions, and the number of those of each peer that it knew at each.
        var logs: [[MergeTransaction]] = Array(repeating: [], count: count)
        var pasts: [[[Int]]] = Array(repeating: [], count: count)
        /// By reader and writer: how many transactions it has.
        var read = Array(repeating: Array(repeating: 0, count: count), count: count)
        func receive(_ reader: Int, _ writer: Int) throws -> Bool {
            let next = read[reader][writer]
            guard next < logs[writer].count else { return false }
            // Only if it has everything that the writer knew.
            guard (0..<count).allSatisfy({ read[reader][$0] >= pasts[writer][next][$0] }) else { return false }
            try peers[reader].receive(logs[writer][next])
            read[reader][writer] += 1
            return true
        }
        func check(_ peer: Int) throws {
            let (found, expected) = (peers[peer].state.pictures(), peers[peer].expected.pictures())
            try #require(found == expected, "seed \(seed), peer \(peer), after \(peers[peer].all.count) transactions")
        }
        func settle() {
            // Everything below is known to all: the smallest of the largest numbers that each has from each.
            for reader in 0..<count {
                let stable = (0..<count).map { writer in
                    let known = (0..<count).map { read[$0][writer] }.min() ?? 0
                    return known > 0 ? logs[writer][known - 1].stamp : Stamp(0, peers[writer].identifier)
                }.min()
                if let stable { peers[reader].settle(below: stable) }
            }
        }
        for step in 0..<steps {
            let peer = Int.random(in: 0..<count, using: &random)
            if random.happens(0.5) {
                let past = read[peer]
                if let transaction = peers[peer].write(&random) {
                    logs[peer].append(transaction)
                    pasts[peer].append(past)
                    read[peer][peer] += 1
                }
            } else {
                let writer = Int.random(in: 0..<count, using: &random)
                if writer != peer { _ = try receive(peer, writer) }
            }
            try check(peer)
            if settles, step % 16 == 15 { settle() }
        }
        var moves = true
        while moves {
            moves = false
            for reader in 0..<count {
                for writer in 0..<count where writer != reader { if try receive(reader, writer) { moves = true } }
                try check(reader)
            }
        }
        let pictures = peers.map { $0.state.pictures() }
        try #require(pictures.allSatisfy { $0 == pictures[0] }, "seed \(seed): the peers differ")
        return peers.map(\.replays).reduce(0, +)
    }

    @Test(arguments: 1...20 as ClosedRange<UInt64>)
    func peersThatMergeInAnyOrderAreEqual(seed: UInt64) throws {
        let replays = try Self.run(seed: seed, peers: 2 + Int(seed % 4), steps: 150, settles: false)
        #expect(replays > 0, "seed \(seed): nothing was replayed")
    }

    @Test(arguments: 101...120 as ClosedRange<UInt64>)
    func peersThatForgetWhatAllHaveAreEqual(seed: UInt64) throws {
        try Self.run(seed: seed, peers: 2 + Int(seed % 4), steps: 200, settles: true)
    }
}
