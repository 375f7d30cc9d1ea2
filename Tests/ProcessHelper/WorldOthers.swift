// Processes beside the writers: they clean and compact, read, and watch.

import Annals
import Glibc
import TestSupport

/// `compactor STORE LOG SEED WATCHERLOG...`: cleans what all watchers have told of, and compacts, until it is killed.
struct WorldCompactor {
    private let path: String
    private let lines: Lines
    private var random: SeededRandom
    private let watchers: [String]

    init(_ path: String, log: String, seed: UInt64, watchers: [String]) throws {
        self.path = path
        lines = try Lines(appendingTo: log)
        random = SeededRandom(seed)
        self.watchers = watchers
    }

    consuming func run() throws {
        let store = try World.open(path)
        while true {
            usleep(UInt32(random.next(below: 150_000)))
            let seen = watchers.map { Lines.lastWords(in: $0).first.flatMap { UInt64($0) } ?? 0 }.min() ?? 0
            let kept: UInt64 = random.next(below: 200)
            do {
                if seen > kept { try store.deleteHistory(before: seen - kept + 1) }
                let began = Clock.microseconds
                let result = try store.compact()
                lines.add(
                    "c \(result.horizon) \(result.bytesBefore) \(result.bytesAfter) \(began) "
                        + "\(Clock.microseconds - began)"
                )
            } catch let error as StoreError where error.code == .busy {
                lines.add("n busy")
            }
        }
    }
}

/// `consumer STORE LOG NUMBER`: reads history, and counts what it has read in the transaction that advances it, until
/// it is killed. So each transaction of a writer is counted once.
struct WorldConsumer {
    private let path: String
    private let lines: Lines
    private let number: UInt64

    init(_ path: String, log: String, number: UInt64) throws {
        self.path = path
        lines = try Lines(appendingTo: log)
        self.number = number
    }

    func run() throws {
        let store = try World.open(path)
        let name = "consumer \(number)"
        // Consumers do not read each other's transactions: they would never be done.
        let others = (1...World.consumers).map { "consumer \($0)" }
        guard let object = ObjectID(entityNumber: try store.entity("Tally").number, number: number),
            let registered = try store.consumer(name)
        else { throw Wrong("\(name) is not there") }
        lines.add("\(registered.cursor.number)")
        let watcher = try store.changeWatcher(after: .token(registered.cursor), excluding: Set(others))
        var cursor = registered.cursor
        while true {
            _ = try watcher.next(timeout: .seconds(1))
            let transactions = try store.history(HistoryRequest(after: .token(cursor), excludedAuthors: Set(others)))
            // One at a time, so that there are many such transactions.
            for transaction in transactions {
                let began = Clock.microseconds
                do {
                    try store.write(author: name, durability: .relaxed) { pending in
                        guard case .int(let read)? = try pending.row(object)?["read"] else {
                            throw Wrong("the tally of \(name) is not there")
                        }
                        let isWriters = transaction.author?.hasPrefix("writer") == true
                        try pending.update(object, ["read": .int(read + (isWriters ? 1 : 0))])
                        try pending.advanceConsumer(name, from: cursor, to: transaction.token)
                    }
                } catch let error as StoreError where error.code == .busy {
                    break
                }
                cursor = transaction.token
                lines.add("\(cursor.number) \(Clock.microseconds - began)")
            }
        }
    }
}

/// `reader STORE LOG SEED mapped|copied`: takes snapshots and holds some, until it is killed.
struct WorldReader {
    private let path: String
    private let lines: Lines
    private var random: SeededRandom
    private let reading: Store.Reading

    init(_ path: String, log: String, seed: UInt64, reading: Store.Reading) throws {
        self.path = path
        lines = try Lines(appendingTo: log)
        random = SeededRandom(seed)
        self.reading = reading
    }

    consuming func run() throws {
        let began = Clock.microseconds
        let access: Store.Access = random.next(below: 2) == 0 ? .readOnly : .readWrite
        let store = try World.open(path, access: access, reading: reading)
        lines.add("open \(Clock.microseconds - began)")
        var last: UInt64 = 0
        var held: [(snapshot: Snapshot, checksum: UInt64)] = []
        while true {
            let snapshot = try store.snapshot()
            let number = snapshot.token.number
            guard number >= last else { throw Wrong("a snapshot is of \(number), one before it of \(last)") }
            last = number
            try Self.checkSum(snapshot)
            let checksum = try Self.checksum(snapshot)
            if held.count < 8 {
                held.append((snapshot, checksum))
            } else {
                let place = Int(random.next(below: 8))
                let (old, expected) = held[place]
                guard try Self.checksum(old) == expected else {
                    throw Wrong("the snapshot of \(old.token.number) has changed")
                }
                held[place] = (snapshot, checksum)
            }
            lines.add("\(number)")
            usleep(UInt32(random.next(below: 30_000)))
        }
    }

    static func checkSum(_ snapshot: Snapshot) throws {
        let accounts = try snapshot.entity("Account")
        var (sum, count): (Int64, UInt64) = (0, 0)
        try snapshot.forEachRow(of: accounts) { (row) throws(StoreError) in
            sum += row.int(at: 0) ?? 0
            count += 1
            return true
        }
        guard count == World.accounts, sum == Int64(World.accounts) * World.balance else {
            throw Wrong("\(count) accounts have \(sum) in the snapshot of \(snapshot.token.number)")
        }
    }

    /// Of all rows, whatever the process.
    static func checksum(_ snapshot: Snapshot) throws -> UInt64 {
        var sum: UInt64 = 14_695_981_039_346_656_037
        func take(_ text: String) { for byte in text.utf8 { sum = (sum ^ UInt64(byte)) &* 1_099_511_628_211 } }
        for entity in try snapshot.entities {
            for row in try snapshot.rows(of: entity.name) { take("\(row.id) \(row.values)") }
        }
        return sum
    }
}

/// `watcher STORE LOG STOPFILE signals|history`: logs every number that it is told of, in a line of its own that begins
/// with it, until the stop file is there and everything up to the number in it was told.
struct WorldWatcher {
    private let path: String
    private let lines: Lines
    private let stop: String
    private let readsHistory: Bool

    init(_ path: String, log: String, stop: String, readsHistory: Bool) throws {
        self.path = path
        lines = try Lines(appendingTo: log)
        self.stop = stop
        self.readsHistory = readsHistory
    }

    func run() throws {
        let store = try World.open(path, access: readsHistory ? .readOnly : .readWrite)
        let watcher = try store.changeWatcher(after: .number(0))
        var token: HistoryToken?
        while true {
            if let signal = try watcher.next(timeout: .seconds(1)) {
                if !readsHistory {
                    for number in signal.numbers { lines.add("\(number)") }
                } else {
                    token = try read(store, after: token)
                }
            }
            if let last = Lines.lastWords(in: stop).first.flatMap({ UInt64($0) }), watcher.position >= last {
                if readsHistory { _ = try read(store, after: token) }
                return
            }
        }
    }

    /// Logs number, author and context of what came after the token, and returns the last one's.
    private func read(_ store: Store, after token: HistoryToken?) throws -> HistoryToken? {
        var last = token
        let transactions = if let token { try store.history(after: token) } else { try store.history(after: 0) }
        for transaction in transactions {
            lines.add("\(transaction.number) \(transaction.author ?? "-") \(transaction.contextName ?? "-")")
            last = transaction.token
        }
        return last
    }
}
