// The one error of the file layer: what went wrong, where, and what to do about it.

/// An error met while working on a store file.
///
/// `code` is what a program decides by; `message` is a whole sentence for people that says what to do. Row contents never
/// appear in either.
package struct FileError: Error, Equatable, Sendable {
    package enum Code: String, Sendable, CaseIterable {
        // The path
        case notFound
        case alreadyExists
        case notARegularFile
        case permissionDenied
        case readOnly
        case storeRemoved
        case storeReplaced
        case hardLinked
        // The content
        case notAStore
        case unsupportedVersion
        case damaged
        case truncated
        case diverged
        case schemaChanged
        case objectNotFound
        case uniqueViolation
        case requiredMissing
        /// Others changed meanwhile what a transaction was made from.
        case conflict
        /// An update changes nothing.
        case unchanged
        // Consumers
        case consumerUnknown
        /// A consumer stands elsewhere than was said.
        case consumerConflict
        /// Cleaning has passed a consumer.
        case consumerLost
        // Resources
        case noSpace
        case tooManyFiles
        case outOfMemory
        case inputOutput
        case busy
        case tooLarge
        // Use
        case invalidArgument
        case closed
        /// In a child after `fork`.
        case forked
        case durabilityUnknown
        case cancelled
        case systemCall
    }

    /// All of it behind one reference: what can be thrown takes a register in the many functions that hardly ever throw, and not 74 bytes in the frame
    /// of each.
    private final class Content: Sendable {
        let code: Code
        let message: String
        let call: String?
        let systemError: Int32?
        let path: String?
        let offset: UInt64?

        init(
            _ code: Code, _ message: String, _ call: String?, _ systemError: Int32?, _ path: String?, _ offset: UInt64?
        ) {
            self.code = code
            self.message = message
            self.call = call
            self.systemError = systemError
            self.path = path
            self.offset = offset
        }
    }

    private let content: Content

    package var code: Code { content.code }
    package var message: String { content.message }
    /// The system call that failed, without parentheses.
    package var call: String? { content.call }
    /// The system's error number, where one was given.
    package var systemError: Int32? { content.systemError }
    package var path: String? { content.path }
    /// The byte of the file the error is about.
    package var offset: UInt64? { content.offset }

    @inline(never)
    package init(
        _ code: Code, _ message: String, call: String? = nil, systemError: Int32? = nil, path: String? = nil,
        offset: UInt64? = nil
    ) {
        content = Content(code, message, call, systemError, path, offset)
    }

    /// The same error with a path or an offset where it had none.
    package func at(path: String? = nil, offset: UInt64? = nil) -> FileError {
        FileError(
            code, message, call: call, systemError: systemError, path: self.path ?? path, offset: self.offset ?? offset)
    }

    /// The same error in other words.
    package func saying(_ message: String) -> FileError {
        FileError(code, message, call: call, systemError: systemError, path: path, offset: offset)
    }

    package static func == (left: FileError, right: FileError) -> Bool {
        left.code == right.code && left.message == right.message && left.call == right.call
            && left.systemError == right.systemError && left.path == right.path && left.offset == right.offset
    }
}

extension FileError: CustomStringConvertible {
    package var description: String {
        var text = message
        if let path {
            text += " [\(path)" + (offset.map { ", offset \($0)" } ?? "") + "]"
        } else if let offset {
            text += " [offset \(offset)]"
        }
        return text
    }
}
