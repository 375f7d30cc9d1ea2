// `annals verify STORE`: checks a whole store file against every rule of its format, without changing it.

internal import AnnalsFile

extension Command {
    static let verify = Command(
        "verify", "Checks every byte of a store.",
        details: """
            The file is only read. A torn tail, which a cut of the power or the death of a writer leaves, is
            reported and is no damage. Checksums find accidents; they are no proof against forgery.
            """,
        operands: ["STORE"], run: VerifyCommand.run)
}

enum VerifyCommand {
    static func run(_ arguments: Arguments, _ output: inout Output) throws(ToolFailure) -> ExitStatus {
        throw ToolFailure(.failed, "This build cannot check stores.")
    }
}
