// Row layouts that a store's handle has met, so that a definition has the same one in every file that takes the store's place.

internal import Synchronization

/// Gives equal definitions the same layout: who holds one goes on with it when compaction has put another file in the store's place. Grows with the
/// definitions that the store has had.
package final class LayoutPool: Sendable {
    private let layouts = Mutex<[EntityDefinition: RowLayout]>([:])

    package init() {}

    func layout(_ definition: EntityDefinition, after earlier: RowLayout?) -> RowLayout {
        layouts.withLock { layouts in
            if let layout = layouts[definition] { return layout }
            let layout = RowLayout(definition, after: earlier)
            layouts[definition] = layout
            return layout
        }
    }
}
