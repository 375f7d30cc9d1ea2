// The facts by which a mirror recognizes its store. A copy has the same content, and other facts.

/// Facts about a store outside its content, kept in the mirror's durable record. Coded as JSON.
package struct StoreMark: Hashable, Sendable, Codable {
    /// A file, as its file system distinguishes it from all others.
    package struct File: Hashable, Sendable, Codable {
        package var inode: UInt64
        /// Nanoseconds since 1970; nil if the file system keeps no creation times.
        package var created: Int64?

        package init(inode: UInt64, created: Int64?) { (self.inode, self.created) = (inode, created) }
    }

    /// The random bytes in the lease file, as hexadecimal digits.
    package var lease: String
    package var leaseFile: File
    package var storeFile: File
    /// A hash of the machine's identifier; nil if it cannot be read.
    package var machine: String?

    package init(lease: String, leaseFile: File, storeFile: File, machine: String?) {
        (self.lease, self.leaseFile, self.storeFile) = (lease, leaseFile, storeFile)
        self.machine = machine
    }
}

// MARK: Comparing

extension StoreMark {
    /// The result of comparing a record with the present facts.
    package enum Comparison: Hashable, Sendable {
        /// Recognized by its lease file, its own file, or both.
        case same
        /// Another file on the same machine, as far as that is known.
        case copied
        /// The record was written on another machine.
        case otherMachine
    }

    /// Compares the mark in the store's record with the present one.
    ///
    /// | machine | lease file | store file | result |
    /// |---|---|---|---|
    /// | another | any | any | `otherMachine` |
    /// | the same or unknown | the same | any | `same`: also after compaction, which replaces the store's file |
    /// | the same or unknown | another | the same | `same`: the store alone was renamed |
    /// | the same or unknown | another | another | `copied` |
    package static func compare(recorded: StoreMark, found: StoreMark) -> Comparison {
        if let recorded = recorded.machine, let found = found.machine, recorded != found { return .otherMachine }
        let hasSameLease =
            recorded.lease == found.lease && recorded.leaseFile.inode == found.leaseFile.inode
            && (recorded.leaseFile.created == nil || found.leaseFile.created == nil
                || recorded.leaseFile.created == found.leaseFile.created)
        // An inode alone proves nothing: the next file gets the number of a removed one.
        let hasSameFile = recorded.storeFile == found.storeFile && found.storeFile.created != nil
        return hasSameLease || hasSameFile ? .same : .copied
    }
}
