// `annals-bench WORKLOAD ...`: the peers' workloads on this engine, timed by the same rules, one JSON line each.

import AnnalsFile
import FoundationEssentials
import Glibc

@main struct Bench {
    static func main() {
        do {
            let arguments = try BenchArguments(Array(CommandLine.arguments.dropFirst()))
            try Workloads(arguments).run()
        } catch let error as BenchError {
            FileHandleOutput.standardError("annals-bench: \(error.message)\n\n\(BenchArguments.usage)\n")
            exit(64)
        } catch {
            FileHandleOutput.standardError("annals-bench: \(error)\n")
            exit(1)
        }
    }
}

struct BenchError: Error {
    var message: String
}

struct BenchArguments {
    static let usage = """
        usage: annals-bench WORKLOAD --path FOLDER [--rows N] [--batch B] [--durable|--fast] [--tag S]
          load    inserts rows 1 to N, B a transaction
          commit  inserts N rows, one a transaction
          walk    reads and verifies every frame of what load left
          value   writes and reads one value of N bytes in pieces
          long    one transaction of N rows
        --durable synchronises each commit; --fast (the default) leaves that to the background
        """

    var workload: String
    var path = ""
    var rows: UInt64 = 100_000
    var batch = 1000
    var isDurable = false
    var tag = ""

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
            case "--path": path = try Self.value(option, &rest)
            case "--tag": tag = try Self.value(option, &rest)
            case "--rows": rows = try Self.number(option, &rest)
            case "--batch": batch = Int(try Self.number(option, &rest))
            default: throw BenchError(message: "\(option) is not known")
            }
        }
        guard !path.isEmpty else { throw BenchError(message: "--path names a folder for the store") }
    }

    private static func value(_ option: String, _ rest: inout ArraySlice<String>) throws -> String {
        guard let value = rest.popFirst() else { throw BenchError(message: "\(option) needs a value") }
        return value
    }

    private static func number(_ option: String, _ rest: inout ArraySlice<String>) throws -> UInt64 {
        let text = try value(option, &rest)
        guard let number = UInt64(text), number > 0, number < 1 << 48 else {
            throw BenchError(message: "\(option) takes a number from 1, not \(text)")
        }
        return number
    }
}
