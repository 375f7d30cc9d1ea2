// The messages of a tracker, and their destination.

#if canImport(Glibc)
    internal import Glibc
#else
    internal import Musl
#endif

/// The importance of a message.
public enum HistoryTrackerLogType: String, Hashable, Sendable {
    /// For finding faults.
    case debug
    /// For completed work.
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

/// Writes messages to standard error, each as a line: only unusual events and failures, unless details are wanted.
struct StandardErrorLogger: HistoryTrackerLogger {
    let hasDetails: Bool

    func log(type: HistoryTrackerLogType, message: String) {
        switch type {
        case .debug, .info: guard hasDetails else { return }
        case .notice, .error, .fault: break
        }
        let line = Array("HistoryTracker \(type.rawValue): \(message)\n".utf8)
        // One call, so that lines of several threads do not mix. If the write fails, the line is lost.
        _ = line.withUnsafeBytes { write(2, $0.baseAddress, $0.count) }
    }
}
