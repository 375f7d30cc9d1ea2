// `annals report STORE FILE`: writes a page of HTML about a store, with pictures and tables.

internal import Annals
internal import FoundationEssentials

#if canImport(Glibc)
    internal import Glibc
#else
    internal import Musl
#endif

enum ReportCommand {
    static let command = Command(
        "report", "Writes a page of HTML about a store: its space, history, consumers and growth.",
        details: """
            The page is one file, without scripts, that needs no network. It has pictures, and a table of the numbers
            of each. They are of one moment, while other processes use the store. The space is that of “annals info”,
            and the numbers of authors and entities are those of “annals history --summary”.

            An earlier report of the same name is replaced. Another file is not. If FILE is “-”, the page is printed.
            PLACE is a token, the number of a transaction, or a moment, as for “annals history”.
            """, operands: ["STORE", "FILE"],
        options: [Option("since", value: "PLACE", "of history, only transactions after this place")]
    ) { arguments, output in
        let file = arguments.operands[1]
        let since = try arguments.place(of: "since")
        let (page, number) = try StoreAccess.with(arguments.operands[0], .readOnly) { store in
            if file != "-" { try requireReplaceable(file, store: store.path) }
            let facts = try ReportFacts(store, since: since)
            return (Array(ReportPage(facts).html.text.utf8), facts.state.token.number)
        }
        if file == "-" { return output.data(page) }
        try write(page, to: file)
        output.hasChanges = true
        output.line("\(file): a report as of transaction \(number)")
    }

    /// The bytes that the disk of a file has left; nil if unknown.
    static func freeBytes(ofDisk file: String) -> UInt64? {
        var disk = statvfs()
        return statvfs(file, &disk) == 0 ? UInt64(disk.f_bavail) * UInt64(disk.f_frsize) : nil
    }

    /// Throws if the file exists, and is not an earlier report or empty.
    private static func requireReplaceable(_ file: String, store: String) throws(ToolFailure) {
        func refusal(_ reason: String) -> ToolFailure {
            ToolFailure("“\(file)” \(reason): name another file for the report.")
        }
        var (old, own) = (stat(), stat())
        guard lstat(file, &old) == 0 else { return }
        guard old.st_mode & S_IFMT == S_IFREG else { throw refusal("is not a regular file") }
        if stat(store, &own) == 0, (old.st_dev, old.st_ino) == (own.st_dev, own.st_ino) {
            throw refusal("is the store itself")
        }
        let descriptor = open(file, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw refusal("cannot be read (\(reason(errno)))") }
        defer { close(descriptor) }
        var start = [UInt8](repeating: 0, count: ReportPage.beginning.utf8.count)
        let count = max(0, read(descriptor, &start, start.count))
        guard count == 0 || start.prefix(count).elementsEqual(ReportPage.beginning.utf8) else {
            throw refusal("exists, and is not a report")
        }
    }

    /// Writes the file completely, or leaves it as it was. An earlier report keeps its permissions.
    private static func write(_ bytes: [UInt8], to file: String) throws(ToolFailure) {
        do {
            try Data(bytes).write(to: URL(filePath: file), options: .atomic)
        } catch {
            let number = ((error as? CocoaError)?.underlying as? POSIXError)?.code.rawValue ?? EIO
            throw ToolFailure("“\(file)” could not be written (\(reason(number))): name a file in another folder.")
        }
    }

    private static func reason(_ number: Int32) -> String { String(cString: strerror(number)) }
}
