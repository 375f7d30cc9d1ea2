// A process that may not have the addresses that a store would like to reserve.

import Annals
import Glibc

/// `addresses STORE`: makes and uses a store within 4 GiB of addresses more than the process has.
enum FewAddresses {
    static func run(_ path: String) throws {
        // Much less than a store reserves, and room for threads, each of whose memory takes 128 MiB of addresses.
        let most = rlim_t(try addressesInUse() + 4 << 30)
        var limit = rlimit(rlim_cur: most, rlim_max: most)
        guard setrlimit(__rlimit_resource_t(RLIMIT_AS.rawValue), &limit) == 0 else {
            throw Wrong("no limit can be set")
        }
        let clip = EntityDescription("Clip", attributes: [AttributeDescription("rank", .int, isIndexed: true)])
        var count: UInt64 = 0
        for reading in [Store.Reading.mapped, .copied] {
            var options = Store.Options()
            options.durability = .relaxed
            options.reading = reading
            for _ in 1...3 {
                let store = try Store(at: path, entities: [clip], options: options)
                try store.writeOptimistically { try $0.insert("Clip", ["rank": 1]) }
                _ = try store.compact()
                count += 1
                guard try store.snapshot().count(of: "Clip") == count else { throw Wrong("a clip is missing") }
                try store.close()
            }
        }
    }

    private static func addressesInUse() throws -> UInt64 {
        guard let file = fopen("/proc/self/statm", "r") else { throw Wrong("/proc is not there") }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 200)
        guard fgets(&line, Int32(line.count), file) != nil else { throw Wrong("/proc/self/statm is empty") }
        let pages = line.prefix { $0 != 0x20 && $0 != 0 }.map { UInt8(bitPattern: $0) }
        guard let pages = UInt64(String(decoding: pages, as: UTF8.self)) else {
            throw Wrong("statm begins with no number")
        }
        return pages * 4096
    }
}
