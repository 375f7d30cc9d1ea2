// What a tracker says, and where it says it.

#if canImport(Glibc)
    internal import Glibc
#else
    internal import Musl
#endif

/// How important a message is.
public enum HistoryTrackerLogType: String, Hashable, Sendable {
    /// For whoever looks for a fault.
    case debug
    /// What was done.
    case info
    /// Something unusual that needs nothing.
    case notice
    /// Something did not succeed.
    case error
    /// The tracker has ended.
    case fault
}

/// Takes a tracker's messages to the log library of a program.
public protocol HistoryTrackerLogger: Sendable {
    /// Takes one message. Messages have names of entities, authors and consumers, and never values of objects.
    func log(type: HistoryTrackerLogType, message: String)
}

/// Writes messages to standard error, each as a line: only what is unusual or has failed, unless details are wanted.
struct StandardErrorLogger: HistoryTrackerLogger {
    let hasDetails: Bool

    func log(type: HistoryTrackerLogType, message: String) {
        switch type {
        case .debug, .info: guard hasDetails else { return }
        case .notice, .error, .fault: break
        }
        let line = Array("HistoryTracker \(type.rawValue): \(message)\n".utf8)
        // One call, so that lines of several threads do not mix. If nobody takes it, it is lost.
        _ = line.withUnsafeBytes { write(2, $0.baseAddress, $0.count) }
    }
}
