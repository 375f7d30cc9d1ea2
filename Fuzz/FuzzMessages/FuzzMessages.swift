// libFuzzer's entry to the target of the mirror's messages. Without `--sanitize fuzzer` this is a program that does
// nothing.

import FuzzTargets

/// Sound because libFuzzer's bytes live until this returns, and the target keeps nothing of them.
@c(LLVMFuzzerTestOneInput)
public func fuzzMessages(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    FuzzTargets.messages(UnsafeRawBufferPointer(start: start, count: count))
    return 0
}
