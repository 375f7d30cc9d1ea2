// Engine: one open file: commits, its indexes, checkpoints, history.
//
// Uses: all folders before it.
//
// Start with `Engine` and Engine+Commit.swift: a draft is prepared, checked under the lock against the commits of other
// writers, appended, and applied to `Indexes`. `CheckpointWriter` writes the indexes into the file so that opening is
// fast; `CheckpointReader` reads them back. `IndexBuild` makes an index over existing rows while other handles write.
// `History` reads transactions in order, `ChangeFolding` sums changes up. `RevertPlan` undoes a transaction by a new
// one.
//
// The indexes always match the log's end (`Indexes.apply`); if they cannot, the handle writes nothing more.
