// notes STORE [COMMAND ...]: carries out the commands, or those that standard input has, one on a line.

import Annals
import Foundation

/// Lines of standard input. Another thread waits for them, so that the session can follow the store meanwhile.
func standardInput() -> AsyncStream<String> {
    AsyncStream { lines in
        DispatchQueue.global().async {
            while let line = readLine() { lines.yield(line) }
            lines.finish()
        }
    }
}

/// Prints a line at once, also into a pipe.
func say(_ line: String) { FileHandle.standardOutput.write(Data((line + "\n").utf8)) }

let arguments = CommandLine.arguments.dropFirst()
guard let path = arguments.first else {
    say("notes STORE [COMMAND ...]")
    exit(64)
}
do {
    let store = try Store(at: path, entities: [Folder.self, Note.self, Tag.self], migrations: migrations)
    let session = try Session(store, say: say)
    if arguments.count > 1 {
        for command in arguments.dropFirst() { session.run(command) }
    } else {
        for await line in standardInput() { session.run(line) }
    }
    session.end()
    try store.close()
} catch {
    say("\(error)")
    exit(1)
}
