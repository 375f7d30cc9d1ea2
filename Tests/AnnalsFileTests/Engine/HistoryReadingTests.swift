// Reading history by date, against its order, by object and folded, each against a look at all of it.

import Annals
import SimulatedDisk
import TestSupport
import Testing

/// A transaction as this file's tests need it.
private struct Seen: Equatable {
    var number: UInt64
    var time: Int64
    var changes: [String]

    init(_ transaction: TransactionView) throws(StoreError) {
        (number, time) = (transaction.number, transaction.time)
        var texts: [String] = []
        try transaction.forEachChange { (change) in
            texts.append("\(change.kind) \(change.object.rawValue)")
            return true
        }
        changes = texts
    }
}

extension Engine {
    fileprivate func seen(_ range: HistoryRange, _ view: View, limit: Int = .max) throws -> [Seen] {
        var seen: [Seen] = []
        try tracked(view).forEachTransaction(range) { (transaction) throws(StoreError) in
            seen.append(try Seen(transaction))
            return seen.count < limit
        }
        return seen
    }

    fileprivate func update(_ object: ObjectID, rank: Int64) throws {
        _ = try commit { try $0.update(object, [(position: EngineNote.rank, value: .int(rank))]) }
    }
}

@Suite struct HistoryReadingTests {
    let machine = EngineMachine()

    // MARK: Dates

    /// Against the definition: the last transaction that is not later, wherever it stands.
    private func expectDates(_ engine: Engine, _ view: View, sourceLocation: SourceLocation = #_sourceLocation) throws {
        let all = try engine.seen(HistoryRange(after: 0, before: view.number + 1), view)
        let moments = Set(all.flatMap { [$0.time - 1, $0.time, $0.time + 1] } + [.min, .max, 0])
        for moment in moments {
            let last = all.last { $0.time <= moment }?.number ?? 0
            #expect(try engine.tracked(view).lastNumber(through: moment) == last, sourceLocation: sourceLocation)
        }
    }

    @Test func datesAreFoundAcrossClockSteps() throws {
        let engine = try machine.create()
        let environment = machine.machine.environment
        var random = SeededRandom(7)
        let ids = try engine.insertNotes(1...3)
        let old = try engine.view()
        let start = environment.wallClockMicroseconds()
        // Steps back by one to five hours, so that segments overlap in part, wholly and not at all.
        for step in 0..<6 {
            for turn in 0..<7 {
                try engine.update(ids[turn % 3], rank: Int64(step * 10 + turn))
                environment.advance(byMicroseconds: UInt64.random(in: 1...3_000_000_000, using: &random))
            }
            let now = environment.wallClockMicroseconds()
            environment.setWallClock(now - 3_600_000_000 * Int64.random(in: 2...5, using: &random))
        }
        #expect(environment.wallClockMicroseconds() < start + 40_000_000_000)
        let view = try engine.view()
        let times = try engine.seen(HistoryRange(after: 0, before: .max), view).map(\.time)
        #expect(zip(times, times.dropFirst()).count { $0 > $1 } == 5)
        try expectDates(engine, view)
        // What was found once is added to, and an older state sees less.
        try engine.update(ids[0], rank: 99)
        try expectDates(engine, try engine.view())
        try expectDates(engine, old)
        try machine.closeAndCheck(engine)
        let again = try machine.open()
        try expectDates(again, try again.view())
        try machine.closeAndCheck(again)
    }

    // MARK: Against the order

    @Test func historyNewestFirstIsTheReverseOfOldestFirst() throws {
        let engine = try machine.create()
        var random = SeededRandom(3)
        // Some MiB, so that there are landmarks, with a transaction of many frames among small ones.
        for number in 0..<60 {
            let count = number == 20 ? 60 : Int.random(in: 1...4, using: &random)
            _ = try engine.commit { transaction in
                for place in 0..<count {
                    let body = [UInt8](repeating: 1, count: 30_000)
                    _ = try transaction.insert(
                        entity: EngineNote.entity, [.string("\(number) \(place)"), .int(Int64(place)), .data(body)])
                }
            }
        }
        let view = try engine.view()
        #expect(view.end > 4 << 20)
        let all = try engine.seen(HistoryRange(after: 0, before: .max), view)
        #expect(all.map(\.number) == Array(1...view.number))
        for _ in 0..<60 {
            let after = UInt64.random(in: 0...view.number, using: &random)
            let before = UInt64.random(in: 0...(view.number + 2), using: &random)
            let limit = Int.random(in: 1...9, using: &random)
            let expected = all.filter { $0.number > after && $0.number < before }
            var range = HistoryRange(after: after, before: before)
            #expect(try engine.seen(range, view) == expected)
            #expect(try engine.seen(range, view, limit: limit) == Array(expected.prefix(limit)))
            range.isNewestFirst = true
            #expect(try engine.seen(range, view) == expected.reversed())
            #expect(try engine.seen(range, view, limit: limit) == Array(expected.reversed().prefix(limit)))
        }
        let past = try engine.view(asOf: 30)
        #expect(
            try engine.seen(HistoryRange(after: 9, before: .max, isNewestFirst: true), past).map(\.number)
                == (10...30).reversed())
        try machine.closeAndCheck(engine)
    }

    // MARK: What is durable

    /// Some MiB, so that the mark stands anywhere between landmarks.
    @Test func theLastDurableTransactionIsFound() throws {
        let engine = try machine.create()
        var random = SeededRandom(5)
        var behind: Set<UInt64> = []
        for number in 0..<80 {
            let isDurable = Int.random(in: 0..<8, using: &random) == 0
            let count = number % 40 == 20 ? 60 : Int.random(in: 1...4, using: &random)
            _ = try engine.commit(durability: isDurable ? .full : .relaxed) { transaction in
                for place in 0..<count {
                    let body = [UInt8](repeating: 1, count: 30_000)
                    _ = try transaction.insert(
                        entity: EngineNote.entity, [.string("\(number) \(place)"), .int(Int64(place)), .data(body)])
                }
            }
            let view = try engine.view()
            var last: UInt64 = 0
            try engine.tracked(view).forEachTransaction(after: 0) { (transaction) throws(StoreError) in
                if transaction.end <= engine.durableEnd { last = transaction.number }
                return true
            }
            #expect(try engine.tracked(view).lastDurableNumber() == last)
            if number % 9 == 8 {
                let past = try engine.view(asOf: view.number - 3)
                #expect(try engine.tracked(past).lastDurableNumber() == min(last, past.number))
            }
            if isDurable { #expect(last == view.number) }
            if last < view.number { behind.insert(last) }
        }
        #expect(behind.count > 5)
        try machine.closeAndCheck(engine)
    }

    // MARK: Versions

    private func versions(_ engine: Engine, _ object: ObjectID, _ view: View) throws -> [String] {
        var versions: [String] = []
        try engine.tracked(view).forEachVersion(of: object) { (transaction, change) in
            versions.append("\(transaction.number) \(change.kind) \(change.frameOffset) \(change.entryOffset)")
            return true
        }
        return versions
    }

    private func scanned(_ engine: Engine, _ object: ObjectID, _ view: View) throws -> [String] {
        var versions: [String] = []
        try engine.tracked(view).forEachTransaction(after: 0) { (transaction) throws(StoreError) in
            try transaction.forEachChange { (change) in
                if change.object == object {
                    versions.append("\(transaction.number) \(change.kind) \(change.frameOffset) \(change.entryOffset)")
                }
                return true
            }
            return true
        }
        return versions.reversed()
    }

    @Test func versionsOfAnObjectAreItsChangesInHistory() throws {
        let engine = try machine.create()
        var random = SeededRandom(11)
        var ids = try engine.insertNotes(1...5)
        // A transaction of several frames, in parts of which objects are.
        ids += try engine.commit { transaction in
            try (0..<100).map { number in
                try transaction.insert(
                    entity: EngineNote.entity,
                    [.string("long \(number)"), .int(0), .data([UInt8](repeating: 2, count: 20_000))])
            }
        }.result.enumerated().filter { $0.offset % 30 == 0 }.map(\.element)
        var views = [try engine.view()]
        for turn in 0..<120 {
            let id = ids[Int.random(in: 0..<ids.count, using: &random)]
            _ = try engine.commit { transaction in
                if try !transaction.base.contains(id) {
                    try transaction.insertAgain(id) { (row) throws(StoreError) in
                        try row.set(text: "again \(turn)", at: EngineNote.title)
                    }
                } else if Int.random(in: 0..<4, using: &random) == 0 {
                    try transaction.delete(id)
                } else {
                    try transaction.update(id, [(position: EngineNote.rank, value: .int(Int64(turn + 100)))])
                }
            }
            if turn % 40 == 0 { views.append(try engine.view()) }
        }
        views.append(try engine.view())
        for view in views {
            for id in ids {
                let expected = try scanned(engine, id, view)
                #expect(!expected.isEmpty)
                #expect(try versions(engine, id, view) == expected)
            }
        }
        for id in [ObjectID(entityNumber: 1, number: 9999), ObjectID(entityNumber: 77, number: 1)] {
            #expect(try versions(engine, #require(id), views[2]).isEmpty)
        }
        try machine.closeAndCheck(engine)
        let again = try machine.open(access: .readOnly)
        let view = try again.view()
        for id in ids { #expect(try versions(again, id, view) == scanned(again, id, view)) }
        try machine.closeAndCheck(again)
    }

    // MARK: Inserting again

    @Test func aDeletedObjectCanBeInsertedAgainUnderItsID() throws {
        let engine = try machine.create()
        let ids = try engine.insertNotes(1...3)
        _ = try engine.commit { try $0.delete(ids[1]) }
        func again(_ transaction: Draft, _ title: String) throws {
            try transaction.insertAgain(ids[1]) { (row) throws(StoreError) in
                try row.set(text: title, at: EngineNote.title)
            }
        }
        // Inserted and deleted again in one transaction it stays deleted, and nothing is written.
        let nothing = try engine.commit { transaction in
            try again(transaction, "gone")
            try transaction.delete(ids[1])
            #expect(throws: StoreError.self) { try again(transaction, "twice") }
        }
        #expect(nothing.transaction == nil)
        #expect(try engine.view().count(entity: EngineNote.entity) == 2)
        _ = try engine.commit { transaction in
            try again(transaction, "back")
            _ = try transaction.update(ids[1], [(position: EngineNote.rank, value: .int(5))])
        }
        let view = try engine.view()
        #expect(try view.title(ids[1]) == "back" && view.rank(ids[1]) == 5)
        #expect(try view.count(entity: EngineNote.entity) == 3)
        for id in [ids[0], ids[1], try #require(ObjectID(entityNumber: EngineNote.entity, number: 50))] {
            #expect(throws: StoreError.self) {
                try engine.commit {
                    try $0.insertAgain(id) { (row) throws(StoreError) in try row.set(text: "x", at: 0) }
                }
            }
        }
        #expect(try engine.insertNotes(9...9).map(\.number) == [4])
        try machine.closeAndCheck(engine)
    }

    // MARK: Folding

    /// Every course that an object can take, from being there and from not, against the table in words.
    @Test(arguments: [1 << 20, 200]) func everySequenceOfChangesIsFolded(memoryBytes: Int) throws {
        let engine = try machine.create()
        struct Course {
            var id: ObjectID
            var wasThere: Bool
            var kinds: [ChangeKind] = []
            var attributes: Set<UInt16> = []
        }
        var courses: [Course] = []
        let start = try engine.insertNotes(1...162)
        _ = try engine.commit { transaction in for id in start[81...] { try transaction.delete(id) } }
        let before = try engine.view()
        // Each object takes the kinds that the digits of its number say, as far as they are possible.
        var isThere: [Bool] = []
        for (place, id) in start.enumerated() {
            courses.append(Course(id: id, wasThere: place < 81))
            isThere.append(place < 81)
        }
        for step in 0..<4 {
            for place in courses.indices {
                let digit = [1, 3, 9, 27].map { place % 81 / $0 % 3 }[step]
                if digit == 0 { continue }
                let id = courses[place].id
                _ = try engine.commit { transaction in
                    if !isThere[place] {
                        try transaction.insertAgain(id) { (row) throws(StoreError) in
                            try row.set(text: "again \(place) \(step)", at: EngineNote.title)
                        }
                        courses[place].kinds.append(.insert)
                    } else if digit == 1 {
                        let position = step % 2 == 0 ? EngineNote.rank : EngineNote.title
                        let value: StoredValue = step % 2 == 0 ? .int(Int64(-step - 1)) : .string("\(place) \(step)")
                        _ = try transaction.update(id, [(position: position, value: value)])
                        courses[place].kinds.append(.update)
                        courses[place].attributes.insert(step % 2 == 0 ? 2 : 1)
                    } else {
                        try transaction.delete(id)
                        courses[place].kinds.append(.delete)
                    }
                }
                isThere[place] = courses[place].kinds.last != .delete
            }
        }
        let view = try engine.view()
        #expect(Set(courses.map(\.kinds)).count > 25)
        for isReversed in [false, true] {
            let folding = ChangeFolding(engine.tracked(view), isReversed: isReversed, memoryBytes: memoryBytes)
            try engine.tracked(view).forEachTransaction(after: before.number) { (transaction) throws(StoreError) in
                try transaction.forEachChange { (change) throws(StoreError) in
                    try folding.append(change, of: transaction)
                    return true
                }
                return true
            }
            var folded: [FoldedChange] = []
            try folding.forEachResult { (change) in
                folded.append(change)
                return true
            }
            let expected = courses.enumerated().filter {
                !$1.kinds.isEmpty && ($1.wasThere || isThere[$0])
            }
            #expect(folded.map(\.object) == (isReversed ? expected.reversed() : expected).map(\.element.id))
            for change in folded {
                let place = try #require(courses.firstIndex { $0.id == change.object })
                let course = courses[place]
                let kind: ChangeKind = !course.wasThere ? .insert : isThere[place] ? .update : .delete
                #expect(change.kind == kind && (change.before != nil) == course.wasThere)
                #expect((change.after != nil) == isThere[place])
                #expect(change.isReplacement == (kind == .update && course.kinds.contains(.delete)))
                #expect(
                    change.attributes == (kind == .update && !change.isReplacement ? course.attributes : []),
                    "\(course)")
                try expectRows(change, before, view)
            }
        }
        try machine.closeAndCheck(engine)
    }

    private func expectRows(_ change: FoldedChange, _ before: View, _ view: View) throws {
        func title(_ offset: UInt64?) throws -> StoredValue? {
            guard let offset else { return nil }
            var title: StoredValue?
            _ = try view.withRow(at: offset, change.object.entityNumber) { (row) throws(StoreError) in
                title = try row.value(at: EngineNote.title)
            }
            return title
        }
        #expect(try title(change.before) == before.title(change.object).map { .string($0) })
        #expect(try title(change.after) == view.title(change.object).map { .string($0) })
    }
}
