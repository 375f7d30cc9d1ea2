// Catching up with those who write while the store is compacted.
//
// Invariants:
// U1  Nobody waits for longer than `holdMicroseconds` and the copying of one transaction, however much is left and however fast others write.
// U2  It ends: where others write about as fast as this copies, they wait for a part of the time that grows until the rest becomes shorter.

extension Compactor {
    /// Copies what others add until little is left to be copied and to be synchronised while they wait.
    func catchUp() throws(FileError) {
        try copyRest()
        // Who goes over to the new file reads what stands behind its checkpoint: a commit waits for that.
        try target.writeCheckpoint()
        try copyRest()
        for _ in 0..<4 {
            let start = target.log.current.end
            try target.log.synchronizeEverything()
            try copyRest()
            if target.log.current.end - start <= options.finalBytes { return }
        }
    }

    /// Copies what others add until little is left.
    private func copyRest() throws(FileError) {
        var last = UInt64.max
        var pause = options.holdMicroseconds
        while true {
            let end = try source.view().end
            let left = end - position
            if left <= options.finalBytes { return }
            if left <= last / 2 {
                try copy(to: end)
            } else {
                if left >= last - last / 8 { pause /= 2 }
                try copyWhileOthersWait()
                // They go on for a while, and this too.
                try copy(to: try source.view().end, until: now + pause)
            }
            last = min(left, last)
        }
    }

    private var now: UInt64 { source.log.environment.monotonicMicroseconds() }

    private func copyWhileOthersWait() throws(FileError) {
        try source.log.whileAppending(.relaxed) { (appender) throws(FileError) in
            try copy(to: appender.state.end, until: now + options.holdMicroseconds)
        }
    }
}
