// Index: finds objects and rows. A state of the store as of a transaction, read without locks.
//
// Uses: System, Format, Log.
//
// Start with `View`: a state, which finds objects and ranges. `RowIndex` leads from an object to its newest row,
// `OrderedIndex` from a key to objects; both consist of nodes of 4,096 bytes, in memory or in the file. A leaf that was
// changed stays, and has deltas over it (`LeafDelta.swift`, `OrderedLeaf.swift`). `ReadCore` reads rows and nodes,
// `VerifiedFile` checks each page that it reads for the first time. Without a mapping, it copies pages to `CopyMemory`.
// `StoreShape` is a schema ready for use.
//
// Readers never wait for writers: nodes that a view may see are not changed, and the memory of old nodes is kept until
// all reading sections that began before have ended (`ReadSections`).
