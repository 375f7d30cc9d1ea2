// Handle: an open store, also after a compaction has replaced its file.
//
// Uses: all folders before it. The layers above use the file layer through it.
//
// `StoreHandle` holds the engine of the newest file. If another process has compacted the store, the next call moves
// to the new file (SF2), and older states stay readable. It also runs automatic compaction in the background.
