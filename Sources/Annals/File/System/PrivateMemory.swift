// A large range of zeroed addresses that belongs to one owner.

/// Memory that is used only if it is touched, and freed with its owner.
///
/// Sound although it is shared: the range never changes; the code that writes into it says how readers are kept out.
package final class PrivateMemory: @unchecked Sendable {
    package let bytes: UnsafeMutableRawBufferPointer

    /// Nil if the process has not so many addresses left.
    package init?(count: Int) {
        guard let memory = SystemCalls.reserveMemory(count) else { return nil }
        bytes = memory
    }

    deinit { SystemCalls.releaseMemory(bytes) }

    /// Makes everything zero again. Nobody may be reading.
    package func clear() { SystemCalls.clearMemory(bytes) }
}
