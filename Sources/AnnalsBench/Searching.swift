// Full-text search: how fast texts are indexed and found, and the size of the index. The texts and the queries come
// from files, so that a peer works on the same ones: `Tests/run searching`.

import Annals
import FoundationEssentials
import Glibc

/// A text that is searched.
struct Page: Entity {
    var text = ""
    var rank = 0

    static let schema = Schema<Page> { Attribute(\.text, .searchable) }
}

/// A text whose index has no positions.
struct BriefPage: Entity {
    var text = ""

    static let schema = Schema<BriefPage> { Attribute(\.text, .searchable(positions: false)) }
}

/// The same without an index.
struct UnsearchedPage: Entity {
    var text = ""
    var rank = 0
}

struct Searching {
    let arguments: BenchArguments
    private var file: String { arguments.path + "/search.annals" }

    private func open() throws -> Store {
        try Store(
            at: file, entities: [Page.self, BriefPage.self, UnsearchedPage.self],
            options: Store.Options(durability: .relaxed))
    }

    /// Inserts each line of the corpus, `--batch` a transaction: first without an index, then with one without
    /// positions, then with one that has them. Then builds that again, and changes each text three times.
    func load() throws {
        let texts = try lines("corpus.txt")
        try? FileManager.default.removeItem(atPath: file)
        let store = try open()
        let plain = try rate(texts) { texts in
            try store.write { transaction in
                for text in texts { _ = try transaction.insert(UnsearchedPage(text: String(text))) }
            }
        }
        try store.delete(UnsearchedPage.self)
        _ = try rate(texts) { texts in
            try store.write { transaction in
                for text in texts { _ = try transaction.insert(BriefPage(text: String(text))) }
            }
        }
        try store.updateSearchIndexes()
        let brief = try indexBytes(of: "BriefPage", store)
        try store.delete(BriefPage.self)
        let start = seconds()
        let searchable = try rate(texts) { texts in
            try store.write { transaction in
                for text in texts { _ = try transaction.insert(Page(text: String(text))) }
            }
        }
        try store.updateSearchIndexes()
        let indexed = seconds() - start
        let rebuilding = seconds()
        try store.rebuildSearchIndex(of: "Page")
        let built = seconds() - rebuilding
        let bytes = texts.reduce(0) { $0 + $1.utf8.count }
        let fresh = try indexBytes(of: "Page", store)
        try rewrite(store)
        let size = try indexBytes(of: "Page", store)
        try store.close()
        Printer.standardOutput(
            "{\"workload\":\"search_load\",\"rows\":\(texts.count),\"plain_rows_per_s\":\(Int(plain)),"
                + "\"searchable_rows_per_s\":\(Int(searchable)),\"rows_per_s_until_indexed\":"
                + "\(Int(Double(texts.count) / indexed)),\"build_rows_per_s\":\(Int(Double(texts.count) / built)),"
                + "\"text_bytes\":\(bytes),\"index_bytes\":\(fresh),\"index_bytes_after_rewriting\":\(size),"
                + "\"index_bytes_without_positions\":\(brief),\"peak_kB\":\(Memory.peakKilobytes)}\n")
    }

    private func indexBytes(of entity: String, _ store: Store) throws -> UInt64 {
        try store.searchIndexes.first { $0.entity == entity }?.bytes ?? 0
    }

    private func rewrite(_ store: Store) throws {
        let all = try store.snapshot().references(to: Page.self)
        for round in 0..<3 {
            for start in stride(from: 0, to: all.count, by: 1000) {
                try store.write { transaction in
                    for reference in all[start..<min(start + 1000, all.count)] {
                        try transaction.update(reference) { $0.text += " round\(round)" }
                    }
                }
            }
            try store.updateSearchIndexes()
        }
        while true {
            do {
                _ = try store.compact()
                return
            } catch let error as StoreError where error.code == .busy {
                // The handle compacts in the background.
                usleep(100_000)
            }
        }
    }

    private func rate(_ texts: [Substring], _ write: (ArraySlice<Substring>) throws -> Void) throws -> Double {
        let start = seconds()
        for first in stride(from: 0, to: texts.count, by: Int(arguments.batch)) {
            try write(texts[first..<min(first + Int(arguments.batch), texts.count)])
        }
        return Double(texts.count) / (seconds() - start)
    }

    /// Searches for each line of the queries, with the limit 20: the median of 9 times.
    func find() throws {
        let store = try open()
        for query in try lines("queries.txt") {
            var times: [Double] = []
            for _ in 0..<9 {
                let start = seconds()
                _ = try store.snapshot().search(Page.self, for: String(query), limit: 20)
                times.append(seconds() - start)
            }
            let found = try store.snapshot().searchCount(Page.self, for: SearchQuery(String(query)))
            let text = query.replacing("\"", with: "\\\"")
            Printer.standardOutput(
                "{\"workload\":\"search\",\"query\":\"\(text)\",\"found\":\(found),\"milliseconds\":"
                    + "\(Latencies.rounded(times.sorted()[4] * 1000)),\"peak_kB\":\(Memory.peakKilobytes)}\n")
        }
        try store.close()
    }

    private func lines(_ name: String) throws -> [Substring] {
        let path = arguments.path + "/" + name
        guard let text = try? String(contentsOf: URL(filePath: path), encoding: .utf8) else {
            throw BenchError(message: "\(path) cannot be read: Tests/run searching makes it")
        }
        return text.split(separator: "\n")
    }
}
