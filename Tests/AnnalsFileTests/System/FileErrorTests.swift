// Every error number that files give has a code and a sentence that helps.

import Annals
import Glibc
import SimulatedDisk
import Testing

@Suite struct FileErrorTests {

    static let table: [(Int32, StoreError.Code, String)] = [
        (ENOENT, .notFound, "check the path"), (ENOTDIR, .notFound, "check the path"),
        (EEXIST, .alreadyExists, "choose another"), (EISDIR, .notARegularFile, "name a file"),
        (ELOOP, .notARegularFile, "symbolic link"), (ENXIO, .notARegularFile, "regular file"),
        (ENODEV, .notARegularFile, "regular file"), (ENAMETOOLONG, .invalidArgument, "shorten"),
        (EILSEQ, .invalidArgument, "UTF-8"), (EACCES, .permissionDenied, "permissions"),
        (EPERM, .permissionDenied, "owner"), (EROFS, .readOnly, "mounted read-only"),
        (ETXTBSY, .readOnly, "executed"), (ENOSPC, .noSpace, "Nothing was lost"),
        (EDQUOT, .noSpace, "Nothing was lost"), (EFBIG, .noSpace, "Nothing was lost"),
        (EMFILE, .tooManyFiles, "ulimit"), (ENFILE, .tooManyFiles, "fs.file-max"),
        (ENOLCK, .tooManyFiles, "lock"), (ENOMEM, .outOfMemory, "memory"), (EIO, .inputOutput, "disk"),
        (ESTALE, .inputOutput, "open the store again"), (EBADF, .closed, "open the store again"),
        (EINVAL, .systemCall, "Invalid argument"), (ENOSYS, .systemCall, "(error 38)"),
    ]

    @Test(arguments: table.indices) func numberHasItsCodeAndSentence(row: Int) {
        let (number, code, words) = Self.table[row]
        let error = StoreError(SystemError("pwrite", number), path: "/a/b", offset: 9)
        #expect(error.code == code)
        #expect(error.message.contains(words), "\(error.message)")
        #expect(error.call == "pwrite" && error.systemError == number && error.path == "/a/b" && error.offset == 9)
        #expect(error.description.hasSuffix("[/a/b, offset 9]"))
    }

    @Test func everyErrorNumberHasACompleteSentence() {
        for number in Int32(-1)...200 {
            for call in ["openat", "pwrite", "fdatasync", "inotify_add_watch"] {
                let message = StoreError(SystemError(call, number)).message
                #expect(message.first?.isUppercase == true && message.hasSuffix("."), "\(number): \(message)")
            }
        }
    }

    @Test func someCallsHaveTheirOwnMeaningOfANumber() {
        let table: [(String, Int32, StoreError.Code, String)] = [
            ("inotify_init1", EMFILE, .tooManyFiles, "max_user_instances"),
            ("inotify_add_watch", ENOSPC, .tooManyFiles, "max_user_watches"),
            ("pthread_create", EAGAIN, .outOfMemory, "threads"),
            ("realpath", ELOOP, .invalidArgument, "circle"), ("openat", EAGAIN, .busy, "lease"),
        ]
        for (call, number, code, words) in table {
            let error = StoreError(SystemError(call, number))
            #expect(error.code == code && error.message.contains(words))
        }
    }

    @Test(arguments: ["fdatasync", "fsync"]) func aFailedSynchronizationNamesTheRisk(call: String) {
        let message = StoreError(SystemError(call, EIO)).message
        #expect(message.contains("disk") && message.contains("may be lost if the power fails"))
        #expect(!StoreError(SystemError(call, ENOSPC)).message.contains("Nothing was lost"))
    }

    @Test func pathAndOffsetAreAddedOnlyIfTheyAreMissing() {
        let bare = StoreError(.damaged, "Damaged.")
        #expect(bare.description == "Damaged.")
        #expect(bare.at(offset: 5).description == "Damaged. [offset 5]")
        #expect(bare.at(path: "/a").at(path: "/b", offset: 1).description == "Damaged. [/a, offset 1]")
    }

    /// A store is neither made nor opened for writing on a file system of several machines, and nothing is left there.
    /// It may be read.
    @Test func storesAreNotWrittenOnNetworkFileSystems() throws {
        let machine = Machine()
        let (disk, environment) = (machine.disk, machine.environment)
        let network: [UInt32] = [
            0x6969, 0x517B, 0xFF53_4D42, 0xFE53_4D42, 0x564C, 0x7375_7245, 0x5346_414F, 0x6B41_4653, 0x0102_1997,
            0x00C3_6400, 0x0BD0_0BD0,
        ]
        let local: [UInt32] = [0xEF53, 0x0102_1994, 0x9123_683E, 0x5846_5342, 0x794C_7630, 0x6573_5546, 0]
        for (number, type) in network.enumerated() {
            disk.fileSystemType = type
            let name = "/data/made\(number).annals"
            expect(.networkFileSystem) {
                try Log.create(name, options: machine.options, files: disk, environment: environment).close()
            }
            expect(.notFound) {
                try Log.open(name, access: .readOnly, files: disk, environment: environment).close()
            }
        }
        for (number, type) in local.enumerated() {
            let name = "/data/local\(number).annals"
            disk.fileSystemType = type
            try Log.create(name, options: machine.options, files: disk, environment: environment).close()
            disk.fileSystemType = network[number]
            expect(.networkFileSystem) {
                try Log.open(name, options: machine.options, files: disk, environment: environment).close()
            }
            try Log.open(name, access: .readOnly, files: disk, environment: environment).close()
            disk.fileSystemType = type
            try Log.open(name, options: machine.options, files: disk, environment: environment).close()
        }
    }

    private func expect(_ code: StoreError.Code, _ body: () throws -> Void) {
        do {
            try body()
            Issue.record("no error")
        } catch { #expect((error as? StoreError)?.code == code, "\(error)") }
    }
}
