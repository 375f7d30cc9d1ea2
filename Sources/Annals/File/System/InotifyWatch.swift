// The watch of the real machine: one inotify instance for any number of stores.

/// Watches files through inotify: each file for writes, its directory for changes of the name.
package final class InotifyWatch: ChangeWatch {
    /// A watched file. The kernel uses one watch number per inode, so files in one directory share its number, and two
    /// handles of one store share both.
    private struct Target {
        var directory: String
        var name: String
        var directoryWatch: Int32
        /// Nil while the name does not exist.
        var fileWatch: Int32?

        var path: String { StorePlace.path(of: name, in: directory) }
    }

    private struct State {
        var targets: [WatchedFile: Target] = [:]
        var nextNumber: UInt64 = 1
        var isCancelled = false
    }

    private static let directoryMask =
        InotifyEvent.Mask.created | InotifyEvent.Mask.movedTo | InotifyEvent.Mask.movedFrom | InotifyEvent.Mask.deleted
        | InotifyEvent.Mask.deletedItself | InotifyEvent.Mask.movedItself | InotifyEvent.Mask.onlyDirectory
    private static let fileMask = InotifyEvent.Mask.modified | InotifyEvent.Mask.doNotFollow
    /// Room for an event with the longest name and some more; events that do not fit stay in the kernel for the next
    /// read.
    private static let bufferBytes = 1024

    private let process = OwnProcess()
    private let inotify: Int32
    private let wakeReader: Int32
    private let wakeWriter: Int32
    /// Held while a watch is added and entered here, so that its first event finds the entry.
    private let state = Guarded(State())

    /// - Throws: `tooManyFiles` if the user has no instances or the process no descriptors left.
    package init() throws(StoreError) {
        do throws(SystemError) {
            inotify = try SystemCalls.inotifyInit()
        } catch { throw StoreError(error) }
        do throws(SystemError) {
            (wakeReader, wakeWriter) = try SystemCalls.makePipe()
        } catch {
            SystemCalls.closeFile(inotify)
            throw StoreError(error)
        }
    }

    // No thread waits any more: a waiting thread keeps the object alive.
    deinit {
        // A child has closed them; the numbers may be other files' descriptors.
        if process.wasForked { return }
        for descriptor in [inotify, wakeReader, wakeWriter] { SystemCalls.closeFile(descriptor) }
    }
}

// MARK: Watching

extension InotifyWatch {
    package func add(directory: String, name: String) throws(StoreError) -> WatchedFile {
        try state.withLock { state throws(StoreError) in
            var target = Target(directory: directory, name: name, directoryWatch: -1)
            // The directory first, so that a file that takes the name in between is noticed.
            do throws(SystemError) {
                target.directoryWatch = try SystemCalls.inotifyAddWatch(inotify, directory, Self.directoryMask)
            } catch { throw StoreError(error, path: directory) }
            do throws(StoreError) {
                target.fileWatch = try watchFile(of: target)
            } catch {
                dropUnused([target.directoryWatch], in: state)
                throw error
            }
            let file = WatchedFile(state.nextNumber)
            state.nextNumber += 1
            state.targets[file] = target
            return file
        }
    }

    /// Nil if the name does not exist.
    private func watchFile(of target: Target) throws(StoreError) -> Int32? {
        do throws(SystemError) {
            return try SystemCalls.inotifyAddWatch(inotify, target.path, Self.fileMask)
        } catch {
            let error = StoreError(error, path: target.path)
            if error.code == .notFound { return nil }
            throw error
        }
    }

    package func remove(_ file: WatchedFile) {
        state.withLock { state in
            guard let target = state.targets.removeValue(forKey: file) else { return }
            dropUnused([target.directoryWatch, target.fileWatch].compactMap { $0 }, in: state)
        }
    }

    /// Ends watches without targets.
    private func dropUnused(_ watches: [Int32], in state: borrowing State) {
        for watch in watches {
            let isUsed = state.targets.values.contains { $0.directoryWatch == watch || $0.fileWatch == watch }
            if !isUsed { SystemCalls.inotifyRemoveWatch(inotify, watch) }
        }
    }

    package func wake() {
        // A full pipe has the same effect.
        _ = try? SystemCalls.writeSome(wakeWriter, [1])
    }

    package func cancel() {
        state.withLock { $0.isCancelled = true }
        wake()
    }
}

// MARK: Waiting

extension InotifyWatch {
    package func wait(untilMonotonicMicroseconds deadline: UInt64?) throws(StoreError) -> [WatchNews] {
        while true {
            if state.withLock({ $0.isCancelled }) { return [.cancelled] }
            let milliseconds = Self.milliseconds(until: deadline, from: SystemCalls.monotonicMicroseconds())
            do throws(SystemError) {
                let (hasEvents, isWoken) = try SystemCalls.awaitInput(inotify, wakeReader, milliseconds: milliseconds)
                if isWoken { try emptyPipe() }
                let news = hasEvents ? try readNews() : []
                if !news.isEmpty || isWoken { return state.withLock { $0.isCancelled } ? [.cancelled] : news }
            } catch { throw StoreError(error) }
            if let deadline, SystemCalls.monotonicMicroseconds() >= deadline {
                return state.withLock { $0.isCancelled } ? [.cancelled] : []
            }
        }
    }

    /// Reads the bytes of several wakers as far as they fit; bytes left over end one more wait.
    private func emptyPipe() throws(SystemError) {
        var buffer = [UInt8](repeating: 0, count: 64)
        do throws(SystemError) { _ = try SystemCalls.readSome(wakeReader, &buffer) } catch {
            if !error.wouldBlock { throw error }
        }
    }

    /// The timeout of `poll`: -1 waits without limit. Rounded up, because a poll of 0 ms would spin through the last
    /// millisecond.
    package static func milliseconds(until deadline: UInt64?, from now: UInt64) -> Int32 {
        guard let deadline else { return -1 }
        guard deadline > now else { return 0 }
        return Int32(clamping: (deadline - now - 1) / 1000 + 1)
    }

    private func readNews() throws(SystemError) -> [WatchNews] {
        var buffer = [UInt8](repeating: 0, count: Self.bufferBytes)
        var count = 0
        do throws(SystemError) {
            count = try SystemCalls.readSome(inotify, &buffer)
        } catch {
            // The event was taken by another read.
            if error.wouldBlock { return [] }
            throw error
        }
        let (events, isComplete) = InotifyEvent.parse(buffer[..<count])
        return state.withLock { state in
            var news: [WatchNews] = []
            func tell(_ item: WatchNews) { if !news.contains(item) { news.append(item) } }
            for event in events { interpret(event, &state, tell) }
            if !isComplete || events.contains(where: { $0.mask & InotifyEvent.Mask.overflow != 0 }) {
                tell(.overflow)
                for file in state.targets.keys { watchAnew(file, &state, tell) }
            }
            return news
        }
    }

    /// Reports the meaning of one event for each target. A file that has taken a watched name is under watch before the
    /// news goes out, so reading its state afterwards misses nothing.
    private func interpret(_ event: InotifyEvent, _ state: inout State, _ tell: (WatchNews) -> Void) {
        typealias Mask = InotifyEvent.Mask
        for (file, target) in state.targets {
            if target.fileWatch == event.watch {
                if event.mask & Mask.modified != 0 { tell(.changed(file)) }
                if event.mask & (Mask.ignored | Mask.unmounted) != 0 { state.targets[file]?.fileWatch = nil }
            }
            guard target.directoryWatch == event.watch else { continue }
            if event.mask & (Mask.deletedItself | Mask.movedItself | Mask.ignored | Mask.unmounted) != 0 {
                tell(.gone(file))
            } else if event.name.elementsEqual(target.name.utf8) {
                rewatch(file, &state, tell)
            }
        }
    }

    /// Called after events were lost: one of them may have replaced the name or the directory.
    private func watchAnew(_ file: WatchedFile, _ state: inout State, _ tell: (WatchNews) -> Void) {
        guard let target = state.targets[file] else { return }
        let directoryWatch = try? SystemCalls.inotifyAddWatch(inotify, target.directory, Self.directoryMask)
        guard directoryWatch == target.directoryWatch else {
            if let directoryWatch { dropUnused([directoryWatch], in: state) }
            return tell(.gone(file))
        }
        rewatch(file, &state, tell)
    }

    private func rewatch(_ file: WatchedFile, _ state: inout State, _ tell: (WatchNews) -> Void) {
        guard let target = state.targets[file] else { return }
        do throws(StoreError) {
            let fileWatch = try watchFile(of: target)
            state.targets[file]?.fileWatch = fileWatch
            if let old = target.fileWatch, old != fileWatch { dropUnused([old], in: state) }
            tell(.replaced(file))
        } catch {
            // The system has no watch for the new file: from now on its user must look.
            state.targets[file]?.fileWatch = nil
            tell(.gone(file))
        }
    }
}
