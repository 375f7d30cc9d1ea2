// Changing a property of an object in place: a list grows without being copied.
//
// Invariants:
// OP1  While a property is being changed in place, its value is not in the object, which has an initial value there.
//      Reading the property, or the object as a whole, stops the program, as overlapping accesses to a struct do. All
//      other properties can be read and set.

/// A property of one object that is being changed in place.
struct PropertyInUse {
    fileprivate let object: ObjectIdentifier
    fileprivate let property: EntityModel.Property
    fileprivate let entity: String

    fileprivate var problem: String {
        "“\(property.name)” of “\(entity)” is used while it is being changed in place: copy it to a variable, change "
            + "that, and set the property."
    }

    /// Whether it is at an offset in a value of the object; nil is every offset.
    fileprivate func isMet(by other: ObjectIdentifier, at offset: Int?) -> Bool {
        guard object == other else { return false }
        guard let offset else { return true }
        return offset >= property.offset && offset < property.offset + property.size
    }
}

/// One change in place.
struct ChangeInPlace<V> {
    var value: V
    /// The property's slot, if the object does not have its value meanwhile.
    fileprivate var slot: Int?
}

extension Object {
    /// Takes the value of a property to be changed.
    func beginChange<V>(_ path: WritableKeyPath<E, V>) -> ChangeInPlace<V> {
        let change = ChangeInPlace(value: read(path))
        let model = E.model
        guard let offset = MemoryLayout<E>.offset(of: path) else { return change }
        let slot = model.slot(at: offset)
        guard slot < model.properties.count, model.ownsMemory(slot), source.willEdit(self) else { return change }
        willChange([slot])
        source.inUse.append(
            PropertyInUse(object: ObjectIdentifier(self), property: model.properties[slot], entity: model.name))
        let initial = E()[keyPath: path]
        loaded?[keyPath: path] = initial
        return ChangeInPlace(value: change.value, slot: slot)
    }

    /// Gives the object the changed value.
    func endChange<V>(_ change: consuming ChangeInPlace<V>, _ path: WritableKeyPath<E, V>) {
        let offset = MemoryLayout<E>.offset(of: path)
        guard let slot = change.slot else {
            let value = change.value
            return edit(at: offset) { $0[keyPath: path] = value }
        }
        source.inUse.removeAll { $0.isMet(by: ObjectIdentifier(self), at: offset) }
        loaded?[keyPath: path] = change.value
        didChange([slot])
        source.noteEdited(self, slot)
    }

    /// The properties as they are shown, to read or change what is at an offset; nil for everything.
    func shown(at offset: Int?) -> E {
        if !source.inUse.isEmpty { requireFree(at: offset) }
        return loaded ?? load()
    }

    /// The properties, if they were read.
    var loadedWhole: E? {
        if !source.inUse.isEmpty { requireFree(at: nil) }
        return loaded
    }

    /// OP1: stops the program if what is at an offset is being changed in place.
    func requireFree(at offset: Int?) {
        let used = source.inUse.first { $0.isMet(by: ObjectIdentifier(self), at: offset) }
        precondition(used == nil, used?.problem ?? "")
    }
}

extension EntityModel {
    /// Whether the values of a property may have memory of their own. References are compared with those before.
    fileprivate func ownsMemory(_ slot: Int) -> Bool {
        switch places[slot].comparison {
        case .bytes, .optionalReference: false
        case .text, .optionalText: true
        case .stored: properties[slot].codec.target == nil
        }
    }
}
