// The rules of the file format that the checker names in its findings, explained.

/// A rule of the file format: its meaning, the cause of a breach, and the remedy.
package struct FormatRule: Sendable {
    private let number: Int

    /// A rule by its name, such as F7; nil if there is no rule of that name.
    package init?(_ name: String) {
        guard let number = (1...Self.count).first(where: { "F\($0)" == name.uppercased() }) else { return nil }
        self.number = number
    }

    package static var count: Int { meanings.count }
    package var name: String { "F\(number)" }
    package var meaning: String { Self.meanings[number - 1] }

    package var cause: String {
        if let cause = Self.harmlessCauses[number] { return cause }
        return Self.rulesOfBytes.contains(number)
            ? "Bytes of the file have changed since they were written: by a failing disk or memory, by another "
                + "program, or because the file was copied or cut while it was in use."
            : "The checksums are right, so the file has what a program wrote. The program or the memory of its machine "
                + "was at fault."
    }

    package var remedy: String {
        let restoring =
            "End the programs that use the store, keep a copy of the file, and put a backup in its place. Without a "
            + "backup, “annals salvage STORE NEW” saves the readable part."
        if Self.harmlessCauses[number] != nil {
            return "If it is a notice, nothing needs to be done. If it is damage: " + restoring
        }
        return restoring
            + (Self.rulesOfBytes.contains(number)
                ? " Then test the disk and the memory."
                : " Report the fault with the output of “annals verify STORE --format json”.")
    }

    private static let rulesOfBytes: Set = [1, 2, 4, 5, 6, 7, 9]

    /// The causes of breaches that can be harmless, by rule.
    private static let harmlessCauses = [
        3: "A hint is written without waiting for the disk. A power failure can leave a bad one.",
        27: "A killed program or a power failure leaves a torn tail, which the next writer removes.",
        35: "Under the rule noAction, a deleted object may still be named. It is read as null.",
    ]

    private static let meanings = [
        "The first page identifies the file, its version and its beginning, and has a checksum.",
        "The rest of the first page consists of zeros.",
        "A hint on the first page names the newest checkpoint, so that the store opens fast.",
        "Frames follow one another without gaps, and each header has a checksum.",
        "Each frame has the checksum of the frame before it.",
        "The sizes of a frame are possible, and unused bytes are zeros.",
        "The table and the body of each frame have checksums.",
        "The kind of a frame is known, and its flags fit the kind.",
        "The frames of a transaction come directly before its commit frame.",
        "The mark of the durable part never falls, and is the end of a group of frames.",
        "The transactions are numbered without gaps.",
        "The times of transactions agree with the recorded steps of the clock.",
        "The record of a transaction agrees with its frames.",
        "The tag of a transaction is computed from its content.",
        "Authors, contexts and processes have names that are defined before their use.",
        "Schema versions count up, and a transaction has the newest one.",
        "The list of a frame's changes has the right form.",
        "A change names the previous version of its object, and fits it.",
        "A transaction changes an object at most once.",
        "Each row lies at its place, and leads back to its change.",
        "A row fits the schema version that it names.",
        "Each value has the form of its type, and a required attribute has a value.",
        "A row refers only to long values that exist.",
        "The pieces of a long value are complete and in order.",
        "The definitions of a schema are complete and possible.",
        "Frames of the store's own records have the right form.",
        "After a clean close, one page of zeros ends the file.",
        "The nodes of the indexes have the right form.",
        "A checkpoint agrees with the frames before it.",
        "The index of rows has the newest version of each object.",
        "The indexes of attributes have exactly the keys of the rows.",
        "The landmarks of a checkpoint name transactions of the file.",
        "Consumers and cleaning marks name transactions that exist.",
        "No two objects have one value of a unique attribute or key.",
        "References lead to objects that exist.",
        "A file that needs a newer program declares the features.",
        "Values that an index uses are stored in their rows.",
    ]
}
