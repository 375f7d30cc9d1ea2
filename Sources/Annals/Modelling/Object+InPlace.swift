// Changing a property of an object in place: a list grows without being copied.
//
// Invariants:
// OP1  While a property is being changed in place, reading or setting it stops the program, as overlapping accesses to
//      a struct do. So does a merge that changes the object: otherwise the change would overwrite merged values.
// OP2  During the change, the object has an initial value instead of a value with memory of its own. Reading the object
//      as a whole stops the program, too. All other properties can be read and set.
// OP3  Changes that move a context by itself wait until no property is being changed in place.

/// A property of one object that is being changed in place.
struct PropertyInUse {
    fileprivate let object: ObjectIdentifier
    fileprivate let property: EntityModel.Property
    fileprivate let entity: String
    /// OP2: whether the object does not have its value.
    fileprivate let isMoved: Bool

    fileprivate var problem: String {
        "“\(property.name)” of “\(entity)” is used while it is changed in place: copy it to a variable, change the "
            + "variable, and set the property."
    }

    /// Whether it is at an offset in a value of the object. Nil is the value as a whole.
    fileprivate func isMet(by other: ObjectIdentifier, at offset: Int?) -> Bool {
        guard object == other else { return false }
        guard let offset else { return isMoved }
        return offset >= property.offset && offset < property.offset + property.size
    }
}

/// One change in place.
struct ChangeInPlace<V> {
    var value: V
    /// The property's slot, if the object lacks its value during the change.
    fileprivate var movedSlot: Int?
    /// Whether it is noted in `inUse`.
    fileprivate var isNoted = false
}

extension Object {
    /// Takes the value of a property to be changed.
    func beginChange<V>(_ path: WritableKeyPath<E, V>) -> ChangeInPlace<V> {
        var change = ChangeInPlace(value: read(path))
        let model = E.model
        guard let offset = MemoryLayout<E>.offset(of: path) else { return change }
        let slot = model.slot(at: offset)
        guard slot < model.properties.count, source.willEdit(self) else { return change }
        let isMoved = model.ownsMemory(slot)
        if isMoved { willChange([slot]) }
        source.inUse.append(
            PropertyInUse(
                object: ObjectIdentifier(self), property: model.properties[slot], entity: model.name, isMoved: isMoved))
        change.isNoted = true
        guard isMoved else { return change }
        let initial = E()[keyPath: path]
        content[keyPath: path] = initial
        change.movedSlot = slot
        return change
    }

    /// Gives the object the changed value.
    func endChange<V>(_ change: consuming ChangeInPlace<V>, _ path: WritableKeyPath<E, V>) {
        let offset = MemoryLayout<E>.offset(of: path)
        if change.isNoted { source.inUse.removeAll { $0.isMet(by: ObjectIdentifier(self), at: offset) } }
        if let slot = change.movedSlot {
            content[keyPath: path] = change.value
            didChange([slot])
            source.noteEdited(self, slot)
        } else {
            let value = change.value
            edit(at: offset) { $0[keyPath: path] = value }
        }
        if source.inUse.isEmpty, !source.waitingUntilFree.isEmpty { source.resumeWaiting() }
    }

    /// OP1: stops the program if a property of the object is being changed in place.
    func requireUnused() {
        let used = source.inUse.first { $0.object == ObjectIdentifier(self) }
        precondition(used == nil, used?.problem ?? "")
    }

    /// The shown properties, for reading or changing the part at an offset; nil for all of it.
    func shown(at offset: Int?) -> E {
        if !source.inUse.isEmpty { requireFree(at: offset) }
        if !isLoaded, !load() { return E() }
        return content
    }

    /// The properties, if they were read.
    var loadedWhole: E? {
        if !source.inUse.isEmpty { requireFree(at: nil) }
        return isLoaded ? content : nil
    }

    /// OP1: stops the program if the part at an offset is being changed in place.
    func requireFree(at offset: Int?) {
        let used = source.inUse.first { $0.isMet(by: ObjectIdentifier(self), at: offset) }
        precondition(used == nil, used?.problem ?? "")
    }
}

extension ObjectSource {
    /// OP3: returns when nothing is being changed in place.
    func untilFree(isolation: isolated any Actor = #isolation) async {
        while !inUse.isEmpty {
            await withCheckedContinuation(isolation: isolation) { waitingUntilFree.append($0) }
        }
    }

    fileprivate func resumeWaiting() {
        let waiting = waitingUntilFree
        waitingUntilFree = []
        for continuation in waiting { continuation.resume() }
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
