// A set of references in an object takes objects, as a list does.

extension Set {
    /// Adds a reference to an object: `clip.labels.insert(label)`.
    @discardableResult
    public mutating func insert<E: Entity>(
        _ object: Object<E>
    ) -> (inserted: Bool, memberAfterInsert: Element) where Element == Reference<E> { insert(object.objectReference) }

    /// Removes the reference to an object. Returns it; nil if the set does not have it.
    @discardableResult
    public mutating func remove<E: Entity>(_ object: Object<E>) -> Element? where Element == Reference<E> {
        remove(object.objectReference)
    }
}
