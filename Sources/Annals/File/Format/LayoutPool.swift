// Row layouts that a store's handle has met, so that a definition has the same one in every file that takes the store's
// place.

/// Gives equal definitions of one store the same layout: its holder keeps using it after compaction has replaced the
/// file. Grows with the store's definitions, past ones included.
package final class LayoutPool: Sendable {
    /// A class, like `Met`: arrays of objects need no array type of their own (`SmallTables`).
    private final class Known: Sendable {
        let hash: Int
        let layout: RowLayout

        init(hash: Int, _ layout: RowLayout) { (self.hash, self.layout) = (hash, layout) }
    }

    /// The layouts of one entity that the handle has met.
    ///
    /// Sound although it is shared: it is touched only with the lock of `state`.
    private final class Met: @unchecked Sendable {
        var layouts: [Known] = []
    }

    private struct State {
        var entities: [Met] = []
        /// At index n: the index in `entities` of the entity with number n, plus 1; 0 before its first layout.
        var places: [UInt16] = []
    }

    private let state = Guarded(State())

    package init() {}

    /// A handle may meet layouts of several stores: it writes copies with another identity, and it discards a file that
    /// it created if another process was faster.
    func layout(_ definition: EntityDefinition, after earlier: RowLayout?, mark: UInt32) -> RowLayout {
        state.withLock { state in
            let number = Int(definition.number)
            if number >= state.places.count {
                state.places += repeatElement(0, count: number + 1 - state.places.count)
            }
            if state.places[number] == 0 {
                state.entities.append(Met())
                state.places[number] = UInt16(state.entities.count)
            }
            let entity = state.entities[Int(state.places[number]) - 1]
            // An entity may have many definitions with small differences: their hashes are compared first.
            let hash = definition.hashValue
            for known in entity.layouts
            where known.hash == hash && known.layout.storeMark == mark && known.layout.entity == definition {
                return known.layout
            }
            let layout = RowLayout(definition, after: earlier, mark: mark)
            entity.layouts.append(Known(hash: hash, layout))
            return layout
        }
    }
}
