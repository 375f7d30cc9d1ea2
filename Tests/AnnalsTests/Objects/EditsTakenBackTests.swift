// An edit that is in conflict and is taken back, by undo or by setting the earlier value again: the object is unedited,
// and shows what the store has.

import Annals
import FoundationEssentials
import TestSupport
import Testing

private struct Sheet: Entity {
    var title = ""
    var pages = 0
    var next: Reference<Sheet>?
}

@Suite struct EditsTakenBackTests {
    /// An object that was read in a newer state than that of its context keeps that version.
    @MainActor @Test(arguments: [false, true], [false, true])
    func aRefreshedVersionStays(isInsertedAgain: Bool, isUndone: Bool) throws {
        let store = try Store(inMemory: [Sheet.self])
        let context = store.makeContext(author: "context")
        context.undoLevels = 5
        let sheet = context.insert(Sheet(title: "first", pages: 1))
        try context.save()
        let reference = sheet.objectReference
        if isInsertedAgain {
            try store.revert(try writtenAtOnce(store) { try $0.delete(reference) }, author: "other")
        }
        try writeAtOnce(store) { try $0.update(reference) { $0.title = "theirs" } }
        try context.refresh(sheet, keepingEdits: true)
        sheet.title = "mine"
        if isUndone { try context.undo() } else { sheet.title = "theirs" }
        #expect(sheet.title == "theirs" && !context.hasChanges)
        try context.save()
        #expect(sheet.title == "theirs" && !sheet.objectStatus.isGone)
        // And it goes on with the context.
        try writeAtOnce(store) { try $0.update(reference) { $0.title = "newest" } }
        try context.merge()
        #expect(sheet.title == "newest" && sheet.pages == 1)
        context.close()
        try store.close()
    }

    private enum Way: CaseIterable { case undo, set, setAndUndo, redo }
    private enum Writer: CaseIterable { case sets, deletes, deletesAndInserts }
    private enum Step: CaseIterable { case merge, mergeAndWrite, save, saveInBackground, refresh }

    @MainActor @Test(arguments: Way.allCases, Writer.allCases)
    private func theObjectShowsTheStoredValues(_ way: Way, _ writer: Writer) async throws {
        for (step, policy) in Step.allCases.flatMap({ step in MergePolicy.allCases.map { (step, $0) } }) {
            let store = try Store(inMemory: [Sheet.self])
            let context = store.makeContext(author: "context")
            (context.undoLevels, context.mergePolicy) = (5, policy)
            let sheet = context.insert(Sheet(title: "first", pages: 1))
            let other = context.insert(Sheet(title: "other"))
            try context.save()
            let list = try context.results(Sheet.self, where: #Predicate { $0.title == "theirs" })
            if way == .redo {
                sheet.title = "second"
                try context.save()
                try context.undo()
            } else {
                sheet.title = "mine"
            }
            let reference = sheet.objectReference
            if writer == .sets {
                try writeAtOnce(store) { try $0.update(reference) { $0.title = "theirs" } }
            } else {
                let deletion = try writtenAtOnce(store) { try $0.delete(reference) }
                if writer == .deletesAndInserts {
                    try store.revert(deletion, author: "other")
                    try writeAtOnce(store) { try $0.update(reference) { $0.title = "theirs" } }
                }
            }
            try context.merge()
            let what = Comment("\(step), \(policy)")
            let before = way == .redo ? "second" : "first"
            switch way {
            case .undo: try context.undo()
            case .set: sheet.title = before
            case .setAndUndo:
                sheet.title = before
                sheet.pages = 2
                try context.undo()
            case .redo: try context.redo()
            }
            #expect(!sheet.objectStatus.isChanged, what)
            if way != .set {
                // Nothing is left of the edit: at once the object is as the context's state has it.
                #expect(sheet.objectStatus.isGone == (writer == .deletes), what)
                #expect(writer == .deletes || sheet.title == "theirs" && list.first === sheet, what)
            }
            switch step {
            case .merge: try context.merge()
            case .mergeAndWrite:
                other.pages = 3
                try writeAtOnce(store) { _ = try $0.insert(Sheet(title: "more")) }
                try context.merge()
            case .save:
                other.pages = 3
                try context.save()
            case .saveInBackground:
                other.pages = 3
                _ = try await context.saveInBackground()
            case .refresh:
                do { try context.refresh(sheet, keepingEdits: true) } catch let error as StoreError {
                    #expect(error.code == .objectGone && writer == .deletes, what)
                }
                try context.save()
            }
            #expect(sheet.objectStatus.isGone == (writer == .deletes) && !sheet.objectStatus.isChanged, what)
            #expect(writer == .deletes || sheet.title == "theirs" && sheet.pages == 1 && list.first === sheet, what)
            try context.save()
            #expect(try store.snapshot()[reference]?.title == (writer == .deletes ? nil : "theirs"), what)
            context.close()
            try store.close()
        }
    }
}
