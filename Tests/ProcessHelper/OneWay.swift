// One change of Ways.swift, made by a process of its own.

import Annals
import TestSupport

/// `ways WAY STORE OTHER NUMBER LENGTH`: opens the store, makes the change of that number, and ends. OTHER may be “-”.
enum OneWay {
    static func run(_ way: String, _ path: String, other: String, number: Int, length: Int) throws {
        guard let way = Way(rawValue: way) else { throw Wrong("there is no way \(way)") }
        let ended = Ended()
        Task {
            do {
                try await make(way, path, other: other, number: number, length: length)
                ended.end(nil)
            } catch {
                ended.end(error)
            }
        }
        if let error = ended.wait() { throw error }
    }

    private static func make(_ way: Way, _ path: String, other: String, number: Int, length: Int) async throws {
        var options = Store.Options()
        options.durability = .relaxed
        options.lockTimeout = .seconds(600)
        let writer = try WaysWriter(path, other: other == "-" ? nil : other, length: length, options: options)
        let keys = try await writer.keys()
        try await writer.run(way, WaysChange(number, parts: keys.parts, visits: keys.visits, length: length))
        try await writer.close()
    }
}
