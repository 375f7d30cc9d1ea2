// What a mirror is told when a server is away, refuses, lies, or falls silent.

import Annals
import AnnalsMirror
import Foundation
import TestSupport
import Testing

/// A courier whose waits are short.
private func courier(
    _ url: String, credentials: NATSCredentials? = nil, replicas: Int? = nil, interruption: Interruption? = nil,
    change: (inout NATSSettings) -> Void = { _ in }
) throws -> NATSCourier {
    var settings = NATSSettings()
    settings.connectSeconds = 2
    settings.requestSeconds = 2
    settings.firstDelaySeconds = 0.01
    settings.longestDelaySeconds = 0.05
    change(&settings)
    return try NATSCourier(
        address: url, credentials: credentials, group: "g", peer: "p", replicas: replicas,
        interruption: interruption ?? Interruption(), settings: settings)
}

private let one = [OutgoingMessage(number: 1, body: [1, 2, 3])]

@Suite(.blocking) struct NATSConnectionFailureTests {
    @Test func nothingListens() throws {
        let port = try FakeNATSServer.unusedPort()
        let courier = try courier("nats://127.0.0.1:\(port)")
        for _ in 0..<3 {
            let error = storeError { try courier.append(one) }
            #expect(error?.code == .courierUnreachable)
            #expect(error?.message.contains("127.0.0.1:\(port)") == true)
        }
    }

    @Test func failedAttemptsAreFartherAndFartherApart() throws {
        let port = try FakeNATSServer.unusedPort()
        let courier = try courier("nats://127.0.0.1:\(port)") {
            $0.firstDelaySeconds = 0.1
            $0.longestDelaySeconds = 0.2
        }
        let times = (0..<4).map { _ in
            ContinuousClock().measure { _ = code { try courier.append(one) } }
        }
        #expect(times[1] >= .milliseconds(75))
        #expect(times[2] >= .milliseconds(150))
        #expect(times[3] >= .milliseconds(150))
        // A reader that does not want to wait gets the last error at once.
        let error = storeError { _ = try courier.messages(after: nil, maximumBytes: 1, waitSeconds: 0) }
        #expect(error?.code == .courierUnreachable)
    }

    @Test func secondServerOfAClusterIsUsed() throws {
        let server = try FakeNATSServer { connection in
            var stream = FakeJetStream()
            try connection.serve { stream.answer($0) }
        }
        let port = try FakeNATSServer.unusedPort()
        try courier("nats://127.0.0.1:\(port),\(server.url)").append(one)
    }

    @Test func silentServerIsGivenUp() throws {
        let server = try FakeNATSServer { _ = try $0.readLine() }
        let error = storeError { try courier(server.url) { $0.connectSeconds = 0.1 }.append(one) }
        #expect(error?.code == .courierUnreachable)
        #expect(error?.message.contains("100 ms") == true)
    }

    @Test(
        arguments: [
            (NATSCredentials.token("wrong"), #""auth_token":"wrong""#),
            (.user("me", password: "wrong\""), #""pass":"wrong\"""#),
        ])
    func wrongCredentialsAreRefused(credentials: NATSCredentials, shown: String) throws {
        let server = try FakeNATSServer { connection in
            try connection.send("INFO \(FakeNATSConnection.information)\r\n")
            while try connection.readLine() != "PING" {}
            try connection.send("-ERR 'Authorization Violation'\r\n")
        }
        let error = storeError { try courier(server.url, credentials: credentials).append(one) }
        #expect(error?.code == .courierRefused)
        #expect(error?.message.contains("Authorization Violation") == true)
        #expect(error?.message.contains("wrong") == false)
        #expect(server.received.first?.contains(shown) == true)
    }

    @Test(
        arguments: [
            (#"{"headers":true,"tls_required":true}"#, StoreError.Code.courierUnsuitable, "leaf node"),
            (#"{"headers":false}"#, .courierUnsuitable, "headers"),
            (#"{"headers":true,"max_payload":100}"#, .courierUnsuitable, "max_payload"),
            (#"{"headers":true,"max_payload":-1}"#, .courierUnsuitable, "max_payload"),
            ("nonsense", .courierDamaged, "nats-server"),
        ])
    func unsuitableServerIsExplained(information: String, code: StoreError.Code, words: String) throws {
        let server = try FakeNATSServer { connection in try connection.serve(information) { _ in .nothing } }
        let error = storeError { try courier(server.url).append(one) }
        #expect(error?.code == code)
        #expect(error?.message.contains(words) == true)
    }

    @Test func serverOfAnotherProtocolIsExplained() throws {
        let server = try FakeNATSServer { try $0.send("SSH-2.0-OpenSSH_9.2\r\n") }
        #expect(storeError { try courier(server.url).append(one) }?.code == .courierDamaged)
    }

    @Test func permissionThatIsMissingDoesNotEndTheConnection() throws {
        let server = try FakeNATSServer { connection in
            var stream = FakeJetStream()
            var refused = false
            try connection.serve { request in
                if request.subject == "annals.g.p", !refused {
                    refused = true
                    return .bytes("-ERR 'Permissions Violation for Publish to \"annals.g.p\"'\r\n")
                }
                return stream.answer(request)
            }
        }
        let courier = try courier(server.url)
        let error = storeError { try courier.append(one) }
        #expect(error?.code == .courierRefused)
        #expect(error?.message.contains("annals.g.p") == true)
        try courier.append(one)
        #expect(server.connectionCount == 1)
    }

    @Test func tooLargeMessageNamesTheMaximum() throws {
        let server = try FakeNATSServer { connection in
            var stream = FakeJetStream()
            try connection.serve { request in
                guard request.subject == "annals.g.p" else { return stream.answer(request) }
                try connection.send("-ERR 'Maximum Payload Violation'\r\n")
                return .end
            }
        }
        let error = storeError { try courier(server.url).append(one) }
        #expect(error?.code == .courierUnsuitable)
        #expect(error?.message.contains("1048576") == true)
    }

    @Test func connectionClosedInAMessageIsReplaced() throws {
        let server = try FakeNATSServer { connection in
            var stream = FakeJetStream()
            try connection.serve { request in
                guard request.subject == "annals.g.p", connection.index == 0 else { return stream.answer(request) }
                try connection.send("MSG \(request.reply ?? "") 1 100\r\n{\"stream\":")
                return .end
            }
        }
        let courier = try courier(server.url)
        #expect(storeError { try courier.append(one) }?.code == .courierUnreachable)
        try courier.append(one)
        #expect(server.connectionCount == 2)
    }

    @Test func connectionClosedBetweenCallsIsReplacedWithoutAnError() async throws {
        let server = try FakeNATSServer { connection in
            var stream = FakeJetStream()
            try connection.serve { request in
                guard request.subject == "annals.g.p", connection.index == 0 else { return stream.answer(request) }
                try connection.deliver(#"{"stream":"ANNALS_g","seq":1}"#, to: request)
                return .end
            }
        }
        let courier = try courier(server.url)
        try courier.append(one)
        try await eventually { server.endedCount == 1 }
        try courier.append(one)
        #expect(server.connectionCount == 2)
    }

    @Test func pingsAreAnsweredDuringARequest() throws {
        let server = try FakeNATSServer { connection in
            var stream = FakeJetStream()
            try connection.serve { request in
                try connection.send("PING\r\n")
                while try connection.readLine() != "PONG" {}
                return stream.answer(request)
            }
        }
        try courier(server.url).append(one)
    }

    @Test func deadServerIsNoticedByItsSilence() throws {
        let server = try FakeNATSServer { connection in
            var stream = FakeJetStream()
            try connection.serve { request in
                guard request.subject == "annals.g.p" else { return stream.answer(request) }
                while try connection.readLine() != "PING" {}
                _ = try connection.readLine()
                return .nothing
            }
        }
        let courier = try courier(server.url) {
            $0.requestSeconds = 60
            $0.pingSeconds = 0.1
        }
        let error = storeError { try courier.append(one) }
        #expect(error?.code == .courierUnreachable)
        #expect(error?.message.contains("200 ms") == true)
    }

    @Test(arguments: ["MSG x 1 999999999\r\n", "HMSG x 1 70000 70001\r\n", "MSG x 1 nonsense\r\n", "WHAT\r\n"])
    func lyingServerGetsNoMemory(text: String) throws {
        let server = try FakeNATSServer { connection in try connection.serve { _ in .bytes(text) } }
        #expect(storeError { try courier(server.url).append(one) }?.code == .courierDamaged)
    }

    @Test func interruptionEndsEachWait() throws {
        let server = try FakeNATSServer { connection in try connection.serve { _ in .nothing } }
        let interruption = try Interruption()
        let courier = try courier(server.url, interruption: interruption) { $0.requestSeconds = 600 }
        Thread.detachNewThread {
            usleep(50_000)
            interruption.interrupt()
        }
        #expect(storeError { try courier.append(one) }?.code == .cancelled)
        let place = CourierPlace("n.1.2.3")
        let batch = try courier.messages(after: place, maximumBytes: 1, waitSeconds: 600)
        #expect(batch == IncomingBatch(messages: [], place: place))
        #expect(interruption.isInterrupted)
        interruption.clear()
        #expect(!interruption.isInterrupted)
        #expect(!interruption.wait(seconds: 0.01))
    }
}

// MARK: JetStream

@Suite(.blocking) struct JetStreamFailureTests {
    @Test(
        arguments: [
            (503, 10076, StoreError.Code.courierUnsuitable), (503, 10039, .courierUnsuitable),
            (500, 10047, .courierFull), (503, 10023, .courierFull), (400, 10002, .courierFull),
            (400, 10058, .courierUnreachable), (400, 10065, .courierSettings), (503, 10008, .courierUnreachable),
            (400, 10074, .courierUnsuitable), (400, 10113, .courierUnsuitable), (400, 12345, .courierUnsuitable),
            (503, 12345, .courierUnreachable),
        ])
    func refusalToCreateAStreamIsExplained(code: Int, number: Int, expected: StoreError.Code) throws {
        let server = try FakeNATSServer { connection in
            try connection.serve { request in
                let isCreation = request.subject.contains("CREATE")
                return .json(FakeJetStream.failure(isCreation ? code : 404, isCreation ? number : 10059, "its words"))
            }
        }
        let error = storeError { try courier(server.url).append(one) }
        #expect(error?.code == expected)
        #expect(error?.message.contains("ANNALS_g") == true || error?.message.contains("JetStream") == true)
    }

    @Test func serverWithoutJetStreamIsUnsuitable() throws {
        let server = try FakeNATSServer { connection in try connection.serve { _ in .noResponders } }
        let error = storeError { try courier(server.url).append(one) }
        #expect(error?.code == .courierUnsuitable)
        #expect(error?.message.contains("-js") == true)
    }

    @Test(
        arguments: [
            (#""subjects":["other"]"#, "annals.g.*"),
            (#""subjects":["annals.g.*"],"retention":"workqueue""#, "workqueue"),
            (#""subjects":["annals.g.*"],"sealed":true"#, "sealed"),
            (#""subjects":["annals.g.*"],"no_ack":true"#, "no_ack"),
            (#""subjects":["annals.g.*"],"sources":[{"name":"x"}]"#, "sources"),
            (#""mirror":{"name":"x"}"#, "annals.g.*"),
            (#""subjects":["annals.g.*"],"subject_transform":{"src":">","dest":"x.>"}"#, "subject_transform"),
        ])
    func streamWithOtherSettingsIsRefused(settings: String, words: String) throws {
        let server = try FakeNATSServer { connection in
            var stream = FakeJetStream()
            stream.config = "{\(settings)}"
            try connection.serve { stream.answer($0) }
        }
        let error = storeError { try courier(server.url).append(one) }
        #expect(error?.code == .courierSettings)
        #expect(error?.message.contains(words) == true)
    }

    @Test(
        arguments: [
            (10077, "maximum bytes exceeded", StoreError.Code.courierFull),
            (10077, "write /x: no space left on device", .courierFull), (10077, "open /x", .courierUnreachable),
            (10054, "message size exceeds maximum allowed", .courierUnsuitable), (10109, "sealed", .courierSettings),
        ])
    func refusalOfAMessageIsExplained(number: Int, words: String, expected: StoreError.Code) throws {
        let server = try FakeNATSServer { connection in
            var stream = FakeJetStream()
            try connection.serve { request in
                request.subject == "annals.g.p"
                    ? .json(FakeJetStream.failure(503, number, words)) : stream.answer(request)
            }
        }
        #expect(storeError { try courier(server.url).append(one) }?.code == expected)
    }

    @Test func acknowledgementOfAnotherStreamIsRefused() throws {
        let server = try FakeNATSServer { connection in
            var stream = FakeJetStream()
            try connection.serve { request in
                request.subject == "annals.g.p" ? .json(#"{"stream":"OTHER","seq":1}"#) : stream.answer(request)
            }
        }
        let error = storeError { try courier(server.url).append(one) }
        #expect(error?.code == .courierSettings)
        #expect(error?.message.contains("OTHER") == true)
    }

    @Test func missingAcknowledgementsAreUnreachableAndDuplicatesAreTheirReplacement() throws {
        let server = try FakeNATSServer { connection in
            var stream = FakeJetStream()
            var seen = 0
            try connection.serve { request in
                guard request.subject == "annals.g.p" else { return stream.answer(request) }
                seen += 1
                // The first two are acknowledged. The rest is stored, and its acknowledgements are lost.
                if seen > 2, seen <= 5 { return .nothing }
                return .json(#"{"stream":"ANNALS_g","seq":\#(seen),"duplicate":\#(seen > 7)}"#)
            }
        }
        let courier = try courier(server.url) { $0.requestSeconds = 0.1 }
        let messages = (1...5).map { OutgoingMessage(number: $0, body: [1]) }
        #expect(storeError { try courier.append(messages) }?.code == .courierUnreachable)
        try courier.append(messages)
        #expect(server.received.filter { $0.hasPrefix("HPUB annals.g.p") }.count == 10)
    }

    /// As nats-server 2.9 does after a stream was created several times at once, and its nodes were restarted.
    @Test func consumerThatDeliversNothingIsReplacedAndShown() throws {
        let server = try FakeNATSServer { connection in
            var stream = FakeJetStream()
            try connection.serve { request in
                if request.subject == "annals.g.p" { return .json(#"{"stream":"ANNALS_g","seq":1}"#) }
                if request.subject.contains("CONSUMER.MSG.NEXT") { return .nothing }
                if request.subject.contains("CONSUMER.CREATE") {
                    return .json(#"{"name":"reader","num_pending":0,"delivered":{"stream_seq":0}}"#)
                }
                return stream.answer(request)
            }
        }
        let courier = try courier(server.url) { $0.deliverySeconds = 0.1 }
        try courier.append(one)
        let error = storeError { _ = try courier.messages(after: nil, maximumBytes: 1000, waitSeconds: 20) }
        #expect(error?.code == .courierUnreachable)
        #expect(error?.message.contains("does not deliver message 1") == true)
        #expect(server.received.filter { $0.contains("CONSUMER.CREATE") }.count == 4)
    }

    @Test func messageSentAgainOnPurposeIsStoredAgain() throws {
        let identifiers = Identifiers()
        let server = try FakeNATSServer { connection in
            var stream = FakeJetStream()
            try connection.serve { request in
                guard request.subject == "annals.g.p" else { return stream.answer(request) }
                let isDuplicate = identifiers.contains(request.headers)
                identifiers.add(request.headers)
                return .json(#"{"stream":"ANNALS_g","seq":1,"duplicate":\#(isDuplicate)}"#)
            }
        }
        let courier = try courier(server.url)
        try courier.append(one)
        try courier.append(one)
        try courier.append(one)
        #expect(Set(identifiers.all).count == 3)
        #expect(identifiers.all.count == 5)
        #expect(identifiers.all.allSatisfy { $0.contains("Nats-Msg-Id: p:1") })
    }

    @Test func replicasAreRaised() throws {
        let updates = Identifiers()
        let server = try FakeNATSServer { connection in
            var stream = FakeJetStream()
            stream.cluster = #""cluster":{"name":"C","leader":"a"},"#
            try connection.serve { request in
                if request.subject == "$JS.API.STREAM.UPDATE.ANNALS_g" {
                    updates.add(request.text)
                    return .json(FakeJetStream.failure(400, 10074, "replicas > 1 not supported"))
                }
                return stream.answer(request)
            }
        }
        let error = storeError { try courier(server.url, replicas: 3).append(one) }
        #expect(error?.code == .courierUnsuitable)
        #expect(error?.message.contains("replicas") == true)
        #expect(updates.all.count == 1)
        #expect(updates.all[0].contains(#""num_replicas":3"#) && updates.all[0].contains(#""storage":"file""#))
        #expect(storeError { _ = try courier(server.url, replicas: 0) }?.code == .invalidArgument)
    }

    @Test func weaknessesAreNamed() throws {
        let server = try FakeNATSServer { connection in
            var stream = FakeJetStream()
            stream.config =
                #"{"subjects":["annals.g.*"],"num_replicas":1,"storage":"memory","max_age":5000000000,"#
                + #""max_bytes":100,"discard":"new","deny_purge":true}"#
            try connection.serve { request in
                request.subject.hasSuffix("_STATES")
                    ? .json(FakeJetStream.failure(404, 10059, "stream not found")) : stream.answer(request)
            }
        }
        let weaknesses = try courier(server.url).weaknesses()
        for words in ["one copy", "memory only", "5 s", "100 bytes", "refuses new messages", "deny_purge"] {
            #expect(weaknesses.contains { $0.contains(words) }, "\(words) in \(weaknesses)")
        }
    }
}

/// Texts that scripts have seen. Sound: used with the lock held.
private final class Identifiers: @unchecked Sendable {
    private let lock = NSLock()
    private var texts: [String] = []
    func add(_ text: String) { lock.withLock { texts.append(text) } }
    func contains(_ text: String) -> Bool { lock.withLock { texts.contains(text) } }
    var all: [String] { lock.withLock { texts } }
}
