// The outcome of each situation that MergingTransactions.md describes. The other tests compare the order of arrival
// only: there the same rules make the expected state.

import Annals
import AnnalsMirror
import FoundationEssentials
import Testing

@Suite struct MergeRuleTests {
    private static let first = MergeTests.identifier(1)
    private static let second = MergeTests.identifier(2)

    private var state = MergeState(MergeModel.schema)
    private var lamport: UInt64 = 0

    private func name(_ entity: UInt16, _ number: UInt64, of store: UUID = MergeRuleTests.first) throws -> GroupObject {
        GroupObject(store, try #require(ObjectID(entityNumber: entity, number: number)))
    }

    private func text(_ text: String) -> MergeValue { MergeValue(Value.string(text)) }

    private func int(_ int: Int64) -> MergeValue { MergeValue(Value.int(int)) }

    /// Applies the next transaction of the order.
    @discardableResult
    private mutating func apply(_ changes: MergeChange...) -> [MergeLoss] {
        lamport += 1
        return state.apply(MergeTransaction(Stamp(lamport, Self.first), changes))
    }

    private mutating func tag(_ number: UInt64, _ label: String, of store: UUID = first) throws -> GroupObject {
        let tag = try name(1, number, of: store)
        #expect(apply(MergeChange(.insert, tag, "Tag", ["name": text(label)])).isEmpty)
        return tag
    }

    private mutating func folder(_ number: UInt64, _ values: [String: MergeValue] = [:]) throws -> GroupObject {
        let folder = try name(2, number)
        let values = ["name": text("folder \(number)")].merging(values) { $1 }
        #expect(apply(MergeChange(.insert, folder, "Folder", values)).isEmpty)
        return folder
    }

    private mutating func note(
        _ number: UInt64, in folder: GroupObject, must tag: GroupObject, _ values: [String: MergeValue] = [:]
    ) throws -> GroupObject {
        let note = try name(3, number)
        let required: [String: MergeValue] = ["folder": .object(folder), "must": .object(tag)]
        #expect(apply(MergeChange(.insert, note, "Note", values.merging(required) { $1 })).isEmpty)
        return note
    }

    @Test mutating func laterValueOfAnAttributeWins() throws {
        let tag = try tag(1, "a")
        apply(MergeChange(.update, tag, "Tag", ["rank": int(1)]))
        #expect(apply(MergeChange(.update, tag, "Tag", ["rank": int(2)])).isEmpty)
        #expect(state.shown(tag, "rank") == int(2) && state.shown(tag, "name") == text("a"))
    }

    @Test mutating func updateOfADeletedObjectIsLost() throws {
        let tag = try tag(1, "a")
        apply(MergeChange(.delete, tag, "Tag"))
        let losses = apply(MergeChange(.update, tag, "Tag", ["rank": int(1)]))
        #expect(losses == [MergeLoss(object: tag, reason: .objectIsGone, attributes: [])])
        #expect(!state.exists(tag))
    }

    @Test mutating func insertionsWithEqualUniqueValuesAreOneObject() throws {
        let tag = try tag(1, "a")
        let other = try name(1, 7, of: Self.second)
        #expect(apply(MergeChange(.insert, other, "Tag", ["name": text("a"), "rank": int(3)])).isEmpty)
        #expect(state.name(other) == tag && state.shown(tag, "rank") == int(3))
        // Either name leads to it.
        apply(MergeChange(.update, other, "Tag", ["name": text("b")]))
        #expect(state.shown(tag, "name") == text("b"))
        apply(MergeChange(.delete, other, "Tag"))
        #expect(!state.exists(tag))
    }

    @Test mutating func uniqueTextsAreEqualInAnyNormalForm() throws {
        let tag = try tag(1, "\u{E9}")
        let other = try name(1, 7, of: Self.second)
        apply(MergeChange(.insert, other, "Tag", ["name": text("e\u{301}")]))
        #expect(state.name(other) == tag)
    }

    @Test mutating func updateToATakenUniqueValueKeepsTheOldOne() throws {
        let (first, second) = (try tag(1, "a"), try tag(2, "b"))
        let losses = apply(MergeChange(.update, second, "Tag", ["name": text("a"), "rank": int(1)]))
        #expect(losses == [MergeLoss(object: second, reason: .keyTaken, attributes: ["name"])])
        #expect(state.shown(second, "name") == text("b") && state.shown(second, "rank") == int(1))
        #expect(state.shown(first, "name") == text("a"))
    }

    @Test mutating func uniqueValuesMoveWithinATransaction() throws {
        let (first, second) = (try tag(1, "a"), try tag(2, "b"))
        let swap = apply(
            MergeChange(.update, first, "Tag", ["name": text("b")]),
            MergeChange(.update, second, "Tag", ["name": text("a")]))
        #expect(swap.isEmpty && state.shown(first, "name") == text("b") && state.shown(second, "name") == text("a"))
        // The first cannot give up its value, so the second cannot take it.
        let third = try tag(3, "c")
        let losses = apply(
            MergeChange(.update, first, "Tag", ["name": text("c")]),
            MergeChange(.update, second, "Tag", ["name": text("b")]))
        #expect(Set(losses.map(\.object)) == [first, second])
        #expect(state.shown(first, "name") == text("b") && state.shown(second, "name") == text("a"))
        #expect(state.shown(third, "name") == text("c"))
    }

    @Test mutating func deniedDeletionIsLeftOut() throws {
        let tag = try tag(1, "a")
        let folder = try folder(1, ["guard": .object(tag)])
        let losses = apply(MergeChange(.delete, tag, "Tag"))
        #expect(losses == [MergeLoss(object: tag, reason: .stillReferred, attributes: [])])
        #expect(state.exists(tag) && state.shown(folder, "guard") == .object(tag))
        // Together with the object that refers to it, it can be deleted.
        let both = apply(MergeChange(.delete, folder, "Folder"), MergeChange(.delete, tag, "Tag"))
        #expect(both.isEmpty && !state.exists(tag) && !state.exists(folder))
    }

    @Test mutating func cascadeReachesUnknownObjectsAndStopsAtADenial() throws {
        let tag = try tag(1, "a")
        let outer = try folder(1)
        let inner = try folder(2, ["parent": .object(outer)])
        let note = try note(1, in: inner, must: tag)
        // The writer of the deletion knew neither the inner folder nor the note.
        #expect(apply(MergeChange(.delete, outer, "Folder")).isEmpty)
        #expect(!state.exists(outer) && !state.exists(inner) && !state.exists(note) && state.exists(tag))
    }

    @Test mutating func requiredReferenceKeepsItsTarget() throws {
        let (tag, other) = (try tag(1, "a"), try tag(2, "b"))
        let folder = try folder(1)
        let note = try note(1, in: folder, must: tag, ["tags": .objects([tag, other])])
        let losses = apply(MergeChange(.delete, tag, "Tag"))
        #expect(losses == [MergeLoss(object: tag, reason: .stillReferred, attributes: [])])
        #expect(apply(MergeChange(.delete, other, "Tag")).isEmpty)
        #expect(state.shown(note, "tags") == .objects([tag]))
    }

    @Test mutating func referencesToDeletedObjectsAreLeftOut() throws {
        let (tag, gone) = (try tag(1, "a"), try tag(2, "b"))
        let folder = try folder(1)
        let lost = try self.folder(2)
        apply(MergeChange(.delete, gone, "Tag"))
        apply(MergeChange(.delete, lost, "Folder"))
        let note = try note(1, in: folder, must: tag, ["tags": .objects([tag, gone])])
        #expect(state.shown(note, "tags") == .objects([tag]))
        // An update keeps the old reference, and the insertion of a note without its folder is left out.
        let update = apply(MergeChange(.update, note, "Note", ["folder": .object(lost), "title": text("x")]))
        #expect(update == [MergeLoss(object: note, reason: .referenceIsGone, attributes: ["folder"])])
        #expect(state.shown(note, "folder") == .object(folder) && state.shown(note, "title") == text("x"))
        let orphan = try name(3, 9)
        let insertion = apply(
            MergeChange(.insert, orphan, "Note", ["folder": .object(lost), "must": .object(tag)]))
        #expect(insertion == [MergeLoss(object: orphan, reason: .referenceIsGone, attributes: [])])
        #expect(!state.exists(orphan))
    }

    @Test mutating func reinsertedObjectTakesItsPlaceOrJoinsItsSuccessor() throws {
        let tag = try tag(1, "a")
        apply(MergeChange(.delete, tag, "Tag"))
        #expect(apply(MergeChange(.insert, tag, "Tag", ["name": text("a"), "rank": int(1)])).isEmpty)
        #expect(state.exists(tag) && state.shown(tag, "rank") == int(1))
        apply(MergeChange(.delete, tag, "Tag"))
        let successor = try self.tag(2, "a")
        apply(MergeChange(.insert, tag, "Tag", ["name": text("a"), "rank": int(2)]))
        #expect(state.name(tag) == successor && state.shown(successor, "rank") == int(2))
    }

    @Test mutating func transactionThatNamesAnObjectTwiceChangesItOnce() throws {
        let (x, w, z) = (try tag(1, "x"), try tag(2, "w"), try tag(3, "z"))
        // A hostile one: no store writes it.
        let losses = apply(
            MergeChange(.insert, x, "Tag", ["name": text("w")]), MergeChange(.insert, x, "Tag", ["name": text("z")]))
        #expect(losses.count == 2)
        #expect([x, w, z].map { state.shown($0, "name") } == [text("x"), text("w"), text("z")])
    }

    @Test func bothZerosAreOneUniqueValue() throws {
        let entity = EntityDescription("E", attributes: [AttributeDescription("d", .double, isUnique: true)])
        var state = MergeState(MergeSchema([entity]))
        let (first, second) = (try name(1, 1), try name(1, 2))
        for (number, (object, value)) in [(first, 0.0), (second, -0.0)].enumerated() {
            let change = MergeChange(.insert, object, "E", ["d": MergeValue(Value.double(value))])
            state.apply(MergeTransaction(Stamp(UInt64(number + 1), Self.first), [change]))
        }
        #expect(state.name(second) == first)
    }

    @Test func stampsAreOrderedByNumberAndThenByStore() {
        let stamps = [
            Stamp(1, Self.second), Stamp(2, Self.first), Stamp(1, Self.first), Stamp(2, Self.second),
        ]
        #expect(
            stamps.sorted() == [
                Stamp(1, Self.first), Stamp(1, Self.second), Stamp(2, Self.first), Stamp(2, Self.second),
            ])
    }

    @Test func transactionsAreSettledOnlyBeforeAllThatStay() {
        func settled(_ numbers: [UInt64], below stable: UInt64) -> Int {
            MergeReplay.settled(numbers.map { Stamp($0, Self.first) }, below: Stamp(stable, Self.first))
        }
        #expect(settled([], below: 5) == 0)
        #expect(settled([1, 2, 3], below: 3) == 2)
        #expect(settled([1, 2, 3], below: 9) == 3)
        // The third comes before the second, and stays.
        #expect(settled([1, 4, 3, 6], below: 4) == 1)
        #expect(settled([1, 4, 3, 6], below: 5) == 3)
        #expect(settled([7, 1], below: 7) == 0)
    }
}
