// Prints what a store holds, a JSON object a line, from the project's own reader: what a second reader is compared
// with.

import Annals

/// A line for each transaction: number, tag, time, names, and the changes with their rows. Before them one for each
/// frame of rows without history, at last one with the horizon, hidden authors and consumers, if there is anything
/// to tell of them.
enum TransactionDump {
    static func lines(_ log: Log) throws -> [String] {
        var lines: [String] = []
        var changes: [String] = []
        try log.forEachFrame { (frame, state) throws(StoreError) in
            guard [.transaction, .part, .rows].contains(frame.header.kind) else { return }
            var cursor = ChangeCursor(frame)
            while let change = try cursor.next() {
                changes.append(try line(change, frame, state.rowCatalog, log))
            }
            if frame.header.kind == .part { return }
            if frame.header.kind == .rows {
                lines.append(line(state, changes))
            } else {
                let record = try TransactionRecord.decode(frame.table)
                lines.append(line(record, frame.header.number, state.names, changes))
            }
            changes = []
        }
        return lines + line(log.current.tracking)
    }

    /// A frame of the base.
    private static func line(_ state: LogState, _ changes: [String]) -> String {
        "{\"base\":\(state.lastNumber),\"tag\":\"\(hex(state.lastTag))\",\"time\":\(state.lastTime)"
            + ",\"changes\":[" + changes.joined(separator: ",") + "]}"
    }

    private static func line(_ tracking: TrackingState) -> [String] {
        if tracking == TrackingState(horizon: 0) { return [] }
        let hidden = tracking.hidden.map { "{\"author\":\($0.author),\"before\":\($0.before)}" }
        let consumers = tracking.consumers.map { consumer in
            "{\"name\":\(quoted(consumer.name)),\"kind\":\(consumer.kind.rawValue),\"cursor\":\(consumer.cursor)"
                + ",\"tag\":\"\(hex(consumer.tag))\",\"lastSeen\":\(consumer.lastSeen)"
                + ",\"registered\":\(consumer.registered),\"processID\":\(consumer.processID)}"
        }
        return [
            "{\"horizon\":\(tracking.horizon),"
                + "\"retention\":[\(tracking.retention.microseconds),\(tracking.retention.bytes)],\"hidden\":["
                + hidden.joined(separator: ",") + "],\"consumers\":["
                + consumers.joined(separator: ",") + "]}"
        ]
    }

    private static func line(_ record: TransactionRecord, _ number: UInt64, _ names: [String], _ changes: [String])
        -> String
    {
        func name(_ number: UInt32) -> String { number == 0 ? "null" : quoted(names[Int(number) - 1]) }
        return "{\"transaction\":\(number),\"tag\":\"\(hex(record.tag))\",\"time\":\(record.time)"
            + ",\"author\":\(name(record.author)),\"context\":\(name(record.context)),"
            + "\"process\":\(name(record.process))"
            + ",\"processID\":\(record.processID),\"schemaVersion\":\(record.schemaVersion)"
            + ",\"changes\":[" + changes.joined(separator: ",") + "]}"
    }

    private static func line(
        _ change: ChangeView, _ frame: FrameView, _ catalog: SchemaCatalog, _ log: Log
    ) throws(StoreError) -> String {
        var text = "{\"kind\":\"\(change.kind)\",\"entity\":"
        var row = "null"
        var attributes: [String] = []
        var entityName = catalog.entity(change.object.entityNumber, version: catalog.newestVersion)?.name.text
        if let bytes = frame.row(of: change) {
            let header = try RowHeader(bytes)
            guard let layout = catalog.layout(version: header.schemaVersion, entity: change.object.entityNumber) else {
                throw StoreError(.damaged, "F21: a row of an unknown schema version.", offset: frame.offset)
            }
            let view = try RowImage(bytes, layout: layout)
            try view.validate(isDeletion: change.kind == .delete)
            entityName = layout.entity.name.text
            attributes = change.attributePositions.map { quoted(layout.entity.attributes[$0].name.text) }
            var fields: [String] = []
            for (position, attribute) in layout.entity.attributes.enumerated() {
                fields.append(quoted(attribute.name.text) + ":" + (try value(view.value(at: position), log)))
            }
            row = "{" + fields.joined(separator: ",") + "}"
        }
        text += quoted(entityName ?? "?") + ",\"object\":\(change.object.number)"
        text += ",\"attributes\":[" + attributes.joined(separator: ",") + "],\"row\":" + row + "}"
        return text
    }

    private static func value(_ value: StoredValue, _ log: Log) throws(StoreError) -> String {
        switch value {
        case .absent: return "null"
        case .bool(let bool): return bool ? "true" : "false"
        case .int(let int): return "\(int)"
        case .double(let double): return "{\"double\":\"\(hex(double.bitPattern))\"}"
        case .string(let text): return quoted(text)
        case .data(let bytes): return "{\"data\":\"" + bytes.map { hexByte($0) }.joined() + "\"}"
        case .date(let seconds): return "{\"date\":\"\(hex(seconds.bitPattern))\"}"
        case .uuid(let uuid): return "{\"uuid\":\"\(hex(uuid.high))\(hex(uuid.low))\"}"
        case .decimal(let decimal): return "{\"decimal\":\"\(text(decimal))\"}"
        case .json(let text): return "{\"json\":\(quoted(text))}"
        case .object(let object): return "{\"object\":\(pair(object))}"
        case .orderedObjects(let list): return "{\"orderedObjects\":[" + list.map(pair).joined(separator: ",") + "]}"
        case .objects(let list): return "{\"objects\":[" + list.map(pair).joined(separator: ",") + "]}"
        case .large(let reference):
            var content: [UInt8] = []
            try log.readLargeValue(reference) { (piece) throws(StoreError) in content.append(contentsOf: piece) }
            let hash = content.withUnsafeBytes { Checksum.hash($0, seed: 0) }
            return "{\"large\":\(content.count),\"hash\":\"\(hex(hash))\"}"
        }
    }

    private static func text(_ decimal: DecimalValue) -> String {
        decimal == .notANumber ? "nan" : "\(decimal.isNegative ? "-" : "")\(decimal.mantissa)e\(decimal.exponent)"
    }

    private static func pair(_ object: ObjectID) -> String { "[\(object.entityNumber),\(object.number)]" }

    private static func hexByte(_ byte: UInt8) -> String {
        let text = String(byte, radix: 16)
        return text.count == 1 ? "0" + text : text
    }

    private static func hex(_ value: UInt64) -> String {
        let text = String(value, radix: 16)
        return String(repeating: "0", count: 16 - text.count) + text
    }

    private static func quoted(_ text: String) -> String {
        var quoted = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": quoted += "\\\""
            case "\\": quoted += "\\\\"
            case _ where scalar.value < 0x20:
                quoted += "\\u00" + hexByte(UInt8(scalar.value))
            default: quoted.unicodeScalars.append(scalar)
            }
        }
        return quoted + "\""
    }
}
