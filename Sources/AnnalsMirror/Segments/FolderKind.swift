// The weak points of a file system for a mirror's folder.

package enum FolderKind {
    /// Sentences about a file system by the kernel's number for it (statfs(2), linux/magic.h).
    package static func weaknesses(kind: UInt32) -> [String] {
        if let name = networkName(kind) {
            return [
                "The folder is on a network file system (\(name)): new messages are noticed by looking every two "
                    + "seconds, and a sync is only as good as the server's."
            ]
        }
        switch kind {
        case 0x6573_5546:
            return [
                "The folder is on a file system of a program (FUSE): whether a sync reaches the disk or the bucket "
                    + "depends on that program, and new messages may be noticed only by looking every two seconds."
            ]
        case 0x0102_1994, 0x8584_58F6:
            return ["The folder is in memory: a power failure loses messages, and the mirror sends them again."]
        default: return []
        }
    }

    private static func networkName(_ kind: UInt32) -> String? {
        switch kind {
        case 0x6969: "NFS"
        case 0x517B, 0xFE53_4D42: "SMB"
        case 0xFF53_4D42: "CIFS"
        case 0x564C: "NCP"
        case 0x7375_7245: "Coda"
        case 0x5346_414F, 0x6B41_4653: "AFS"
        case 0x0102_1997: "9P"
        case 0x00C3_6400: "Ceph"
        case 0x0BD0_0BD0: "Lustre"
        default: nil
        }
    }
}
