// A state that contexts move to later, as those of a tracker do at the end of a round.

import Annals
import TestSupport

/// A state of a store, with what is known of the objects that changed on the way to it.
struct EarlierState {
    private let snapshot: Snapshot
    private var changed = ChangedObjects()

    /// Takes the newest state. Reads history from a random place, or not at all.
    init(_ store: Store, using random: inout SeededRandom) throws {
        snapshot = try store.snapshot()
        let number = snapshot.token.number
        let start =
            Bool.random(using: &random) ? number - min(number, 8) : UInt64.random(in: 0...number, using: &random)
        guard Int.random(in: 0..<4, using: &random) > 0 else { return }
        let request = HistoryRequest(after: .number(start), authors: [])
        try store.forEachTransaction(request, in: snapshot, noting: &changed) { _ in true }
    }

    func merge(_ context: Context) throws {
        let before = try context.token
        let after = try context.merge(to: snapshot, changed: changed)
        if after < before { throw OracleDifference("the context moved back from \(before.number) to \(after.number)") }
        if after < snapshot.token { throw OracleDifference("the context is before the state that it was moved to") }
    }
}
