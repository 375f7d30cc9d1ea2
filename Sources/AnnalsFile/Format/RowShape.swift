// A layout as those refer to it who look at millions of rows: by addresses, without counting references.

/// Valid as long as its layout lives: the caller's promise. Catalogs keep their layouts, so whoever holds the catalog keeps it.
struct RowShape {
    let layout: Unmanaged<RowLayout>
    let family: ObjectIdentifier
    private let slots: UnsafePointer<RowLayout.Slot>
    private let variables: UnsafePointer<UInt16>
    let count: Int
    let variableCount: Int
    let presenceOffset: Int
    let variableOffset: Int
    /// Whether an attribute has a default value.
    let hasDefaults: Bool

    init(_ layout: RowLayout) {
        self.layout = .passUnretained(layout)
        family = layout.family
        slots = UnsafePointer(layout.slotMemory)
        variables = UnsafePointer(layout.variableMemory)
        count = layout.count
        variableCount = layout.variables.count
        presenceOffset = layout.presenceOffset
        variableOffset = layout.variableOffset
        hasDefaults = layout.hasDefaults
    }

    @inline(__always)
    func slot(_ position: Int) -> RowLayout.Slot {
        precondition(position >= 0 && position < count, "The entity has no attribute at that position.")
        return slots[position]
    }

    /// The position of a variable attribute.
    @inline(__always)
    func variable(_ index: Int) -> Int {
        precondition(index >= 0 && index < variableCount, "The entity has not so many variable attributes.")
        return Int(variables[index])
    }
}
