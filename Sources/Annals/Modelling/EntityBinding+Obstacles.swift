// All reasons why a value of a program's type cannot be stored. Writing it meets only the first reason.

extension EntityBinding {
    /// The reasons for which properties of the value at an address cannot be stored, each with the property's name: all
    /// properties, or those at these places in values.
    func obstacles(_ value: UnsafeRawPointer, at offsets: [Int]?, _ layout: RowLayout) -> [StoreError] {
        let indexed = Set(IndexID.all(of: layout.entity).flatMap(\.attributes))
        var found: [StoreError] = []
        for index in properties.indices where offsets?.contains(properties[index].offset) != false {
            let (name, position) = (properties[index].name, position(of: index))
            do throws(StoreError) {
                let stored = try self.value(of: value, index).storedValue()
                if stored == .absent {
                    if layout.slots[position].isOptional, !isRequired(at: position) { continue }
                    throw .required(name, of: model.name)
                }
                if indexed.contains(layout.entity.attributes[position].number), stored.isTooLongForAnIndex {
                    throw IndexShape.tooLarge([name], of: model.name)
                }
            } catch {
                found.append(error)
            }
        }
        return found
    }
}

extension StoredValue {
    fileprivate var isTooLongForAnIndex: Bool {
        switch self {
        case .string(let text), .json(let text): text.utf8.count > FormatLimits.maximumInlineValueBytes
        case .data(let bytes): bytes.count > FormatLimits.maximumInlineValueBytes
        default: false
        }
    }
}
