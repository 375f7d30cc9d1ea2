// A real nats-server of one test, if one is installed.

import AnnalsMirror
import Foundation
import Glibc
import TestSupport
import Testing

/// A server with JetStream in a folder of its own. `deinit` ends it.
final class NATSLiveServer {
    /// Its path, if the search path has it.
    static let program: String? = {
        let folders = getenv("PATH").map { String(cString: $0).split(separator: ":") } ?? []
        return folders.map { "\($0)/nats-server" }.first { access($0, X_OK) == 0 }
    }()

    static let whyNot: Comment = "nats-server is not in the search path, so nothing is tested with a real server."

    let port: UInt16
    private let folder: TemporaryDirectory
    private let arguments: [String]
    private var process: Process?
    private var starts = 0

    /// - Parameters:
    ///   - configuration: Lines of a configuration file.
    ///   - hasJetStream: Stores streams in the folder.
    init(configuration: String = "", hasJetStream: Bool = true, arguments: [String] = []) throws {
        folder = try TemporaryDirectory()
        port = try FakeNATSServer.unusedPort()
        try folder.write(configuration, to: "server.conf")
        self.arguments =
            ["-c", folder.path("server.conf"), "-a", "127.0.0.1", "-p", "\(port)", "-P", folder.path("pid")]
            + (hasJetStream ? ["-js", "-sd", folder.path("store")] : []) + arguments
        try start()
    }

    deinit { stop() }

    var url: String { "nats://127.0.0.1:\(port)" }

    /// Takes effect at the next start.
    func configure(_ configuration: String) throws { try folder.write(configuration, to: "server.conf") }

    func start() throws {
        starts += 1
        let log = "log-\(starts)"
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        // Ends even if the tests crash.
        process.arguments =
            ["timeout", "-s", "KILL", "600", Self.program ?? "nats-server"] + arguments + ["-l", folder.path(log)]
        try process.run()
        self.process = process
        let deadline = ContinuousClock.now + .seconds(60)
        while folder.read(log)?.contains("Server is ready") != true {
            guard ContinuousClock.now < deadline, process.isRunning else {
                throw Failure(description: "nats-server did not start: \(folder.read(log) ?? "")")
            }
            usleep(5000)
        }
    }

    struct Failure: Error, CustomStringConvertible { var description: String }

    /// As a power failure of the server's process would.
    func stop() {
        guard let process else { return }
        if let pid = folder.read("pid").flatMap({ pid_t($0.filter(\.isNumber)) }) { kill(pid, SIGKILL) }
        process.waitUntilExit()
        self.process = nil
    }

    func courier(
        _ peer: String, group: String = "notes", credentials: NATSCredentials? = nil, replicas: Int? = nil,
        interruption: Interruption? = nil, change: (inout NATSSettings) -> Void = { _ in }
    ) throws -> NATSCourier {
        var settings = NATSSettings()
        settings.firstDelaySeconds = 0.01
        settings.longestDelaySeconds = 0.1
        change(&settings)
        return try NATSCourier(
            address: url, credentials: credentials, group: group, peer: peer, replicas: replicas,
            interruption: interruption ?? Interruption(), settings: settings)
    }

    /// Sends a request of the JetStream API, as a person with the `nats` tool would.
    func administer(_ subject: String, _ request: String = "") throws -> String {
        let connection = NATSConnection(
            addresses: [try NATSAddress(url)], credentials: nil, name: "test", settings: NATSSettings(),
            interruption: try Interruption())
        try connection.prepare()
        return String(
            decoding: try connection.request("$JS.API.\(subject)", payload: Array(request.utf8)).payload, as: UTF8.self)
    }

    /// Publishes anything, as another program might.
    func publish(_ subject: String, headers: String = "", _ text: String) throws {
        let connection = NATSConnection(
            addresses: [try NATSAddress(url)], credentials: nil, name: "test", settings: NATSSettings(),
            interruption: try Interruption())
        try connection.prepare()
        connection.publish(subject, headers: headers, payload: Array(text.utf8))
        try connection.flush(seconds: 10)
    }
}

/// Three servers that keep streams together.
final class NATSLiveCluster {
    let servers: [NATSLiveServer]

    init() throws {
        let ports = try (0..<3).map { _ in try FakeNATSServer.unusedPort() }
        let routes = ports.map { "nats://127.0.0.1:\($0)" }.joined(separator: ", ")
        servers = try ports.enumerated().map { index, port in
            try NATSLiveServer(
                configuration: """
                    server_name: "s\(index)"
                    cluster { name: "C", listen: "127.0.0.1:\(port)", routes: [ \(routes) ] }
                    """)
        }
    }

    /// All addresses.
    var url: String { servers.map(\.url).joined(separator: ",") }

    func courier(_ peer: String, replicas: Int?) throws -> NATSCourier {
        var settings = NATSSettings()
        settings.firstDelaySeconds = 0.05
        settings.longestDelaySeconds = 0.5
        settings.requestSeconds = 5
        settings.pullSeconds = 2
        settings.heartbeatSeconds = 0.5
        return try NATSCourier(
            address: url, group: "notes", peer: peer, replicas: replicas, interruption: Interruption(),
            settings: settings)
    }
}

/// The engine for the scenarios of all couriers.
final class NATSWorld: CourierWorld {
    let server: NATSLiveServer

    init() throws { server = try NATSLiveServer() }

    var note: String { "The server listens at \(server.url)." }

    func makeCourier(for peer: String) throws -> any Courier { try server.courier(peer) }

    func empty() throws {
        for name in ["ANNALS_notes", "ANNALS_notes_STATES"] { _ = try server.administer("STREAM.DELETE.\(name)") }
    }
}
