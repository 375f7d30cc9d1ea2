// Waiting for what other threads and processes do.

package struct NeverHeld: Error, CustomStringConvertible {
    package let description: String
}

/// Waits until a condition holds. It must hold soon: the limit is for a machine under load.
package func eventually(
    _ condition: () throws -> Bool, isolation: isolated (any Actor)? = #isolation, file: String = #fileID,
    line: Int = #line
) async throws {
    let deadline = ContinuousClock.now + .seconds(1200)
    while ContinuousClock.now < deadline {
        if try condition() { return }
        try await Task.sleep(for: .milliseconds(1))
    }
    throw NeverHeld(description: "\(file):\(line): the condition never held")
}
