// Compares what the group has of this store with the store itself, to notice that an older state has replaced it, or
// that a copy publishes under its name.

package import Annals
package import FoundationEssentials

/// Sees the messages of all peers, in the courier's order. A peer stops publishing after the first error.
///
/// The tag of a transaction is a hash of everything up to it, so two histories that parted have different tags from
/// there on.
package struct OwnHistoryCheck {
    private let store: UUID
    private let instance: UInt64
    /// Of earlier mirrors of this store.
    private let earlier: Set<UInt64>
    /// The last transaction that this store is known to have in common with the group.
    private let common: UInt64
    private var hasReadOwnJoin = false

    /// - Parameters:
    ///   - store: The store's identifier.
    ///   - instance: The number in the join messages of this mirror. Keep it for as long as the mirror runs, over all
    ///     its connections.
    ///   - earlier: The numbers of mirrors that this one has replaced. A courier may deliver their messages late.
    ///   - common: The last transaction that earlier mirrors have published.
    package init(store: UUID, instance: UInt64, earlier: Set<UInt64> = [], common: UInt64 = 0) {
        (self.store, self.instance, self.earlier, self.common) = (store, instance, earlier, common)
    }

    /// Checks a transaction of this store in a message: its token, or the place that another message names.
    ///
    /// A lookup of a tag reads a part of history. Of transactions that name each other as predecessors, only the last
    /// one needs it: its tag covers the others.
    ///
    /// - Parameters:
    ///   - newest: The number of the store's newest transaction, read after the message.
    ///   - tag: Returns the tag of a transaction here; nil if it was cleaned.
    /// - Throws: `storeRestored`, and the errors of `tag`.
    package func requireKnown(
        _ token: HistoryToken, newest: UInt64, tag: (UInt64) throws(StoreError) -> UInt64?
    ) throws(StoreError) {
        guard token.storeIdentifier == store, token.number > 0 else { return }
        try requireKnown(token.number, newest: newest)
        if let found = try tag(token.number), found != token.tag {
            throw IdentityError.restored(token.number, newest: nil, common: common)
        }
    }

    /// Checks the number of a transaction of this store that a receipt, or another vector, contains.
    ///
    /// - Throws: `storeRestored`.
    package func requireKnown(_ number: UInt64, newest: UInt64) throws(StoreError) {
        if number > newest { throw IdentityError.restored(number, newest: newest, common: common) }
    }

    /// Checks a join message that this store has sent.
    ///
    /// - Throws: `storeCopied` for one of another mirror that came after that of this one. Send the join again before
    ///   the mirror ends: then the other mirror notices it, too.
    package mutating func see(_ join: PeerMessage) throws(StoreError) {
        guard join.peer == store else { return }
        if join.instance == instance {
            hasReadOwnJoin = true
        } else if hasReadOwnJoin, !earlier.contains(join.instance) {
            throw IdentityError.runsTwice
        }
    }
}

extension Store {
    /// The tag of a transaction, whatever wrote it; nil if history does not reach back to it, or not so far yet.
    package func tag(ofTransaction number: UInt64) throws(StoreError) -> UInt64? {
        do {
            return try snapshot(asOf: number).token.tag
        } catch let error as StoreError {
            if error.code == .tokenExpired || error.code == .tokenUnknown { return nil }
            throw error
        } catch {
            preconditionFailure("A snapshot throws StoreError only.")
        }
    }
}
