// `annals-bench WORKLOAD ...`: the peers' workloads on this store, timed by the same rules, one JSON line each. Public
// API only, apart from the mirror's.

import Annals
import FoundationEssentials
import Glibc

@main struct Bench {
    static func main() {
        do {
            let arguments = try BenchArguments(Array(CommandLine.arguments.dropFirst()))
            try Workloads(arguments).run()
        } catch let error as BenchError {
            Printer.standardError("annals-bench: \(error.message)\n\n\(BenchArguments.usage)\n")
            exit(64)
        } catch {
            Printer.standardError("annals-bench: \(error)\n")
            exit(1)
        }
    }
}

struct BenchError: Error {
    var message: String
}

struct BenchArguments {
    static let usage = """
        usage: annals-bench WORKLOAD --path FOLDER [--rows N] [--batch B] [--durable|--fast] [--index] [--tag S]
          load      inserts rows 1 to N into a new store, B a transaction
          commit    inserts N rows into a new store, one a transaction
          open      opens the store and reads one row
          get       reads N random rows by ID, from one snapshot
          get_each  the same, from a new snapshot for each
          scan      reads all rows
          query     reads N ranges of an index over rank, which it adds where there is none
          update    updates N random rows, B a transaction
          delete    deletes N rows, B a transaction
          history   reads the last tenth of the history, then all of it
          twoproc   how long until a commit of another process is seen, by a waiting thread and in a task
          tracker   how soon a held object shows a commit of another process, how long 10,000 waiting transactions take
                    at start, and what following a writer at full speed costs the writer
          mixed     reads random rows in one thread and updates one row a transaction in another, for S seconds
          threads   reads N random rows by ID in one thread, then in each of two at once
          contention  commits of one and of two processes, of one thread and of eight, and of eight processes
          compaction  how fast N rows are compacted, and how long a writer waits for it
          typed_load, typed_get, typed_scan, typed_query
                    the same with values of a struct; typed_load in one transaction
          typed_filter  counts the rows that satisfy a predicate without an index
          typed_sum     adds up one attribute of all rows
          object_load   inserts rows through a context, B a save
          object_fetch  fetches N objects that nobody holds, then reads a property of each
          object_read   reads a property of held objects N times
          object_merge  merges N / 10 changes, B a transaction, into 1,000 held objects
          object_results  how long a live result takes to follow one change, by an edit and by a merge
          object_memory what 100,000 objects take, beside the same values alone
          mirror    merges N transactions of one row each into another store, through the mirror's code
          mirror_conflicts  the same with updates, each hundredth of which meets a later one of the other store
          mirror_live  over the NATS server at --nats: how long a commit takes to another store, beside a bare message;
                    how often idle mirrors wake; what a mirror costs a writer
          search_load   inserts the lines of corpus.txt without and with a search index, B a transaction, builds the
                    index again, and rewrites each text three times
          search    searches the store of search_load for each line of queries.txt, with the limit 20
          kill      commits rows in a transaction each until it is killed
        --durable synchronises each commit; --fast (the default) leaves that to the background
        --index makes the index over rank from the start (load)
        --nats ADDRESS is the server of mirror_live, with JetStream: nats://127.0.0.1:4222
        --seconds S is how long each part of contention and of a writer beside a compaction lasts (3)
        --no-history is accepted and does nothing: there is no store without history
        """

    var workload: String
    var path = ""
    var rows: UInt64 = 100_000
    var batch: UInt64 = 1000
    var isDurable = false
    var hasIndex = false
    var tag = ""
    var nats = ""
    var seconds = 3.0
    /// On the monotonic clock.
    var start = 0.0

    init(_ arguments: [String]) throws {
        guard let first = arguments.first, !first.hasPrefix("-") else {
            throw BenchError(message: "no workload is named")
        }
        workload = first
        var rest = arguments.dropFirst()
        while let option = rest.popFirst() {
            switch option {
            case "--durable": isDurable = true
            case "--fast": isDurable = false
            case "--index": hasIndex = true
            case "--no-history": break
            case "--path": path = try Self.value(option, &rest)
            case "--seconds": seconds = try Self.real(option, &rest)
            case "--start": start = try Self.real(option, &rest)
            case "--nats": nats = try Self.value(option, &rest)
            case "--tag": tag = try Self.value(option, &rest)
            case "--rows": rows = try Self.number(option, &rest)
            case "--batch": batch = try Self.number(option, &rest)
            default: throw BenchError(message: "\(option) is not known")
            }
        }
        guard !path.isEmpty else { throw BenchError(message: "--path names a folder for the store") }
    }

    private static func value(_ option: String, _ rest: inout ArraySlice<String>) throws -> String {
        guard let value = rest.popFirst() else { throw BenchError(message: "\(option) needs a value") }
        return value
    }

    private static func real(_ option: String, _ rest: inout ArraySlice<String>) throws -> Double {
        let text = try value(option, &rest)
        guard let number = Double(text), number > 0 else {
            throw BenchError(message: "\(option) takes a number above 0, not \(text)")
        }
        return number
    }

    private static func number(_ option: String, _ rest: inout ArraySlice<String>) throws -> UInt64 {
        let text = try value(option, &rest)
        guard let number = UInt64(text), number > 0, number < 1 << 48 else {
            throw BenchError(message: "\(option) takes a number from 1, not \(text)")
        }
        return number
    }
}
