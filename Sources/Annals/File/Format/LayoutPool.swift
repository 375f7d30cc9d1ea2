// Row layouts that a store's handle has met, so that a definition has the same one in every file that takes the store's
// place.

/// Gives equal definitions of one store the same layout: its holder keeps using it after compaction has replaced the
/// file. Grows with the store's definitions, past ones included.
package final class LayoutPool: Sendable {
    private struct Known {
        let hash: Int
        let layout: RowLayout
    }

    /// By entity number. An entity may have many definitions with small differences: their hashes are compared first.
    private let layouts = Guarded<[[Known]]>([])

    package init() {}

    /// A handle may meet layouts of several stores: it writes copies with another identity, and it discards a file that
    /// it created if another process was faster.
    func layout(_ definition: EntityDefinition, after earlier: RowLayout?, mark: UInt32) -> RowLayout {
        layouts.withLock { layouts in
            let number = Int(definition.number)
            if number >= layouts.count { layouts += repeatElement([], count: number + 1 - layouts.count) }
            let hash = definition.hashValue
            for known in layouts[number]
            where known.hash == hash && known.layout.storeMark == mark && known.layout.entity == definition {
                return known.layout
            }
            let layout = RowLayout(definition, after: earlier, mark: mark)
            layouts[number].append(Known(hash: hash, layout: layout))
            return layout
        }
    }
}
