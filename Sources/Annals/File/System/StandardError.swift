// Errors of work in the background, which no caller waits for, as lines on standard error.

enum StandardError {
    /// Writes a line. Sentences have names of entities, authors and files, and never values of objects.
    static func log(_ sentence: String) {
        let line = Array("Annals error: \(sentence)\n".utf8)
        // One call writes the whole line, so that lines of several threads do not mix. If it fails, the line is lost.
        _ = try? SystemCalls.writeSome(2, line[...])
    }
}
