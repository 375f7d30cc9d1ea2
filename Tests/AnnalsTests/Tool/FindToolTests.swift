// `annals find`, from outside: what it finds is what Swift decides, through indexes or not.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct FindToolTests {
    private let folder: StoreFolder
    private let ranks: [Int64?]
    private let titles: [String]

    init() throws {
        folder = try StoreFolder()
        let store = try folder.open([
            EntityDescription("Folder", attributes: [AttributeDescription("name", .string, isUnique: true)]),
            EntityDescription(
                "Note",
                attributes: [
                    AttributeDescription("title", .string), AttributeDescription("rank", .int, isIndexed: true),
                    AttributeDescription("done", .bool), AttributeDescription("made", .date),
                    AttributeDescription("folder", .object, target: "Folder"),
                    AttributeDescription("seen", .objects, target: "Folder"),
                ]),
        ])
        let ranks = (0..<40).map { $0 % 7 == 0 ? nil : Int64($0 % 10) }
        let titles = (0..<40).map { ["alpha", "beta", "Gamma", "äther"][$0 % 4] + "\($0 % 3)" }
        try store.writeOptimistically { transaction in
            let folders = try ["x", "y"].map { try transaction.insert("Folder", ["name": .string($0)]) }
            for number in 0..<40 {
                try transaction.insert(
                    "Note",
                    [
                        "title": .string(titles[number]), "rank": ranks[number].map { .int($0) } ?? .null,
                        "done": .bool(number % 2 == 0),
                        "made": .date(Date(timeIntervalSince1970: Double(number) * 86_400)),
                        "folder": number % 5 == 0 ? .null : .object(folders[number % 2]),
                        "seen": .objects(number % 3 == 0 ? folders : []),
                    ])
            }
        }
        try store.close()
        (self.ranks, self.titles) = (ranks, titles)
    }

    private func run(_ arguments: [String]) throws -> [String] {
        let run = try runTool(["find", folder.path, "Note"] + arguments)
        #expect(run.status == 0, "\(run.errors)")
        return run.output.split(separator: "\n").map(String.init)
    }

    private func count(_ condition: String) throws -> Int { Int(try run(["--where", condition, "--count"])[0]) ?? -1 }

    @Test func nestingEndsAtALimit() throws {
        let nested = { (count: Int) in
            String(repeating: "(", count: count) + "rank = 5" + String(repeating: ")", count: count)
        }
        #expect(try count(nested(99)) == count("rank = 5"))
        #expect(try count(String(repeating: "not ", count: 98) + "rank = 5") == count("rank = 5"))
        for condition in [nested(50_000), String(repeating: "not ", count: 30_000) + "rank = 5"] {
            let run = try runTool(["find", folder.path, "Note", "--where", condition])
            #expect(run.status == 64 && run.errors.contains("at most 100 levels of nesting"))
            // The condition itself is cut.
            #expect(run.errors.count < 500)
        }
        // Side by side there is no limit.
        let many = (0..<5000).map { "rank = \($0)" }.joined(separator: " or ")
        #expect(try count(many) == count("rank is not null"))
    }

    // MARK: What is found

    @Test func everyConditionFindsItsObjects() throws {
        let numbers = Array(0..<40)
        let cases: [(String, (Int) -> Bool)] = [
            ("rank = 5", { ranks[$0] == 5 }), ("rank != 5", { ranks[$0] != 5 }),
            ("rank >= 8", { ranks[$0].map { $0 >= 8 } ?? false }), ("rank < 2", { ranks[$0].map { $0 < 2 } ?? false }),
            ("rank in (1, 2, 99)", { ranks[$0] == 1 || ranks[$0] == 2 }), ("rank is null", { ranks[$0] == nil }),
            ("rank is not null and done = true", { ranks[$0] != nil && $0 % 2 == 0 }),
            (#"title = "beta1""#, { titles[$0] == "beta1" }),
            (
                #"title starts with "Ga" or title contains "th""#,
                { titles[$0].hasPrefix("Ga") || titles[$0].contains("th") }
            ),
            (
                #"not (title contains "a") or rank > 7"#,
                { !titles[$0].contains("a") || ranks[$0].map { $0 > 7 } ?? false }
            ),
            (#"made >= "1970-01-31""#, { $0 >= 30 }), (#"folder.name = "x""#, { $0 % 5 != 0 && $0 % 2 == 0 }),
            (#"folder.name != "x""#, { $0 % 5 == 0 || $0 % 2 == 1 }), ("folder is null", { $0 % 5 == 0 }),
            (#"seen.name = "y""#, { $0 % 3 == 0 }), (#"seen contains "1:2""#, { $0 % 3 == 0 }),
        ]
        for (condition, isWanted) in cases {
            #expect(try count(condition) == numbers.count(where: isWanted), "\(condition)")
        }
        let all = try runTool(["dump", folder.path, "--entity", "Note"]).output
        #expect(try run([]) == all.split(separator: "\n").map(String.init))
        let sorted = try run(["--sort", "-rank,title", "--limit", "2", "--offset", "1", "--columns", "rank", "--bare"])
        #expect(sorted == [#"{"rank":9}"#, #"{"rank":9}"#])
        let both = try run([
            "--where", "rank > 5", "--where", "done = false", "--columns", "rank", "--format", "csv", "--bare",
        ])
        #expect(both.first == "rank" && both.count == 1 + numbers.count { (ranks[$0] ?? 0) > 5 && $0 % 2 == 1 })
        try folder.expectIntact()
    }

    /// A state of the past is asked with the present names. What was added since has its default.
    @Test func aStateOfThePastHasThePresentNames() throws {
        let store = try Store(at: folder.path)
        let number = try store.currentToken.number
        try store.changeSchema([
            .renameEntity("Note", to: "Memo"), .renameAttribute("rank", of: "Memo", to: "stars"),
            .addAttribute(AttributeDescription("kind", .string, defaultValue: "plain"), to: "Memo"),
            .removeAttribute("made", from: "Memo"),
        ])
        try store.writeOptimistically { transaction in
            for row in try transaction.snapshot.rows(of: "Memo") { try transaction.delete(row.id) }
        }
        try store.close()
        func find(_ arguments: [String]) throws -> String {
            let run = try runTool(["find", folder.path, "Memo", "--as-of", "\(number)"] + arguments)
            #expect(run.status == 0, "\(run.errors)")
            return run.output
        }
        let condition = "stars >= 5 and kind = \"plain\" and folder.name = \"x\""
        let wanted = ranks.indices.filter { (ranks[$0] ?? 0) >= 5 && $0 % 5 != 0 && $0 % 2 == 0 }
        #expect(try find(["--where", condition, "--count"]) == "\(wanted.count)\n")
        let names = try find(["--sort", "-stars", "--limit", "1", "--format", "csv"]).split(separator: "\n")[0]
        #expect(names == "_entity,_id,title,stars,done,folder,seen,kind,made")
        // As it was.
        let dumped = try runTool(["dump", folder.path, "--as-of", "\(number)", "--entity", "Note"])
        #expect(dumped.output.contains("\"rank\"") && !dumped.output.contains("kind"))
        try folder.expectIntact()
    }

    /// One entity's history does not reach back: no part of the answer is printed.
    @Test func aStateThatOneEntityDoesNotHaveIsNotDumpedInPart() throws {
        let store = try Store(at: folder.path)
        let number = try store.currentToken.number
        let names = try store.snapshot().entities.map(\.name)
        let last = try #require(names.last)
        try store.changeSchema([.changeEntity(last, history: .off)])
        try store.write { transaction in
            for row in try transaction.snapshot.rows(of: last).prefix(1) { try transaction.delete(row.id) }
        }
        try store.close()
        let whole = try runTool(["dump", folder.path, "--as-of", "\(number)"])
        #expect(whole.status == 1 && whole.output == "" && whole.errors.contains("history"), "\(whole)")
        #expect(try runTool(["dump", folder.path, "--as-of", "\(number)", "--entity", names[0]]).status == 0)
        try folder.expectIntact()
    }

    @Test func explanationsNameTheIndex() throws {
        let byRank = try run(["--where", "rank = 5", "--explain"]).joined(separator: "\n")
        #expect(byRank.contains("index on rank"), "\(byRank)")
        let byFolder = try run(["--where", #"folder.name = "x""#, "--explain"]).joined(separator: "\n")
        #expect(byFolder.contains("index on folder, after index on name of “Folder”"), "\(byFolder)")
        let scan = try run(["--where", #"title = "x""#, "--explain"]).joined(separator: "\n")
        #expect(scan.contains("scan of all objects") && scan.contains("rows touched: 40"), "\(scan)")
    }

    // MARK: What is refused

    @Test(arguments: [
        ("", 64, "the name of an attribute"), ("rank", 64, "one of ="), ("rank =", 64, "a value"),
        ("rank = 1 and", 64, "the name"), ("rank = 1 rank = 2", 64, "“and”, “or” or the end"),
        ("(rank = 1", 64, "“)”"), ("rank in 1", 64, "“(”"), ("rank in (1", 64, "“)”"), ("rank is 1", 64, "“null”"),
        ("title starts \"a\"", 64, "“with”"), ("rank = null", 64, "is null"), ("title = \"a", 64, "double quote"),
        ("rang = 1", 1, "title, rank, done, made, folder, seen"), ("rank = \"a\"", 1, "has the type int"),
        ("rank contains 1", 64, "not support “contains”"), ("folder.title = 1", 1, "has no attribute “title”"),
        ("title.name = 1", 64, "does not refer"), ("folder.name.x = 1", 64, "one of ="),
        ("and = 1", 64, "in “`”"), ("rank = 1.5", 1, "has the type int"),
    ])
    func aWrongConditionIsReportedWithItsMistake(_ condition: String, _ status: Int32, _ message: String) throws {
        let run = try runTool(["find", folder.path, "Note", "--where", condition])
        #expect(run.status == status && run.errors.contains(message), "\(condition): \(run.status) \(run.errors)")
        #expect(run.output.isEmpty)
    }

    @Test func otherMistakesAreNamed() throws {
        for (arguments, status, message) in [
            (["Notes"], 1, "no entity “Notes”"), (["Note", "--sort", "seen"], 64, "has no order"),
            (["Note", "--columns", "rang"], 1, "has no attribute “rang”"),
            (["Note", "--count", "--explain"], 64, "be given together"), (["Note", "--limit", "x"], 64, "limit"),
        ] as [([String], Int32, String)] {
            let run = try runTool(["find", folder.path] + arguments)
            #expect(run.status == status && run.errors.contains(message), "\(arguments): \(run.status) \(run.errors)")
        }
    }
}
