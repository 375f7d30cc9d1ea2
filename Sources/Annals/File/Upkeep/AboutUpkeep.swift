// Upkeep: work on whole files: compaction and backup, checking, salvage.
//
// Uses: all folders before it.
//
// Start with `Compactor`: it copies live data and kept history into a new file, catches up with writers, proves the new
// file's content (`WrittenStore`), and puts the new file in the old one's place. `Checker` checks every rule of
// FileFormat.md (F1 to F37). `Salvage` copies the readable content of a damaged file into a new one.
//
// The old file is never changed, except for a frame that marks it as replaced. A copy counts only after a sync and
// after it was read back.
