// `annals salvage STORE NEW`: copies the readable content of a damaged store into a new one.

internal import Annals

enum SalvageCommand {
    static let command = Command(
        "salvage", "Creates a new store from what can be read of a damaged one.",
        details: """
            Every part of the file with correct checksums is read. The new store has the newest values of each
            object that were found, under its ID, and no history. The report lists the losses, as far as the newest
            readable checkpoint and the numbers of transactions and objects show them. The exit status is 0 if the new
            store has everything that was committed, and 2 if something is lost or may be.

            STORE is only read. Nothing may exist at NEW. A killed salvage leaves “.NEW.annals-salvage”; the next
            one to the same name removes it.
            """, operands: ["STORE", "NEW"], options: [.jsonOrText]
    ) { arguments, output -> ExitStatus in
        let target = arguments.operands[1]
        let ending = try Ending.onSignals()
        ending.holdBack()
        let report: Store.SalvageReport
        do {
            report = try Store.salvage(from: arguments.operands[0], to: target) { (_) in !ending.isAsked }
        } catch {
            var failure = ToolFailure(error)
            // The advice for damage is this command.
            failure.hint = nil
            throw failure
        }
        output.hasChanges = true
        for line in output.isJSON ? [json(report, target).json] : text(report, target) { output.line(line) }
        return report.hasLosses ? .losses : .done
    }

    private static func text(_ report: Store.SalvageReport, _ target: String) -> [String] {
        var lines = ["\(target): \(report.objects) objects"]
        for entity in report.entities {
            let name = entity.name.map { "“\($0)”" } ?? "entity \(entity.number), whose definition was not found"
            let facts = [
                (entity.lostObjects, "more are lost"), (entity.unreadableObjects, "more cannot be read"),
                (entity.unaccountedObjects, "more are lost or were deleted"),
                (entity.outdatedObjects, "had a newer version or were deleted"),
            ]
            let losses = facts.filter { $0.0 > 0 }.map { ", \($0.0) \($0.1)" }.joined()
            lines.append("  \(entity.objects) of \(name)\(losses)")
        }
        lines += report.schemaChanges.map { "  " + $0 }
        lines.append(
            "\(report.framesRead) frames read, \(report.framesBad) with bad content, \(report.framesStray) of "
                + "unfinished writes")
        lines.append("\(report.bytesPassedOver) bytes unreadable, of \(report.fileBytes)")
        lines += report.passedOver.map { "  \($0.bytes) bytes from offset \($0.offset)" }
        if report.omittedStretches > 0 { lines.append("  and \(report.omittedStretches) more parts") }
        lines.append(
            "\(report.transactionsComplete) transactions complete, \(report.transactionsWithGaps) with gaps, "
                + "\(report.transactionsMissing) missing")
        return lines + losses(report)
    }

    private static func losses(_ report: Store.SalvageReport) -> [String] {
        let facts = [
            (report.changesMissing, "changes are missing that the newest readable checkpoint counted"),
            (report.bytesUncounted, "bytes contained an unknown number of objects: no checkpoint can be read"),
            (report.objectsOfGaps, "objects have values of a transaction that may be incomplete"),
            (report.changesUnfinished, "changes were never committed, and are left out"),
            (report.largeValuesLost, "large values were lost; their objects are kept without them"),
            (report.schemaVersionsMissing, "schema versions were not found"),
            (report.objectsOfGuessedSchema, "objects were read with a definition that fits, but may be the wrong one"),
        ]
        return facts.filter { $0.0 > 0 }.map { "\($0.0) \($0.1)" }
            + (report.isHeaderDamaged ? ["The header page is damaged."] : [])
    }

    private static func json(_ report: Store.SalvageReport, _ target: String) -> JSONLine {
        [
            "store": target, "objects": report.objects, "hasLosses": report.hasLosses,
            "lostObjects": report.lostObjects, "entities": report.entities.map(json),
            "schemaChanges": report.schemaChanges, "fileBytes": report.fileBytes,
            "headerDamaged": report.isHeaderDamaged, "framesRead": report.framesRead, "framesBad": report.framesBad,
            "framesStray": report.framesStray, "bytesPassedOver": report.bytesPassedOver,
            "passedOver": report.passedOver.map(json), "omittedStretches": report.omittedStretches,
            "transactionsComplete": report.transactionsComplete, "transactionsWithGaps": report.transactionsWithGaps,
            "transactionsMissing": report.transactionsMissing, "changesMissing": report.changesMissing,
            "bytesUncounted": report.bytesUncounted, "changesUnfinished": report.changesUnfinished,
            "objectsOfGaps": report.objectsOfGaps, "largeValuesLost": report.largeValuesLost,
            "schemaVersionsMissing": report.schemaVersionsMissing,
            "objectsOfGuessedSchema": report.objectsOfGuessedSchema,
        ]
    }

    private static func json(_ entity: Store.SalvageReport.Entity) -> JSONLine {
        [
            "number": entity.number, "name": entity.name, "objects": entity.objects,
            "unreadableObjects": entity.unreadableObjects, "lostObjects": entity.lostObjects,
            "outdatedObjects": entity.outdatedObjects, "unaccountedObjects": entity.unaccountedObjects,
        ]
    }

    private static func json(_ stretch: Store.SalvageReport.Stretch) -> JSONLine {
        ["offset": stretch.offset, "bytes": stretch.bytes]
    }
}
