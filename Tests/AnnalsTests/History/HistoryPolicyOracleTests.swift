// Random courses of commits, policies, cleaning, compaction and reopening: every question is answered as the rule says.

import Annals
import Foundation
import TestSupport
import Testing

@Suite struct HistoryPolicyOracleTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    @Test(arguments: 1...12) func everyAnswerAgreesWithTheModel(seed: UInt64) throws {
        var model = PolicyModel(seed: seed)
        var store = try folder.open()
        // Sees everything without doing anything.
        let other = try folder.open { $0.access = .readOnly }
        try model.addEntities(store, logs: seed % 3 == 0 ? .off : .full)
        var gaps = 0
        for step in 0..<60 {
            switch model.pick(20) {
            case 0...12: try model.commit(store)
            case 13...14: try model.turn(store, .off)
            case 15...16: try model.turn(store, .full)
            case 17: try model.clean(store)
            case 18: try store.compact()
            default:
                try store.close()
                store = try folder.open()
            }
            if step % 6 == 5 { gaps += try compare(&model, model.pick(2) == 0 ? store : other) }
        }
        #expect(gaps > 0)
        try other.close()
        try store.close()
        try folder.expectIntact()
    }

    /// How many answers were that there is a gap.
    private func compare(_ model: inout PolicyModel, _ store: Store) throws -> Int {
        var gaps = 0
        for number in model.horizon...model.last {
            for entity in ["Clip", "Log"] {
                let expected = model.rows(entity, asOf: number)
                #expect(try store.policyRows(entity, asOf: number) == expected, "\(entity) as of \(number)")
                if case .gap = expected { gaps += 1 }
            }
        }
        let objects = model.objects
        for _ in 0..<25 {
            let after = model.horizon + UInt64(model.pick(Int(model.last - model.horizon) + 1))
            let last = after + UInt64(model.pick(Int(model.last - after) + 1))
            var request = HistoryRequest(after: .number(after), before: .number(last + 1))
            request.entities = [nil, nil, ["Clip"], ["Log"], ["Clip", "Log"]][model.pick(5)]
            if !objects.isEmpty, model.pick(4) == 0 { request.objects = [objects[model.pick(objects.count)]] }
            let expected = model.answer(request, after: after, last: last)
            #expect(try store.policyAnswer(request) == expected, "\(request)")
            if case .gap = expected { gaps += 1 }
            try compareForms(request, expected, store)
        }
        for object in objects { try compareVersions(object, model, store) }
        return gaps
    }

    /// Counts, objects, net changes and the newest-first order agree with the transactions.
    private func compareForms(_ request: HistoryRequest, _ expected: PolicyAnswer, _ store: Store) throws {
        guard case .transactions(let numbers, let changes) = expected else {
            expect(.historyGap) { try store.transactionCount(request) }
            expect(.historyGap) { try store.changes(request) }
            expect(.historyGap) { try store.changedObjects(request) }
            expect(.historyGap) { try store.netChanges(request) }
            return
        }
        var reversed = request
        reversed.order = .newestFirst
        #expect(try store.policyAnswer(reversed) == .transactions(numbers.reversed(), changes.reversed()))
        #expect(try store.transactionCount(request) == numbers.count)
        #expect(try store.changes(request).count == changes.joined().count)
        let objects = Set(changes.joined().map { String($0.split(separator: " ")[1]) })
        #expect(try Set(store.changedObjects(request).map(\.description)) == objects)
        #expect(try Set(store.netChanges(request).map(\.object.description)).isSubset(of: objects))
        guard request.entities == nil, request.objects == nil else { return }
        var counts: [UInt64] = []
        try store.forEachTransaction(request) { (transaction) in
            counts.append(transaction.changeCount)
            return true
        }
        #expect(counts == changes.map { UInt64($0.count) })
    }

    private func compareVersions(_ object: ObjectID, _ model: PolicyModel, _ store: Store) throws {
        let (numbers, isCut) = model.versions(object)
        var found: [UInt64] = []
        var isRefused = false
        do {
            try store.forEachVersion(of: object) { (transaction, _) in
                found.append(transaction.number)
                return true
            }
        } catch {
            #expect((error as? StoreError)?.code == .historyGap, "\(error)")
            isRefused = true
        }
        // What compaction has folded is not among them.
        #expect(found.filter { $0 > model.horizon } == numbers.filter { $0 > model.horizon }, "\(object)")
        #expect(isRefused == isCut, "\(object)")
    }
}
