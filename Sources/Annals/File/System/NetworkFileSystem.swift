// File systems that several machines share: not for stores that are written.
//
// Their locks, mappings and notifications do not reach the programs of another machine in time, or at all, so two of
// them would write over each other's transactions.

enum NetworkFileSystem {
    /// The name of a network file system by the kernel's number (statfs(2), linux/magic.h); nil for other file systems.
    /// FUSE is missing on purpose: it may be local.
    ///
    /// Not a dictionary: the first use of its type would take a fifth of the time of opening a store.
    static func name(ofType type: UInt32) -> String? {
        switch type {
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

extension FileSystem {
    /// Throws `networkFileSystem` if a directory is on one.
    func requireLocal(_ directory: Descriptor) throws(StoreError) {
        guard let name = NetworkFileSystem.name(ofType: try fileSystemType(directory)) else { return }
        throw StoreError(
            .networkFileSystem,
            "The file is on a network file system (\(name)), where file locks and memory maps do not protect a store "
                + "that several machines use: put the store on a local disk, and export and apply transactions between "
                + "machines. You can open it for reading only.")
    }
}
