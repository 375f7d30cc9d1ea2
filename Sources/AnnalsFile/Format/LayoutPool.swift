// Row layouts that a store's handle has met, so that a definition has the same one in every file that takes the store's place.

internal import Synchronization

/// Gives equal definitions the same layout: who holds one goes on with it when compaction has put another file in the store's place. Grows with the
/// definitions that the store has had.
package final class LayoutPool: Sendable {
    /// By entity number.
    private let layouts = Mutex<[[RowLayout]]>([])

    package init() {}

    func layout(_ definition: EntityDefinition, after earlier: RowLayout?) -> RowLayout {
        layouts.withLock { layouts in
            let number = Int(definition.number)
            if number >= layouts.count { layouts += repeatElement([], count: number + 1 - layouts.count) }
            if let layout = layouts[number].first(where: { $0.entity == definition }) { return layout }
            let layout = RowLayout(definition, after: earlier)
            layouts[number].append(layout)
            return layout
        }
    }
}
