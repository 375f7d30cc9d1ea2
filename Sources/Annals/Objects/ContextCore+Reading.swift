// An object's values: in a state of the store, and under the changes that are being saved.

internal import FoundationEssentials

extension ContextCore {
    /// The properties of an object, for it to show; nil if it cannot be read, which is noted.
    func value<E: Entity>(_ reference: Reference<E>) -> E? {
        var value = E()
        return read(reference, into: &value) ? value : nil
    }

    /// An object's properties in a state, under the overlay of a save.
    func value<E: Entity>(_ reference: Reference<E>, in state: Snapshot) throws(StoreError) -> E? {
        let sent = inFlight.flatMap { $0.isContained(in: state) ? nil : $0.objects[reference.id] }
        guard let sent, let sent = E.model.cast(sent, to: E.self) else { return try state.value(reference) }
        return sent.overlay(reference.id.isTemporary ? nil : try state.value(reference))
    }

    /// The same for an object that is going to show it. BS4: the overlay is then relative to that state.
    func valueToShow<E: Entity>(_ reference: Reference<E>, in state: Snapshot) throws(StoreError) -> E? {
        if let stored = try valueUnderSave(reference, in: state) {
            if let sent = inFlight?.objects[reference.id] { E.model.cast(sent, to: E.self)?.rebase(on: stored) }
        }
        return try value(reference, in: state)
    }

    /// The same in the state of the context. If it cannot be read, the error is noted.
    func valueToShow<E: Entity>(_ reference: Reference<E>) -> E? {
        do throws(StoreError) { return try valueToShow(reference, in: snapshot) } catch { note(error) }
        return value(reference)
    }

    /// The value in a state, under the changes that are being saved; nil if none lie over it.
    func valueUnderSave<E: Entity>(_ reference: Reference<E>, in state: Snapshot) throws(StoreError) -> E? {
        guard let inFlight, inFlight.objects[reference.id] != nil, !reference.id.isTemporary,
            !inFlight.isContained(in: state)
        else { return nil }
        return try state.value(reference)
    }

    /// Whether an object is in a state, or is being saved.
    func has<E: Entity>(_ reference: Reference<E>, in state: Snapshot) throws(StoreError) -> Bool {
        if inFlight?.objects[reference.id] != nil { return try value(reference, in: state) != nil }
        return try state.has(reference)
    }

    /// The store's value of an object, in the context's snapshot. Notes an error of reading.
    func storedValue<E: Entity>(of object: Object<E>) -> E? {
        do throws(StoreError) { return try snapshot.value(object.reference) } catch { note(error) }
        return nil
    }
}
