// The NATS engine with a real server: messages, states, restarts, and streams that people change.

import Annals
import AnnalsMirror
import Foundation
import TestSupport
import Testing

@Suite(.serialized, .blocking, .enabled(if: NATSLiveServer.program != nil, NATSLiveServer.whyNot))
struct NATSLiveTests {
    @Test func manyMessagesArriveOnceAndInOrder() throws {
        let server = try NATSLiveServer()
        let numbers = 1...20_000 as ClosedRange<UInt64>
        try server.courier("anna").append(testMessages(numbers, from: "anna", bytes: 100))
        let reader = TestReader(try server.courier("ben"))
        try reader.drain()
        #expect(reader.numbers(of: "anna") == Array(numbers))
        #expect(reader.messages.allSatisfy { $0.body == testBody($0.number, of: "anna", bytes: 100) })
        #expect(reader.timesBegunAgain == 0)
    }

    @Test func waitingReaderGetsAMessageAtOnce() throws {
        let server = try NATSLiveServer()
        let anna = try server.courier("anna")
        let ben = try server.courier("ben")
        var place = try ben.newestPlace()
        for number in 1...50 as ClosedRange<UInt64> {
            let before = try ben.messages(after: place, maximumBytes: 100, waitSeconds: 0.01)
            #expect(before.messages.isEmpty)
            try anna.append(testMessages(number...number, from: "anna"))
            let batch = try ben.messages(after: before.place, maximumBytes: 100, waitSeconds: 60)
            #expect(batch.messages.map(\.number) == [number])
            place = batch.place
        }
    }

    @Test func requestOutlivesItsTimeAtTheServer() throws {
        let server = try NATSLiveServer()
        let anna = try server.courier("anna")
        let ben = try server.courier("ben") {
            $0.pullSeconds = 0.5
            $0.heartbeatSeconds = 0.2
        }
        let reader = TestReader(ben)
        for number in 1...3 as ClosedRange<UInt64> {
            let batch = try ben.messages(after: reader.place, maximumBytes: 100, waitSeconds: 1.2)
            #expect(batch.messages.isEmpty && !batch.beganAgain)
            reader.place = batch.place
            try anna.append(testMessages(number...number, from: "anna"))
            try reader.drain()
        }
        #expect(reader.numbers(of: "anna") == [1, 2, 3])
    }

    @Test func otherThreadEndsTheWait() throws {
        let server = try NATSLiveServer()
        let interruption = try Interruption()
        let ben = try server.courier("ben", interruption: interruption)
        let place = try ben.messages(after: nil, maximumBytes: 100, waitSeconds: 0).place
        Thread.detachNewThread {
            usleep(50_000)
            interruption.interrupt()
        }
        #expect(try ben.messages(after: place, maximumBytes: 100, waitSeconds: 600).messages.isEmpty)
        interruption.clear()
        try server.courier("anna").append(testMessages(1...1, from: "anna"))
        #expect(try ben.messages(after: place, maximumBytes: 100, waitSeconds: 60).messages.count == 1)
    }

    @Test func largeStateIsReplacedAndItsPartsAreFreed() throws {
        let server = try NATSLiveServer()
        let anna = try server.courier("anna")
        let ben = try server.courier("ben")
        let largest = try anna.maximumBodyBytes
        for round in 1...3 as ClosedRange<UInt8> {
            var rest = 5
            try (round == 2 ? ben : anna).storeState(named: "state/1") {
                rest -= 1
                return rest < 0 ? nil : [UInt8](repeating: round, count: largest)
            }
            var bytes: [UInt8] = []
            #expect(try server.courier("cleo").fetchState(named: "state/1") { bytes += $0 })
            #expect(bytes == [UInt8](repeating: round, count: 5 * largest))
        }
        let information = try server.administer("STREAM.INFO.ANNALS_notes_STATES")
        #expect(information.contains(#""messages":6,"#), "\(information)")
    }

    @Test func stateWithoutAPartIsNoState() throws {
        let server = try NATSLiveServer()
        let anna = try server.courier("anna")
        var rest = 3
        try anna.storeState(named: "s") {
            rest -= 1
            return rest < 0 ? nil : [1]
        }
        _ = try server.administer("STREAM.MSG.DELETE.ANNALS_notes_STATES", #"{"seq":2}"#)
        #expect(try !anna.fetchState(named: "s") { _ in })
    }

    @Test func damagedStateIsNoticedAtItsEnd() throws {
        let server = try NATSLiveServer()
        let anna = try server.courier("anna")
        var rest = 2
        try anna.storeState(named: "s") {
            rest -= 1
            return rest < 0 ? nil : [1]
        }
        let finish = try server.administer("STREAM.MSG.GET.ANNALS_notes_STATES", #"{"seq":3}"#)
        let data = try #require(finish.firstMatch(of: #/"data":"([^"]*)"/#)).1
        let text = String(decoding: try #require(Data(base64Encoded: String(data))), as: UTF8.self)
        let changed = text.replacing(#/"checksum":\d+/#, with: "\"checksum\":1")
        try server.publish("annals-states.notes.s.done", changed)
        #expect(storeError { _ = try anna.fetchState(named: "s") { _ in } }?.code == .courierDamaged)
    }

    // MARK: Changes of the stream

    @Test func streamThatWasDeletedBeginsAgainForAWaitingReader() throws {
        let server = try NATSLiveServer()
        let anna = try server.courier("anna")
        let reader = TestReader(try server.courier("ben"))
        try anna.append(testMessages(1...5, from: "anna"))
        try reader.drain()
        Thread.detachNewThread { [url = server.url] in
            usleep(100_000)
            _ = try? NATSAdministrator(url).deleteStream("ANNALS_notes")
        }
        let batch = try reader.courier.messages(after: reader.place, maximumBytes: 100, waitSeconds: 60)
        #expect(batch.beganAgain && batch.messages.isEmpty)
        reader.place = batch.place
        try anna.append(testMessages(4...6, from: "anna"))
        try reader.drain()
        #expect(reader.numbers(of: "anna") == [1, 2, 3, 4, 5, 4, 5, 6])
        #expect(reader.timesBegunAgain == 0)
    }

    @Test func purgedStreamBeginsAgainForAReaderThatMissesSomething() throws {
        let server = try NATSLiveServer()
        let anna = try server.courier("anna")
        let current = TestReader(try server.courier("ben"))
        try anna.append(testMessages(1...5, from: "anna"))
        let first = try current.courier.messages(after: nil, maximumBytes: 20, waitSeconds: 0)
        try current.drain()
        _ = try server.administer("STREAM.PURGE.ANNALS_notes")
        try current.drain()
        #expect(current.timesBegunAgain == 0)
        let late = TestReader(try server.courier("cleo"))
        late.place = first.place
        try late.drain()
        #expect(late.timesBegunAgain == 1)
        try anna.append(testMessages(6...6, from: "anna"))
        try current.drain()
        try late.drain()
        #expect(current.numbers(of: "anna") == [1, 2, 3, 4, 5, 6])
        #expect(late.numbers(of: "anna") == [6])
        #expect(current.timesBegunAgain == 0)
        #expect(late.timesBegunAgain == 1)
    }

    @Test func streamThatLostItsEndBeginsAgain() throws {
        let server = try NATSLiveServer()
        let anna = try server.courier("anna")
        try anna.append(testMessages(1...5, from: "anna"))
        let place = try #require(NATSPlace(try anna.newestPlace()))
        // A place of the same stream, whose message was stored at another time.
        let other = NATSPlace(created: place.created, sequence: 4, stored: place.stored + 1).courierPlace
        let ben = try server.courier("ben")
        let batch = try ben.messages(after: other, maximumBytes: 1000, waitSeconds: 0)
        #expect(batch.beganAgain)
        #expect(batch.messages.map(\.number) == [1, 2, 3, 4, 5])
        let later = NATSPlace(created: place.created, sequence: 6, stored: 0).courierPlace
        #expect(try ben.messages(after: later, maximumBytes: 1000, waitSeconds: 0).beganAgain)
        #expect(try !ben.messages(after: place.courierPlace, maximumBytes: 1000, waitSeconds: 0).beganAgain)
    }

    @Test func messagesOfOtherProgramsArePassedOver() throws {
        let server = try NATSLiveServer()
        let anna = try server.courier("anna")
        try anna.append(testMessages(1...1, from: "anna"))
        try server.publish("annals.notes.anna", "no identifier")
        try server.publish("annals.notes.anna", headers: "NATS/1.0\r\nNats-Msg-Id: ben:2\r\n\r\n", "another's")
        try server.publish("annals.notes.anna", headers: "NATS/1.0\r\nNats-Msg-Id: anna:x\r\n\r\n", "no number")
        try server.publish("annals.notes.=zz", headers: "NATS/1.0\r\nNats-Msg-Id: =zz:1\r\n\r\n", "no peer")
        try server.publish("annals.notes.anna", headers: "NATS/1.0 409 Consumer Deleted\r\n\r\n", "a false status")
        try anna.append(testMessages(2...2, from: "anna"))
        let reader = TestReader(try server.courier("ben"))
        try reader.drain()
        #expect(reader.messages.map(\.number) == [1, 2])
    }

    @Test func discardFreesOwnMessagesOfEarlierSessions() throws {
        let server = try NATSLiveServer()
        try server.courier("ben").append(testMessages(1...10, from: "ben"))
        try server.courier("anna").append(testMessages(1...1000, from: "anna"))
        let anna = try server.courier("anna")
        try anna.append(testMessages(1001...1100, from: "anna"))
        try anna.discard(through: 900)
        let reader = TestReader(try server.courier("cleo"))
        try reader.drain()
        #expect(reader.numbers(of: "ben") == Array(1...10))
        let left = reader.numbers(of: "anna")
        #expect(left == Array((left.first ?? 0)...1100))
        #expect((837...901).contains(left.first ?? 0))
    }

    // MARK: The server

    @Test(arguments: 1...4 as ClosedRange<UInt64>)
    func connectionsThatBreakAnywhereLoseNothing(seed: UInt64) throws {
        let server = try NATSLiveServer()
        let proxy = try FakeNATSServer { [port = server.port] connection in
            var random = SeededRandom(seed &* 1_000_003 &+ UInt64(connection.index))
            // Some break before the introduction is over, and most in the middle of messages.
            let bytes = random.happens(0.2) ? random.next(below: 700) : 2000 + random.next(below: 60_000)
            try connection.forward(to: port, breakAfter: bytes)
        }
        var settings = NATSSettings()
        settings.firstDelaySeconds = 0.001
        settings.longestDelaySeconds = 0.01
        settings.requestSeconds = 5
        let anna = try NATSCourier(
            address: proxy.url, group: "notes", peer: "anna", interruption: Interruption(), settings: settings)
        let ben = try NATSCourier(
            address: proxy.url, group: "notes", peer: "ben", interruption: Interruption(), settings: settings)
        let reader = TestReader(ben)
        var errors: Set<StoreError.Code> = []
        for start in stride(from: 1, to: 1000, by: 50) as StrideTo<UInt64> {
            while let code = code({ try anna.append(testMessages(start...start + 49, from: "anna", bytes: 60)) }) {
                errors.insert(code)
            }
            if let code = code({ try reader.drain(maximumBytes: 1500) }) { errors.insert(code) }
        }
        while let code = code({ try reader.drain(maximumBytes: 1500) }) { errors.insert(code) }
        #expect(errors == [.courierUnreachable])
        #expect(reader.messages.allSatisfy { $0.body == testBody($0.number, of: "anna", bytes: 60) })
        // Repeated calls use the same identifiers, and the server passes over the duplicates.
        let numbers = reader.numbers(of: "anna")
        #expect(numbers == Array(1...1000), "\(numbers.count) messages")
        #expect(reader.timesBegunAgain == 0)
    }

    @Test func restartedServerGoesOn() throws {
        let server = try NATSLiveServer()
        let anna = try server.courier("anna")
        let reader = TestReader(try server.courier("ben"))
        try anna.append(testMessages(1...100, from: "anna"))
        try reader.drain(maximumBytes: 200)
        server.stop()
        let error = storeError { try anna.append(testMessages(101...101, from: "anna")) }
        #expect(error?.code == .courierUnreachable)
        try server.start()
        // JetStream may still be reading its streams.
        let deadline = ContinuousClock.now + .seconds(60)
        while code({ try anna.append(testMessages(101...200, from: "anna")) }) != nil, .now < deadline {}
        try reader.drain()
        #expect(reader.numbers(of: "anna") == Array(1...200))
        #expect(reader.timesBegunAgain == 0)
    }

    @Test(
        arguments: [
            ("authorization { token: right }", NATSCredentials.token("right"), NATSCredentials.token("wrong")),
            (
                "authorization { user: me, password: \"ri ght\" }", .user("me", password: "ri ght"),
                .user("me", password: "wrong")
            ),
        ])
    func credentialsAreChecked(
        configuration: String, right: NATSCredentials, wrong: NATSCredentials
    ) throws {
        let server = try NATSLiveServer(configuration: configuration)
        try server.courier("anna", credentials: right).append(testMessages(1...1, from: "anna"))
        for credentials in [wrong, nil] {
            let error = storeError {
                try server.courier("anna", credentials: credentials).append(testMessages(1...1, from: "anna"))
            }
            #expect(error?.code == .courierRefused)
        }
    }

    @Test func missingPermissionIsNamed() throws {
        let server = try NATSLiveServer(
            configuration: """
                authorization { users: [ { user: a, password: b, permissions: {
                publish: [ "$JS.API.>" ], subscribe: [ "_INBOX.>" ] } } ] }
                """)
        let error = storeError {
            try server.courier("anna", credentials: .user("a", password: "b"))
                .append(testMessages(1...1, from: "anna"))
        }
        #expect(error?.code == .courierRefused)
        #expect(error?.message.contains("annals.notes.anna") == true)
    }

    @Test func serverWithoutJetStreamIsUnsuitable() throws {
        let server = try NATSLiveServer(hasJetStream: false)
        let error = storeError { try server.courier("anna").append(testMessages(1...1, from: "anna")) }
        #expect(error?.code == .courierUnsuitable)
        #expect(error?.message.contains("-js") == true)
    }

    @Test func streamWithOtherSettingsIsRefused() throws {
        let server = try NATSLiveServer()
        _ = try server.administer(
            "STREAM.CREATE.ANNALS_notes",
            #"{"name":"ANNALS_notes","subjects":["annals.notes.*"],"retention":"workqueue","storage":"memory"}"#)
        let error = storeError { try server.courier("anna").append(testMessages(1...1, from: "anna")) }
        #expect(error?.code == .courierSettings)
        #expect(error?.message.contains("workqueue") == true)
        _ = try server.administer(
            "STREAM.CREATE.OTHER", #"{"name":"OTHER","subjects":["annals.b.>"],"storage":"memory"}"#)
        let overlapping = storeError {
            try server.courier("anna", group: "b").append(testMessages(1...1, from: "anna"))
        }
        #expect(overlapping?.code == .courierSettings)
    }

    @Test func replicasNeedACluster() throws {
        let server = try NATSLiveServer()
        let error = storeError {
            try server.courier("anna", replicas: 3).append(testMessages(1...1, from: "anna"))
        }
        #expect(error?.code == .courierUnsuitable)
        try server.courier("anna", replicas: 1).append(testMessages(1...1, from: "anna"))
        #expect(storeError { _ = try server.courier("anna", replicas: 3).maximumBodyBytes }?.code == .courierUnsuitable)
    }

    @Test func fullServerIsAnErrorOfItsOwn() throws {
        let server = try NATSLiveServer(configuration: "jetstream { max_file_store: 1MB }")
        let error = storeError {
            try server.courier("anna").append(testMessages(1...100, from: "anna", bytes: 100_000))
        }
        #expect(error?.code == .courierFull)
    }

    @Test func smallMaximumOfTheServerIsKept() throws {
        let server = try NATSLiveServer(configuration: "max_payload: 10000")
        let anna = try server.courier("anna")
        let largest = try anna.maximumBodyBytes
        #expect((9000..<10_000).contains(largest))
        try anna.append([OutgoingMessage(number: 1, body: [UInt8](repeating: 1, count: largest))])
        let tooLarge = [OutgoingMessage(number: 2, body: [UInt8](repeating: 1, count: largest + 1))]
        let error = storeError { try anna.append(tooLarge) }
        #expect(error?.code == .invalidArgument)
        #expect(error?.message.contains("10000") == true)
    }

    @Test func messageFromTimesOfALargerMaximumIsStillRead() throws {
        let server = try NATSLiveServer(configuration: "max_payload: 4MB")
        try server.courier("anna").append(testMessages(1...2, from: "anna"))
        let body = String(repeating: "x", count: 3 << 20)
        try server.publish("annals.notes.anna", headers: "NATS/1.0\r\nNats-Msg-Id: anna:3\r\n\r\n", body)
        server.stop()
        try server.configure("max_payload: 100000")
        try server.start()
        let anna = try server.courier("anna")
        let deadline = ContinuousClock.now + .seconds(60)
        while code({ try anna.append(testMessages(4...4, from: "anna")) }) != nil, .now < deadline {}
        let reader = TestReader(try server.courier("ben"))
        try reader.drain()
        #expect(reader.messages.map(\.number) == [1, 2, 3, 4])
        #expect(reader.messages.map(\.body.count) == [20, 20, 3 << 20, 20])
    }

    @Test func weaknessesOfASingleServerAreNamed() throws {
        let server = try NATSLiveServer()
        let weaknesses = try server.courier("anna").weaknesses()
        #expect(weaknesses.contains { $0.contains("one copy") })
        #expect(weaknesses.contains { $0.contains("2 minutes") })
    }

    @Test func leafNodeConnectsToTheStreamsOfAnotherServer() throws {
        let port = try FakeNATSServer.unusedPort()
        let hub = try NATSLiveServer(
            configuration: "jetstream { domain: hub }\nleafnodes { listen: \"127.0.0.1:\(port)\" }")
        let leaf = try NATSLiveServer(
            configuration: "leafnodes { remotes: [ { url: \"nats://127.0.0.1:\(port)\" } ] }", hasJetStream: false)
        let anna = try leaf.courier("anna") { $0.domain = "hub" }
        let deadline = ContinuousClock.now + .seconds(60)
        // Until the leaf node has found its hub, nothing answers.
        while code({ _ = try anna.maximumBodyBytes }) != nil, .now < deadline { usleep(20_000) }
        try anna.append(testMessages(1...100, from: "anna"))
        let ben = TestReader(try hub.courier("ben"))
        try ben.drain()
        #expect(ben.numbers(of: "anna") == Array(1...100))
        let cleo = TestReader(try leaf.courier("cleo") { $0.domain = "hub" })
        try cleo.drain()
        #expect(cleo.numbers(of: "anna") == Array(1...100))
    }
}

@Suite(.serialized, .blocking, .enabled(if: NATSLiveServer.program != nil, NATSLiveServer.whyNot))
struct NATSClusterTests {
    /// Repeats a call until it does not throw, as a mirror does.
    private func repeating<Result>(_ body: () throws -> Result) throws -> Result {
        let deadline = ContinuousClock.now + .seconds(90)
        while true {
            do { return try body() } catch {
                guard ContinuousClock.now < deadline else { throw error }
                usleep(50_000)
            }
        }
    }

    @Test func eachServerMayDieAndReturn() throws {
        let cluster = try NATSLiveCluster()
        let anna = try cluster.courier("anna", replicas: 3)
        let reader = TestReader(try cluster.courier("ben", replicas: 3))
        var number: UInt64 = 0
        for server in cluster.servers {
            for isRunning in [true, false] {
                if !isRunning { server.stop() }
                let messages = testMessages(number + 1...number + 200, from: "anna")
                try repeating { try anna.append(messages) }
                number += 200
                try repeating {
                    let batch = try reader.courier.messages(
                        after: reader.place, maximumBytes: 1 << 20, waitSeconds: 1)
                    reader.place = batch.place
                    reader.messages += batch.messages
                    reader.timesBegunAgain += batch.beganAgain ? 1 : 0
                    guard reader.messages.last?.number == number else {
                        throw StoreError(.timeout, "Messages are still missing.")
                    }
                }
                if !isRunning {
                    try server.start()
                    // The next server may die only when this one has all messages.
                    try repeating {
                        let other = try cluster.courier("cleo", replicas: 3)
                        _ = try other.maximumBodyBytes
                    }
                }
            }
        }
        #expect(Set(reader.numbers(of: "anna")) == Set(1...number))
        #expect(reader.timesBegunAgain == 0)
        let weaknesses = try repeating { try anna.weaknesses() }
        #expect(!weaknesses.contains { $0.contains("copy") || $0.contains("copies") })
    }

    @Test func oneCopyIsRaisedToThree() throws {
        let cluster = try NATSLiveCluster()
        let anna = try cluster.courier("anna", replicas: nil)
        try repeating { try anna.append(testMessages(1...10, from: "anna")) }
        #expect(try anna.weaknesses().contains { $0.contains("one copy") })
        let ben = try cluster.courier("ben", replicas: 3)
        try repeating { _ = try ben.maximumBodyBytes }
        #expect(try !anna.weaknesses().contains { $0.contains("one copy") })
    }
}

/// What a person does with the `nats` tool, on another thread.
private struct NATSAdministrator: Sendable {
    let url: String
    init(_ url: String) { self.url = url }

    func deleteStream(_ name: String) throws {
        let connection = NATSConnection(
            addresses: [try NATSAddress(url)], credentials: nil, name: "test", settings: NATSSettings(),
            interruption: try Interruption())
        try connection.prepare()
        _ = try connection.request("$JS.API.STREAM.DELETE.\(name)", payload: [])
    }
}
