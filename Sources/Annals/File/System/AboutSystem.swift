// System: the operating system as the engine sees it, and nothing above it.
//
// Uses: the C library and Synchronization. No other folder calls the system; Format alone uses memory functions.
//
// Start with `FileSystem`, the protocol of all calls on files: `RealFileSystem` makes them, `MemoryFolder` keeps files
// in memory, and the simulated disk of the tests forgets unsynced data. `Environment` has clocks, random numbers and
// the process. `StorePlace` is a path taken apart once. `SystemCalls` are the calls themselves. `ChangeHub` watches
// folders for all stores of a process; `BackgroundWork` is a thread with a wake-up call.
//
// Every failed call becomes a `StoreError` with its name and errno. After `fork`, a child calls nothing here that
// takes a lock (`OwnProcess`).
