// `annals verify` and `annals frames` from outside: what they print about good, torn, damaged and missing stores.

import Annals
import Foundation
import TestSupport
import Testing

@Suite struct InspectionToolTests {
    private let temporary: TemporaryDirectory
    private let sample: SampleStore

    init() throws {
        temporary = try TemporaryDirectory()
        sample = try SampleStore.sealed(minimumBytes: 12 << 10)
    }

    /// A file with the sample's bytes, changed.
    private func store(_ edit: (inout [UInt8]) -> Void = { _ in }) throws -> String {
        let path = temporary.path("s.annals")
        try Data(sample.bytes.edited(edit)).write(to: URL(fileURLWithPath: path))
        return path
    }

    private func object(_ line: some StringProtocol) throws -> [String: Any] {
        try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
    }

    private func frames(_ path: String, _ options: String...) throws -> (status: Int32?, lines: [[String: Any]]) {
        let run = try runTool(["frames", path, "--format", "jsonl"] + options)
        return (run.status, try run.output.split(separator: "\n").map { try object($0) })
    }

    // MARK: verify

    @Test func anIntactStoreIsVerified() throws {
        let path = try store()
        let run = try runTool(["verify", path])
        #expect(run.status == 0 && run.errors == "")
        #expect(run.output.hasPrefix("\(path): intact\n") && run.output.contains("closed cleanly"))
        let report = try object(try runTool(["verify", "--format=json", path]).output)
        #expect(report["intact"] as? Bool == true && report["end"] as? Int == sample.end)
        #expect(report["tornTail"] is NSNull && (report["findings"] as? [Any])?.isEmpty == true)
        #expect((report["counts"] as? [String: Any])?["frames"] as? Int == sample.frames.count)
        #expect(temporary.names == ["s.annals"])
    }

    @Test func aTornTailIsReportedAndNoDamage() throws {
        let path = try store { $0[$0.count - 9] = 1 }
        let run = try runTool(["verify", path])
        #expect(run.status == 0 && run.output.contains("intact, with a torn tail") && run.output.contains("F27"))
        let listed = try frames(path)
        #expect(listed.status == 0 && listed.lines.last?["verdict"] as? String == "tornTail")
    }

    @Test func damageIsReportedWithItsRuleAndOffset() throws {
        let frame = sample.frames[3]
        let path = try store { $0[frame.offset + 66] ^= 1 }
        let run = try runTool(["verify", path])
        #expect(run.status == 65 && run.output.contains("damage, F7, offset \(frame.offset): "))
        let report = try object(try runTool(["verify", path, "--format", "json"]).output)
        #expect(report["damaged"] as? Bool == true && report["stoppedAt"] as? Int == frame.offset)
        let listed = try frames(path)
        #expect(listed.status == 65 && listed.lines.count == 5)
        #expect((listed.lines[3]["state"] as? String)?.hasPrefix("F7: the table") == true)
        #expect(listed.lines[4]["verdict"] as? String == "damage")
    }

    @Test func filesThatAreNoStoresAreDamaged() throws {
        let path = try store { $0[0] = 0 }
        #expect(try runTool(["verify", path]).status == 65)
        #expect(try runTool(["frames", path]).status == 65)
    }

    @Test func aStoreOfANewerProgramIsAFailure() throws {
        var file = try ForgedFile.withNotes()
        file.add(.checkpoint) { $0[FrameField.kind] = 77 }
        let path = try store { $0 = file.finished() }
        let run = try runTool(["verify", path])
        #expect(run.status == 1 && run.output.contains("not checked to the end"))
        let listed = try frames(path)
        #expect(listed.status == 1 && listed.lines.last?["verdict"] as? String == "unsupported")
    }

    @Test(arguments: ["verify", "frames"]) func wrongUsageAndMissingFilesAreRefused(_ command: String) throws {
        #expect(try runTool([command, temporary.path("nothing")]).status == 1)
        #expect(try runTool([command, temporary.path]).status == 1)
        for arguments in [[], ["a", "b"], ["a", "--format", "xml"], ["a", "--format"], ["a", "--unknown"]] {
            let run = try runTool([command] + arguments)
            #expect(run.status == 64 && run.output == "" && run.errors.contains("Try: annals help \(command)"))
        }
    }

    // MARK: frames

    @Test func framesAreListedInTheirOrder() throws {
        let path = try store()
        let (status, lines) = try frames(path)
        #expect(status == 0 && lines.count == sample.frames.count + 1)
        #expect(lines.dropLast().map { $0["offset"] as? Int } == sample.frames.map(\.offset))
        #expect(lines.dropLast().allSatisfy { $0["state"] as? String == "ok" })
        #expect(lines[0]["kind"] as? String == "metadata" && lines[1]["member"] as? Bool == true)
        #expect(lines.last?["verdict"] as? String == "end" && lines.last?["end"] as? Int == sample.end)
        let text = try runTool(["frames", path]).output.split(separator: "\n")
        #expect(
            text.count == lines.count && text[1].contains("schema (member)") && text.last?.contains("the end") == true)
    }

    @Test func aPartOfTheFramesCanBeListed() throws {
        let path = try store()
        let offset = sample.frames[4].offset
        let few = try frames(path, "--after", "\(offset)", "--limit", "2").lines
        #expect(few.map { $0["offset"] as? Int } == [sample.frames[5].offset, sample.frames[6].offset])
        #expect(try frames(path, "--limit=0").lines.isEmpty)
        #expect(try frames(path, "--after", "\(UInt64.max)").lines.count == 1)
        #expect(try runTool(["frames", path, "--limit", "-1"]).status == 64)
    }
}
