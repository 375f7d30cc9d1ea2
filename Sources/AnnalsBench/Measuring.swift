// Clocks, memory and the lines that are printed.

import FoundationEssentials
import Glibc

enum Printer {
    static func standardOutput(_ text: String) { write(text, 1) }
    static func standardError(_ text: String) { write(text, 2) }

    private static func write(_ text: String, _ descriptor: Int32) {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            guard count > 0 else { return }
            rest = rest.dropFirst(count)
        }
    }
}

/// Seconds of the monotonic clock.
func seconds() -> Double {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
}

enum Memory {
    /// The most memory this process has had, file pages that it has mapped included.
    static var peakKilobytes: Int {
        var usage = rusage()
        getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
        return usage.ru_maxrss
    }

    /// Uses this much memory once and frees it: in memory that was not used lately, every write is up to five times
    /// slower.
    static func touch(_ count: Int) {
        let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: count, alignment: 1 << 12)
        defer { memory.deallocate() }
        for page in stride(from: 0, to: count, by: 1 << 12) { memory[page] = 1 }
    }

    /// Memory of its own that it has now: without mapped file pages.
    static var privateKilobytes: Int {
        guard let status = try? String(contentsOfFile: "/proc/self/status", encoding: .utf8),
            let line = status.split(separator: "\n").first(where: { $0.hasPrefix("RssAnon:") }),
            let number = line.split(whereSeparator: { $0 == " " || $0 == "\t" }).dropFirst().first
        else { return 0 }
        return Int(number) ?? 0
    }
}

extension Memory {
    private typealias MallocInfo = @convention(c) (Int32, UnsafeMutablePointer<FILE>) -> Int32

    /// The bytes that `malloc` has allocated by its own count, with its overhead.
    static func heapBytes() throws -> Int {
        // The module of the C library does not have `malloc_info`.
        guard let symbol = dlsym(nil, "malloc_info") else { throw BenchError(message: "there is no malloc_info") }
        var (text, size): (UnsafeMutablePointer<CChar>?, Int) = (nil, 0)
        guard let stream = open_memstream(&text, &size) else { throw BenchError(message: "there is no memory") }
        let result = unsafeBitCast(symbol, to: MallocInfo.self)(0, stream)
        fclose(stream)
        defer { free(text) }
        guard result == 0, let text else { throw BenchError(message: "malloc_info has failed") }
        let lines = String(cString: text).split(separator: "\n")
        // The totals of all arenas come last, after the last arena.
        let total = lines[((lines.lastIndex { $0.hasPrefix("</heap>") } ?? 0))...]
        func bytes(_ start: String) throws -> Int {
            guard let line = total.first(where: { $0.hasPrefix(start) }),
                let digits = line.split(separator: "size=\"").last?.prefix(while: \.isNumber), let bytes = Int(digits)
            else {
                throw BenchError(message: "malloc_info says nothing of \(start)")
            }
            return bytes
        }
        return try bytes("<system type=\"current\"") + bytes("<total type=\"mmap\"") - bytes("<total type=\"fast\"")
            - bytes("<total type=\"rest\"")
    }
}

/// The size of a file; 0 if there is none.
func fileBytes(_ path: String) -> Int {
    var status = stat()
    return stat(path, &status) == 0 ? Int(status.st_size) : 0
}

/// The bytes that the process has read, as the kernel counts them.
enum Reads {
    /// Bytes that this process has asked for with read calls so far.
    static var bytes: UInt64 {
        guard let counters = try? String(contentsOfFile: "/proc/self/io", encoding: .utf8),
            let line = counters.split(separator: "\n").first(where: { $0.hasPrefix("rchar:") }),
            let number = line.split(separator: " ").last
        else { return 0 }
        return UInt64(number) ?? 0
    }
}
