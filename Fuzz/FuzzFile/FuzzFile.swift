// libFuzzer's entries to the file target and its mutator. Without `--sanitize fuzzer` this is a program that does
// nothing.

import FuzzTargets

/// Sound because libFuzzer's bytes live until this returns, and the target keeps nothing of them.
@c(LLVMFuzzerTestOneInput)
public func fuzzFile(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    FuzzTargets.file(UnsafeRawBufferPointer(start: start, count: count))
    return 0
}

/// Sound because libFuzzer gives a buffer of `maximumCount` bytes of which `count` are the input, and no more is
/// written.
@c(LLVMFuzzerCustomMutator)
public func mutateFile(_ start: UnsafeMutablePointer<UInt8>?, _ count: Int, _ maximumCount: Int, _ seed: CUnsignedInt)
    -> Int
{
    let input = UnsafeRawBufferPointer(start: start, count: count)
    let mutated = FuzzMutator.mutated(Array(input), maximumBytes: maximumCount, seed: UInt64(seed))
    UnsafeMutableRawBufferPointer(start: start, count: maximumCount).copyBytes(from: mutated)
    return mutated.count
}
