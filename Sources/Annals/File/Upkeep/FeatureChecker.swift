// F36: a checkpoint names the features that records below it declare, and features that stop writers are declared.

/// Follows the features that records declare, and compares frames and checkpoints with them.
struct FeatureChecker {
    private var declared = FormatFeatures.none

    mutating func note(_ features: FormatFeatures) { declared.formUnion(features) }

    /// Checks a skipped frame.
    func check(skipped frame: FrameView, _ header: FileHeader, into findings: inout FindingList) {
        guard frame.header.stopsWriters, !stopsWriters(header) else { return }
        findings.add("F36", at: frame.offset, "A frame stops writers, but no feature is declared for it.")
    }

    /// Checks a checkpoint. Accepting the frame has already verified that it lacks no feature.
    func check(
        _ content: CheckpointContent, at offset: UInt64, _ header: FileHeader, into findings: inout FindingList
    ) {
        if !declared.isSuperset(of: content.features) {
            findings.add("F36", at: offset, "A checkpoint has a feature that no earlier record declares.")
        }
        if content.extensions.contains(where: \.stopsWriters), !stopsWriters(header) {
            findings.add("F36", at: offset, "An extension stops writers, but no feature is declared for it.")
        }
    }

    /// Whether a program that knows only this format cannot write anyway.
    private func stopsWriters(_ header: FileHeader) -> Bool { !declared.allowsWriting || !header.allowsWriting }
}
