// Log: one append-only file, its writer lock, and proof of what is durable.
//
// Uses: System, Format. It knows frames, and nothing of rows or indexes.
//
// Start with `Log`, the handle on one file. `Log.locked` is the only way to append: it takes `WriterLock`, adopts
// what other processes wrote, runs a body with an `Appender`, and publishes. A transaction arrives as
// `PreparedFrames`. `LogState` is everything that the frames up to a place say; `FrameScanner` and `LogWalk` read
// them, `Verdict` judges what follows the end. `DurabilityLedger` proves what a sync has covered. `Spool` and
// `ExternalSorter` keep in a file what is too long for memory.
//
// A frame is durable only if a sync came after its write. Nothing that another handle may have adopted is ever cut.
