// `annals get` and `count`, from outside, against what `dump` prints and the library says.

import Annals
import TestSupport
import Testing

@Suite struct GetToolTests {
    private let folder: StoreFolder
    private let objects: [ObjectID]

    init() throws {
        folder = try StoreFolder()
        let store = try folder.open([
            EntityDescription(
                "Note",
                attributes: [
                    AttributeDescription("title", .string, isUnique: true), AttributeDescription("rank", .int),
                ])
        ])
        objects = try store.writeOptimistically { transaction in
            try (1...3).map { try transaction.insert("Note", ["title": .string("n\($0)"), "rank": 7]) }
        }.result
        try store.close()
    }

    private func lines(_ arguments: [String]) throws -> [String] {
        let run = try runTool(arguments)
        #expect(run.status == 0, "\(run.errors)")
        return run.output.split(separator: "\n").map(String.init)
    }

    @Test func objectsArePrintedAsDumpDoes() throws {
        let all = try lines(["dump", folder.path])
        #expect(all.count == 3)
        #expect(try lines(["get", folder.path, "Note", "\(objects[2])", "\(objects[0].number)"]) == [all[2], all[0]])
        #expect(try lines(["get", folder.path, "Note", "--key", #"title="n2""#]) == [all[1]])
        #expect(
            try lines(["get", folder.path, "Note", "1", "--bare"]) == [lines(["dump", folder.path, "--bare"])[0]])
        try folder.expectIntact()
    }

    @Test(arguments: [
        (["Note", "9"], 1, "There is no object 1:9"),
        (["Note", "--key", #"title="x""#], 1, "No object has that value"),
        (["Note"], 64, "either by IDs or by “--key”"), (["Note", "1", "--key", "title=1"], 64, "either by IDs"),
        (["Note", "--key", "title"], 64, "NAME=VALUE"), (["Nothing", "1"], 1, "no entity “Nothing”"),
        (["Note", "--key", "size=1"], 1, "has no attribute “size”"), (["Note", "--key", "rank=7"], 64, "index"),
    ])
    func missingObjectsAndMistakesAreReported(arguments: [String], status: Int32, words: String) throws {
        let run = try runTool(["get", folder.path] + arguments)
        #expect(run.status == status && run.errors.contains(words) && run.output.isEmpty, "\(run.errors)")
    }

    @Test func objectsAreCounted() throws {
        #expect(try lines(["count", folder.path, "Note"]) == ["3"])
        #expect(try lines(["count", folder.path]) == [#"{"entity":"Note","count":3}"#])
        #expect(try runTool(["count", folder.path, "Nothing"]).status == 1)
    }
}
