// A thread closes the store while a context saves in the background: the transaction is written or reported.

import Annals
import FoundationEssentials
import TestSupport
import Testing

private struct Memo: Entity {
    var text = ""
}

@Suite struct ClosingBesideSaveTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    /// The moments in which the thread closes the store are spread over the whole save, by a wait that grows.
    @MainActor @Test func aSaveBesideAClosingThreadIsWrittenOrThrows() async throws {
        // How many are written depends on the machine.
        var written: Set<String> = []
        for round in 0..<400 {
            let store = try Store(at: folder.path, entities: [Memo.self])
            let context = store.makeContext()
            let text = "\(round)"
            context.insert(Memo(text: text))
            let save = Task { try await context.saveInBackground() }
            let closer = try BackgroundThread(name: "closes") {
                let begin = ContinuousClock.now
                while begin.duration(to: .now) < .microseconds(3 * round) {}
                try? store.close()
            }
            do {
                _ = try await save.value
                written.insert(text)
            } catch let error as StoreError {
                #expect(error.code == .closed, "\(error)")
            }
            closer.join()
            context.close()
        }
        let store = try Store(at: folder.path, entities: [Memo.self])
        let found = Set(try store.snapshot().fetch(Memo.self).map(\.text))
        #expect(found == written, "Only these were written without an error: \(found.symmetricDifference(written))")
        try store.close()
        try folder.expectIntact()
    }
}
