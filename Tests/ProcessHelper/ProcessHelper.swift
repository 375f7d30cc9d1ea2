// The processes that Tests/run processes, Tests/run frozen and others start, kill and stop. Public API only.

import Annals
import Glibc

/// What each mode does stands where it is defined. A process that finds something wrong says so and ends with 1.
@main struct ProcessHelper {
    static func main() {
        let arguments = Array(CommandLine.arguments.dropFirst())
        do {
            switch (arguments.first, arguments.count) {
            case ("make", 2): try World.make(arguments[1])
            case ("writer", 5):
                try WorldWriter(
                    arguments[1], log: arguments[2], number: integer(arguments[3]), seed: integer(arguments[4])
                )
                .run()
            case ("compactor", 5...):
                try WorldCompactor(
                    arguments[1], log: arguments[2], seed: integer(arguments[3]), watchers: Array(arguments[4...])
                ).run()
            case ("reader", 5):
                try WorldReader(
                    arguments[1], log: arguments[2], seed: integer(arguments[3]),
                    reading: arguments[4] == "copied" ? .copied : .mapped
                ).run()
            case ("consumer", 4):
                try WorldConsumer(arguments[1], log: arguments[2], number: integer(arguments[3])).run()
            case ("watcher", 5):
                try WorldWatcher(
                    arguments[1], log: arguments[2], stop: arguments[3], readsHistory: arguments[4] == "history"
                )
                .run()
            case ("check", 3...): try WorldCheck(arguments[1], logs: Array(arguments[2...])).run()
            case ("cut", 4...): try cut(Array(arguments.dropFirst()))
            case ("hold", 2): try FrozenReader.run(arguments[1])
            case ("rounds", 3): try RoundsWriter.run(arguments[1], count: integer(arguments[2]))
            case ("addresses", 2): try FewAddresses.run(arguments[1])
            case ("fork", 2): try ForkedWatcher.run(arguments[1])
            case ("folders", 4):
                try SharedFolders.run(arguments[1], seed: integer(arguments[2]), operations: integer(arguments[3]))
            case ("contexts", 4...): try contexts(Array(arguments.dropFirst()))
            case ("idle", 2): try IdleTracker.run(arguments[1])
            case ("trackers", 3...): try trackers(Array(arguments.dropFirst()))
            case ("ways", 6):
                try OneWay.run(
                    arguments[1], arguments[2], other: arguments[3], number: integer(arguments[4]),
                    length: integer(arguments[5]))
            case ("savers", 4...): try savers(Array(arguments.dropFirst()))
            case ("searchers", 3...): try searchers(Array(arguments.dropFirst()))
            case ("migrate", 3): try Migrating.run(arguments[1], arguments[2])
            case ("leaks", 3...):
                try ContextLeaks.run(
                    arguments[1], contexts: integer(arguments[2]),
                    plant: arguments.dropFirst(3).first.flatMap { ContextLeaks.Plant(rawValue: $0) })
            default:
                throw Wrong(
                    "usage: process-helper make STORE, writer STORE LOG NUMBER SEED, compactor STORE LOG SEED "
                        + "WATCHERLOG..., "
                        + "reader STORE LOG SEED mapped|copied, consumer STORE LOG NUMBER, "
                        + "watcher STORE LOG STOPFILE signals|history, check STORE WRITERLOG..., "
                        + "cut create|run STORE ACKFILE SEED, cut check STORE ACKFILE, hold STORE, "
                        + "rounds STORE COUNT, addresses STORE, fork STORE, "
                        + "folders STORE SEED OPERATIONS, contexts work STORE LOG NUMBER SEED OPERATIONS, "
                        + "contexts replay STORE LOG..., idle STORE, trackers make STORE, "
                        + "trackers work STORE FOLDER NUMBER SEED PLANS SECONDS, trackers check STORE FOLDER, "
                        + "savers work STORE LOG NUMBER SEED OPERATIONS, savers check STORE LOG..., "
                        + "searchers work STORE LOG NUMBER SEED OPERATIONS, searchers check STORE LOG..., "
                        + "searchers fork STORE, "
                        + "ways WAY STORE OTHER NUMBER LENGTH, migrate make|run|first STORE, "
                        + "or leaks STORE CONTEXTS [object|context|thread|descriptor|memory]")
            }
        } catch {
            Lines.write("process-helper \(arguments.first ?? ""): \(error)\n", to: 2)
            exit(1)
        }
    }

    private static func cut(_ arguments: [String]) throws {
        let run = PowerCut(arguments[1], acks: arguments[2])
        switch (arguments[0], arguments.count) {
        case ("create", 4): try run.create()
        case ("run", 4): try run.run(seed: integer(arguments[3]))
        case ("check", 3): try run.check()
        default: throw Wrong("usage: process-helper cut create|run STORE ACKFILE SEED, cut check STORE ACKFILE")
        }
    }

    private static func contexts(_ arguments: [String]) throws {
        switch (arguments[0], arguments.count) {
        case ("work", 6):
            try SharedContextWriter(
                arguments[1], log: arguments[2], number: integer(arguments[3]), seed: integer(arguments[4]),
                operations: integer(arguments[5])
            ).run()
        case ("replay", 3...):
            var replay = try SharedReplay(arguments[1], logs: Array(arguments[2...]))
            try replay.run()
        default:
            throw Wrong("usage: process-helper contexts work STORE LOG NUMBER SEED OPERATIONS, or replay STORE LOG...")
        }
    }

    private static func savers(_ arguments: [String]) throws {
        switch (arguments[0], arguments.count) {
        case ("work", 6):
            try Savers.work(
                arguments[1], log: arguments[2], number: integer(arguments[3]), seed: integer(arguments[4]),
                operations: integer(arguments[5]))
        case ("check", 3...): try Savers.check(arguments[1], logs: Array(arguments[2...]))
        default:
            throw Wrong("usage: process-helper savers work STORE LOG NUMBER SEED OPERATIONS, or check STORE LOG...")
        }
    }

    private static func searchers(_ arguments: [String]) throws {
        switch (arguments[0], arguments.count) {
        case ("work", 6):
            try Searchers.work(
                arguments[1], log: arguments[2], number: integer(arguments[3]), seed: integer(arguments[4]),
                operations: integer(arguments[5]))
        case ("check", 3...): try Searchers.check(arguments[1], logs: Array(arguments[2...]))
        case ("fork", 2): try ForkedSearcher.run(arguments[1])
        default:
            throw Wrong(
                "usage: process-helper searchers work STORE LOG NUMBER SEED OPERATIONS, check STORE LOG..., "
                    + "or fork STORE")
        }
    }

    private static func trackers(_ arguments: [String]) throws {
        switch (arguments[0], arguments.count) {
        case ("make", 2): try Tracked.make(arguments[1])
        case ("work", 7):
            try TrackerProcess.run(
                arguments[1], folder: arguments[2], number: integer(arguments[3]), seed: integer(arguments[4]),
                plans: integer(arguments[5]), maximumDuration: Double(integer(arguments[6]) as Int))
        case ("check", 3):
            var check = try TrackerCheck(arguments[1], folder: arguments[2])
            try check.run()
        default:
            throw Wrong(
                "usage: process-helper trackers make STORE, work STORE FOLDER NUMBER SEED PLANS SECONDS, "
                    + "or check STORE FOLDER")
        }
    }

    private static func integer<Number: FixedWidthInteger>(_ text: String) throws -> Number {
        guard let number = Number(text) else { throw Wrong("\(text) is no number") }
        return number
    }
}

/// Something that must not be.
struct Wrong: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}
