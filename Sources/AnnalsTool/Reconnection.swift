// Following a store that another file may replace: `watch` and `history --follow`.

internal import Annals

enum Reconnection {
    /// Runs `body` with the store; again, with a note on standard error, each time another file has replaced it.
    ///
    /// - Parameter body: Notes the place that it has reached, and continues after it if there is one.
    static func follow(_ path: String, _ body: (Store, inout HistoryToken?) throws -> Void) throws {
        var reached: HistoryToken?
        var store = try StoreAccess.open(path, .readOnly)
        while true {
            do {
                try body(store, &reached)
                return try store.close()
            } catch {
                try? store.close()
                // Only a body that follows notes a place.
                let code = ToolFailure(error).error?.code
                guard reached != nil, [.storeReplaced, .diverged].contains(code) else { throw error }
                store = try StoreAccess.open(path, .readOnly)
                if !isValid(reached, in: store) { reached = try store.currentToken }
                let number = reached?.number ?? 0
                try Output.report("annals: \(path) was replaced: continuing after transaction \(number).")
            }
        }
    }

    private static func isValid(_ token: HistoryToken?, in store: Store) -> Bool {
        token.map { (try? store.validate($0)) != nil } ?? false
    }
}
