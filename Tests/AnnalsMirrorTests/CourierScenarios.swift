// Scenarios of couriers in a calm world. The same ones run on each engine.

import Annals
import AnnalsMirror
import TestSupport
import Testing

enum CourierEngine: String, CaseIterable, CustomTestStringConvertible {
    case folder, simulated

    var testDescription: String { rawValue }

    func makeWorld() throws -> any CourierWorld {
        switch self {
        case .folder: try FolderOnDisk()
        case .simulated: SimulatedExchange(seed: 1)
        }
    }
}

@Suite struct CourierScenarios {
    @Test(arguments: CourierEngine.allCases)
    func emptyEngineReturnsAPlaceToReadOnFrom(engine: CourierEngine) throws {
        let world = try engine.makeWorld()
        let reader = TestReader(try world.makeCourier(for: "anna"))
        let batch = try reader.courier.messages(after: nil, maximumBytes: 100, waitSeconds: 0)
        #expect(batch.messages.isEmpty && !batch.beganAgain, "\(world.note)")
        reader.place = batch.place
        try world.makeCourier(for: "ben").append(testMessages(1...3, from: "ben"))
        try reader.drain()
        #expect(reader.numbers(of: "ben") == [1, 2, 3], "\(world.note)")
        #expect(reader.timesBegunAgain == 0, "\(world.note)")
    }

    @Test(arguments: CourierEngine.allCases)
    func messagesReachAllPeersAndTheirSender(engine: CourierEngine) throws {
        let world = try engine.makeWorld()
        let names = ["Anna", "ben", "ç-3"]
        let readers = try names.map { TestReader(try world.makeCourier(for: $0)) }
        for round in 0..<5 as Range<UInt64> {
            for (name, reader) in zip(names, readers) {
                try reader.courier.append(testMessages(round * 10 + 1...round * 10 + 10, from: name))
            }
            for reader in readers where round % 2 == 0 { try reader.drain(maximumBytes: 50) }
        }
        for reader in readers {
            try reader.drain()
            for name in names {
                #expect(reader.numbers(of: name) == Array(1...50), "\(world.note)")
            }
            #expect(reader.messages.allSatisfy { $0.body == testBody($0.number, of: $0.sender) }, "\(world.note)")
            #expect(reader.timesBegunAgain == 0, "\(world.note)")
        }
    }

    @Test(arguments: CourierEngine.allCases)
    func appendingNothingDoesNothing(engine: CourierEngine) throws {
        let world = try engine.makeWorld()
        let reader = TestReader(try world.makeCourier(for: "anna"))
        try reader.courier.append([])
        try reader.drain()
        #expect(reader.messages.isEmpty, "\(world.note)")
    }

    @Test(arguments: CourierEngine.allCases)
    func bodiesOfAnySizeArrive(engine: CourierEngine) throws {
        let world = try engine.makeWorld()
        let reader = TestReader(try world.makeCourier(for: "anna"))
        let largest = try reader.courier.maximumBodyBytes
        let messages = [0, 1, largest, 0, largest - 1].enumerated().map {
            OutgoingMessage(number: UInt64($0 + 1), body: testBody(UInt64($0), of: "anna", bytes: $1))
        }
        try reader.courier.append(messages)
        try reader.drain()
        #expect(reader.messages.map(\.body) == messages.map(\.body), "\(world.note)")
        let tooLarge = OutgoingMessage(number: 6, body: [UInt8](repeating: 0, count: largest + 1))
        #expect(code { try reader.courier.append([tooLarge]) } == .invalidArgument, "\(world.note)")
    }

    @Test(arguments: CourierEngine.allCases)
    func batchHasAtMostTheBytesThatWereAskedFor(engine: CourierEngine) throws {
        let world = try engine.makeWorld()
        let courier = try world.makeCourier(for: "anna")
        try courier.append(testMessages(1...20, from: "anna", bytes: 30))
        var place: CourierPlace?
        var numbers: [UInt64] = []
        var sizes: [Int] = []
        while numbers.count < 20 {
            let batch = try courier.messages(after: place, maximumBytes: 100, waitSeconds: 0)
            sizes.append(batch.messages.count)
            numbers += batch.messages.map(\.number)
            place = batch.place
            try #require(sizes.count < 30, "\(world.note)")
        }
        #expect(sizes == [3, 3, 3, 3, 3, 3, 2], "\(world.note)")
        #expect(numbers == Array(1...20), "\(world.note)")
        let one = try courier.messages(after: nil, maximumBytes: 1, waitSeconds: 0)
        #expect(one.messages.map(\.number) == [1], "\(world.note)")
    }

    @Test(arguments: CourierEngine.allCases)
    func olderPlaceReadsTheSameAgain(engine: CourierEngine) throws {
        let world = try engine.makeWorld()
        let courier = try world.makeCourier(for: "anna")
        try courier.append(testMessages(1...4, from: "anna"))
        let first = try courier.messages(after: nil, maximumBytes: 40, waitSeconds: 0)
        for _ in 0..<3 {
            let again = try courier.messages(after: first.place, maximumBytes: 1000, waitSeconds: 0)
            #expect(again.messages.map(\.number) == [3, 4], "\(world.note)")
        }
        let other = try world.makeCourier(for: "anna")
        let afterRestart = try other.messages(after: first.place, maximumBytes: 1000, waitSeconds: 0)
        #expect(afterRestart.messages.map(\.number) == [3, 4], "\(world.note)")
    }

    @Test(arguments: CourierEngine.allCases)
    func messagesThatAreSentAgainArriveAgain(engine: CourierEngine) throws {
        let world = try engine.makeWorld()
        let courier = try world.makeCourier(for: "anna")
        let reader = TestReader(try world.makeCourier(for: "ben"))
        try courier.append(testMessages(1...3, from: "anna"))
        try reader.drain()
        try courier.append(testMessages(2...2, from: "anna"))
        try courier.append(testMessages(4...4, from: "anna") + testMessages(1...1, from: "anna"))
        try reader.drain()
        #expect(reader.numbers(of: "anna") == [1, 2, 3, 2, 4, 1], "\(world.note)")
    }

    @Test(arguments: CourierEngine.allCases)
    func newestPlaceHasNothingOlder(engine: CourierEngine) throws {
        let world = try engine.makeWorld()
        let courier = try world.makeCourier(for: "anna")
        let reader = TestReader(try world.makeCourier(for: "ben"))
        try courier.append(testMessages(1...3, from: "anna"))
        reader.place = try reader.courier.newestPlace()
        try reader.drain()
        #expect(reader.messages.isEmpty, "\(world.note)")
        try courier.append(testMessages(4...5, from: "anna"))
        try reader.drain()
        #expect(reader.numbers(of: "anna") == [4, 5], "\(world.note)")
        #expect(reader.timesBegunAgain == 0, "\(world.note)")
    }

    @Test(arguments: CourierEngine.allCases)
    func discardingLosesNothingNewer(engine: CourierEngine) throws {
        let world = try engine.makeWorld()
        let courier = try world.makeCourier(for: "anna")
        let reader = TestReader(try world.makeCourier(for: "ben"))
        for number in 1...6 as ClosedRange<UInt64> { try courier.append(testMessages(number...number, from: "anna")) }
        try reader.drain()
        try courier.discard(through: 4)
        try courier.append(testMessages(7...7, from: "anna"))
        try reader.drain()
        #expect(reader.numbers(of: "anna") == Array(1...7), "\(world.note)")
        #expect(reader.timesBegunAgain == 0, "\(world.note)")
        let late = TestReader(try world.makeCourier(for: "cleo"))
        try late.drain()
        #expect(late.numbers(of: "anna").suffix(3) == [5, 6, 7], "\(world.note)")
        #expect(late.timesBegunAgain == 0, "\(world.note)")
        try courier.discard(through: 100)
        try late.drain()
        #expect(late.timesBegunAgain == 0, "\(world.note)")
    }

    @Test(arguments: CourierEngine.allCases)
    func emptiedEngineIsNoticedOnceAndGoesOn(engine: CourierEngine) throws {
        let world = try engine.makeWorld()
        let courier = try world.makeCourier(for: "anna")
        let reader = TestReader(try world.makeCourier(for: "ben"))
        try courier.append(testMessages(1...5, from: "anna"))
        try reader.drain()
        try world.empty()
        try reader.drain()
        #expect(reader.timesBegunAgain == 1, "\(world.note)")
        try courier.append(testMessages(3...6, from: "anna"))
        try reader.drain()
        #expect(reader.numbers(of: "anna") == [1, 2, 3, 4, 5, 3, 4, 5, 6], "\(world.note)")
        #expect(reader.timesBegunAgain == 1, "\(world.note)")
    }

    @Test(arguments: CourierEngine.allCases)
    func placeOfAnotherEngineBeginsAgain(engine: CourierEngine) throws {
        let world = try engine.makeWorld()
        let courier = try world.makeCourier(for: "anna")
        try courier.append(testMessages(1...2, from: "anna"))
        let batch = try courier.messages(after: CourierPlace("other 1/2"), maximumBytes: 1000, waitSeconds: 0)
        #expect(batch.beganAgain, "\(world.note)")
        #expect(batch.messages.map(\.number) == [1, 2], "\(world.note)")
        let next = try courier.messages(after: batch.place, maximumBytes: 1000, waitSeconds: 0)
        #expect(!next.beganAgain && next.messages.isEmpty, "\(world.note)")
    }
}

// MARK: States

@Suite struct CourierStateScenarios {
    /// Stores parts of a state.
    private func store(_ parts: [[UInt8]], _ name: String, _ courier: any Courier) throws {
        var rest = parts[...]
        try courier.storeState(named: name) { rest.popFirst() }
    }

    private func fetch(_ name: String, _ courier: any Courier) throws -> [UInt8]? {
        var bytes: [UInt8] = []
        return try courier.fetchState(named: name) { bytes += $0 } ? bytes : nil
    }

    @Test(arguments: CourierEngine.allCases)
    func stateIsFetchedByOtherPeers(engine: CourierEngine) throws {
        let world = try engine.makeWorld()
        let anna = try world.makeCourier(for: "anna")
        let ben = try world.makeCourier(for: "ben")
        #expect(try fetch("state A", ben) == nil, "\(world.note)")
        let largest = try anna.maximumBodyBytes
        try store([[1, 2], [UInt8](repeating: 7, count: largest), [3]], "state A", anna)
        try store([[9]], "state B", ben)
        #expect(try fetch("state A", ben) == [1, 2] + [UInt8](repeating: 7, count: largest) + [3], "\(world.note)")
        #expect(try fetch("state B", anna) == [9], "\(world.note)")
        #expect(try fetch("state", anna) == nil, "\(world.note)")
    }

    @Test(arguments: CourierEngine.allCases)
    func stateWithoutPartsIsEmpty(engine: CourierEngine) throws {
        let world = try engine.makeWorld()
        let courier = try world.makeCourier(for: "anna")
        try store([], "empty", courier)
        #expect(try fetch("empty", courier) == [], "\(world.note)")
    }

    @Test(arguments: CourierEngine.allCases)
    func laterStateReplacesTheEarlierWhenItIsComplete(engine: CourierEngine) throws {
        let world = try engine.makeWorld()
        let anna = try world.makeCourier(for: "anna")
        let ben = try world.makeCourier(for: "ben")
        try store([[1]], "state", anna)
        struct Stop: Error {}
        var count = 0
        #expect(throws: Stop.self) {
            try ben.storeState(named: "state") {
                count += 1
                if count > 2 { throw Stop() }
                return [8]
            }
        }
        #expect(try fetch("state", anna) == [1], "\(world.note)")
        try store([[2], [3]], "state", ben)
        #expect(try fetch("state", anna) == [2, 3], "\(world.note)")
    }

    @Test(arguments: CourierEngine.allCases)
    func errorOfAReaderEndsTheFetch(engine: CourierEngine) throws {
        let world = try engine.makeWorld()
        let courier = try world.makeCourier(for: "anna")
        try store([[1], [2]], "state", courier)
        struct Stop: Error {}
        #expect(throws: Stop.self) { _ = try courier.fetchState(named: "state") { _ in throw Stop() } }
        #expect(try fetch("state", courier) == [1, 2], "\(world.note)")
    }
}
