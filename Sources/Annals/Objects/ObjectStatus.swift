// Everything about an object that is not one of its properties, below one name.

/// The facts about an object of a context beside its properties: `clip.objectStatus.changedValues`.
public struct ObjectStatus<E: Entity> {
    private let object: Object<E>

    init(_ object: Object<E>) { self.object = object }

    /// Whether it is new in the context, and not saved yet. Then its reference has a meaning in its context only.
    public var isInserted: Bool { object.phase == .inserted }
    /// Whether it is in the store, and has properties that are not saved.
    public var isChanged: Bool { object.phase == .stored && object.hasChanges }
    /// Whether it is deleted in the context, and not saved yet.
    public var isDeleted: Bool { object.phase == .deleted }
    /// Whether it was deleted in the store, or never saved. Its properties keep their last values.
    public var isGone: Bool { object.phase == .gone }
    /// Whether anything is unsaved.
    public var hasChanges: Bool { object.hasChanges }

    /// The properties as they are shown, as a value that you can send elsewhere.
    public var snapshot: E { object.current }
    /// The unsaved properties as they are shown, by name; all of an inserted object.
    public var changedValues: [String: Value] { values(in: object.current) }
    /// The same properties as they are saved. Empty for an inserted object.
    public var savedValues: [String: Value] {
        object.phase == .inserted ? [:] : values(in: object.saved?.value ?? object.current)
    }

    private func values(in value: E) -> [String: Value] {
        let model = E.model
        var slots: [Int] = []
        switch object.phase {
        case .inserted: slots = Array(model.properties.indices)
        case .stored: if let saved = object.saved { slots = model.differences(saved.value, object.current) }
        case .deleted, .gone: break
        }
        return Dictionary(
            uniqueKeysWithValues: slots.map { (model.properties[$0].name, model.value(at: $0, in: value) ?? .null) })
    }
}

extension Object {
    /// The facts about the object beside its properties.
    public var objectStatus: ObjectStatus<E> { ObjectStatus(self) }
}
