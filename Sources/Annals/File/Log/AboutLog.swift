// Log: one append-only file, its writer lock, and proof of durability.
//
// Uses: System, Format. It knows frames, and nothing of rows or indexes.
//
// Start with `Log`, the handle on one file. `Log.locked` is the only way to append: it takes `WriterLock`, adopts the
// frames of other processes, runs a body with an `Appender`, and publishes. A transaction arrives as `PreparedFrames`.
// `LogState` is the sum of the frames up to a place; `FrameScanner` and `LogWalk` read them, `Verdict` judges the bytes
// after the end. `DurabilityLedger` proves which bytes a sync has covered. `Spool` and `ExternalSorter` keep data in a
// file that does not fit in memory.
//
// A frame is durable only if a sync came after its write. Bytes that another handle may have adopted are never cut.
