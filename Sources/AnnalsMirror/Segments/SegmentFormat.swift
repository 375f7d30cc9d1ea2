// The numbers of the form of segments and states. Readers and writers share them. All integers are little-endian.
//
// A segment, in the order of its bytes:
//
//     8   magic “ANNALSEG”
//     4   version
//     4   bytes of the header, its checksum included
//     8   bytes of the file
//     8   run: a random number for which the peer counts its segments from 1
//     8   serial: the segment's place in its run
//     8   oldest serial of the run that the folder kept when the segment was written
//     8   lowest message number
//     8   highest message number
//     4   count of messages
//     2   bytes of the sender's name
//     2   bytes of the group's name
//         sender, group
//     8   checksum of the header
//
//     4   bytes of the body                    for each message
//     8   message number
//     8   checksum of the two above and the body; its seed is the header's checksum
//         body
//
//     8   checksum of all bytes above
//
// A state:
//
//     8   magic “ANNALSTA”
//     4   version
//     4   bytes of the header, its checksum included
//     2   bytes of the group's name
//     2   bytes of the state's name
//         group, name
//     8   checksum of the header
//
//     4   bytes of the part, not 0             for each part
//     8   checksum of the part; its seed is the checksum before
//         part
//
//     8   magic “STATEEND”
//     8   bytes of the file
//     8   bytes of all parts
//     8   the last part's checksum, or the header's
//     8   checksum of the four above
//
// The first 16 bytes (of a segment 24) and the header's checksum at its end stay the same in later versions. So a
// reader can tell a later version from damage, and a segment from a part of it.

package enum SegmentFormat {
    package static let magic: [UInt8] = Array("ANNALSEG".utf8)
    package static let version: UInt32 = 1
    /// Up to the name of the sender.
    package static let fixedHeaderBytes = 72
    package static let maximumHeaderBytes = 4096
    package static let messageHeaderBytes = 20
    package static let checksumBytes = 8
    /// The first part of the header, which stays the same in later versions.
    package static let preludeBytes = 24
    /// Small enough to be read in one piece.
    package static let maximumFileBytes = 4 << 20
    /// The largest body, so that a segment has room for it.
    package static let maximumBodyBytes = 1 << 20
    package static let maximumNameBytes = 512
}

package enum StateFormat {
    package static let magic: [UInt8] = Array("ANNALSTA".utf8)
    package static let endMagic: [UInt8] = Array("STATEEND".utf8)
    package static let version: UInt32 = 1
    package static let preludeBytes = 16
    package static let fixedHeaderBytes = 20
    package static let maximumHeaderBytes = 4096
    package static let partHeaderBytes = 12
    package static let trailerBytes = 40
}

/// Seeds keep a checksum of one kind from being taken for one of another kind.
package enum SegmentSeed {
    package static let header: UInt64 = 1
    package static let whole: UInt64 = 2
    package static let stateHeader: UInt64 = 3
    package static let stateTrailer: UInt64 = 4
}
