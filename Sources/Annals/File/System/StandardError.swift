// Where the library says what nobody waits for: work that has failed in the background.

enum StandardError {
    /// Writes a line. Sentences have names of entities, authors and files, and never values of objects.
    static func log(_ sentence: String) {
        let line = Array("Annals error: \(sentence)\n".utf8)
        // One call, so that lines of several threads do not mix. If nobody takes it, it is lost.
        _ = try? SystemCalls.write(2, line[...])
    }
}
