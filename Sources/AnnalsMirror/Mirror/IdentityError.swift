// The errors of a mirror whose store is not the one that its name belongs to, or that another mirror has.

public import Annals

extension StoreError.Code {
    /// Another process, or another `Mirror` of this one, mirrors the store. The mirror takes over when that one ends.
    public static let mirroredElsewhere = Self(rawValue: "mirroredElsewhere")
    /// The store is a copy of the one that takes part in the group, or was moved to another machine or file system.
    public static let storeCopied = Self(rawValue: "storeCopied")
    /// The store lacks transactions of its own that the group has: an older state has replaced it.
    public static let storeRestored = Self(rawValue: "storeRestored")
}

enum IdentityError {
    /// Remedies for a store that is to go on in the group under another identity.
    private static let anotherIdentity =
        "To have this data in the group, begin with an empty store, which gets everything from the group. Changes that "
        + "were made in the copy can be brought into it: “annals export COPY --after N --new-identity | annals apply "
        + "NEW -”, where N is the last transaction before it was copied. To use the "
        + "copy outside the group, give it an identity of its own (`annals backup --new-identity`)."

    static func copied(_ comparison: StoreMark.Comparison, path: String) -> StoreError {
        let finding =
            comparison == .otherMachine
            ? "This store was mirrored on another machine before. It was moved here, or it is a copy"
            : "This store was copied from another one, or moved to another file system"
        return StoreError(
            .storeCopied,
            finding + ", so it does not publish under its name: two stores with one name would lose each other's "
                + "changes. If the original is gone for good, run `annals mirror adopt STORE`. Otherwise keep the "
                + "original. " + anotherIdentity, path: path)
    }

    static let runsTwice = StoreError(
        .storeCopied,
        "Another mirror publishes under the name of this store: one of the two stores is a copy of the other. Stop "
            + "both mirrors, and keep one of the stores. " + anotherIdentity)

    /// - Parameters:
    ///   - number: Of the transaction that the group has.
    ///   - newest: The store's newest one; nil if it has another transaction with the number.
    ///   - common: The last transaction that this store is known to have in common with the group.
    static func restored(_ number: UInt64, newest: UInt64?, common: UInt64) -> StoreError {
        let finding =
            newest.map { "transaction \(number) of this store, whose newest one is \($0)" }
            ?? "another transaction \(number) of this store than the store itself"
        return StoreError(
            .storeRestored,
            "The group has \(finding). It was restored from a backup or a snapshot, or a copy of it publishes under "
                + "its name, so it does not publish. Move it away, and begin with an empty store, which gets "
                + "everything from the group. Then bring what was changed here since it was restored into that store: "
                + "“annals export OLD --after \(common) --new-identity | annals apply NEW -”. The group has "
                + "transaction \(common), too. If “annals history OLD” shows that the first ones after it are older "
                + "than the restoring, begin after those.")
    }

    /// No other kind of file is removed or overwritten.
    static func foreign(_ name: String) -> StoreError {
        StoreError(
            .alreadyExists,
            "“\(name)” was not made by a mirror. The mirror of the store keeps its lease under this name: move the "
                + "file away.")
    }

    static func held(by process: UInt32, _ name: String) -> StoreError {
        let holder = process > 0 ? "Process \(process)" : "Another process"
        return StoreError(
            .mirroredElsewhere,
            "\(holder) mirrors this store and holds “\(name)”. One mirror runs for a store at a time: this one waits, "
                + "and takes over when the other ends.")
    }

    /// An error of the system about the lease's file, with the file's purpose.
    static func explained(_ error: StoreError, _ name: String) -> StoreError {
        switch error.code {
        case .permissionDenied, .readOnly, .noSpace:
            error.saying(
                "The mirror keeps a file “\(name)” beside the store, which shows that it runs, and cannot write it. "
                    + error.message)
        default: error
        }
    }
}
