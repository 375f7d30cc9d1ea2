// The calls into the C library about threads, clocks and the process; like SystemCalls.swift, without decisions.

#if canImport(Glibc)
    internal import Glibc
#else
    internal import Musl
#endif

extension SystemCalls {
    /// A mutex and a condition variable at a fixed address, which both need for as long as they live.
    struct MonitorMemory: @unchecked Sendable {
        // Sound: the memory is made once and touched by pthread functions only, which any thread may call.
        fileprivate let mutex: UnsafeMutablePointer<pthread_mutex_t>
        fileprivate let condition: UnsafeMutablePointer<pthread_cond_t>
    }

    /// Cannot fail on Linux with these attributes: neither call needs memory.
    static func makeMonitor() -> MonitorMemory {
        let memory = MonitorMemory(mutex: .allocate(capacity: 1), condition: .allocate(capacity: 1))
        memory.mutex.initialize(to: pthread_mutex_t())
        memory.condition.initialize(to: pthread_cond_t())
        var kind = pthread_mutexattr_t()
        _ = pthread_mutexattr_init(&kind)
        _ = pthread_mutexattr_settype(&kind, Flag.adaptiveMutex)
        _ = pthread_mutex_init(memory.mutex, &kind)
        _ = pthread_mutexattr_destroy(&kind)
        var attributes = pthread_condattr_t()
        _ = pthread_condattr_init(&attributes)
        // A deadline must not move when the wall clock is set.
        _ = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
        _ = pthread_cond_init(memory.condition, &attributes)
        _ = pthread_condattr_destroy(&attributes)
        return memory
    }

    static func destroy(_ memory: MonitorMemory) {
        _ = pthread_cond_destroy(memory.condition)
        _ = pthread_mutex_destroy(memory.mutex)
        memory.condition.deallocate()
        memory.mutex.deallocate()
    }

    static func lock(_ memory: MonitorMemory) { _ = pthread_mutex_lock(memory.mutex) }

    private typealias ClockLock =
        @convention(c) (
            UnsafeMutablePointer<pthread_mutex_t>, clockid_t, UnsafePointer<timespec>
        ) -> Int32
    private static let clockLock = function("pthread_mutex_clocklock", as: ClockLock.self)

    /// False after the timeout. A C library before 2.30 has no lock that waits on the monotonic clock; there the wall
    /// clock counts.
    static func lock(_ memory: MonitorMemory, timeoutMicroseconds: UInt64) -> Bool {
        if pthread_mutex_trylock(memory.mutex) == 0 { return true }
        let now = clockLock == nil ? UInt64(clamping: wallClockMicroseconds()) : monotonicMicroseconds()
        let end = now.addingReportingOverflow(timeoutMicroseconds)
        var time = timespec(microseconds: end.overflow ? .max : end.partialValue)
        if let clockLock { return clockLock(memory.mutex, CLOCK_MONOTONIC, &time) == 0 }
        return pthread_mutex_timedlock(memory.mutex, &time) == 0
    }

    static func unlock(_ memory: MonitorMemory) { _ = pthread_mutex_unlock(memory.mutex) }
    static func signalAll(_ memory: MonitorMemory) { _ = pthread_cond_broadcast(memory.condition) }

    static func wait(_ memory: MonitorMemory) {
        _ = pthread_cond_wait(memory.condition, memory.mutex)
    }

    /// False when the deadline has passed.
    static func wait(_ memory: MonitorMemory, untilMonotonicMicroseconds deadline: UInt64) -> Bool {
        var time = timespec(microseconds: deadline)
        return pthread_cond_timedwait(memory.condition, memory.mutex, &time) != ETIMEDOUT
    }
}

// MARK: Threads

extension SystemCalls {
    /// The body of a started thread, boxed so that a C function can receive it.
    private final class Entry: Sendable {
        let name: String
        let body: @Sendable () -> Void
        init(name: String, body: @escaping @Sendable () -> Void) {
            self.name = name
            self.body = body
        }
    }

    /// A number in one C library, a pointer in the other; the size of a word in both.
    #if canImport(Glibc)
        private typealias Thread = pthread_t
        private static func thread(_ number: UInt) -> Thread { number }
        private static func number(_ thread: Thread) -> UInt { thread }
    #else
        private typealias Thread = pthread_t?
        private static func thread(_ number: UInt) -> Thread { OpaquePointer(bitPattern: number) }
        private static func number(_ thread: Thread) -> UInt { UInt(bitPattern: thread) }
    #endif

    private typealias SetName = @convention(c) (Thread, UnsafePointer<CChar>) -> Int32
    private static let setThreadName = function("pthread_setname_np", as: SetName.self)

    /// The C entry of every thread. A function of its own, bound to no actor: a closure formed in a function of the
    /// main actor would inherit its isolation and be stopped by the runtime on this thread.
    private nonisolated static func enter(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
        guard let argument else { return nil }
        // Sound: `startThread` retained exactly one `Entry` for this call.
        let entry = Unmanaged<Entry>.fromOpaque(argument).takeRetainedValue()
        _ = setThreadName?(pthread_self(), entry.name)
        entry.body()
        return nil
    }

    /// Starts a thread that handles only signals raised by its own instructions, so that the program's handlers run
    /// where they would run without this thread.
    static func startThread(name: String, _ body: @escaping @Sendable () -> Void) throws(SystemError) -> UInt {
        var blocked = sigset_t()
        var previous = sigset_t()
        _ = sigfillset(&blocked)
        for signal in [SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS, SIGPROF] {
            _ = sigdelset(&blocked, signal)
        }
        _ = pthread_sigmask(SIG_SETMASK, &blocked, &previous)
        defer { _ = pthread_sigmask(SIG_SETMASK, &previous, nil) }

        let entry = Unmanaged.passRetained(Entry(name: name, body: body))
        var thread = Self.thread(0)
        var attributes = pthread_attr_t()
        _ = pthread_attr_init(&attributes)
        defer { _ = pthread_attr_destroy(&attributes) }
        #if !canImport(Glibc)
            // Musl gives a thread 128 KiB by default.
            _ = pthread_attr_setstacksize(&attributes, 8 << 20)
        #endif
        let failure = pthread_create(&thread, &attributes, { SystemCalls.enter($0) }, entry.toOpaque())
        if failure != 0 {
            entry.release()
            throw SystemError("pthread_create", failure)
        }
        return Self.number(thread)
    }

    static func joinThread(_ thread: UInt) {
        assert(!isCurrentThread(thread), "A thread waits for its own end.")
        _ = pthread_join(Self.thread(thread), nil)
    }
    static func detachThread(_ thread: UInt) { _ = pthread_detach(Self.thread(thread)) }
    /// Lets another thread run, if one can.
    static func yield() { _ = sched_yield() }
    static var currentThread: UInt { number(pthread_self()) }
    static func isCurrentThread(_ thread: UInt) -> Bool { currentThread == thread }
}

// MARK: Clocks and the process

extension SystemCalls {
    static func wallClockMicroseconds() -> Int64 {
        var time = timespec()
        _ = clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) &* 1_000_000 &+ Int64(time.tv_nsec) / 1_000
    }

    static func monotonicMicroseconds() -> UInt64 {
        var time = timespec()
        _ = clock_gettime(CLOCK_MONOTONIC, &time)
        return UInt64(clamping: time.tv_sec) &* 1_000_000 &+ UInt64(clamping: time.tv_nsec) / 1_000
    }

    static func coarseSeconds() -> Int64 {
        var time = timespec()
        _ = clock_gettime(CLOCK_MONOTONIC_COARSE, &time)
        return Int64(time.tv_sec)
    }

    /// Sleeps until a moment of the monotonic clock, however often a signal interrupts it.
    static func sleep(untilMonotonicMicroseconds deadline: UInt64) {
        var time = timespec(microseconds: deadline)
        _ = try? calling("clock_nanosleep") {
            settingError(clock_nanosleep(CLOCK_MONOTONIC, Flag.absoluteTime, &time, nil))
        }
    }

    static func processID() -> UInt32 { UInt32(bitPattern: getpid()) }

    /// The C library's words for an error number.
    static func text(ofError number: Int32) -> String {
        var bytes = [CChar](repeating: 0, count: 256)
        _ = strerror_r(number, &bytes, bytes.count)
        let text = bytes.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
        return text.isEmpty ? "error \(number)" : String(decoding: text, as: UTF8.self)
    }
}

extension timespec {
    fileprivate init(microseconds: UInt64) {
        self.init()
        // The type cannot hold more seconds; its maximum is as good as never.
        tv_sec = Int(clamping: microseconds / 1_000_000)
        tv_nsec = Int(microseconds % 1_000_000) * 1_000
    }
}
