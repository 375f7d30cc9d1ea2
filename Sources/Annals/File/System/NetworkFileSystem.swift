// File systems that several machines share: not for stores that are written.
//
// Their locks, mappings and notifications do not reach the programs of another machine in time, or at all, so two of
// them would write over each other's transactions.

enum NetworkFileSystem {
    /// The kernel's numbers of file systems (statfs(2), linux/magic.h). FUSE is missing on purpose: it may be local.
    private static let names: [UInt32: String] = [
        0x6969: "NFS", 0x517B: "SMB", 0xFF53_4D42: "CIFS", 0xFE53_4D42: "SMB", 0x564C: "NCP", 0x7375_7245: "Coda",
        0x5346_414F: "AFS", 0x6B41_4653: "AFS", 0x0102_1997: "9P", 0x00C3_6400: "Ceph", 0x0BD0_0BD0: "Lustre",
    ]

    /// The name of a network file system by the kernel's number; nil if the number is not in the table.
    static func name(ofType type: UInt32) -> String? { names[type] }
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
