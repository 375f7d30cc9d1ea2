// The facts that a lease knows about its store, and the decision whether the store may publish under its name.

package import Annals

extension MirrorLease {
    /// The present facts about the store. Compaction changes them, so read them each time the record is kept.
    ///
    /// - Parameter machineFile: The file with the machine's identifier.
    package func mark(machineFile: String = "/etc/machine-id") throws(StoreError) -> StoreMark {
        StoreMark(
            lease: digits, leaseFile: try facts(name), storeFile: try facts(place.name),
            machine: Self.machine(machineFile))
    }

    /// Compares the mark in the store's record with the present facts.
    ///
    /// - Parameters:
    ///   - recorded: Nil if no mirror has kept a mark yet: then nothing can have been copied under it.
    ///   - found: The present facts.
    /// - Throws: `storeCopied`.
    package func requireOwn(_ recorded: StoreMark?, found: StoreMark) throws(StoreError) {
        guard let recorded else { return }
        let comparison = StoreMark.compare(recorded: recorded, found: found)
        guard comparison == .same else {
            throw IdentityError.copied(comparison, path: StorePlace.path(of: place.name, in: place.directoryPath))
        }
    }

    /// Makes a copy the store that takes part in the group, because the original is gone for good.
    ///
    /// - Parameter keep: Keeps the new mark in the store's record, durably.
    /// - Throws: `mirroredElsewhere` while a mirror runs for the copy, and the errors of `take` and `keep`.
    package static func adopt(_ store: Store, keep: (StoreMark) throws -> Void) throws {
        guard let lease = try take(store) else { return }
        defer { withExtendedLifetime(lease) {} }
        try keep(try lease.mark())
    }

    private func facts(_ name: String) throws(StoreError) -> StoreMark.File {
        do throws(MirrorSystem.Failure) {
            let (inode, created) = try MirrorSystem.birth(of: name, in: place.directory.number)
            return StoreMark.File(inode: inode, created: created)
        } catch {
            let path = StorePlace.path(of: name, in: place.directoryPath)
            throw StoreError(SystemError(error.call, error.number), path: path)
        }
    }

    /// The identifier itself is not for other programs (machine-id(5)), and the record is in a file that may be copied.
    private static func machine(_ path: String) -> String? {
        let files = RealFileSystem()
        guard let place = try? files.openPlace(path) else { return nil }
        defer { files.close(place.directory) }
        guard let file = try? files.open(place.name, in: place.directory, access: .readOnly) else { return nil }
        defer { files.close(file) }
        var bytes = [UInt8](repeating: 0, count: 64)
        let count = try? bytes.withUnsafeMutableBufferPointer { (all) throws(StoreError) in
            try files.read(file, at: 0, into: UnsafeMutableRawBufferPointer(all))
        }
        // Before the first start of a system, the file is empty or has another word.
        let digits = bytes.prefix(count ?? 0).prefix { $0 != UInt8(ascii: "\n") }
        guard digits.count == 32, digits.allSatisfy({ Character(Unicode.Scalar($0)).isHexDigit }) else { return nil }
        let hash = Array(digits).withUnsafeBytes { Checksum.hash($0, seed: 0) }
        return String(hash, radix: 16)
    }
}
