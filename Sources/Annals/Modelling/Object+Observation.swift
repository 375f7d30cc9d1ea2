// Observing objects, property by property.
//
// Invariants:
// OO1  An object has no registrar before its first observer: objects without observers cost nothing for it.
// OO2  The context keeps an object alive while an observer has read it, even without another owner. Otherwise the
//      observer would miss changes. An observation holds its key paths, and releases them after a change or at its end.
//      So the object has an observer as long as its own key path `mark` lives.

internal import FoundationEssentials
public import Observation

extension Object: Observable {
    /// A property's value in key paths: only its identity counts.
    struct ObservedSlot {}

    /// The property at a slot of the model (`EntityModel.slot(at:)`).
    subscript(slot index: Int) -> ObservedSlot { ObservedSlot() }

    /// The key path for a slot. They are made once for each type: making one takes microseconds.
    static func path(ofSlot slot: Int, _ model: EntityModel) -> KeyPath<Object<E>, ObservedSlot> {
        // The model's builder has made them for this type.
        unsafeDowncast(model.slotPaths[slot] as AnyKeyPath, to: KeyPath<Object<E>, ObservedSlot>.self)
    }

    /// Records an observed read of the part at `offset` of the value; nil means the whole value.
    @inline(never)
    func noteAccess(at offset: Int?) {
        let model = E.model
        let registrar = self.registrar ?? ObjectRegistrar()
        self.registrar = registrar
        let slot = model.slot(at: offset)
        if slot >= model.properties.count, slot < model.wholeSlot { source.noteObservedSide(reference.id) }
        registrar.observation.access(self, keyPath: Self.path(ofSlot: slot, model))
        let isFirst = !registrar.isObserved
        registrar.observation.access(self, keyPath: registrar.mark(self))
        if isFirst { source.noteObserved(ObservedObject(object: self, registrar: registrar)) }
    }

    /// Notifies observers of these slots before a change.
    func willChange(_ slots: [Int]) {
        guard let registrar else { return }
        let model = E.model
        for slot in slots { registrar.observation.willSet(self, keyPath: Self.path(ofSlot: slot, model)) }
        registrar.observation.willSet(self, keyPath: Self.path(ofSlot: model.wholeSlot, model))
    }

    /// Notifies observers of these slots after a change.
    func didChange(_ slots: [Int]) {
        guard let registrar else { return }
        let model = E.model
        for slot in slots { registrar.observation.didSet(self, keyPath: Self.path(ofSlot: slot, model)) }
        registrar.observation.didSet(self, keyPath: Self.path(ofSlot: model.wholeSlot, model))
    }
}

/// Notifies the observers of an object.
final class ObjectRegistrar {
    let observation = ObservationRegistrar()
    private weak var mark: AnyKeyPath?

    /// OO2: whether an observer has read the object and has had no notification since.
    var isObserved: Bool { mark != nil }

    /// The key path that lives as long as an observer does. Made again without an observer.
    func mark<E: Entity>(_ object: Object<E>) -> KeyPath<Object<E>, Object<E>.ObservedSlot> {
        if let mark { return unsafeDowncast(mark, to: KeyPath<Object<E>, Object<E>.ObservedSlot>.self) }
        let slot = -1
        let path = \Object<E>.[slot: slot]
        mark = path
        return path
    }
}

/// An object that is kept while it is observed.
struct ObservedObject {
    let object: AnyObject
    let registrar: ObjectRegistrar
}

extension EntityModel {
    /// Properties, then the other sides of relationships, then the slot for everything together.
    var wholeSlot: Int { properties.count + otherSides.count }

    /// The slot of the part at an offset in a value; `wholeSlot` if that is no single property.
    func slot(at offset: Int?) -> Int {
        guard let offset else { return wholeSlot }
        for (slot, property) in properties.enumerated()
        where offset >= property.offset && offset < property.offset + property.size {
            return slot
        }
        for (index, side) in otherSides.enumerated() where side.offset == offset { return properties.count + index }
        return wholeSlot
    }
}

/// Finds out whether the current read is observed.
///
/// While accesses are tracked, a registrar puts key paths into a set, and so computes their hash. The hash of a key
/// path with an argument calls that of the argument.
final class TrackingProbe: Observable {
    private final class Mark { var isSet = false }

    private struct Argument: Hashable {
        let mark: Mark

        static func == (left: Argument, right: Argument) -> Bool { left.mark === right.mark }

        func hash(into hasher: inout Hasher) {
            mark.isSet = true
            hasher.combine(ObjectIdentifier(mark))
        }
    }

    private let registrar = ObservationRegistrar()
    private let mark: Mark
    private let path: KeyPath<TrackingProbe, Bool>

    init() {
        let mark = Mark()
        let argument = Argument(mark: mark)
        self.mark = mark
        path = \TrackingProbe.[argument]
    }

    private subscript(argument: Argument) -> Bool { argument.mark.isSet }

    /// Whether the calling code runs under observation tracking. Some 15 ns.
    var isTracking: Bool {
        mark.isSet = false
        registrar.access(self, keyPath: path)
        return mark.isSet
    }
}
