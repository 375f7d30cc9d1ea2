// From the file layer's error to the public one: the only place.

package import AnnalsFile

extension StoreError {
    /// The same error under its public code, whose name is the file layer's.
    @inline(never)
    package init(_ error: FileError) {
        self.init(
            Code(rawValue: error.code.rawValue), error.message, call: error.call, systemError: error.systemError,
            path: error.path, offset: error.offset)
    }

    /// What an untyped `catch` met: ours as it is, the file layer's mapped, nil for somebody else's.
    init?(_ error: any Error) {
        switch error {
        case let error as StoreError: self = error
        case let error as FileError: self.init(error)
        default: return nil
        }
    }
}

/// Runs calls into the file layer under the public error.
@inline(__always)
func mapping<Result>(_ body: () throws(FileError) -> Result) throws(StoreError) -> Result {
    do throws(FileError) { return try body() } catch { throw StoreError(error) }
}
