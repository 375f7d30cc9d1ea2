// Decides which changes count if frames are missing, by the numbers of the found frames.
//
// Invariants:
// ST1  A member counts if its commit frame was found, or if a frame above proves that its transaction was committed: a
//     standalone one with this number or a higher one, or a member with a higher one.
// ST2  If nothing above proves it, a hint slot may. If bytes directly follow that are not a frame, its commit frame may
//     be among them: then it counts, and the report mentions it. If nothing was written after it, it was not committed.

/// Receives the frames that check, in the order of their offsets.
struct SalvageTransactions {
    /// A part of the file, from one frame's start to another's end.
    struct Stretch: Equatable {
        var start: UInt64
        var end: UInt64
    }

    /// Members whose commit frame was not read yet.
    struct Run {
        var number: UInt64
        var stretch: Stretch
        var changes: UInt64 = 0
        var schemaFrames = 0
    }

    /// The uncommitted frames; ascending.
    private(set) var dropped: [Stretch] = []
    /// Incomplete transactions, and those perhaps not committed; ascending.
    private(set) var incomplete: [Stretch] = []
    private(set) var open: Run?
    private(set) var complete: UInt64 = 0
    private(set) var withGaps: UInt64 = 0
    private(set) var changesDropped: UInt64 = 0
    /// The highest number of a committed transaction, from the frames.
    private(set) var highest: UInt64 = 0
    /// The lowest transaction number that a frame follows.
    private(set) var lowest: UInt64 = .max
    /// The end of the highest frame.
    private var reached = UInt64(FormatLimits.pageBytes)

    /// Collects a frame whose header checks. `changes` is their number, 0 if its content does not check. `record` comes
    /// from a good commit frame.
    mutating func collect(
        _ header: FrameHeader, at offset: UInt64, changes: UInt64, record: TransactionRecord?, isGood: Bool
    ) {
        let end = offset + UInt64(header.frameBytes)
        let isOwn = header.isMember || header.kind == .transaction
        reached = max(reached, end)
        lowest = min(lowest, header.number - (isOwn && header.number > 0 ? 1 : 0))
        if header.isMember { return collect(member: header, Stretch(start: offset, end: end), changes, isGood) }
        highest = max(highest, header.number)
        let run = open
        open = nil
        guard header.kind == .transaction else { return settle(run, by: header.number) }
        guard let run, run.number == header.number else {
            settle(run, by: header.number - (header.number > 0 ? 1 : 0))
            if isGood { close(changes, record, 0, Stretch(start: offset, end: end)) } else { withGaps += 1 }
            return
        }
        let whole = Stretch(start: run.stretch.start, end: end)
        if isGood {
            close(changes + run.changes, record, run.schemaFrames, whole)
        } else {
            withGaps += 1
            incomplete.append(whole)
        }
    }

    private mutating func collect(
        member header: FrameHeader, _ stretch: Stretch, _ changes: UInt64, _ isGood: Bool
    ) {
        if let run = open, run.number != header.number {
            settle(run, by: header.number > 0 ? header.number - 1 : 0)
            open = nil
        }
        highest = max(highest, header.number > 0 ? header.number - 1 : 0)
        var run = open ?? Run(number: header.number, stretch: stretch)
        run.stretch.end = stretch.end
        run.changes += changes
        if header.kind == .schema, isGood { run.schemaFrames += 1 }
        open = run
    }

    /// Ends a transaction at its commit frame, with all its found frames.
    private mutating func close(
        _ changes: UInt64, _ record: TransactionRecord?, _ schemaFrames: Int, _ stretch: Stretch
    ) {
        if let record, record.totalChanges == changes, !record.changesSchema || schemaFrames > 0 {
            complete += 1
        } else {
            withGaps += 1
            incomplete.append(stretch)
        }
    }

    /// Judges members without their commit frame (ST1). A frame above proves that transactions up to `number` were
    /// committed.
    private mutating func settle(_ run: Run?, by number: UInt64) {
        guard let run else { return }
        if number >= run.number {
            withGaps += 1
            incomplete.append(run.stretch)
        } else {
            drop(run)
        }
    }

    private mutating func drop(_ run: Run) {
        assert((dropped.last?.start ?? 0) <= run.stretch.start, "Dropped frames are not in their order.")
        dropped.append(run.stretch)
        changesDropped += run.changes
    }

    /// Called after the last frame (ST2). `mayBeCommitted`: whether the bytes after the last member may have been its
    /// commit frame.
    mutating func finish(hints: [HintSlot], mayBeCommitted: (Run) throws(StoreError) -> Bool) throws(StoreError) {
        // A hint is needed only for frames that were not found: found ones have their own numbers.
        for case .good(let hint) in hints where hint.durableEnd > reached { highest = max(highest, hint.number) }
        guard let run = open else { return }
        open = nil
        var isProved = false
        for case .good(let hint) in hints where hint.number >= run.number && hint.durableEnd >= run.stretch.end {
            isProved = true
        }
        if !isProved { isProved = try mayBeCommitted(run) }
        guard isProved else { return drop(run) }
        highest = max(highest, run.number)
        settle(run, by: run.number)
    }

    func isDropped(_ offset: UInt64) -> Bool { dropped.stretch(with: offset) != nil }
    func isIncomplete(_ offset: UInt64) -> Bool { incomplete.stretch(with: offset) != nil }
}

extension [SalvageTransactions.Stretch] {
    /// The stretch that contains an offset, in ascending stretches.
    func stretch(with offset: UInt64) -> SalvageTransactions.Stretch? {
        var (low, high) = (0, count)
        while low < high {
            let middle = (low + high) / 2
            if self[middle].end <= offset { low = middle + 1 } else { high = middle }
        }
        return low < count && self[low].start <= offset ? self[low] : nil
    }
}
