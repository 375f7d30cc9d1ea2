// The errors of the folder engine: each says what failed and what to do.

internal import Annals

#if canImport(Glibc)
    internal import Glibc
#else
    internal import Musl
#endif

enum FolderError {
    /// The error for a failed call about a file or folder of the mirror.
    static func failure(_ failure: MirrorSystem.Failure, _ path: String) -> StoreError {
        let meaning = meaning(of: failure)
        return StoreError(
            meaning.code, meaning.sentence, call: failure.call, systemError: failure.number, path: path)
    }

    private static func meaning(of failure: MirrorSystem.Failure) -> (code: StoreError.Code, sentence: String) {
        switch failure.number {
        case ENOENT:
            (.courierUnreachable, "The mirror's folder does not exist: mount or create it, or check the path.")
        case ENOTDIR: (.courierSettings, "This is not a folder: give the mirror the path of a folder.")
        case EACCES, EPERM:
            (
                .courierRefused,
                "The permissions do not allow the mirror to use this: let its user read and write the folder and all "
                    + "in it."
            )
        case EROFS:
            (.courierRefused, "The file system is mounted read-only: mount it for writing, so that this peer can send.")
        case ENOSPC, EFBIG:
            (.courierFull, "The folder has no room for more messages: free some space. The mirror tries again.")
        case EDQUOT:
            (.courierFull, "The disk quota of the user is used up: free some space. The mirror tries again.")
        case EMFILE: (.tooManyFiles, "This process has too many files open: close some or raise its limit (ulimit -n).")
        case ENFILE: (.tooManyFiles, "The system has too many files open: close some or raise its limit (fs.file-max).")
        case ENAMETOOLONG:
            (.invalidArgument, "The path or a name in it is too long for this file system: choose a shorter one.")
        default: (.courierUnreachable, other(failure))
        }
    }

    private static func other(_ failure: MirrorSystem.Failure) -> String {
        "The file system of the mirror's folder failed in \(failure.call): \(failure.text) (error \(failure.number)). "
            + "Check the mount, the network and the disk. The mirror tries again."
    }

    static func notMounted(_ path: String) -> StoreError {
        StoreError(
            .courierUnreachable,
            "The mirror's folder is no longer on its file system: mount it again. The mirror tries again.", path: path)
    }

    static func damaged(_ sentence: String, _ path: String, offset: Int) -> StoreError {
        StoreError(
            .courierDamaged,
            sentence + " The mirror goes on without it, and reads it again later: its sender sends what is missing. "
                + "Check the disk or the synchronizer. You may remove the file.",
            path: path, offset: UInt64(offset))
    }

    static func laterVersion(_ path: String) -> StoreError {
        StoreError(
            .courierSettings,
            "A later version of Annals uses this folder: update Annals on this machine, or use another folder.",
            path: path)
    }

    static func otherGroup(_ group: String, _ path: String) -> StoreError {
        StoreError(
            .courierSettings,
            "The group “\(group)” uses this folder: give each group a folder of its own, or check the group's name.",
            path: path)
    }
}

extension MirrorSystem.Failure {
    static let nameTaken = Self("renameat2", EEXIST)
    /// The file does not exist, or no longer.
    var isMissing: Bool { number == ENOENT || number == ESTALE }
    /// The name is of something that is not a folder.
    var isOtherKind: Bool { number == ENOTDIR || number == ELOOP }
}
