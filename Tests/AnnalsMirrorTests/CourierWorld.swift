// The parts of an engine that the tests of all couriers need.

import Annals
import AnnalsMirror
import Glibc
import Testing

/// An engine with couriers for any number of peers.
protocol CourierWorld: AnyObject {
    func makeCourier(for peer: String) throws -> any Courier
    /// Removes everything that the engine has, as a person may.
    func empty() throws
    /// For the messages of failed expectations.
    var note: String { get }
}

extension SimulatedExchange: CourierWorld {
    func makeCourier(for peer: String) -> any Courier { courier(for: peer) }

    func empty() { beginAgain() }
}

/// A folder of a test's own, gone when the test is.
final class FolderOnDisk: CourierWorld {
    let path: String
    let group: String

    init(group: String = "notes") throws {
        self.group = group
        // In memory if there is room: these tests sync thousands of times.
        let memory = "/dev/shm"
        let base = access(memory, W_OK) == 0 ? memory : getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
        path = base + "/annals-mirror-" + String(UInt64.random(in: .min ... .max), radix: 16)
        try #require(mkdir(path, 0o700) == 0)
    }

    deinit {
        try? empty()
        rmdir(path)
    }

    var note: String { "The folder is \(path)." }

    func makeCourier(for peer: String) throws -> any Courier { try folderCourier(for: peer) }

    func folderCourier(for peer: String, group: String? = nil) throws -> FolderCourier {
        let courier = try FolderCourier(
            path: path, group: group ?? self.group, peer: peer, interruption: Interruption())
        courier.settlingSeconds = 0
        return courier
    }

    func empty() throws { Self.remove(path) }

    /// The files in it with their subfolders, sorted.
    var files: [String] { Self.files(in: path) }

    /// The segments of a peer, in the order of their serials within a run.
    func segments(of peer: String) -> [String] {
        files.filter { $0.hasPrefix("peer-\(peer)/") && $0.hasSuffix(".segment") }
    }

    func read(_ file: String) throws -> [UInt8] {
        let descriptor = open(path + "/" + file, O_RDONLY | O_CLOEXEC)
        try #require(descriptor >= 0, "\(file) cannot be opened.")
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 1 << 20)
        while case let count = Glibc.read(descriptor, &buffer, buffer.count), count > 0 { bytes += buffer[..<count] }
        return bytes
    }

    /// Writes a file in place, as a person or a bad synchronizer does. Creates a missing subfolder.
    func write(_ bytes: [UInt8], to file: String) throws {
        if let slash = file.lastIndex(of: "/") { mkdir(path + "/" + file[..<slash], 0o777) }
        let descriptor = open(path + "/" + file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o666)
        try #require(descriptor >= 0, "\(file) cannot be opened.")
        defer { close(descriptor) }
        try #require(Glibc.write(descriptor, bytes, bytes.count) == bytes.count)
    }

    func remove(_ file: String) { unlink(path + "/" + file) }

    /// Makes a file as old as a number of seconds.
    func age(_ file: String, seconds: Int) {
        let time = timeval(tv_sec: Glibc.time(nil) - seconds, tv_usec: 0)
        utimes(path + "/" + file, [time, time])
    }

    private static func names(in path: String) -> [String] {
        guard let folder = opendir(path) else { return [] }
        defer { closedir(folder) }
        var names: [String] = []
        while let entry = readdir(folder) {
            let name = withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
                String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            if name != "." && name != ".." { names.append(name) }
        }
        return names.sorted()
    }

    private static func files(in path: String) -> [String] {
        names(in: path).flatMap { name in
            var status = stat()
            let inside = path + "/" + name
            guard lstat(inside, &status) == 0, status.st_mode & S_IFMT == S_IFDIR else { return [name] }
            return files(in: inside).map { name + "/" + $0 }
        }
    }

    private static func remove(_ path: String) {
        for name in names(in: path) {
            let inside = path + "/" + name
            if unlink(inside) != 0 {
                remove(inside)
                rmdir(inside)
            }
        }
    }
}

// MARK: Threads

/// A thread of its own: tasks may have to wait for other tests.
final class TestThread {
    private final class Body {
        let run: @Sendable () -> Void
        init(_ run: @escaping @Sendable () -> Void) { self.run = run }
    }

    private var thread = pthread_t()

    init(_ run: @escaping @Sendable () -> Void) throws {
        let body = Unmanaged.passRetained(Body(run)).toOpaque()
        let number = pthread_create(
            &thread, nil,
            { body in
                // Sound: the creator has retained it once, for this thread.
                if let body { Unmanaged<Body>.fromOpaque(body).takeRetainedValue().run() }
                return nil
            }, body)
        try #require(number == 0)
    }

    func join() { pthread_join(thread, nil) }
}

// MARK: Reading everything

/// A peer that reads, and keeps what it got.
final class TestReader {
    var courier: any Courier
    var place: CourierPlace?
    var messages: [IncomingMessage] = []
    var timesBegunAgain = 0

    init(_ courier: any Courier) { self.courier = courier }

    /// Reads until nothing is left.
    func drain(maximumBytes: Int = 1 << 20) throws {
        while true {
            let batch = try courier.messages(after: place, maximumBytes: maximumBytes, waitSeconds: 0)
            place = batch.place
            messages += batch.messages
            if batch.beganAgain { timesBegunAgain += 1 }
            if batch.messages.isEmpty && !batch.beganAgain { return }
        }
    }

    /// The numbers of a sender's messages, in the order in which they came.
    func numbers(of sender: String) -> [UInt64] { messages.filter { $0.sender == sender }.map(\.number) }
}

/// Messages with bodies that depend on their sender and number.
func testMessages(_ numbers: ClosedRange<UInt64>, from sender: String, bytes: Int = 20) -> [OutgoingMessage] {
    numbers.map { OutgoingMessage(number: $0, body: testBody($0, of: sender, bytes: bytes)) }
}

func testBody(_ number: UInt64, of sender: String, bytes: Int = 20) -> [UInt8] {
    var body = Array("\(sender) \(number) ".utf8)
    while body.count < bytes { body += body }
    return Array(body[..<bytes])
}

/// The code of the error that a body throws; nil if it throws none.
func code(_ body: () throws -> Void) -> StoreError.Code? {
    do {
        try body()
        return nil
    } catch { return (error as? StoreError)?.code }
}

/// The error that a body throws.
func storeError(_ body: () throws -> Void) -> StoreError? {
    do {
        try body()
        return nil
    } catch { return error as? StoreError }
}
