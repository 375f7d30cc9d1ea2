// Ends the wait of a courier from another thread.

package import Annals

/// A signal that ends each wait of a courier, until it is cleared.
///
/// Any thread may call any method. A call of a courier that is interrupted returns an empty batch, if it reads
/// messages. Any other call throws `cancelled`, and may be made again after `clear`.
package final class Interruption: Sendable {
    // A pair of sockets rather than an eventfd, which Swift's module of the C library lacks: it can be waited for
    // together with a connection, and opening it sets close-on-exec in the same call.
    private let sender: Int32
    private let receiver: Int32

    /// - Throws: `tooManyFiles` or `outOfMemory`.
    package init() throws(StoreError) {
        do throws(MirrorSystem.Failure) {
            (sender, receiver) = try MirrorSystem.openPair()
        } catch {
            throw StoreError(
                .tooManyFiles,
                "The system refused \(error.call): \(error.text). Close some files, or "
                    + "raise the limit of this process (ulimit -n).",
                call: error.call, systemError: error.number)
        }
    }

    deinit {
        MirrorSystem.closeDescriptor(sender)
        MirrorSystem.closeDescriptor(receiver)
    }

    /// Ends the wait of the thread that waits now, and each later wait.
    package func interrupt() {
        // If the buffer is full, the signal is set already.
        _ = try? MirrorSystem.sendSome(sender, [1])
    }

    /// Lets later calls wait again.
    package func clear() {
        var buffer = [UInt8](repeating: 0, count: 256)
        while let count = try? MirrorSystem.receiveSome(receiver, into: &buffer), count > 0 {}
    }

    /// Whether `interrupt` was called since the last `clear`.
    package var isInterrupted: Bool {
        var list = [waiting]
        return (try? MirrorSystem.wait(for: &list, until: .now)) ?? false
    }

    /// Waits for the interruption.
    ///
    /// - Returns: True if it came, false if the time is over.
    package func wait(seconds: Double) -> Bool {
        wait(until: .now + .seconds(max(0, min(seconds, 1_000_000_000))))
    }

    /// Waits for the interruption until a deadline.
    func wait(until deadline: ContinuousClock.Instant) -> Bool {
        var list = [waiting]
        return (try? MirrorSystem.wait(for: &list, until: deadline)) ?? false
    }

    /// The entry for a wait for several descriptors.
    var waiting: MirrorSystem.Waiting { MirrorSystem.Waiting(descriptor: receiver) }

    /// The error of a call that an interruption has ended.
    static var interrupted: StoreError {
        StoreError(.cancelled, "The mirror was stopped during this call: nothing is wrong, start it again to go on.")
    }
}
