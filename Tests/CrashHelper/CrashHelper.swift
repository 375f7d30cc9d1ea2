// The program whose power is cut (Tests/run ext4cut): it commits, notes what was acknowledged, and later checks what is
// left.

import Annals
import Glibc
import SimulatedDisk

/// `create STORE ACKFILE SEED`, `run STORE ACKFILE SEED`, `check STORE ACKFILE`; `fork STORE` and `fork-memory`
/// (ForkCheck*.swift);
/// `commit STORE COUNT AUTHOR full|relaxed` (CommitRun.swift); `overlay-make STORE` and `overlay STORE`
/// (OverlayCheck.swift); and those of LimitedProcess.swift.
@main struct CrashHelper {
    static func main() {
        let arguments = CommandLine.arguments
        do {
            switch (arguments.dropFirst().first, arguments.count) {
            case ("create", 5): try create(arguments[2], acknowledgements: arguments[3])
            case ("run", 5): try run(arguments[2], acknowledgements: arguments[3], seed: UInt64(arguments[4]) ?? 1)
            case ("fork", 3): try ForkCheck.run(arguments[2])
            case ("fork-memory", 2): try ForkCheck.runInMemory()
            case ("commit", 6):
                try CommitRun.run(
                    arguments[2], count: Int(arguments[3]) ?? 1, author: arguments[4],
                    durability: arguments[5] == "full" ? .full : .relaxed)
            case ("overlay-make", 3): try OverlayCheck.make(arguments[2])
            case ("overlay", 3): try OverlayCheck.run(arguments[2])
            case ("check", 4): try check(arguments[2], acknowledgements: arguments[3])
            case ("descriptors", 3): try LimitedProcess.descriptors(arguments[2])
            case ("file-limit", 3): try LimitedProcess.fileLimit(arguments[2])
            case ("fuzz", 4): try LimitedProcess.fuzz(arguments[2], arguments[3], nil)
            case ("fuzz", 5): try LimitedProcess.fuzz(arguments[2], arguments[3], arguments[4])
            default:
                fail(
                    "usage: crash-helper create|run STORE ACKFILE SEED, check STORE ACKFILE, fork STORE, commit STORE "
                        + "COUNT "
                        + "AUTHOR full|relaxed, descriptors|file-limit DIRECTORY, or fuzz file|records INPUT [PLANTED]",
                    status: 64)
            }
        } catch {
            fail("\(error)", status: 1)
        }
    }

    private static let files = RealFileSystem()
    private static let environment = RealEnvironment()

    // MARK: Writing

    private static func create(_ store: String, acknowledgements: String) throws {
        let log = try Log.create(store, files: files, environment: environment)
        acknowledge(0, in: acknowledgements)
        try log.close()
    }

    /// Commits until it is killed: one change or many, with and without large values, durable or not.
    private static func run(_ store: String, acknowledgements: String, seed: UInt64) throws {
        var random = seed
        func next(below bound: UInt64) -> Int {
            random = random &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return Int((random >> 33) % bound)
        }
        var log = try Log.openOrCreate(store, files: files, environment: environment)
        if log.current.schemaVersion == 0 {
            let schema = log.makeFrames()
            try schema.changeSchema([definition])
            acknowledge(try log.commit(schema).number, in: acknowledgements)
        }
        var object = UInt64(log.current.lastNumber) * 1_000_000
        while true {
            let count = next(below: 8) == 0 ? 1 + next(below: 3000) : 1
            let sizes = (0..<count).map { _ in next(below: 40) == 0 ? 70_000 + next(below: 900_000) : next(below: 300) }
            let durability: Durability = next(below: 3) == 0 ? .relaxed : .full
            let number = try insert(sizes, after: object, author: "cut \(next(below: 20))", log, durability)
            object += UInt64(count)
            if let number, durability == .full { acknowledge(number, in: acknowledgements) }
            if next(below: 25) == 0 {
                try log.close()
                log = try Log.open(store, files: files, environment: environment)
            }
        }
    }

    /// Inserts objects with bodies of these sizes. A full disk is as good a moment for a power cut as any: nil then.
    private static func insert(
        _ sizes: [Int], after object: UInt64, author: String, _ log: Log, _ durability: Durability
    ) throws(StoreError) -> UInt64? {
        do throws(StoreError) {
            let transaction = log.makeFrames(expectedChanges: sizes.count)
            transaction.prepared.author = author
            for (index, bytes) in sizes.enumerated() {
                let number = object + UInt64(index) + 1
                guard let id = ObjectID(entityNumber: 1, number: number) else { continue }
                try transaction.insert(id, [.string("t\(number)"), .data(body(number, bytes))])
            }
            return try log.commit(transaction, durability: durability).number
        } catch {
            if error.code == .noSpace { return nil }
            throw error
        }
    }

    private static let definition = EntityDefinition(
        number: 1, name: "Cut",
        attributes: [
            AttributeDefinition(number: 1, type: .string, flags: [], name: "title"),
            AttributeDefinition(number: 2, type: .data, flags: [], name: "body"),
        ])

    private static func body(_ object: UInt64, _ count: Int) -> [UInt8] {
        (0..<count).map { UInt8(truncatingIfNeeded: object &* 37 &+ UInt64($0)) }
    }

    /// One write of one line, as the script asks.
    private static func acknowledge(_ number: UInt64, in path: String) {
        let line = Array("acked \(number)\n".utf8)
        let file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0o600)
        guard file >= 0, write(file, line, line.count) == line.count else {
            fail("\(path) cannot be written", status: 1)
        }
        close(file)
    }

    // MARK: Checking

    private static func check(_ store: String, acknowledgements: String) throws {
        let acknowledged = try lines(of: acknowledgements).compactMap { line in
            line.hasPrefix("acked ") ? UInt64(line.dropFirst(6)) : nil
        }
        do {
            let found = try numbers(in: store)
            guard let last = acknowledged.max() else { return }
            guard found >= last else { fail("\(found) transactions are left, \(last) was acknowledged", status: 1) }
        } catch let error as StoreError where error.code == .notFound {
            if !acknowledged.isEmpty { fail("the store is gone, and was acknowledged", status: 1) }
            return
        }
        let report = try Checker.check(store, files: files)
        guard report.isIntact else { fail("the checker found \(report.findings)", status: 1) }
        // A store that was cut goes on.
        let log = try Log.open(store, files: files, environment: environment)
        let before = log.current.lastNumber
        let transaction = log.makeFrames()
        if log.current.schemaVersion == 0 { try transaction.changeSchema([definition]) }
        try log.commit(transaction)
        try log.close()
        guard try numbers(in: store) == before + 1, try Checker.check(store, files: files).isIntact else {
            fail("a commit on top is not right", status: 1)
        }
    }

    /// The last number of the store, after every row was compared with what was written.
    private static func numbers(in store: String) throws -> UInt64 {
        let log = try Log.open(store, access: .readOnly, files: files, environment: environment)
        try log.forEachFrame { (frame, state) throws(StoreError) in
            guard frame.header.kind == .transaction || frame.header.kind == .part else { return }
            var cursor = ChangeCursor(frame)
            while let change = try cursor.next() {
                guard let bytes = frame.row(of: change),
                    let layout = state.rowCatalog.layout(version: 1, entity: 1)
                else { continue }
                let row = try RowImage(bytes, layout: layout)
                var content: [UInt8] = []
                switch try row.variable(at: 1) {
                case .inline(let bytes): content = Array(bytes)
                case .large(let reference):
                    try log.readLargeValue(reference) { (piece) throws(StoreError) in content += Array(piece) }
                case .absent: break
                }
                let object = change.object.number
                guard try row.value(at: 0) == .string("t\(object)"), content == body(object, content.count) else {
                    fail("object \(object) is not what was written", status: 1)
                }
            }
        }
        let last = log.current.lastNumber
        try log.close()
        return last
    }

    private static func lines(of path: String) throws -> [Substring] {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return [] }
        defer { close(file) }
        var text: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65536)
        while true {
            let count = read(file, &buffer, buffer.count)
            if count <= 0 { break }
            text += buffer[..<count]
        }
        return String(decoding: text, as: UTF8.self).split(separator: "\n")
    }

    private static func fail(_ message: String, status: Int32) -> Never {
        let line = Array("crash-helper: \(message)\n".utf8)
        _ = write(2, line, line.count)
        exit(status)
    }
}
