// `annals frames STORE`: lists the frames of a store file, one a line, without changing it.

internal import AnnalsFile

extension Command {
    static let frames = Command(
        "frames", "Lists the frames of a store, one a line.",
        details: """
            The file is only read. Frames whose checksums fail are not listed: the list ends there, and the
            exit status says whether what follows is a torn tail (0) or damage (65).
            """,
        operands: ["STORE"], run: FramesCommand.run)
}

enum FramesCommand {
    static func run(_ arguments: Arguments, _ output: inout Output) throws(ToolFailure) -> ExitStatus {
        throw ToolFailure(.failed, "This build cannot list frames.")
    }
}
