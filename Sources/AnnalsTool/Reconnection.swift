// Following a store that another file may replace: `watch` and `history --follow`.

internal import Annals

enum Reconnection {
    /// Runs `body` with the store; again, with a note on standard error, each time another file has replaced it.
    ///
    /// - Parameter body: Notes the place that it has reached, and continues after it if there is one.
    static func follow(
        _ path: String, _ body: (Store, inout HistoryToken?) throws(ToolFailure) -> Void
    ) throws(ToolFailure) {
        var reached: HistoryToken?
        var store = try StoreAccess.open(path, .readOnly)
        while true {
            do throws(ToolFailure) {
                try body(store, &reached)
                return try storing { try store.close() }
            } catch {
                try? store.close()
                guard let code = error.error?.code, [.storeReplaced, .diverged].contains(code) else { throw error }
                store = try StoreAccess.open(path, .readOnly)
                if !isValid(reached, in: store) { reached = try storing { try store.currentToken } }
                try say("\(path) was replaced: continuing after transaction \(reached?.number ?? 0).")
            }
        }
    }

    private static func isValid(_ token: HistoryToken?, in store: Store) -> Bool {
        guard let token else { return false }
        return (try? store.validate(token)) != nil
    }

    private static func say(_ text: String) throws(ToolFailure) {
        var errors = Output(.standardError)
        try errors.line("annals: " + text)
        try errors.finish()
    }
}
