// A save between the moment in which its contents are fixed and the moment in which the context moves to a state with
// its transaction.
//
// The changes being saved lie over the store's values: an object shows the value of a state, with the changes that are
// on their way (`SentObject.overlay`). So edits, merges, undo and the rest treat them as saved. When the context moves
// to a state that contains the transaction, the overlay goes, and the objects are refreshed as after any other commit.
// If the transaction is not written, the changes are unsaved again.
//
// The states of a save, and the effect of each operation (`SaveInFlightTests` enumerates the table):
//
// | operation                   | on its way                       | written, context behind | over                |
// |-----------------------------|----------------------------------|-------------------------|---------------------|
// | edit, insert, delete        | relative to what is being saved  | the same                | relative to the store |
// | undo, rollback, discard     | back to what is being saved      | the same                | back to the store   |
// | merge, follow, tracker      | moves under the overlay          | lands                   | moves               |
// | refresh                     | reads under the overlay          | reads the store         | reads the store     |
// | fetch                       | finds what is being saved        | the same                | finds the store's   |
// | save                        | recalls it, and saves all at once | lands, saves the rest  | saves               |
// | saveInBackground            | waits for its turn               | waits for its turn      | saves               |
// | the task is cancelled       | the changes are unsaved again    | nothing                 | nothing             |
// | the transaction fails       | the changes are unsaved again    | (cannot fail any more)  |                     |
// | close                       | the transaction is written       | nothing                 | nothing             |
//
// Invariants:
// BS1  A commit by any writer reaches a context in one way: `ContextCore.move(to:)`.
// BS2  A context has at most one save in flight.
// BS3  A context never writes an attribute that it never set: an overlay changes only properties that were edited
//      before the save began, and an edit is compared with the value that was shown when it was made.
// BS4  An overlay is relative to the state whose value its object shows: code that shows the value of a newer or older
//      state rebases it (`ContextCore.valueToShow`, `ObjectRefreshment`).
// BS5  A save that lands in the state of its own transaction does not read objects that show what it has written, if
//      nothing but the save sets their attributes (`EntityBinding.readsAsWritten`).

internal import FoundationEssentials

/// The writing thread's result of a transaction. Any thread may call it.
///
/// Sound although it is shared: `state` is touched only with `monitor` locked.
final class SaveOutcome: @unchecked Sendable {
    enum State {
        case waiting
        /// Another writer was faster, or it failed: this attempt writes nothing.
        case ended
        /// Nothing had to be written.
        case unchanged
        /// It is the transaction of this number. `permanent` has the inserted objects' IDs by their temporary ones.
        case appended(number: UInt64, permanent: PermanentIDs)
    }

    private let monitor = Monitor()
    private var known = State.waiting

    var state: State { monitor.withLock { known } }

    /// Called under the writer lock, before any snapshot of the store contains the transaction.
    func append(_ number: UInt64, _ permanent: PermanentIDs) {
        monitor.withLock { known = .appended(number: number, permanent: permanent) }
    }

    /// The attempt is over. Wakes waiting threads.
    func end(isUnchanged: Bool) {
        monitor.withLock {
            if case .waiting = known { known = isUnchanged ? .unchanged : .ended }
            monitor.signalAll()
        }
    }

    /// Waits until the transaction is appended, or the attempt is over.
    func wait() {
        monitor.withLock { while case .waiting = known { monitor.wait() } }
    }

    /// Whether a state of the context's store contains the save.
    func isContained(in snapshot: Snapshot) -> Bool {
        switch state {
        case .waiting, .ended: false
        case .unchanged: true
        case .appended(let number, _): snapshot.token.number >= number
        }
    }
}

/// The result of a save.
struct SaveResult: Sendable {
    var permanent: PermanentIDs
    var token: HistoryToken?
}

/// A save of a context whose changes lie over the store's values.
final class SaveInFlight {
    /// The way in which it ended; nil while it is on its way.
    enum Ending {
        /// The context has moved to a state with its transaction.
        case landed
        /// It was not written. Its changes are unsaved again.
        case takenBack
        /// The context was closed.
        case closed
    }

    /// By the IDs that the objects have now.
    private(set) var objects = ObjectIDTable<any SentObject>()
    /// The plan that is being written: that for the newest known state.
    private(set) var plan: SavePlan
    private(set) var outcome: SaveOutcome
    private var write: AsyncWrite<SaveResult>?
    private var hasAdopted = false
    /// The number of its transaction. Known when the objects have their IDs; nil if nothing had to be written.
    private(set) var number: UInt64?
    var ending: Ending?
    /// Whether its changes were an undo group that ended when it began.
    let endsGroup: Bool
    /// The result of the save that took this one's place.
    var successor: HistoryToken?

    init(_ objects: ObjectIDTable<any SentObject>, _ plan: SavePlan, _ outcome: SaveOutcome, endsGroup: Bool) {
        (self.objects, self.plan, self.outcome, self.endsGroup) = (objects, plan, outcome, endsGroup)
    }

    /// Begins an attempt to write a plan.
    func begin(_ plan: SavePlan) -> AsyncWrite<SaveResult> {
        let write = AsyncWrite<SaveResult>()
        (self.plan, self.write, outcome) = (plan, write, SaveOutcome())
        return write
    }

    /// Prevents the transaction, unless it is being appended: then waits for that. Afterwards it is written or will not
    /// be.
    func recall() {
        if case .waiting = outcome.state, write?.recall() == false { outcome.wait() }
    }

    /// Whether a state contains the save.
    func isContained(in snapshot: Snapshot) -> Bool { outcome.isContained(in: snapshot) }

    /// Whether it is written, or nothing had to be written.
    var isAppended: Bool {
        switch outcome.state {
        case .waiting, .ended: false
        case .unchanged, .appended: true
        }
    }

    /// Gives the objects the IDs that the transaction has given them. Does nothing before it is written.
    func adoptIDs(_ core: ContextCore) {
        guard !hasAdopted else { return }
        var permanent: PermanentIDs = [:]
        switch outcome.state {
        case .waiting, .ended: return
        case .unchanged: break
        case .appended(let found, let ids): (number, permanent) = (found, ids)
        }
        hasAdopted = true
        plan.adoptIDs(self, core, permanent)
        var renamed = ObjectIDTable<any SentObject>()
        renamed.reserveCapacity(objects.count)
        // The policy may have dropped the edits of an object that another one has replaced.
        for object in objects.values where !object.live.isReplaced {
            if !permanent.isEmpty { object.replaceReferences(permanent) }
            renamed[object.live.id] = object
        }
        objects = renamed
        guard !permanent.isEmpty else { return }
        for object in core.pending.values { object.replaceReferences(permanent) }
        core.recorder?.replaceReferences(permanent, to: nil)
    }
}
