// A large range of zeroed addresses that belongs to one owner.

/// Memory that is allocated page by page when it is touched, and freed with its owner.
///
/// Sound although it is shared: the range never changes, and code that writes documents how it excludes readers.
package final class PrivateMemory: @unchecked Sendable {
    package let bytes: UnsafeMutableRawBufferPointer

    /// Nil if the process has not enough free addresses.
    package init?(count: Int) {
        guard let memory = SystemCalls.reserveMemory(count) else { return nil }
        bytes = memory
    }

    deinit { SystemCalls.releaseMemory(bytes) }

    /// Fills the range with zeros. Requires that no thread reads it.
    package func clear() { SystemCalls.clearMemory(bytes) }
}
