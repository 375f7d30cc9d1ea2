// Where the library says what nobody waits for: work that has failed in the background.

internal import Glibc

enum StandardError {
    /// Writes a line. Sentences have names of entities, authors and files, and never values of objects.
    static func log(_ sentence: String) {
        let line = Array("Annals error: \(sentence)\n".utf8)
        // One call, so that lines of several threads do not mix. If nobody takes it, it is lost.
        _ = line.withUnsafeBytes { write(2, $0.baseAddress, $0.count) }
    }
}
