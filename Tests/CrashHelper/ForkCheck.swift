// The program that forks: what its child can do with the parent's store, and with the store opened anew.

import Annals
import FoundationEssentials
import Glibc
import Synchronization

/// `fork STORE`: makes a store, forks, and ends with 0 if everything went as it should.
enum ForkCheck {
    private static let entity: UInt16 = 1
    private static let definition = EntityDefinition(
        number: entity, name: "Fork",
        attributes: [AttributeDefinition(number: 1, type: .string, flags: [.indexed], name: "title")])

    private typealias Fork = @convention(c) () -> pid_t

    /// The module marks it as not to be called from Swift, which programs that embed libraries of other languages do
    /// all the same.
    static func fork() throws -> pid_t {
        guard let symbol = dlsym(nil, "fork") else { throw Failure("there is no fork") }
        let child = unsafeBitCast(symbol, to: Fork.self)()
        guard child >= 0 else { throw Failure("fork failed") }
        // A child that waits for a lock of its parent's would wait for ever.
        if child == 0 { alarm(20) }
        return child
    }

    static func expectSuccess(of child: pid_t) throws {
        var ending: Int32 = 0
        while waitpid(child, &ending, 0) < 0, errno == EINTR {}
        guard ending == 0 else { throw Failure("the child ended with \(ending)") }
    }

    static func run(_ store: String) throws {
        let engine = try Engine.create(store, files: RealFileSystem(), environment: RealEnvironment())
        _ = try engine.commit { try $0.changeSchema([definition]) }
        // So that there is a thread in the background, which the child does not have.
        let inserted = try insert("before", engine, .relaxed)
        let view = try engine.view()
        guard try openDescriptors(of: store) > 0 else { throw Failure("the descriptors are not found") }
        let child = try fork()
        if child == 0 { exit(behaveAsChild(store, engine, view, inserted)) }
        try expectSuccess(of: child)
        try forkWhileOthersLook(engine, view)
        try forkInATransaction(store)
        try forkWhileOthersWait(engine)
        // The parent's handle is as it was, and sees what the child committed.
        guard try engine.view().count(entity: entity) == 2 else { throw Failure("the child's object is not there") }
        _ = try insert("after", engine, .full)
        try engine.close()
        guard try Checker.check(store, files: RealFileSystem()).isIntact else { throw Failure("the store is damaged") }
    }

    /// Another thread holds one lock or the other nearly all the time.
    private static func forkWhileOthersLook(_ engine: Engine, _ view: View) throws {
        let isDone = Flag()
        let thread = try BackgroundThread(name: "looks") {
            while !isDone.value.load(ordering: .relaxed) { _ = try? engine.view() }
        }
        defer {
            isDone.value.store(true, ordering: .relaxed)
            thread.join()
        }
        for _ in 0..<100 {
            let child = try fork()
            if child == 0 {
                do {
                    try expectForked { try engine.tracked(view).forEachTransaction(after: 0) { (_) in true } }
                    try expectForked { _ = try engine.statistics() }
                    _exit(0)
                } catch { _exit(1) }
            }
            try expectSuccess(of: child)
        }
    }

    /// A thread waits for changes, in the descriptor that the child has no more; the child has a hub of its own.
    private static func forkWhileOthersWait(_ engine: Engine) throws {
        let (log, hub) = (engine.log, ChangeHub.shared)
        let listener = try hub.listen(directory: log.directoryPath, name: log.name, asynchronously: true)
        let thread = try BackgroundThread(name: "waits") {
            while hub.wait(for: listener, untilMonotonicMicroseconds: nil) != .stopped {}
        }
        defer {
            hub.stop(listener)
            thread.join()
            hub.remove(listener)
        }
        for _ in 0..<20 {
            let child = try fork()
            if child == 0 {
                do {
                    try expectForked {
                        _ = try hub.listen(directory: log.directoryPath, name: log.name, asynchronously: false)
                    }
                    guard hub.wait(for: listener, untilMonotonicMicroseconds: nil) == .stopped,
                        ChangeHub.shared !== hub
                    else { throw Failure("the child waits with the parent's hub") }
                    hub.remove(listener)
                    let own = try ChangeHub.shared.listen(
                        directory: log.directoryPath, name: log.name, asynchronously: false)
                    guard ChangeHub.shared.isWatched(own) else { throw Failure("the child has no watch of its own") }
                    _exit(0)
                } catch { _exit(1) }
            }
            try expectSuccess(of: child)
        }
    }

    final class Flag: Sendable { let value = Atomic<Bool>(false) }

    /// A transaction that has put frames aside: what the child opens meanwhile gets the numbers that were closed in it,
    /// and stays open and as it is.
    private static func forkInATransaction(_ store: String) throws {
        var options = EngineOptions()
        options.log.limits.spoolBytes = 1 << 16
        let engine = try Engine.open(store, options: options, files: RealFileSystem(), environment: RealEnvironment())
        var child: pid_t = 1
        var opened: [Int32] = []
        let text = String(repeating: "s", count: 60_000)
        do {
            _ = try engine.commit { transaction in
                for _ in 0..<100 { _ = try transaction.insert(entity: entity, [.string(text)]) }
                child = try fork()
                if child == 0 { for _ in 0..<16 { opened.append(open("/dev/null", O_RDONLY)) } }
                for _ in 0..<100 { _ = try transaction.insert(entity: entity, [.string(text)]) }
                throw Failure("this transaction is given up")
            }
        } catch {
            if child == 0 { _exit(opened.allSatisfy { fcntl($0, F_GETFD) >= 0 } ? 0 : 1) }
        }
        try expectSuccess(of: child)
        try engine.close()
    }

    private static func insert(_ title: String, _ engine: Engine, _ durability: Durability) throws -> ObjectID {
        try engine.commit(durability: durability) { try $0.insert(entity: entity, [.string(title)]) }.result
    }

    private static func behaveAsChild(_ store: String, _ engine: Engine, _ view: View, _ object: ObjectID) -> Int32 {
        do {
            guard try openDescriptors(of: store) == 0 else { throw Failure("the child has the parent's descriptors") }
            try expectForked { _ = try engine.view() }
            try expectForked { _ = try insert("child", engine, .full) }
            try expectForked { _ = try engine.write { try $0.insert(entity: entity, [.string("child")]) } }
            try expectForked { _ = try view.withRow(object) { (_) throws(StoreError) in } }
            try expectForked { _ = try view.count(entity: entity) }
            try expectForked { _ = try view.contains(object) }
            try expectForked { try view.scan(entity: entity) { (_, _) in true } }
            let snapshot = Snapshot(view, engine, UUID())
            try expectForked { _ = try snapshot.count(of: definition.name.text) }
            try expectForked { _ = try snapshot.entities }
            try expectForked { _ = try snapshot.entity(definition.name.text) }
            try expectForked { _ = try snapshot.rows(of: definition.name.text) }
            try expectForked { _ = try snapshot.metadataKeys }
            try expectForked { try engine.makeDurable(through: view.end) }
            try engine.close()
            let own = try Engine.open(store, files: RealFileSystem(), environment: RealEnvironment())
            _ = try insert("child", own, .full)
            try own.close()
            return 0
        } catch {
            print("in the child: \(error)")
            fflush(nil)
            return 1
        }
    }

    static func expectForked(_ body: () throws -> Void) throws {
        do {
            try body()
        } catch let error as StoreError where error.code == .forked {
            return
        }
        throw Failure("the parent's handle works in the child")
    }

    private static func openDescriptors(of store: String) throws -> Int {
        var count = 0
        for descriptor in 3..<1024 {
            var target = [CChar](repeating: 0, count: Int(PATH_MAX))
            let length = readlink("/proc/self/fd/\(descriptor)", &target, target.count)
            guard length > 0 else { continue }
            let name = String(decoding: target[..<length].map { UInt8(bitPattern: $0) }, as: UTF8.self)
            if store.hasPrefix(name) { count += 1 }
        }
        return count
    }

    struct Failure: Error, CustomStringConvertible {
        let description: String
        init(_ description: String) { self.description = description }
    }
}
