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
        line.addPresent([
            "hint": hint, "path": error?.path, "offset": error?.offset, "entity": error?.entity,
            "attributes": error.flatMap { $0.attributes.isEmpty ? nil : $0.attributes },
            "object": error?.object?.description, "oldestNumber": error?.oldestToken?.number,
            "oldestToken": error?.oldestToken?.description,
            "lockHolder": error?.lockHolder.map { Int($0.processID) },
            "lockedSince": error?.lockHolder.map { Timestamp.text($0.since) },
        ])
        return ["error": line]
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
