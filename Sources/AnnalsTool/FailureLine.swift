// A failure as one JSON object, for scripts that distinguish failures.

internal import Annals

extension ToolFailure {
    /// `{"error":{"code":…,"message":…}}`, and other known facts. The code is the library's, or the name of the exit
    /// status.
    var json: JSONLine {
        var line: JSONLine = [
            // Only “diff” fails with this status.
            "code": error?.code.rawValue ?? "\(status == .losses ? .failed : status)",
            "message": error?.message ?? message, "status": Int(status.rawValue),
        ]
        if let hint { line.add("hint", hint) }
        if let error { Self.addFacts(of: error, to: &line) }
        return ["error": line]
    }

    private static func addFacts(of error: StoreError, to line: inout JSONLine) {
        if let path = error.path { line.add("path", path) }
        if let offset = error.offset { line.add("offset", offset) }
        if let entity = error.entity { line.add("entity", entity) }
        if !error.attributes.isEmpty { line.add("attributes", error.attributes) }
        if let object = error.object { line.add("object", object.description) }
        if let token = error.oldestToken {
            line.add("oldestNumber", token.number)
            line.add("oldestToken", token.description)
        }
        if let holder = error.lockHolder {
            line.add("lockHolder", Int(holder.processID))
            line.add("lockedSince", Timestamp.text(holder.since))
        }
    }

    /// Whether the command line requests JSON, so that failures are printed as JSON too.
    static func isJSONWanted(_ arguments: [String]) -> Bool {
        let options = arguments.prefix { $0 != "--" }
        for (option, next) in zip(options, options.dropFirst() + [""]) {
            let value = option == "--format" ? next : option.hasPrefix("--format=") ? String(option.dropFirst(9)) : ""
            if Arguments.isJSON(value) { return true }
        }
        return false
    }
}
