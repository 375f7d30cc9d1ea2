// How thoroughly the legal outcomes of a power cut are gone through.

/// Which sectors of an image may be torn: part of the new content, and the older content in the rest.
package enum CrashTearing: Sendable, Equatable {
    case never
    /// So many images with one torn sector for every choice of sectors.
    case sampled(Int)
    /// Every sector that was chosen, at every 8 bytes, both ways. For small cases.
    case everywhere
}

package struct CrashOptions: Sendable {
    package var seed: UInt64
    package var fills: [CrashFill] = [.zeros, .garbage]
    package var tearing = CrashTearing.sampled(1)
    /// Of so many pending sectors all subsets are gone through, and if all choices of their versions are no more than
    /// that, these too. Otherwise there are none, all, prefixes, suffixes, all but one, only one, the order of writing,
    /// and a sample.
    package var exhaustiveBits = 10
    /// Random choices, where they are sampled.
    package var randomChoices = 64
    /// The most prefixes, suffixes, choices of all but one, and of only one, each.
    package var maximumOfEachList = 64
    /// The most sizes of one file, its durable and its last one included.
    package var maximumSizes = 8
    /// The most contents of one sector beside the durable one.
    package var maximumVersions = 4
    /// Whether any subset of name changes may be there, or only those up to some point.
    package var anyNames = true

    package init(seed: UInt64 = 0) { self.seed = seed }
}
