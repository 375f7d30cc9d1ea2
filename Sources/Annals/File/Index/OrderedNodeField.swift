// The layout of a node of an ordered index: the constants of its format, and nothing else.

/// Offsets of the fields of a node's header. Slots follow, one for each entry, ascending; entries fill the node from
/// its end.
///
/// All integers are little-endian, except a slot's head.
package enum OrderedNodeField {
    /// u16: 0 in a leaf, one more than its children's in an inner node.
    package static let level = 0
    /// u16: the number of slots, at least 1.
    package static let count = 2
    /// u16: the total size of all entries.
    package static let entryBytes = 4
    /// u16: the offset of the lowest entry. In the file, only zeros are between the slots and it.
    package static let lowestEntry = 6
    /// u16: the size of the common prefix of all keys of the node (in an inner node, of all but the first key, which is
    /// empty).
    package static let prefixBytes = 8
    /// Zeros.
    package static let zero = 10
    package static let bytes = 16
}

/// Offsets of the fields of a slot. In the file, entries lie one below the other in the order of their slots.
package enum OrderedSlotField {
    /// u32, big-endian: the four bytes of the key after the common prefix, with zeros if it is shorter.
    package static let head = 0
    /// u16: the offset of the entry in the node.
    package static let entry = 4
    /// u16
    package static let keyBytes = 6
    package static let bytes = 8
}

/// Offsets of the fields of an entry; the key follows.
///
/// The key and the object of an inner node's entry separate: entries below its child are not less, and entries below
/// the previous child are less. The first entry of an inner node has an empty key and object 0, and separates nothing.
package enum OrderedEntryField {
    /// u64: the object ID; in an inner node any number.
    package static let object = 0
    /// u64, only in inner nodes: the offset of the child.
    package static let child = 8
    package static let leafBytes = 8
    package static let innerBytes = 16
}

/// Limits of a node.
package enum OrderedLimits {
    package static let nodeBytes = 4096
    package static let maximumKeyBytes = 256
    /// A tree gets this high only after more operations than object numbers exist: every level takes at least six times
    /// as many splits as the one above it.
    package static let maximumLevel = 19
    package static let maximumSlots = (nodeBytes - OrderedNodeField.bytes) / OrderedSlotField.bytes
}
