// The limits of the file format: one constant for each line of the list in FileFormat.md, under the same name.

/// The limits that readers accept and writers keep.
package enum FormatLimits {
    package static let readVersion: UInt16 = 1
    package static let writeVersion: UInt16 = 1
    package static let pageBytes = 4096
    package static let frameAlignment = 8
    package static let maximumFrameBytes = 524_288
    package static let maximumNodeFrameBytes = 65536
    package static let maximumInlineValueBytes = 65536
    package static let maximumInlineRowBytes = 262_144
    package static let maximumValueBytes = 1_099_511_627_776
    package static let maximumListElements = 8000
    package static let maximumDeltas = 16
    package static let maximumAttributes = 1000
    package static let maximumEntities = 65535
    package static let maximumSchemaVersions = 65535
    package static let maximumNameBytes = 1024
    package static let maximumNames = 65535
    package static let maximumConsumers = 1000
    package static let maximumIdentifierBytes = 255
    package static let maximumTransactionNumber: UInt64 = 9_223_372_036_854_775_807
    package static let maximumObjectNumber: UInt64 = 281_474_976_710_655
    package static let maximumFileBytes: UInt64 = 4_611_686_018_427_387_904
}
