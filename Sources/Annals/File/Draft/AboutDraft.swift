// Draft: a transaction before it is committed. Everything here happens without the writer lock.
//
// Uses: System, Format, Log (for `PreparedFrames` and `Spool`), Index (for the state that it reads).
//
// Start with `Draft`: it reads a `View` with its own changes on top, draws object numbers, and carries out delete rules
// when its body has ended. `DraftFrames` turns changes into frames. `RowWriter` is the only code that writes rows.
// `OwnChanges` finds the draft's own changes. `Rehearsal` finds every reason for which a commit would refuse a draft.
//
// A complete draft has each object once (F19). One thread uses a draft at a time. The memory of an ended draft may be
// reused (`DraftRecycler`).
