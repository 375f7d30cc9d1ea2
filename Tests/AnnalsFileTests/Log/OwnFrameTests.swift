// A handle accepts its own commit frame by comparing its fields with the state: a frame that readers would refuse is
// never written, although its bytes are not hashed again.

import Annals
import SimulatedDisk
import TestSupport
import Testing

@Suite struct OwnFrameTests {
    private static let end = UInt64(FormatLimits.pageBytes)

    private func state() throws -> LogState {
        let log = try Machine().create()
        return LogState(header: log.header)
    }

    /// A transaction without changes after the header page, as `Appender` makes it, after changes by `change`.
    private func frame(
        of state: LogState, in memory: UnsafeMutableRawBufferPointer,
        _ change: (inout FrameHeader, inout TransactionRecord) -> Void
    ) -> (FrameView, TransactionRecord) {
        var record = TransactionRecord()
        (record.time, record.start) = (state.lastTime + 1, state.end)
        var header = FrameHeader(
            kind: .transaction, isMember: false, frameBytes: UInt32(memory.count),
            tableBytes: UInt32(TransactionField.bytes), number: state.lastNumber + 1, durableMark: state.durableMark,
            previousChecksum: state.chainChecksum, tableChecksum: 0,
            bodyChecksum: FrameHeader.bodyChecksum(UnsafeRawBufferPointer(start: nil, count: 0), salt: 1))
        change(&header, &record)
        let table = UnsafeMutableRawBufferPointer(rebasing: memory[FrameField.bytes...])
        record.encode(into: table)
        record.tag = TransactionRecord.tag(
            previousTag: state.lastTag, previousChecksum: header.previousChecksum, bodyChecksum: header.bodyChecksum,
            table: UnsafeRawBufferPointer(table))
        record.encode(into: table)
        header.encode(into: memory, offset: state.end, salt: 1)
        let body = UnsafeRawBufferPointer(start: nil, count: 0)
        return (FrameView(offset: state.end, header: header, table: UnsafeRawBufferPointer(table), body: body), record)
    }

    /// Accepts the frame and returns the rule that it breaks; nil if it was accepted.
    private func broken(_ change: (inout FrameHeader, inout TransactionRecord) -> Void) throws -> String? {
        var state = try state()
        let memory = UnsafeMutableRawBufferPointer.allocate(
            byteCount: FrameField.bytes + TransactionField.bytes, alignment: 16)
        defer { memory.deallocate() }
        let (frame, record) = frame(of: state, in: memory, change)
        let before = state.progress
        do throws(StoreError) {
            try state.accept(own: frame, record)
        } catch {
            #expect(error.code == .damaged && state.progress == before)
            return String(error.message.prefix { $0 != ":" })
        }
        #expect(state.end == Self.end + UInt64(memory.count) && state.lastNumber == before.lastNumber + 1)
        #expect(state.lastTag == record.tag && state.lastTime == record.time && state.lastFrame == Self.end)
        return nil
    }

    @Test func aFrameMadeFromTheStateIsAccepted() throws { #expect(try broken { (_, _) in } == nil) }

    @Test func aFrameThatContradictsTheStateIsRefused() throws {
        #expect(try broken { (header, _) in header.durableMark -= 8 } == "F10")
        #expect(try broken { (header, _) in header.durableMark += 8 } == "F10")
        #expect(try broken { (header, _) in header.number += 1 } == "F11")
        #expect(try broken { (_, record) in record.time -= 1 } == "F12")
        #expect(try broken { (_, record) in record.start += 8 } == "F13")
        #expect(try broken { (_, record) in record.firstChange = 1 } == "F13")
        #expect(try broken { (_, record) in record.totalChanges = 1 } == "F13")
        #expect(try broken { (_, record) in record.isCopied = true } == "F13")
        #expect(try broken { (_, record) in record.lacksChanges = true } == "F13")
        #expect(try broken { (_, record) in record.author = 1 } == "F15")
        #expect(try broken { (_, record) in record.changesSchema = true } == "F16")
        #expect(try broken { (_, record) in record.schemaVersion = 1 } == "F16")
    }
}
