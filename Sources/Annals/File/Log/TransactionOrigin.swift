// The names in the last transaction, which the next one of the same writer need not look up.

/// The names of a logged transaction, and their numbers, which never change.
final class TransactionOrigin: Sendable {
    private let author: String?
    private let context: String?
    let authorNumber: UInt32
    let contextNumber: UInt32
    let processNumber: UInt32

    init(author: String?, context: String?, authorNumber: UInt32, contextNumber: UInt32, processNumber: UInt32) {
        (self.author, self.context, self.authorNumber) = (author, context, authorNumber)
        (self.contextNumber, self.processNumber) = (contextNumber, processNumber)
    }

    func isOrigin(of author: String?, _ context: String?) -> Bool {
        Self.isSame(self.author, author) && Self.isSame(self.context, context)
    }

    private static func isSame(_ left: String?, _ right: String?) -> Bool {
        guard let left, let right else { return left == nil && right == nil }
        return left.hasSameBytes(as: right)
    }
}
