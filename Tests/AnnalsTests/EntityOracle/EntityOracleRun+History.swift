// Typed history against the model's states before and after each transaction.

import Annals
import FoundationEssentials
import Testing

extension EntityOracleRun {
    func compareHistory() throws {
        guard let oldest = past.first else { return }
        counts.operations += 1
        counts.histories += 1
        let history = try store.history(HistoryRequest(after: .token(oldest.before)), includingValues: true)
        let known = past
        try require(history.count >= known.count, "\(history.count) transactions, and not \(known.count)")
        // Schema changes and what sets values to null are transactions that the model does not have.
        if let one = random.element(known) {
            // The state at that place has no index.
            let snapshot = try store.snapshot(asOf: one.before)
            try compare(snapshot, one.from)
            try find(snapshot, one.from)
        }
        for transaction in known {
            guard let found = history.first(where: { $0.number == transaction.before.number + 1 }) else {
                throw OracleDifference("transaction \(transaction.before.number + 1) is not in history")
            }
            try require(found.author == transaction.author, "an author")
            var left = Set(transaction.changed)
            for change in found.changes {
                let object = change.object
                try compare(change, Town.Owner.self, transaction)
                try compare(change, Town.Place.self, transaction)
                try compare(change, Town.Thing.self, transaction)
                left.remove(object)
            }
            try require(left.isEmpty, "history lacks \(left)")
        }
    }

    private func compare<E: TownEntity>(
        _ change: HistoryChange, _ type: E.Type, _ transaction: PastTransaction
    ) throws {
        guard let reference = change.reference(to: type) else {
            try require(try change.after(of: type) == nil && change.before(of: type) == nil, "another type's value")
            return
        }
        let (before, after) = (
            transaction.from[keyPath: E.objects][reference], transaction.to[keyPath: E.objects][reference]
        )
        let kind: HistoryChange.Kind = before == nil ? .insert : after == nil ? .delete : .update
        try require(change.kind == kind, "\(reference) has \(change.kind) in history")
        let found = (try change.before(of: type), try change.after(of: type))
        try require(
            isRecorded(found.0, before), "before: \(String(describing: found.0)), not \(String(describing: before))")
        try require(
            isRecorded(found.1, after), "after: \(String(describing: found.1)), not \(String(describing: after))")
        let last = transaction.raw[keyPath: E.objects][reference]
        if kind == .delete, let place = last as? Town.Place {
            try require(change.tombstone(of: Town.Place.self)?[\.name] == place.name, "the name of a deleted place")
            try require(change.tombstone(of: Town.Place.self)?[\.size] == nil, "the size of a deleted place")
        }
        if kind == .delete, let thing = last as? Town.Thing {
            let code = change.tombstone(of: Town.Thing.self)?[\.code]
            try require(code == thing.code, "the code of a deleted thing: \(String(describing: code)), not \(thing)")
        }
        guard let old = before as? Town.Thing, let new = after as? Town.Thing else { return }
        let writes = transaction.writes[reference.id] ?? 0
        // What was set in the transaction, and cleared in the end because something was deleted.
        let isCleared = !((last as? Town.Thing)?.isSame(as: new) ?? false)
        func expect(_ isChanged: Bool, _ path: any PartialKeyPath<Town.Thing> & Sendable) throws {
            // What is changed twice may be as it was before.
            let isSaid = change.changes(path)
            try require(
                isSaid == isChanged || isSaid && (writes > 1 || isCleared || forgotten.contains(reference.id)),
                "\(path) of \(reference) is changed: \(isSaid)")
        }
        try expect(old.rank != new.rank, \.rank)
        try expect(!old.title.utf8.elementsEqual(new.title.utf8), \.title)
        try expect(old.code != new.code, \.code)
        try expect(old.place != new.place, \.place)
        try expect(old.visited != new.visited, \.visited)
        try expect(old.friends != new.friends, \.friends)
        try expect(old.price != new.price, \.price)
        try expect(old.ratio.bitPattern != new.ratio.bitPattern, \.ratio)
        try require(!change.changes(\Town.Place.name), "another type's property is changed")
    }

    /// Under the rule `noAction`, history has what was written.
    private func isRecorded<E: TownEntity>(_ found: E?, _ wanted: E?) -> Bool {
        guard var found = found as? Town.Thing, var wanted = wanted as? Town.Thing else {
            return found == nil && wanted == nil || found.flatMap { found in wanted.map(found.isSame) } ?? false
        }
        (found.keeper, wanted.keeper) = (nil, nil)
        return found.isSame(as: wanted)
    }
}

extension EntityOracleRun.PastTransaction {
    /// The objects that are not as they were.
    var changed: [ObjectID] {
        func changed<E: TownEntity>(_ type: E.Type) -> [ObjectID] {
            let (old, new) = (from[keyPath: E.objects], to[keyPath: E.objects])
            return Set(old.keys).union(new.keys).filter { reference in
                guard var before = old[reference], var after = new[reference] else { return true }
                for link in E.links where link.rule == .noAction {
                    link.clean(&before) { _ in false }
                    link.clean(&after) { _ in false }
                }
                return !before.isSame(as: after)
            }.map(\.id)
        }
        return changed(Town.Owner.self) + changed(Town.Place.self) + changed(Town.Thing.self)
    }
}
