// A context that follows a tracker: it stays in its isolation, and is asked to merge there.

internal import FoundationEssentials
internal import Synchronization

/// One merge that a context is asked for.
struct MergeRequest: Sendable {
    let transactions: [HistoryTransaction]
    let answer: CheckedContinuation<(any Error)?, Never>
}

/// A context that is attached to a tracker, as the tracker's task sees it.
struct Attachment: Sendable {
    let id: ObjectIdentifier
    let isSpecial: Bool
    private let requests: AsyncStream<MergeRequest>.Continuation

    init(_ context: Context, isSpecial: Bool, _ requests: AsyncStream<MergeRequest>.Continuation) {
        id = ObjectIdentifier(context)
        self.isSpecial = isSpecial
        self.requests = requests
    }

    /// Asks the context to merge, and waits for it. Returns why it could not; `contextClosed` if it is gone.
    func merge(_ transactions: [HistoryTransaction]) async -> (any Error)? {
        await withCheckedContinuation { answer in
            let result = requests.yield(MergeRequest(transactions: transactions, answer: answer))
            if case .terminated = result { answer.resume(returning: Self.gone) }
        }
    }

    func end() { requests.finish() }

    static let gone = StoreError(.contextClosed, "A context that followed a tracker is gone.")
}

extension TrackerCore {
    func requireOfThisStore(_ context: Context) throws {
        guard try context.token.storeIdentifier == store.identifier else {
            throw StoreError(
                .invalidArgument,
                "The context is of another store than the tracker: make one with `makeContext` of the tracker's store.")
        }
    }

    /// Attaches a context in the isolation that calls this. One that cannot follow is left out, and the log says why.
    func attach(
        _ context: Context, isolation: isolated any Actor = #isolation,
        merging: ((Context, [HistoryTransaction]) throws -> Void)? = nil
    ) {
        do {
            try requireOfThisStore(context)
        } catch {
            log(1, .error, "A context does not follow: \(error)")
            return
        }
        let (stream, requests) = AsyncStream<MergeRequest>.makeStream()
        let attachment = Attachment(context, isSpecial: merging != nil, requests)
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
                    if let merging { try merging(context, request.transactions) } else { try context.merge() }
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

    /// Moves all contexts to the newest state, each in its isolation.
    func merge(_ transactions: [HistoryTransaction]) async throws {
        for attachment in state.withLock({ $0.attachments }) {
            guard let error = await attachment.merge(transactions) else {
                state.withLock { $0.metrics.merges += 1 }
                continue
            }
            let known = error as? StoreError
            switch known?.code {
            case .busy, .tooManyFiles, .inputOutput, .closed, .storeRemoved, .storeReplaced, .damaged,
                .unsupportedVersion:
                throw error
            case .contextClosed: break
            default: log(1, .error, "A context follows no more: \(error)")
            }
            attachment.end()
            state.withLock { state in
                state.attachments.removeAll { $0.id == attachment.id }
                if let known, known.code != .contextClosed { state.metrics.lastError = known }
            }
        }
    }
}
