// Change signals as an asynchronous sequence.

/// Signals of the transactions after a place in history, without end, from all processes. Create it with
/// `Store.changes(after:excluding:excludingContextNames:)`.
///
/// Each iteration begins at the same place. It ends when its task is cancelled, and throws the errors of
/// `ChangeWatcher.next`, for example `closed` when the store is closed. While it waits, it occupies no thread of the
/// task's executor and makes no system calls. It keeps the store open.
public struct ChangeSignals: AsyncSequence, Sendable {
    public typealias Element = ChangeSignal
    public typealias Failure = any Error

    let store: Store
    let number: UInt64
    let start: ChangeWatcher.Start
    let excluded: Exclusion

    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(changes: self) }

    /// One iteration: it waits for signals after the sequence's place. Use it in one task.
    public struct AsyncIterator: AsyncIteratorProtocol {
        let changes: ChangeSignals
        private var watcher: ChangeWatcher?
        private var hasEnded = false

        init(changes: ChangeSignals) { self.changes = changes }

        public mutating func next() async throws -> ChangeSignal? { try await next(isolation: nil) }

        public mutating func next(
            isolation actor: isolated (any Actor)?
        ) async throws -> ChangeSignal? {
            if hasEnded { return nil }
            do throws(StoreError) {
                if watcher == nil {
                    watcher = try ChangeWatcher(
                        changes.store, after: changes.number, start: changes.start,
                        excluding: changes.excluded, asynchronously: true)
                }
                if let signal = try await watcher?.next(isolation: actor) { return signal }
                end()
                return nil
            } catch {
                end()
                throw error
            }
        }

        private mutating func end() {
            hasEnded = true
            watcher = nil
        }
    }
}
