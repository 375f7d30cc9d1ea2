// libFuzzer's entry to the record target. Without `--sanitize fuzzer` this is a program that does nothing.

import FuzzTargets

/// Sound because libFuzzer's bytes live until this returns, and the target keeps nothing of them.
@c(LLVMFuzzerTestOneInput)
public func fuzzRecords(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    FuzzTargets.records(UnsafeRawBufferPointer(start: start, count: count))
    return 0
}
