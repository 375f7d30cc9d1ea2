// A service with a store.
//
// POST /items    adds an item with the body as its title
// GET /items     the items, and in `Last-Event-ID` the number of the last transaction that they have
// GET /events    a stream of server-sent events: one for each transaction, whoever made it, with its number as ID. A
//                client that comes back with `Last-Event-ID` misses nothing.
//
// sample-service STORE prints its port, and ends gracefully at SIGTERM.

import Annals
import Foundation

// Before there are threads: this one waits for the signal, and no other gets it.
var ending = sigset_t()
for signal in [SIGTERM, SIGINT] { sigaddset(&ending, signal) }
pthread_sigmask(SIG_BLOCK, &ending, nil)

let service = try Service(path: CommandLine.arguments[1])
try FileHandle.standardOutput.write(contentsOf: Data("\(service.port)\n".utf8))
service.start()

var signal: Int32 = 0
sigwait(&ending, &signal)
try service.end()
