// Salvage: copies the readable content of a damaged store into a new one.

extension Store {
    /// The result of salvage.
    public typealias SalvageReport = Annals.SalvageReport

    /// Creates a new store from the readable content of a damaged one.
    ///
    /// Every part of the file with correct checksums is read, even if nothing refers to it. For each object, the new
    /// store contains the newest values that were found, under the object's ID. Objects that were deleted stay deleted,
    /// as far as their deletion was found. The new store has an identifier of its own and no history; its transactions
    /// have the author “salvage”. Old object numbers are not used again.
    ///
    /// If objects now have equal unique values, or lack a required one, they are kept, and the new schema drops that
    /// rule. `SalvageReport.schemaChanges` lists these changes.
    ///
    /// The damaged file is opened for reading only, and other processes may use it at the same time. Until the new
    /// store is complete, it is called `.NAME.annals-salvage`. If salvage is killed, the next salvage to the same path
    /// removes that file. Takes as long as reading the whole file and writing the objects. Memory use does not grow
    /// with the number of objects.
    ///
    /// - Parameters:
    ///   - source: The path of the damaged store.
    ///   - target: The path of the new store. Nothing may exist there.
    ///   - progress: Called every few MiB, on this thread, with the number of bytes of the damaged file that have been
    ///     read. Return false to cancel.
    ///
    /// Throws `StoreError`: `notFound`; `notARegularFile`; `alreadyExists` if something exists at `target`; `busy` if
    /// another process salvages to it; `cancelled`; `notAStore`, `truncated` or `damaged` if nothing can be read;
    /// `unsupportedVersion` if a newer program wrote the store; `noSpace`; and other errors of the system. Nothing can
    /// be read without the header page: all checksums depend on the salt in it.
    @discardableResult
    public static func salvage(
        from source: String, to target: String, progress: (@Sendable (CompactionProgress) -> Bool)? = nil
    ) throws -> SalvageReport {
        var options = SalvageOptions()
        options.context = "salvage"
        options.progress = progress
        return try Salvage.run(
            from: source, to: target, options: options, files: RealFileSystem(), environment: RealEnvironment())
    }
}
