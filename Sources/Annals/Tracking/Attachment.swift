// A context that follows a tracker: it stays in its isolation, and merges there on request.

internal import FoundationEssentials
internal import Synchronization

/// A request to a context to merge.
struct MergeRequest: Sendable {
    let snapshot: Snapshot
    let changed: ChangedObjects
    let answer: CheckedContinuation<(any Error)?, Never>
}

/// A context that is attached to a tracker, as the tracker's task sees it.
struct Attachment: Sendable {
    let id: ObjectIdentifier
    private let requests: AsyncStream<MergeRequest>.Continuation

    init(_ context: Context, _ requests: AsyncStream<MergeRequest>.Continuation) {
        id = ObjectIdentifier(context)
        self.requests = requests
    }

    /// Asks the context to move to a state, and waits for it. Returns why it could not; `contextClosed` if it is gone.
    func merge(to snapshot: Snapshot, _ changed: ChangedObjects) async -> (any Error)? {
        await withCheckedContinuation { answer in
            let result = requests.yield(MergeRequest(snapshot: snapshot, changed: changed, answer: answer))
            if case .terminated = result { answer.resume(returning: Self.gone) }
        }
    }

    func end() { requests.finish() }

    static let gone = StoreError(.contextClosed, "A context that followed a tracker was released.")
}

extension TrackerCore {
    func requireOfThisStore(_ context: Context) throws {
        guard try context.token.storeIdentifier == store.identifier else {
            throw StoreError(
                .invalidArgument,
                "The context and the tracker belong to different stores: create the context with `makeContext` of the "
                    + "tracker's store.")
        }
    }

    /// Attaches a context in the isolation that calls this. One that cannot follow is left out, and the log gets the
    /// reason.
    func attach(
        _ context: Context, isolation: isolated any Actor = #isolation,
        merging: @escaping (Context, Snapshot, ChangedObjects) throws -> Void
    ) {
        do {
            try requireOfThisStore(context)
        } catch {
            log(1, .error, "A context does not follow: \(error)")
            return
        }
        let (stream, requests) = AsyncStream<MergeRequest>.makeStream()
        let attachment = Attachment(context, requests)
        Task { [weak context] in
            // The task runs in the isolation of the caller.
            _ = isolation
            for await request in stream {
                guard let context else {
                    request.answer.resume(returning: Attachment.gone)
                    continue
                }
                await context.waitForChangesInPlace()
                do {
                    try merging(context, request.snapshot, request.changed)
                    request.answer.resume(returning: nil)
                } catch {
                    request.answer.resume(returning: error)
                }
            }
        }
        let replaced = state.withLock { state in
            let replaced = state.attachments.filter { $0.id == attachment.id }
            state.attachments.removeAll { $0.id == attachment.id }
            state.attachments.append(attachment)
            return replaced
        }
        for attachment in replaced { attachment.end() }
    }

    /// Moves all contexts to a state, each in its isolation, and waits for all of them. Those that cannot follow are
    /// left out from then on. Throws the errors that are the store's.
    func merge(to snapshot: Snapshot, _ changed: ChangedObjects) async throws {
        let attachments = state.withLock { $0.attachments }
        var failure: (any Error)?
        await withTaskGroup(of: (Attachment, (any Error)?).self) { group in
            for attachment in attachments {
                group.addTask { (attachment, await attachment.merge(to: snapshot, changed)) }
            }
            for await (attachment, error) in group where !hasMerged(attachment, error) { failure = error }
        }
        if let failure { throw failure }
    }

    /// Notes how a merge has ended. Returns false for an error that is the store's.
    private func hasMerged(_ attachment: Attachment, _ error: (any Error)?) -> Bool {
        guard let error else {
            state.withLock { $0.metrics.merges += 1 }
            return true
        }
        let known = error as? StoreError
        switch known?.code {
        case .busy, .tooManyFiles, .inputOutput, .closed, .storeRemoved, .storeReplaced, .damaged,
            .unsupportedVersion:
            return false
        case .contextClosed: break
        default: log(1, .error, "A context no longer follows: \(error)")
        }
        attachment.end()
        state.withLock { state in
            state.attachments.removeAll { $0.id == attachment.id }
            if let known, known.code != .contextClosed { state.metrics.lastError = known }
        }
        return true
    }
}
