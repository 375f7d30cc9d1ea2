// The constants of the form of messages. MirrorMessages.md describes the form; a test compares both.

internal import Annals

/// The header of a message, and limits. The names are those of the page.
package enum MessageFormat {
    /// The first bytes of a message.
    package static let magic: [UInt8] = [0x89, 0x41, 0x4d]
    /// The first bytes of a part of a message.
    package static let partMagic: [UInt8] = [0x89, 0x41, 0x50]
    /// The version that this program writes, and the only one that it reads.
    package static let version: UInt8 = 1
    package static let headerBytes = 24
    package static let partHeaderBytes = 56
    /// The largest message. A transaction with more than this cannot be sent.
    package static let maximumMessageBytes = 1_073_741_824
    /// The smallest maximum that a courier may have.
    package static let minimumBodyBytes = 64
    /// The largest number in the order of a group.
    package static let maximumLamport: UInt64 = 4_611_686_018_427_387_904
    /// Bits of `required` that this version defines.
    package static let knownRequired: UInt8 = 0

    package enum Field {
        package static let magic = 0
        package static let version = 3
        package static let kind = 4
        package static let optional = 5
        package static let required = 6
        package static let zero = 7
        package static let contentBytes = 8
        package static let extensionBytes = 12
        package static let checksum = 16
    }

    package enum PartField {
        package static let magic = 0
        package static let version = 3
        package static let zero = 4
        package static let optional = 5
        package static let required = 6
        package static let zero2 = 7
        package static let index = 8
        package static let count = 12
        package static let messageBytes = 16
        package static let zero3 = 20
        package static let published = 24
        package static let transaction = 32
        package static let messageChecksum = 40
        package static let checksum = 48
    }

    /// The kinds of message. Kind 0 never gets a meaning.
    package enum Kind {
        package static let transaction: UInt8 = 1
        package static let state: UInt8 = 2
        package static let receipt: UInt8 = 3
        package static let request: UInt8 = 4
        package static let join: UInt8 = 5
        package static let leave: UInt8 = 6
        package static let stateBeginning: UInt8 = 7
        package static let stateStretches: UInt8 = 8
        package static let stateObjects: UInt8 = 9
        package static let stateEnd: UInt8 = 10
        package static let stateAliases: UInt8 = 11
        package static let stateRequest: UInt8 = 12
    }

    package enum Seed {
        package static let header: UInt64 = 0
        package static let part: UInt64 = 1
        package static let message: UInt64 = 2
    }
}

/// The first byte of a value.
package enum ValueTag {
    package static let null: UInt8 = 0
    package static let no: UInt8 = 1
    package static let int: UInt8 = 2
    package static let double: UInt8 = 3
    package static let string: UInt8 = 4
    package static let data: UInt8 = 5
    package static let date: UInt8 = 6
    package static let uuid: UInt8 = 7
    package static let decimal: UInt8 = 8
    package static let json: UInt8 = 9
    package static let object: UInt8 = 10
    package static let orderedObjects: UInt8 = 11
    package static let objects: UInt8 = 12
    package static let yes: UInt8 = 13
}

extension StoreError {
    /// The error about bytes that no version writes. `what` is the reason, as a part of a sentence.
    @inline(never)
    static func malformedMessage(_ what: String, offset: Int? = nil) -> StoreError {
        StoreError(
            .exportMalformed,
            "A message of the mirror is not as it was sent: \(what). The mirror asks its sender for it again.",
            offset: offset.map { UInt64($0) })
    }

    /// The error about intact bytes that only a later version can mean.
    @inline(never)
    static func newerMessage(_ what: String) -> StoreError {
        StoreError(
            .unsupportedVersion,
            "A message of the mirror \(what), which this program does not know: a newer version of Annals sent it. "
                + "Update Annals on this machine. Until then the message waits.")
    }
}
