// Turns the system's error number into a sentence: the failure and its cure.

#if canImport(Glibc)
    internal import Glibc
#else
    internal import Musl
#endif

extension StoreError {
    /// Something that is not a file has the name under which a file is written until it is complete.
    static func nameTaken(_ name: String, by writer: String) -> StoreError {
        StoreError(
            .notARegularFile,
            "“\(name)” is a directory, or something else that is not a file. \(writer) writes its unfinished file "
                + "under this name: move it away or remove it, and try again.")
    }

    /// The error for a failed system call. Its message omits the path, which `description` adds.
    package init(_ error: SystemError, path: String? = nil, offset: UInt64? = nil) {
        let meaning = Self.meaning(of: error)
        self.init(
            meaning.code, meaning.sentence + Self.consequence(of: error, meaning.code), call: error.call,
            systemError: error.number,
            path: path, offset: offset)
    }

    private static func meaning(of error: SystemError) -> (code: Code, sentence: String) {
        special(error) ?? general(error.number)
            ?? (
                .systemCall,
                "The system refused \(error.call): \(SystemCalls.text(ofError: error.number)) (error \(error.number))."
            )
    }

    /// Numbers that mean something of their own after certain calls.
    private static func special(_ error: SystemError) -> (code: Code, sentence: String)? {
        switch (error.call, error.number) {
        case ("inotify_init1", EMFILE):
            (
                .tooManyFiles,
                "The user has no inotify instances left, so changes are polled: raise fs.inotify.max_user_instances."
            )
        case ("inotify_add_watch", ENOSPC):
            (
                .tooManyFiles,
                "The user has no inotify watches left, so changes are polled: raise fs.inotify.max_user_watches."
            )
        case ("pthread_create", EAGAIN):
            (.outOfMemory, "The system gives this process no more threads: end some or raise the limit, and try again.")
        case ("realpath", ELOOP):
            (
                .invalidArgument,
                "The path goes through too many symbolic links, perhaps in a circle: name the file itself."
            )
        case ("openat", EWOULDBLOCK):
            (.busy, "Another process holds a lease on the file: try again when the lease has ended.")
        default: nil
        }
    }

    private static func general(_ number: Int32) -> (code: Code, sentence: String)? {
        switch number {
        case ENOENT: (.notFound, "There is no such file or directory: check the path.")
        case ENOTDIR: (.notFound, "A part of the path is not a directory: check the path.")
        case EEXIST: (.alreadyExists, "The name is already in use: choose another name, or open the existing file.")
        case EISDIR: (.notARegularFile, "This is a directory: name a file in it.")
        case ELOOP:
            (
                .notARegularFile,
                "This is a symbolic link instead of a file. It was just created, or its target is missing: check the "
                    + "path."
            )
        case ENXIO, ENODEV:
            (
                .notARegularFile,
                "This is a device, a pipe or a socket without a partner: a store must be a regular file."
            )
        case ENAMETOOLONG: (.invalidArgument, "The path or a name in it is too long: shorten it.")
        case EILSEQ: (.invalidArgument, "The path is not valid UTF-8: rename the file or its directories.")
        case EACCES:
            (
                .permissionDenied,
                "The permissions of the file or its directory do not allow this: change them, or the user."
            )
        case EPERM:
            (
                .permissionDenied,
                "This is not permitted here: check the file's owner and whether it is marked immutable or append-only."
            )
        case EROFS:
            (.readOnly, "The file system is mounted read-only: open the store for reading, or mount it for writing.")
        case ETXTBSY: (.readOnly, "The file is being executed and cannot be written: this is not a store.")
        case ENOSPC: (.noSpace, "No space is left on the device: free some and try again.")
        case EDQUOT:
            (.noSpace, "The disk quota of the user is used up: free some space and try again.")
        case EFBIG:
            (
                .noSpace,
                "The file may not grow further: raise the process's file size limit or move the store to a file "
                    + "system for larger files."
            )
        case EMFILE: (.tooManyFiles, "This process has too many files open: close some or raise its limit (ulimit -n).")
        case ENFILE: (.tooManyFiles, "The system has too many files open: close some or raise its limit (fs.file-max).")
        case ENOLCK: (.tooManyFiles, "The system has no room for another lock: try again, or raise its limit.")
        case ENOMEM: (.outOfMemory, "The system has no memory for this: free some and try again.")
        case EIO:
            (
                .inputOutput,
                "The device failed to read or write: check the system's log and the disk before you use the store "
                    + "again."
            )
        case ESTALE:
            (.inputOutput, "The file server no longer knows this file: open the store again.")
        case EBADF: (.closed, "The file is closed, or not open for this operation: open the store again.")
        default: nil
        }
    }

    /// The consequence of the failure for the written data.
    private static func consequence(of error: SystemError, _ code: Code) -> String {
        if error.call == "fdatasync" || error.call == "fsync" {
            return " Changes since the last successful sync may be lost if the power fails."
        }
        return code == .noSpace ? " Nothing was lost." : ""
    }
}
