// Processes for Tests/run frozen: a reader that is stopped, and a writer that goes on.

import Annals
import Glibc

/// `hold STORE`: takes a snapshot and says its number and checksum; for every line of standard input it says them
/// again, and those of a new snapshot.
enum FrozenReader {
    static func run(_ path: String) throws {
        let store = try World.open(path, access: .readOnly)
        let snapshot = try store.snapshot()
        Lines.write("\(snapshot.token.number) \(try WorldReader.checksum(snapshot))\n", to: 1)
        while readLine() != nil {
            let newest = try store.snapshot()
            Lines.write(
                "\(snapshot.token.number) \(try WorldReader.checksum(snapshot)) \(newest.token.number) "
                    + "\(try WorldReader.checksum(newest))\n", to: 1)
        }
    }
}

/// `rounds STORE COUNT`: for every line of standard input commits so many transactions, relaxed, and says how many
/// microseconds they took, and the last number.
enum RoundsWriter {
    static func run(_ path: String, count: Int) throws {
        let store = try World.open(path)
        let accounts = try store.entity("Account").number
        var value: Int64 = 0
        while readLine() != nil {
            let began = Clock.microseconds
            var last: HistoryToken?
            for _ in 0..<count {
                value += 1
                guard let object = ObjectID(entityNumber: accounts, number: 1 + UInt64(value) % World.accounts) else {
                    throw Wrong("there is no such account")
                }
                last = try store.writeOptimistically(author: "rounds", durability: .relaxed) { transaction in
                    try transaction.update(object, ["balance": .int(value)])
                }.token
            }
            Lines.write("\(Clock.microseconds - began) \(last?.number ?? 0)\n", to: 1)
        }
        try store.close()
    }
}
