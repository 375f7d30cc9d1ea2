// Which changes of an entity are part of history, from the versions of the schema alone: a table of courses, and every
// version against it.

import Annals
import Testing

@Suite struct HistoryGapTests {
    /// What a version says of the entity: `+` there with history, `-` there without, `x` removed, `.` nothing.
    struct Course: Sendable, CustomTestStringConvertible {
        let steps: String
        let end: HistoryGap.End?
        let first: UInt16
        /// For each version, whether a change in one of its transactions is shown: `y`, `n`, and a space if there is
        /// no entity.
        let shown: String
        var testDescription: String { steps }

        init(_ steps: String, _ end: HistoryGap.End?, first: UInt16 = 1, _ shown: String) {
            (self.steps, self.end, self.first, self.shown) = (steps, end, first, shown)
        }
    }

    static let courses = [
        Course("+", nil, "y"), Course("+..", nil, "yyy"), Course("+++", nil, "yyy"),
        Course(".+x", nil, first: 2, " y "),
        Course("-", .open, "n"), Course("+-", .open, "nn"), Course("+.-.", .open, "nnnn"),
        Course("+---", .open, "nnnn"),
        Course("-+", .resumed(2), "ny"), Course("+-+", .resumed(3), "nny"), Course("+-..+.", .resumed(5), "nnnnyy"),
        Course("+-+++", .resumed(3), "nnyyy"), Course("+-+-+", .resumed(5), "nnnny"), Course("+-+-", .open, "nnnn"),
        Course("..-.+", .resumed(5), first: 3, "  nny"), Course("+-x", .removed(3), "nn "),
        Course("+-+.x.", .resumed(3), "nnyy  "), Course("-x..", .removed(2), "n   "),
    ]

    private func catalog(_ steps: String) throws -> SchemaCatalog {
        var catalog = SchemaCatalog()
        for (index, step) in steps.enumerated() {
            // Each version says something of another entity too.
            var entities = [EntityDefinition(number: 1, name: "other \(index)", attributes: [])]
            switch step {
            case "x": entities.append(.removal(of: 2))
            case ".": break
            default:
                let name = "name \(index / 2)"
                entities.append(
                    EntityDefinition(number: 2, keepsNoHistory: step == "-", name: name, attributes: []))
            }
            try catalog.apply(SchemaDefinition(version: UInt16(index + 1), entities: entities))
        }
        return catalog
    }

    @Test(arguments: courses) func theSchemaVersionsDetermineTheGaps(course: Course) throws {
        let gaps = try catalog(course.steps).historyGaps
        let expected = course.end.map { [HistoryGap(entity: 2, first: course.first, end: $0)] } ?? []
        #expect(gaps == expected)
        for (index, shown) in course.shown.enumerated() where shown != " " {
            #expect(gaps.allSatisfy { !$0.hides(version: UInt16(index + 1)) } == (shown == "y"), "version \(index + 1)")
        }
    }

    /// A range of versions meets a gap where it holds a version whose changes are left out.
    @Test(arguments: courses) func aRangeMeetsAGapIfAVersionInItLacksChanges(course: Course) throws {
        guard let gap = try catalog(course.steps).historyGaps.first else { return }
        let shown = Array(course.shown)
        for low in 1...shown.count {
            for high in low...shown.count {
                let leavesOut = shown[(low - 1)...(high - 1)].contains("n")
                let range = UInt16(low)...UInt16(high)
                #expect(gap.meets(range) == (gap.end == .open || leavesOut), "\(range)")
            }
        }
        #expect(gap.meets(nil) == (gap.end == .open))
        let isResumed = if case .resumed = gap.end { true } else { false }
        #expect(gap.concernsAll == isResumed)
    }

    /// What a filter leaves out, by entity and version.
    @Test func aFilterHidesChangesThatAreNotKept() throws {
        let filter = ChangeFilter()
        #expect(!filter.hidesAnything && filter.namedEntities == nil)
        filter.hide(
            [7],
            [
                HistoryGap(entity: 2, first: 1, end: .open), HistoryGap(entity: 3, first: 1, end: .resumed(5)),
                HistoryGap(entity: 4, first: 1, end: .removed(5)),
            ])
        #expect(filter.hidesAnything)
        func hides(_ entity: UInt16, _ version: UInt16) throws -> Bool {
            filter.hides(try #require(ObjectID(entityNumber: entity, number: 1)), version: version)
        }
        #expect(try !hides(1, 1) && hides(7, 9) && hides(2, 1) && hides(2, .max) && hides(4, 1) && hides(4, 9))
        #expect(try hides(3, 1) && hides(3, 4) && !hides(3, 5) && !hides(3, 6))
        filter.entities = [1, 2, 3]
        #expect(filter.namedEntities == [1, 2, 3])
        filter.objects = [try #require(ObjectID(entityNumber: 2, number: 9))]
        #expect(filter.namedEntities == [2])
        filter.attributes = [3: [1]]
        #expect(filter.namedEntities == [])
    }
}
