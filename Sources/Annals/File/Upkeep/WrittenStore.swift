// Proves the content of a new file before it takes a store's name.
//
// Invariants:
// WS1  Compaction, backup and salvage rename a file only after this proof: the name leads to the written file, and the
//      file, opened again by that name, has the required header, end, last transaction and counts of objects.

/// The content that a complete file must have.
package struct WrittenStore {
    /// The header's checksum covers the store ID, the generation and the random salt.
    package var headerChecksum: UInt64
    package var identity: FileIdentity
    package var end: UInt64
    package var number: UInt64
    package var tag: UInt64
    /// The totals of the entities of the newest schema: a removed one leaves nothing.
    package var totals: [UInt16: EntityTotals] = [:]

    /// Describes a file that was written and sealed by `target`, and must have the objects of `state`.
    package init(_ target: Engine, _ state: View) {
        headerChecksum = target.log.header.checksum
        identity = target.log.identity
        end = target.log.current.end
        (number, tag) = (state.number, state.tag)
        for entity in state.catalog.entities(version: state.catalog.newestVersion) {
            totals[entity.number] = state.totals?[entity.number] ?? EntityTotals()
        }
    }

    /// Throws `busy` if another file has the name, and `damaged` if the file lacks required content.
    package func prove(_ name: String, in place: StorePlace, of target: Engine) throws(StoreError) {
        let files = target.log.files
        let found = try files.identity(of: name, in: place.directory)
        guard found.isSameFile(as: identity), found.links == 1 else { throw Self.otherFile(name) }
        var options = target.options
        options.reading = .copied
        options.log.synchronizesInBackground = false
        let engine = try Engine.open(
            at: files.reopen(place, name: name), access: .readOnly, options: options, files: files,
            environment: target.log.environment)
        defer { try? engine.log.closeReplaced() }
        guard engine.log.identity.isSameFile(as: identity) else { throw Self.otherFile(name) }
        let view = try engine.view()
        guard engine.log.header.checksum == headerChecksum, engine.log.current.end == end, view.number == number,
            view.tag == tag, hasTheObjects(view)
        else {
            throw StoreError(
                .damaged,
                "The new file was read back with different content, so it did not replace the store. Nothing was lost: "
                    + "check the disk, and try again.", path: place.path)
        }
    }

    private func hasTheObjects(_ view: View) -> Bool {
        totals.allSatisfy { (entity, wanted) in
            let found = view.totals?[entity] ?? EntityTotals()
            // Numbers are never used again.
            return found.live == wanted.live && found.nextNumber >= wanted.nextNumber
        }
    }

    private static func otherFile(_ name: String) -> StoreError {
        StoreError(
            .busy,
            "Another program has put a file in the place of “\(name)”, so nothing was replaced: find that program, and "
                + "try again.")
    }
}
