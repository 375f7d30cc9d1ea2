// The settings of a group's streams: those of a new one, those that a mirror cannot work with, and those that promise
// less than they could.

internal import Annals

enum NATSStreamSettings {
    /// A new stream keeps everything in files until it is discarded.
    static func new(name: String, subjects: String, replicas: Int) -> NATSJSONValue {
        .object([
            "name": .string(name),
            "subjects": .list([.string(subjects)]),
            "retention": .string("limits"),
            "storage": .string("file"),
            "discard": .string("old"),
            "num_replicas": .integer(Int64(replicas)),
            "max_msgs": .integer(-1),
            "max_bytes": .integer(-1),
            "max_age": .integer(0),
            // Long enough for a publication that is repeated after a lost connection. The server remembers each
            // identifier for this time.
            "duplicate_window": .integer(30_000_000_000),
        ])
    }

    static func replicas(of config: NATSJSONValue) -> Int { Int(clamping: config["num_replicas"]?.integer ?? 1) }

    /// - Throws: `courierSettings` with the first setting that a mirror cannot work with.
    static func check(_ config: NATSJSONValue, name: String, subjects: String) throws(StoreError) {
        guard let wrong = obstacle(config, subjects: subjects) else { return }
        throw StoreError(
            .courierSettings,
            "The stream \(name) exists, and \(wrong): correct it with nats stream edit, remove it with nats stream rm, "
                + "or choose another group.")
    }

    private static func obstacle(_ config: NATSJSONValue, subjects: String) -> String? {
        if config["subjects"]?.list?.contains(.string(subjects)) != true { return "does not take \(subjects)" }
        if let retention = config["retention"]?.string, retention != "limits" {
            return "its retention is \(NATSServerInformation.quoted(retention)) instead of limits"
        }
        if config["sealed"]?.bool == true { return "is sealed" }
        if config["no_ack"]?.bool == true { return "acknowledges nothing (no_ack)" }
        for field in ["mirror", "sources", "subject_transform"] where exists(config[field]) {
            return "has the setting \(field)"
        }
        return nil
    }

    private static func exists(_ value: NATSJSONValue?) -> Bool {
        switch value {
        case nil, .null?: false
        case .list(let list)?: !list.isEmpty
        default: true
        }
    }

    /// The weak points of a stream, a sentence each.
    static func weaknesses(_ config: NATSJSONValue, name: String) -> [String] {
        var found: [String] = []
        if replicas(of: config) < 2 {
            found.append("The stream \(name) has one copy: while its server is down, no message passes.")
        } else if replicas(of: config) < 3 {
            found.append("The stream \(name) has two copies: it stops if either server is down. Three are better.")
        }
        if config["storage"]?.string == "memory" {
            found.append("The stream \(name) is in memory only: a restart of its server empties it.")
        } else {
            found.append(
                "JetStream acknowledges a message of the stream \(name) before it is on the disk (by default it syncs "
                    + "every 2 minutes, sync_interval): a power failure may lose acknowledged messages. The mirror "
                    + "notices and sends them again.")
        }
        let full = config["discard"]?.string == "new" ? "it refuses new messages" : "it drops the oldest messages"
        for (field, unit) in [("max_bytes", "bytes"), ("max_msgs", "messages"), ("max_msgs_per_subject", "messages")] {
            guard let limit = config[field]?.integer, limit > 0 else { continue }
            let scope = field == "max_msgs_per_subject" ? " of each peer" : ""
            found.append("The stream \(name) holds \(limit) \(unit)\(scope) (\(field)); when it is full, \(full).")
        }
        if let age = config["max_age"]?.integer, age > 0 {
            found.append(
                "The stream \(name) drops messages after \(age / 1_000_000_000) s (max_age): a peer that is away for "
                    + "longer misses them.")
        }
        if config["deny_purge"]?.bool == true {
            found.append("The stream \(name) forbids removing messages (deny_purge): it only grows.")
        }
        return found
    }
}
