// Row layouts that a store's handle has met, so that a definition has the same one in every file that takes the store's
// place.

internal import Synchronization

/// Gives equal definitions the same layout: its holder goes on with it when compaction has put another file in the
/// store's place. Grows with the definitions that the store has had.
package final class LayoutPool: Sendable {
    private struct Known {
        let hash: Int
        let layout: RowLayout
    }

    /// By entity number. An entity may have many definitions that differ in little: their hashes are compared first.
    private let layouts = Guarded<[[Known]]>([])
    /// Of the store; 0 before it is known.
    private let mark = Atomic<UInt32>(0)

    package init() {}

    /// Says which store the layouts are of. The first call counts: a copy with another identity, which the handle of a
    /// store writes, has the same layouts.
    func belong(to store: UUIDBytes) { _ = mark.compareExchange(expected: 0, desired: store.mark, ordering: .relaxed) }

    func layout(_ definition: EntityDefinition, after earlier: RowLayout?) -> RowLayout {
        layouts.withLock { layouts in
            let number = Int(definition.number)
            if number >= layouts.count { layouts += repeatElement([], count: number + 1 - layouts.count) }
            let hash = definition.hashValue
            for known in layouts[number] where known.hash == hash && known.layout.entity == definition {
                return known.layout
            }
            let layout = RowLayout(definition, after: earlier, mark: mark.load(ordering: .relaxed))
            layouts[number].append(Known(hash: hash, layout: layout))
            return layout
        }
    }
}
