// The rules of the format in plain words, for `annals verify --explain RULE`.

/// What a rule demands, how it can be broken, and what to do then.
package struct RuleExplanation: Sendable {
    let rule: String
    let meaning: String
    private let kind: Kind

    private enum Kind {
        /// The bytes are not those that a program wrote.
        case bytes
        /// The checksums are right, but the content is not.
        case content
        /// The rule's breach can be harmless.
        case harmless(String)
    }

    /// Throws a failure that names all rules.
    init(_ text: String) throws(ToolFailure) {
        let rule = text.uppercased()
        guard let index = Self.all.indices.first(where: { "F\($0 + 1)" == rule }) else {
            throw ToolFailure(
                .usage, "“\(text)” is no rule of the format: they are F1 to F\(Self.all.count).",
                hint: "Try: annals help verify")
        }
        self.rule = rule
        (meaning, kind) = Self.all[index]
    }

    var cause: String {
        switch kind {
        case .bytes:
            "Bytes of the file have changed since they were written: by a failing disk or memory, by another program, "
                + "or because the file was copied or cut while it was in use."
        case .content:
            "The checksums are right, so the file has what a program wrote. The program or the memory of its machine "
                + "was at fault."
        case .harmless(let cause): cause
        }
    }

    var remedy: String {
        let restoring =
            "End the programs that use the store, keep a copy of the file, and put a backup in its place. Without a "
            + "backup, “annals salvage STORE NEW” saves the readable part."
        return switch kind {
        case .bytes: restoring + " Then test the disk and the memory."
        case .content: restoring + " Report the fault with the output of “annals verify STORE --format json”."
        case .harmless: "If it is a notice, nothing needs to be done. If it is damage: " + restoring
        }
    }

    /// In the order of their numbers.
    private static let all: [(String, Kind)] = [
        ("The first page identifies the file, its version and its beginning, and has a checksum.", .bytes),
        ("The rest of the first page consists of zeros.", .bytes),
        (
            "A hint on the first page names the newest checkpoint, so that the store opens fast.",
            .harmless("A hint is written without waiting for the disk. A power failure can leave a bad one.")
        ),
        ("Frames follow one another without gaps, and each header has a checksum.", .bytes),
        ("Each frame has the checksum of the frame before it.", .bytes),
        ("The sizes of a frame are possible, and unused bytes are zeros.", .bytes),
        ("The table and the body of each frame have checksums.", .bytes),
        ("The kind of a frame is known, and its flags fit the kind.", .content),
        ("The frames of a transaction come directly before its commit frame.", .bytes),
        ("The mark of the durable part never falls, and is the end of a group of frames.", .content),
        ("The transactions are numbered without gaps.", .content),
        ("The times of transactions agree with the recorded steps of the clock.", .content),
        ("The record of a transaction agrees with its frames.", .content),
        ("The tag of a transaction is computed from its content.", .content),
        ("Authors, contexts and processes have names that are defined before their use.", .content),
        ("Schema versions count up, and a transaction has the newest one.", .content),
        ("The list of a frame's changes has the right form.", .content),
        ("A change names the previous version of its object, and fits it.", .content),
        ("A transaction changes an object at most once.", .content),
        ("Each row lies at its place, and leads back to its change.", .content),
        ("A row fits the schema version that it names.", .content),
        ("Each value has the form of its type, and a required attribute has a value.", .content),
        ("A row refers only to long values that exist.", .content),
        ("The pieces of a long value are complete and in order.", .content),
        ("The definitions of a schema are complete and possible.", .content),
        ("Frames of the store's own records have the right form.", .content),
        (
            "After a clean close, one page of zeros ends the file.",
            .harmless("A killed program or a power failure leaves a torn tail, which the next writer removes.")
        ),
        ("The nodes of the indexes have the right form.", .content),
        ("A checkpoint agrees with the frames before it.", .content),
        ("The index of rows has the newest version of each object.", .content),
        ("The indexes of attributes have exactly the keys of the rows.", .content),
        ("The landmarks of a checkpoint name transactions of the file.", .content),
        ("Consumers and cleaning marks name transactions that exist.", .content),
        ("No two objects have one value of a unique attribute or key.", .content),
        (
            "References lead to objects that exist.",
            .harmless("Under the rule noAction, a deleted object may still be named. It is read as null.")
        ),
        ("A file that needs a newer program declares the features.", .content),
        ("Values that an index uses are stored in their rows.", .content),
    ]
}
