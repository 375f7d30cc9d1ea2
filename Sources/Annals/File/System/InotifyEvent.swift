// Decodes the kernel's events about watched files and directories.

/// One event of inotify.
package struct InotifyEvent: Equatable, Sendable {
    package var watch: Int32
    package var mask: UInt32
    /// The name within a watched directory; empty if the event is about the watched thing itself.
    package var name: [UInt8]

    package init(watch: Int32, mask: UInt32, name: [UInt8] = []) {
        (self.watch, self.mask, self.name) = (watch, mask, name)
    }
}

extension InotifyEvent {
    /// Bits of `mask`, which are Linux's own numbers.
    package enum Mask {
        package static let modified: UInt32 = 0x2
        package static let movedFrom: UInt32 = 0x40
        package static let movedTo: UInt32 = 0x80
        package static let created: UInt32 = 0x100
        package static let deleted: UInt32 = 0x200
        package static let deletedItself: UInt32 = 0x400
        package static let movedItself: UInt32 = 0x800
        package static let unmounted: UInt32 = 0x2000
        package static let overflow: UInt32 = 0x4000
        /// The kernel has dropped the watch.
        package static let ignored: UInt32 = 0x8000
        /// Watch only if it is a directory.
        package static let onlyDirectory: UInt32 = 0x0100_0000
        /// Watch the symbolic link itself.
        package static let doNotFollow: UInt32 = 0x0200_0000
    }

    /// watch, mask, cookie and length of the name, four bytes each.
    package static let headerBytes = 16

    /// The events in a buffer that `read` filled.
    ///
    /// - Returns: also whether the bytes ended with a whole event. The kernel returns only whole events; otherwise
    ///   something was missed, and the caller treats that as an overflow.
    package static func parse(_ bytes: ArraySlice<UInt8>) -> (events: [InotifyEvent], isComplete: Bool) {
        var events: [InotifyEvent] = []
        var rest = bytes
        while rest.count >= headerBytes {
            let nameBytes = Int(word(rest, at: 12))
            let afterHeader = rest.dropFirst(headerBytes)
            // Compared with the remaining count, so that no length can point outside or overflow a sum.
            guard nameBytes <= afterHeader.count else { return (events, false) }
            let name = afterHeader.prefix(nameBytes).prefix { $0 != 0 }
            events.append(
                InotifyEvent(watch: Int32(bitPattern: word(rest, at: 0)), mask: word(rest, at: 4), name: Array(name)))
            rest = afterHeader.dropFirst(nameBytes)
        }
        return (events, rest.isEmpty)
    }

    /// A number in the machine's byte order; the caller knows that four bytes are there.
    private static func word(_ bytes: ArraySlice<UInt8>, at offset: Int) -> UInt32 {
        let start = bytes.startIndex + offset
        var native: UInt32 = 0
        withUnsafeMutableBytes(of: &native) { $0.copyBytes(from: bytes[start..<start + 4]) }
        return native
    }
}
