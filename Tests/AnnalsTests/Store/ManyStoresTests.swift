// Many stores that are open at once in one process, as in a service with one for each of its users.

import Annals
import Glibc
import TestSupport
import Testing

@Suite struct ManyStoresTests {
    @Test func aProcessCanHaveManyStoresOpen() throws {
        let folder = try TemporaryDirectory()
        var options = Store.Options()
        options.durability = .relaxed
        let stores = try (1...220).map { number in
            options.reading = number.isMultiple(of: 2) ? .mapped : .copied
            let store = try Store(at: folder.path("\(number).annals"), entities: [SampleClip.self], options: options)
            try store.write { try $0.insert(SampleClip(url: "\(number)")) }
            return store
        }
        // Most addresses are left to the program.
        let memory = try #require(mmap(nil, 1 << 40, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))
        #expect(memory != MAP_FAILED)
        munmap(memory, 1 << 40)
        for (number, store) in zip(1..., stores) {
            #expect(try store.snapshot().fetch(SampleClip.self).map(\.url) == ["\(number)"])
            try store.close()
            try expectIntact(store.path)
        }
    }
}
