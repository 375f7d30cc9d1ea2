// A state as the bodies of a courier, and back: in the memory of one part.

package import Annals

/// Returns the bodies of a state, one after the other: a message about the state, then its parts.
package struct StateBodies {
    private var reader: ExportedStateReader
    private let maximumBodyBytes: Int
    /// The bodies of the last message, the next one last.
    private var waiting: [[UInt8]] = []

    /// The size of the values in a part of the state. Names and numbers come to it.
    private static func partBytes(_ maximumBodyBytes: Int) -> Int { max(1, min(1 << 18, maximumBodyBytes / 2)) }

    /// - Parameters:
    ///   - local: Entities that are left out.
    ///   - message: Nil leaves it out.
    ///   - maximumBodyBytes: That of the courier: at least 64.
    package init(
        of store: Store, in snapshot: Snapshot? = nil, without local: LocalEntities = LocalEntities(),
        about message: StateMessage? = nil, maximumBodyBytes: Int
    ) throws {
        self.maximumBodyBytes = maximumBodyBytes
        reader = try store.stateReader(
            in: snapshot, partBytes: Self.partBytes(maximumBodyBytes), leavingOut: local.numbers)
        if let message { waiting = try bodies(.state(message)) }
    }

    private func bodies(_ content: MirrorMessage.Content) throws -> [[UInt8]] {
        try MessagePart.bodies(of: MirrorMessage(published: 0, content), maximumBodyBytes: maximumBodyBytes).reversed()
    }

    /// The next body; nil after the end. Throws the errors of the reader.
    package mutating func next() throws -> [UInt8]? {
        if let body = waiting.popLast() { return body }
        guard let part = try reader.next() else { return nil }
        waiting = try bodies(.statePart(part))
        return waiting.popLast()
    }
}

/// Returns the parts of a state from the bodies of a courier, which come in their order.
package struct StatePartJoiner {
    private var joiner: MessageJoiner
    private var number: UInt64 = 0
    /// The message about the state, which comes before the parts.
    package private(set) var message: StateMessage?

    /// - Parameter maximumBytes: The limit for one part of the state.
    package init(maximumBytes: Int = 1 << 26) { joiner = MessageJoiner(maximumBytes: maximumBytes) }

    /// Adds the next body. Returns nil if the part of the state goes on in the next one.
    ///
    /// Throws `exportMalformed`, `unsupportedVersion`, `tooLarge`.
    package mutating func add(_ body: [UInt8]) throws(StoreError) -> ExportedStatePart? {
        defer { number += 1 }
        let message: MirrorMessage
        switch try MessageBody(body) {
        case .whole(let whole):
            guard joiner.unfinishedCount == 0 else { throw Self.malformed("a part of it is not complete") }
            message = whole
        case .part(let part):
            // In order, only the first part of a message finds no other.
            guard (part.index == 0) == (joiner.unfinishedCount == 0) else {
                throw Self.malformed("its parts are not in order")
            }
            guard let joined = try joiner.add(part, sender: "", number: number) else {
                guard joiner.unfinishedCount == 1 else { throw Self.malformed("its parts are not in order") }
                return nil
            }
            message = joined.message
        }
        if case .skipped = message.content { return nil }
        if case .state(let about) = message.content, self.message == nil {
            self.message = about
            return nil
        }
        guard case .statePart(let part) = message.content else { throw Self.malformed("it contains a message") }
        return part
    }

    private static func malformed(_ reason: String) -> StoreError {
        StoreError(.exportMalformed, "A state is not as it was stored: \(reason). The mirror fetches another one.")
    }
}

extension Store {
    /// Applies a state from the bodies of a courier, as one transaction.
    ///
    /// - Parameter fetch: Calls its argument with each body in order.
    ///
    /// Throws as `applyState`, the errors of the decoder, and those of `fetch`. Then nothing has changed.
    @discardableResult
    package func applyState(
        bodies fetch: (([UInt8]) throws -> Void) throws -> Void, author: String? = nil, durability: Durability? = nil
    ) throws -> HistoryToken? {
        try applyState(author: author, durability: durability) { apply in
            var joiner = StatePartJoiner()
            try withoutActuallyEscaping(apply) { apply in
                try fetch { body in
                    if let part = try joiner.add(body) { try apply(part) }
                }
            }
        }
    }
}
