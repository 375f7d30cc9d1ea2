// Every form in which a program catches the library's error: it compiles, in debug and in release, and takes its
// branch.

import Annals
import Foundation
import Testing

@Suite struct CatchingErrorsTests {
    private let store: Store
    private let path: String

    init() throws {
        path = NSTemporaryDirectory() + "annals-catching-\(UUID().uuidString)"
        store = try Store(
            at: path,
            entities: [EntityDescription("Clip", attributes: [AttributeDescription("url", .string, isUnique: true)])])
    }

    private func end() throws {
        try store.close()
        try FileManager.default.removeItem(atPath: path)
    }

    @Test func errorsAreCaughtByAsWithWhere() throws {
        var taken = ""
        do {
            for row in try store.snapshot().rows(of: "None") { print(row.id) }
        } catch let error as StoreError where error.code == .tokenExpired {
            taken = "expired"
        } catch let error as StoreError where error.code == .unknownEntity {
            taken = "unknown"
        } catch {
            taken = "other"
        }
        #expect(taken == "unknown")
        try end()
    }

    /// The clauses do not cover every error: the function throws the rest on.
    @Test func errorsAreCaughtByClausesThatAreNotExhaustive() throws {
        var taken = false
        do {
            _ = try store.entity("None")
        } catch let error as StoreError where error.code == .unknownEntity {
            taken = true
        }
        #expect(taken)
        try end()
    }

    @Test func errorsAreCaughtByWhereAlone() throws {
        var taken = ""
        do {
            _ = try store.entity("None")
        } catch  where (error as? StoreError)?.code == .busy {
            taken = "busy"
        } catch  where (error as? StoreError)?.code == .unknownEntity {
            taken = "unknown"
        }
        #expect(taken == "unknown")
        try end()
    }

    @Test func errorsAreCaughtByASwitchOnTheCode() throws {
        var taken = ""
        do {
            _ = try HistoryToken("no token")
        } catch let error as StoreError {
            switch error.code {
            case .tokenExpired, .tokenForeign: taken = "place"
            case .tokenMalformed: taken = "malformed"
            default: taken = "default"
            }
        }
        #expect(taken == "malformed")
        try end()
    }

    @Test func errorsOfGettersAreCaught() throws {
        try store.close()
        var taken = ""
        do {
            _ = try store.currentToken
        } catch let error as StoreError where error.code == .closed {
            taken = error.localizedDescription
        }
        #expect(taken.hasSuffix("."))
        try FileManager.default.removeItem(atPath: path)
    }

    private func rethrowing() throws {
        do {
            _ = try store.entity("None")
        } catch let error as StoreError where error.code == .busy {
            Issue.record("Nobody writes.")
        } catch {
            throw error
        }
    }

    @Test func errorsAreCaughtAfterARethrow() throws {
        #expect(throws: StoreError.self) { try rethrowing() }
        let result = Result { try rethrowing() }
        if case .failure(let error as StoreError) = result {
            #expect(error.code == .unknownEntity)
        } else {
            Issue.record("It was not thrown on.")
        }
        try end()
    }

    private func lookUp() async throws {
        await Task.yield()
        _ = try store.entity("None")
    }

    @Test func errorsAreCaughtInAsyncFunctions() async throws {
        var taken = ""
        do {
            try await lookUp()
        } catch let error as StoreError where error.code == .unknownEntity {
            taken = "unknown"
        }
        #expect(taken == "unknown")
        let far = HistoryToken(storeIdentifier: UUID(), number: 1, tag: 1)
        do {
            try await store.waitUntil(far)
        } catch let error as StoreError where error.code == .tokenForeign {
            taken = "foreign"
        }
        #expect(taken == "foreign")
        try end()
    }

    @Test func errorsAreCaughtInABodyOfAWrite() throws {
        var taken = ""
        try store.writeOptimistically { transaction in
            do {
                try transaction.insert("Clip", ["none": 1])
            } catch let error as StoreError where error.code == .unknownAttribute {
                taken = "unknown"
            }
            try transaction.insert("Clip", ["url": "a"])
        }
        #expect(taken == "unknown")
        do {
            try store.writeOptimistically { try $0.insert("Clip", ["url": "a"]) }
        } catch let error as StoreError where error.code == .uniqueViolation {
            taken = "unique"
        }
        #expect(taken == "unique")
        try end()
    }

    @Test func errorsAreCaughtAroundALentRow() throws {
        try store.writeOptimistically { try $0.insert("Clip", ["url": "a"]) }
        let clip = try store.entity("Clip")
        var taken = ""
        do {
            try store.snapshot().forEachRow(of: clip) { (_) throws(StoreError) in
                throw StoreError(.cancelled, "Enough.")
            }
        } catch let error as StoreError where error.code == .cancelled {
            taken = "cancelled"
        }
        #expect(taken == "cancelled")
        do {
            try store.writeOptimistically { transaction in
                try transaction.insert(clip) { (writer) throws(StoreError) in try writer.set(int: 1, at: 0) }
            }
        } catch let error as StoreError where error.code == .invalidArgument {
            taken = "invalid"
        }
        #expect(taken == "invalid")
        try end()
    }

    @Test func errorsAreCaughtAroundForAwait() async throws {
        let changes = try store.changes()
        try store.close()
        var taken = ""
        do {
            for try await signal in changes { print(signal.token) }
        } catch let error as StoreError where error.code == .closed {
            taken = "closed"
        }
        #expect(taken == "closed")
        try FileManager.default.removeItem(atPath: path)
    }

    /// Inside a closure that is lent something, which throws only `StoreError`: the forms that compile there.
    @Test func errorsAreCaughtInAClosureThatIsLentATransaction() throws {
        try store.writeOptimistically { try $0.insert("Clip", ["url": "a"]) }
        var kinds: [String] = []
        try store.forEachTransaction(HistoryRequest()) { (transaction) throws(StoreError) in
            try transaction.forEachChange { (change) throws(StoreError) in
                do throws(StoreError) {
                    for name in try change.attributes() { kinds.append(name) }
                    kinds.append(change.kind.rawValue)
                } catch {
                    if error.code == .damaged { kinds.append("damaged") } else { throw error }
                }
                do throws(StoreError) {
                    for name in try change.attributes() { kinds.append(name) }
                } catch  where error.code == .damaged {
                    kinds.append("damaged")
                }
                return true
            }
            return true
        }
        #expect(kinds == ["insert"])
        try end()
    }

    /// Around the closure every form works.
    @Test func errorsAreCaughtAroundAClosureThatIsLentATransaction() throws {
        try store.writeOptimistically { try $0.insert("Clip", ["url": "a"]) }
        var names: [String] = []
        do {
            try store.forEachChange(HistoryRequest()) { (_, change) throws(StoreError) in
                for name in try change.attributes() { names.append(name) }
                throw StoreError(.cancelled, "Enough.")
            }
        } catch let error as StoreError where error.code == .damaged {
            names.append("damaged")
        } catch let error as StoreError where error.code == .cancelled {
            names.append("cancelled")
        }
        #expect(names == ["cancelled"])
        try end()
    }

    /// In a function that is `async`, the call with `await` is meant.
    @Test func errorsOfAnAsynchronousWriteAreCaught() async throws {
        var taken = ""
        do {
            try await store.writeOptimistically { try $0.insert("None", [:]) }
        } catch let error as StoreError where error.code == .unknownEntity {
            taken = "unknown"
        } catch is CancellationError {
            taken = "cancelled"
        }
        #expect(taken == "unknown")
        let task = Task { [store] in
            withUnsafeCurrentTask { $0?.cancel() }
            return try await store.write { try $0.insert("Clip", ["url": "a"]) }.result
        }
        do {
            _ = try await task.value
        } catch is CancellationError {
            taken = "cancelled"
        }
        #expect(taken == "cancelled")
        // The call that blocks stays possible, through a function that is not `async`.
        try commitHere()
        try end()
    }

    private func commitHere() throws { try store.writeOptimistically { try $0.insert("Clip", ["url": "b"]) } }
}
