// The file that a killed compaction leaves beside a store.
//
// Invariants:
// LF1  A file is removed only if a compaction has made it, and no program has written transactions to it since.
// LF2  The caller holds the compaction lock of the store's file, so no compaction of that file is under way.

/// The file that has the temporary name of a store's compaction.
package struct CompactionLeftover {
    private let files: any FileSystem
    private let directory: Descriptor
    private let header: FileHeader
    private let name: String

    private enum Kind {
        case ofThisStore
        /// A compaction of another store did not complete it. That store had this name before.
        case unfinishedOfAnother
        case foreign
    }

    /// `header` is that of the store.
    package init(of store: StorePlace, _ header: FileHeader, _ files: any FileSystem) {
        (self.files, self.directory, self.header) = (files, store.directory, header)
        name = TemporaryName.compaction.of(store.name)
    }

    /// Removes the unfinished file of a compaction of this store. Keeps any other file.
    package func removeOwn() throws(StoreError) {
        do throws(StoreError) {
            if try kind() == .ofThisStore { try files.unlink(name, in: directory) }
        } catch  where [.notFound, .notARegularFile].contains(error.code) {}
    }

    /// Makes room for a compaction: also removes the unfinished file of another store's compaction.
    ///
    /// Throws `alreadyExists` if another kind of file has the name.
    func makeRoom() throws(StoreError) {
        do throws(StoreError) {
            if try kind() == .foreign {
                throw StoreError(
                    .alreadyExists,
                    "“\(name)” was not left by a compaction of this store, so it was not removed. Compaction writes "
                        + "its file under this name: move it away, and try again.")
            }
            try files.unlink(name, in: directory)
        } catch  where error.code == .notFound {
        } catch  where error.code == .notARegularFile {
            throw .nameTaken(name, by: "Compaction")
        }
    }

    private func kind() throws(StoreError) -> Kind {
        let file = try files.open(name, in: directory, access: .readOnly)
        defer { files.close(file) }
        let window = ByteWindow(files, file, stepBytes: FormatLimits.pageBytes)
        defer { withExtendedLifetime(window) {} }
        guard let (other, hints) = try? Log.readHeader(window), other.generation > 0 else { return .foreign }
        // A compaction writes one hint, when its file is complete.
        let written = hints.filter { $0 != .empty }
        guard other.storeID == header.storeID else { return written.isEmpty ? .unfinishedOfAnother : .foreign }
        // A copy of the store's present file.
        if other.checksum == header.checksum { return .foreign }
        // The store's generation proves little: a restored backup may have the leftover's generation, or a later one.
        guard let hint = written.first else { return .ofThisStore }
        // The next hint is written when the file has the store's name, durably.
        if written.count > 1 { return .foreign }
        // A power failure may have undone that name, although the file was written to since (LF1).
        if other.generation == header.generation &+ 1 { return .ofThisStore }
        return try isEnd(hint, window) ? .ofThisStore : .foreign
    }

    /// Whether the end in a hint is still the end of the file.
    private func isEnd(_ slot: HintSlot, _ window: ByteWindow) throws(StoreError) -> Bool {
        guard case .good(let hint) = slot else { return false }
        return try window.bytes(at: hint.durableEnd, count: FrameField.bytes).allSatisfy { $0 == 0 }
    }
}
