// Observing objects, property by property.
//
// Invariants:
// OO1  An object has no registrar before somebody observes it: objects that nobody observes cost nothing for it.
// OO2  The context keeps an object alive while an observer has read it, also if nobody else holds it. Otherwise the
//      observer would not be told. An observation holds its key paths, and releases them when it is told or ends. So
//      the object has an observer as long as its own key path `mark` lives.

internal import FoundationEssentials
public import Observation

extension Object: Observable {
    /// What stands for a property in key paths: only its identity counts.
    struct ObservedSlot {}

    /// The property at a slot of the model (`EntityModel.slot(at:)`).
    subscript(slot index: Int) -> ObservedSlot { ObservedSlot() }

    /// The key path that stands for a slot. They are made once for each type: making one takes microseconds.
    static func path(ofSlot slot: Int, _ model: EntityModel) -> KeyPath<Object<E>, ObservedSlot> {
        // The model's builder has made them for this type.
        unsafeDowncast(model.slotPaths[slot] as AnyKeyPath, to: KeyPath<Object<E>, ObservedSlot>.self)
    }

    /// Somebody who observes has read what is at an offset in the value; nil if it may be anything.
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

    /// Tells those who observe one of these slots that they are about to change.
    func willChange(_ slots: [Int]) {
        guard let registrar else { return }
        let model = E.model
        for slot in slots { registrar.observation.willSet(self, keyPath: Self.path(ofSlot: slot, model)) }
        registrar.observation.willSet(self, keyPath: Self.path(ofSlot: model.wholeSlot, model))
    }

    /// Tells those who observe one of these slots that they have changed.
    func didChange(_ slots: [Int]) {
        guard let registrar else { return }
        let model = E.model
        for slot in slots { registrar.observation.didSet(self, keyPath: Self.path(ofSlot: slot, model)) }
        registrar.observation.didSet(self, keyPath: Self.path(ofSlot: model.wholeSlot, model))
    }
}

/// Tells those who observe an object.
final class ObjectRegistrar {
    let observation = ObservationRegistrar()
    private weak var mark: AnyKeyPath?

    /// OO2: whether an observer has read the object and was not told of a change yet.
    var isObserved: Bool { mark != nil }

    /// The key path whose life says that there is an observer. Made again if there is none.
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

    /// The slot of what is at an offset in a value; `wholeSlot` if that is no single property.
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

/// Finds out whether somebody observes what is being read.
///
/// While accesses are tracked, a registrar keeps the key paths that it is given in a set, and so asks them for their
/// hash. A key path with an argument asks the argument.
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

    /// Whether the calling code is run by somebody who observes what it reads. Some 15 ns.
    var isTracking: Bool {
        mark.isSet = false
        registrar.access(self, keyPath: path)
        return mark.isSet
    }
}
