// The simulated courier: it is deterministic, it does each fault that it names, and in calm it delivers what is sent
// again.

import Annals
import AnnalsMirror
import TestSupport
import Testing

@Suite struct CourierSimulationTests {
    /// Sends and reads at random, and returns all that happened as text.
    private func run(seed: UInt64, faults: SimulatedExchange.Faults, steps: Int = 400) -> [String] {
        let exchange = SimulatedExchange(seed: seed, faults: faults)
        var random = SeededRandom(seed &+ 1)
        let names = ["anna", "ben", "cleo"]
        let readers = names.map { TestReader(exchange.courier(for: $0)) }
        var sent = [0, 0, 0] as [UInt64]
        var events: [String] = []
        for _ in 0..<steps {
            let index = random.next(below: 3)
            let reader = readers[index]
            do {
                if random.happens(0.5) {
                    sent[index] += 1
                    try reader.courier.append(testMessages(sent[index]...sent[index], from: names[index]))
                } else {
                    let batch = try reader.courier.messages(after: reader.place, maximumBytes: 60, waitSeconds: 0.5)
                    reader.place = batch.place
                    reader.messages += batch.messages
                    events.append("\(exchange.now) \(names[index]) \(batch)")
                }
            } catch { events.append("\(names[index]) \(error)") }
            exchange.advance(by: 0.1)
        }
        return events
    }

    @Test(arguments: 0..<10 as Range<UInt64>)
    func equalSeedsGiveEqualRuns(seed: UInt64) {
        let first = run(seed: seed, faults: .rough)
        #expect(first == run(seed: seed, faults: .rough), "The seed is \(seed).")
        #expect(first != run(seed: seed + 100, faults: .rough), "The seed is \(seed).")
    }

    /// A mirror in few lines: it numbers what it sends, and sends again what the other does not have.
    @Test(arguments: 0..<30 as Range<UInt64>)
    func calmCourierDeliversWhatIsSentAgain(seed: UInt64) throws {
        let exchange = SimulatedExchange(seed: seed, faults: .rough)
        var random = SeededRandom(seed)
        let names = ["anna", "ben", "cleo"]
        let readers = names.map { TestReader(exchange.courier(for: $0)) }
        var sent = [0, 0, 0] as [UInt64]
        for _ in 0..<300 {
            let index = random.next(below: 3)
            sent[index] += 1
            try? readers[index].courier.append(testMessages(sent[index]...sent[index], from: names[index]))
            let other = random.next(below: 3)
            if random.happens(0.02) { exchange.cutOff(names[other]) }
            if random.happens(0.1) { exchange.join(names[other]) }
            try? readers[other].drain(maximumBytes: 100)
            exchange.advance(by: 0.2)
        }
        exchange.calm()
        for (index, name) in names.enumerated() where sent[index] > 0 {
            try readers[index].courier.append(testMessages(1...sent[index], from: name))
        }
        for reader in readers {
            try reader.drain()
            for (index, name) in names.enumerated() {
                let expected: [UInt64] = sent[index] == 0 ? [] : Array(1...sent[index])
                #expect(Set(reader.numbers(of: name)) == Set(expected), "\(exchange.note)")
            }
            #expect(reader.messages.allSatisfy { $0.body == testBody($0.number, of: $0.sender) }, "\(exchange.note)")
        }
    }

    /// The numbers that a reader receives of 200 messages.
    private func received(_ faults: SimulatedExchange.Faults, seed: UInt64 = 5) throws -> [UInt64] {
        let exchange = SimulatedExchange(seed: seed, faults: faults)
        let reader = TestReader(exchange.courier(for: "ben"))
        try reader.drain()
        for number in 1...200 as ClosedRange<UInt64> {
            try exchange.courier(for: "anna").append(testMessages(number...number, from: "anna"))
            try reader.drain()
        }
        exchange.advance(by: 100)
        try reader.drain()
        return reader.numbers(of: "anna")
    }

    @Test func eachFaultHappens() throws {
        let all = Array(1...200 as ClosedRange<UInt64>)
        #expect(try received(.none) == all)
        let dropped = try received(.init(drop: 0.2))
        #expect(dropped.count < 200 && dropped == dropped.sorted())
        let doubled = try received(.init(double: 0.2))
        #expect(doubled.count > 200 && Set(doubled) == Set(all))
        let forgotten = try received(.init(forget: 0.2))
        #expect(forgotten.count < 200)
        let delayed = try received(.init(maximumDelaySeconds: 3))
        #expect(delayed != all && delayed.sorted() == all)
        #expect(code { _ = try received(.init(fail: 0.2)) } == .courierUnreachable)
        #expect(code { _ = try received(.init(goDown: 0.2)) } == .courierUnreachable)
        #expect(try received(.init(beginAgain: 0.05)).count < 200)
    }

    @Test func forgottenMessageReachesNoReader() throws {
        let exchange = SimulatedExchange(seed: 3, faults: .init(forget: 0.3))
        let readers = ["ben", "cleo"].map { TestReader(exchange.courier(for: $0)) }
        try exchange.courier(for: "anna").append(testMessages(1...50, from: "anna"))
        for reader in readers { try reader.drain() }
        #expect(readers[0].messages == readers[1].messages)
        #expect(readers[0].messages.count < 50)
    }

    @Test func waitPassesSimulatedTime() throws {
        let exchange = SimulatedExchange(seed: 4, faults: .init(maximumDelaySeconds: 2))
        let ben = exchange.courier(for: "ben")
        let first = try ben.messages(after: nil, maximumBytes: 100, waitSeconds: 30)
        #expect(first.messages.isEmpty && exchange.now == 30)
        try exchange.courier(for: "anna").append(testMessages(1...1, from: "anna"))
        let second = try ben.messages(after: first.place, maximumBytes: 100, waitSeconds: 30)
        #expect(second.messages.count == 1)
        #expect(exchange.now > 30 && exchange.now <= 32)
    }

    @Test func engineIsDownForAWhileAndPartitionsAreOfOnePeer() throws {
        let exchange = SimulatedExchange(seed: 6)
        let anna = exchange.courier(for: "anna")
        let ben = exchange.courier(for: "ben")
        exchange.goDown(forSeconds: 2)
        #expect(code { try anna.append(testMessages(1...1, from: "anna")) } == .courierUnreachable)
        exchange.advance(by: 3)
        try anna.append(testMessages(1...1, from: "anna"))
        exchange.cutOff("anna")
        #expect(code { try anna.append(testMessages(2...2, from: "anna")) } == .courierUnreachable)
        try ben.append(testMessages(1...1, from: "ben"))
        let reader = TestReader(ben)
        try reader.drain()
        #expect(reader.messages.count == 2)
        exchange.join("anna")
        try anna.append(testMessages(2...2, from: "anna"))
    }

    @Test func stateIsDamagedSometimes() throws {
        let exchange = SimulatedExchange(seed: 7, faults: .init(damageState: 0.5))
        let anna = exchange.courier(for: "anna")
        var parts = [[1], [2], [3]] as [[UInt8]]
        try anna.storeState(named: "state") { parts.isEmpty ? nil : parts.removeFirst() }
        var codes: Set<StoreError.Code?> = []
        for _ in 0..<50 {
            var bytes: [UInt8] = []
            let code = code {
                let isThere = try anna.fetchState(named: "state") { bytes += $0 }
                #expect(isThere, "\(exchange.note)")
            }
            #expect([1, 2, 3].starts(with: bytes))
            if code == nil { #expect(bytes == [1, 2, 3], "\(exchange.note)") }
            codes.insert(code)
        }
        #expect(codes == [nil, .courierDamaged])
    }
}
