// The program on an overlay file system: a reader maps the lower file, and a writer makes it copied up.

import Annals
import Glibc

enum OverlayCheck {
    struct Failure: Error, CustomStringConvertible {
        let description: String
        init(_ description: String) { self.description = description }
    }

    private static func open(_ path: String, _ access: Store.Access) throws -> Store {
        var options = Store.Options()
        options.access = access
        return try Store(
            at: path, entities: [EntityDescription("Clip", attributes: [AttributeDescription("n", .int)])],
            options: options)
    }

    static func make(_ path: String) throws {
        let store = try open(path, .readWrite)
        try store.writeOptimistically { try $0.insert("Clip", ["n": 1]) }
        try store.close()
    }

    static func run(_ path: String) throws {
        let readers = try (0..<2).map { _ in try open(path, .readOnly) }
        for reader in readers { try expect(1, reader) }
        let writer = try open(path, .readWrite)
        for number in 2...40 {
            try writer.writeOptimistically { try $0.insert("Clip", ["n": .int(Int64(number))]) }
            // The second reader looks when much has been written.
            try expect(UInt64(number), readers[0])
        }
        try expect(40, readers[1])
        for store in readers + [writer] { try store.close() }
    }

    /// A reader looks at the place once a second.
    private static func expect(_ count: UInt64, _ reader: Store) throws {
        let end = ContinuousClock.now + .seconds(30)
        while try reader.snapshot().count(of: "Clip") != count {
            guard .now < end else { throw Failure("the reader has \(try reader.snapshot().count(of: "Clip")) objects") }
            usleep(20_000)
        }
        guard try reader.snapshot().rows(of: "Clip").count == Int(count) else { throw Failure("rows are missing") }
    }
}
