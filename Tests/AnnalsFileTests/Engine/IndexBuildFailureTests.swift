// A build of an index that fails leaves the store as it was, and one whose checkpoint fails leaves the index to whoever
// writes next.

import Annals
import SimulatedDisk
import Testing

@Suite struct IndexBuildFailureTests {
    let machine = EngineMachine()

    private func filled() throws -> Engine {
        let engine = try machine.create(1, EngineNote.withoutIndexes)
        _ = try engine.insertNotes(1...400)
        return engine
    }

    private func expectOrder(_ view: View) throws {
        #expect(try view.byRank().map(\.number) == view.titles().indices.map { UInt64($0 + 1) })
    }

    /// Fails every write of process 1 from one on, a later one each time, until the transaction stands and its
    /// checkpoint does not.
    @Test func withoutTheCheckpointTheNextWriterBuildsTheIndex() throws {
        let engine = try filled()
        let other = try machine.open(2)
        var refusals = 0
        while try engine.view().catalog.newestVersion == 1 {
            machine.machine.disk.addFault(
                Fault(.failure(28), on: .write, occurrence: refusals + 1, isPermanent: true, process: 1))
            do {
                _ = try engine.commit { try $0.changeSchema([EngineNote.definition]) }
            } catch let error as StoreError {
                #expect(error.code == .noSpace)
                refusals += 1
                #expect(try engine.view().titles().count == 400)
            }
            machine.machine.disk.removeAllFaults()
        }
        #expect(refusals > 4)
        // The handle that built it has it; another one has to sort.
        #expect(try hasBuilt(engine))
        #expect(try !hasBuilt(other))
        try expectOrder(other.view())
        let third = try machine.open(3)
        try expectOrder(third.view())
        try third.close()
        _ = try other.insertNotes(401...401)
        #expect(try hasBuilt(other))
        #expect(try other.statistics().dirtyNodeBytes == 0, "a checkpoint has it")
        #expect(throws: StoreError.self) { _ = try other.insertNotes(1...1) }
        for view in [try other.view(), try engine.view()] { try expectOrder(view) }
        _ = try engine.insertNotes(402...403)
        try expectOrder(other.view())
        try other.close()
        try machine.closeAndCheck(engine)
    }

    private func hasBuilt(_ engine: Engine) throws -> Bool {
        let view = try engine.view()
        return try view.hasBuilt(view.indexNumber(EngineNote.rankIndex))
    }

    @Test func noSpaceToSortOrToWriteLeavesTheStoreUsable() throws {
        let engine = try filled()
        for (kind, occurrence) in [(CallKind.createUnnamed, 1), (.write, 1), (.write, 3), (.write, 20)] {
            machine.machine.disk.addFault(Fault(.failure(28), on: kind, occurrence: occurrence))
            do {
                _ = try engine.commit { try $0.changeSchema([EngineNote.definition]) }
                Issue.record("nobody noticed that there was no space: \(kind) \(occurrence)")
            } catch let error as StoreError { #expect(error.code == .noSpace) }
            machine.machine.disk.removeAllFaults()
            #expect(try engine.view().catalog.newestVersion == 1)
        }
        _ = try engine.insertNotes(401...402)
        _ = try engine.commit { try $0.changeSchema([EngineNote.definition]) }
        try expectOrder(engine.view())
        try machine.closeAndCheck(engine)
    }

    @Test func closingDuringABuildLeavesTheStoreUnchanged() throws {
        let engine = try filled()
        let closing = Closing()
        machine.machine.disk.setOnCall { (call) throws(StoreError) in
            guard call.kind == .createUnnamed, call.process == 1 else { return }
            try closing.begin(engine)
        }
        do {
            _ = try engine.commit { try $0.changeSchema([EngineNote.definition]) }
            Issue.record("a store was written to that was being closed")
        } catch let error as StoreError { #expect(error.code == .closed) }
        machine.machine.disk.setOnCall(nil)
        closing.wait()
        let again = try machine.open(2)
        #expect(try again.view().catalog.newestVersion == 1)
        _ = try again.commit { try $0.changeSchema([EngineNote.definition]) }
        try expectOrder(again.view())
        try machine.closeAndCheck(again)
    }

    /// Closes an engine on another thread.
    private final class Closing: Sendable {
        private let thread = Guarded<BackgroundThread?>(nil)

        /// Returns when closing has begun; it ends when calls that are under way have.
        func begin(_ engine: Engine) throws(StoreError) {
            let started = try BackgroundThread(name: "closes") { try? engine.close() }
            thread.withLock { $0 = started }
            while (try? engine.view()) != nil { RealEnvironment().sleep(microseconds: 50) }
        }

        func wait() { thread.withLock { $0 }?.join() }
    }
}
