// Planted faults: each breaks one mechanism, and the default test suite has to notice (Tests/mutants.sh).

#if ANNALS_MUTANTS
    /// Names of the planted faults. Compiled in only for the mutant run; products never have them.
    package enum Mutant: String, CaseIterable, Sendable {
        case noSync
        case acknowledgeBeforeSync
        case retryAfterFailedSync
        case resynchronise
        case noRewriteWhenOpened
        case rewriteLastFrameOnly
        case noIdentityCheckUnderLock
        case checksumDoesNotCoverLength
        case appendBehindTornTail
        case damageIsTheEnd
        case noSaltAndChain
        case noDirectorySync
        case noRecoveryFrame
        case noLookAbove
        case hintBeforeSync
        case sealBeforeSync
        case tagWithoutChain
        case posixLocks
        case marksBeforeSync
        case keepsLockFromWaiters
        case keepsIdleLock
        case keptLockIsNeverGivenAway

        private static let chosen = SystemCalls.environmentVariable("ANNALS_MUTANT")

        package static func isOn(_ mutant: Mutant) -> Bool { chosen == mutant.rawValue }
    }
#endif
