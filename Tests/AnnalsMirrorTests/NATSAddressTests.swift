// Addresses of servers as people write them.

import Annals
import AnnalsMirror
import Testing

@Suite struct NATSAddressTests {
    @Test(
        arguments: [
            ("nats://127.0.0.1:4222", "127.0.0.1", 4222, nil),
            ("nats://example", "example", 4222, nil),
            ("localhost", "localhost", 4222, nil),
            ("localhost:1", "localhost", 1, nil),
            ("NATS://host:65535/", "host", 65535, nil),
            ("nats://[::1]", "::1", 4222, nil),
            ("nats://[fe80::1%eth0]:5222", "fe80::1%eth0", 5222, nil),
            ("nats://secret@host", "host", 4222, .token("secret")),
            ("nats://user:password@host:1", "host", 1, .user("user", password: "password")),
            ("nats://user:@host", "host", 4222, .user("user", password: "")),
            ("nats://us%65r:p%40%3a%2Fß@[::1]:2", "::1", 2, .user("user", password: "p@:/ß")),
            ("nats://a:b@c@host", "host", 4222, .user("a", password: "b@c")),
        ] as [(String, String, UInt16, NATSCredentials?)])
    func addressIsRead(text: String, host: String, port: UInt16, credentials: NATSCredentials?) throws {
        let address = try NATSAddress(text)
        #expect(address.host == host)
        #expect(address.port == port)
        #expect(address.credentials == credentials)
    }

    @Test(
        arguments: [
            "", "nats://", "nats://:4222", "nats://host:0", "nats://host:65536", "nats://host:", "nats://host:+1",
            "nats://host:a", "nats://::1", "nats://[::1", "nats://[::1]4222", "nats://[host]:1", "nats://@host",
            "nats://:password@host", "nats://%4@host", "nats://%ff@host", "nats://%+1@host", "http://host",
            "nats://ho st", "nats://host/path", "nats://host?x", String(repeating: "a", count: 300),
        ])
    func mistakeIsExplained(text: String) {
        let error = storeError { _ = try NATSAddress(text) }
        #expect(error?.code == .invalidArgument)
        #expect(error?.message.contains("nats://") == true)
    }

    @Test(arguments: ["tls://host:4222", "wss://host"])
    func encryptionNeedsALeafNode(text: String) {
        let error = storeError { _ = try NATSAddress(text) }
        #expect(error?.code == .invalidArgument)
        #expect(error?.message.contains("leaf node") == true)
    }

    @Test func listSharesCredentials() throws {
        let list = try NATSAddress.list("nats://a:b@one, nats://two:5,c@three")
        #expect(list.map(\.host) == ["one", "two", "three"])
        #expect(list.map(\.port) == [4222, 5, 4222])
        let shared = NATSCredentials.user("a", password: "b")
        #expect(list.map(\.credentials) == [shared, shared, .token("c")])
        #expect(code { _ = try NATSAddress.list("nats://one,,two") } == .invalidArgument)
    }

    @Test func credentialsAreNotShown() throws {
        let address = try NATSAddress("nats://user:secret@[::1]:7")
        #expect(address.description == "[::1]:7")
        #expect(!"\(String(describing: address.credentials)) \(String(reflecting: address))".contains("secret"))
        let error = storeError { _ = try NATSAddress("nats://user:secret@host:0") }
        #expect(error?.message.contains("secret") == false)
    }
}
