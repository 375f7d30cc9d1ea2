// FileFormat.md and the code must not drift apart: offsets, limits and type numbers are compared.

import Annals
import Testing

@Suite struct FormatConstantsTests {
    let page: FormatDocument

    init() throws { page = try FormatDocument() }

    @Test func rowsAndReferencesMatchThePage() {
        page.check(
            "row",
            [
                "entryDistance": RowField.entryDistance, "schemaVersion": RowField.schemaVersion,
                "rowBytes": RowField.rowBytes,
            ], bytes: RowField.bytes)
        page.check(
            "reference",
            [
                "offset": ReferenceField.offset, "valueBytes": ReferenceField.valueBytes,
                "checksum": ReferenceField.checksum,
            ], bytes: ReferenceField.bytes)
    }

    @Test func schemasMatchThePage() {
        page.check(
            "schema",
            ["version": SchemaField.version, "definitions": SchemaField.definitions, "zero": SchemaField.zero],
            bytes: SchemaField.bytes)
        page.check(
            "entity",
            [
                "definitionBytes": EntityField.definitionBytes, "entity": EntityField.entity,
                "state": EntityField.state, "flags": EntityField.flags, "nameBytes": EntityField.nameBytes,
                "attributes": EntityField.attributes, "keys": EntityField.keys, "zero": EntityField.zero,
            ], bytes: EntityField.bytes)
        page.check(
            "attribute",
            [
                "number": AttributeField.number, "type": AttributeField.type, "flags": AttributeField.flags,
                "target": AttributeField.target, "inverseBytes": AttributeField.inverseBytes,
                "deleteRule": AttributeField.deleteRule, "zero": AttributeField.zero,
                "nameBytes": AttributeField.nameBytes, "defaultBytes": AttributeField.defaultBytes,
                "parameterBytes": AttributeField.parameterBytes, "zero2": AttributeField.zero2,
            ], bytes: AttributeField.bytes)
    }

    @Test func limitsMatchThePage() {
        let constants: [String: UInt64] = [
            "readVersion": UInt64(FormatLimits.readVersion), "writeVersion": UInt64(FormatLimits.writeVersion),
            "pageBytes": UInt64(FormatLimits.pageBytes),
            "frameAlignment": UInt64(FormatLimits.frameAlignment),
            "maximumFrameBytes": UInt64(FormatLimits.maximumFrameBytes),
            "maximumNodeFrameBytes": UInt64(FormatLimits.maximumNodeFrameBytes),
            "maximumInlineValueBytes": UInt64(FormatLimits.maximumInlineValueBytes),
            "maximumInlineRowBytes": UInt64(FormatLimits.maximumInlineRowBytes),
            "maximumValueBytes": UInt64(FormatLimits.maximumValueBytes),
            "maximumListElements": UInt64(FormatLimits.maximumListElements),
            "maximumDeltas": UInt64(FormatLimits.maximumDeltas),
            "maximumAttributes": UInt64(FormatLimits.maximumAttributes),
            "maximumEntities": UInt64(FormatLimits.maximumEntities),
            "maximumSchemaVersions": UInt64(FormatLimits.maximumSchemaVersions),
            "maximumNameBytes": UInt64(FormatLimits.maximumNameBytes),
            "maximumNames": UInt64(FormatLimits.maximumNames),
            "maximumConsumers": UInt64(FormatLimits.maximumConsumers),
            "maximumIdentifierBytes": UInt64(FormatLimits.maximumIdentifierBytes),
            "maximumTransactionNumber": FormatLimits.maximumTransactionNumber,
            "maximumObjectNumber": FormatLimits.maximumObjectNumber,
            "maximumFileBytes": FormatLimits.maximumFileBytes,
        ]
        #expect(page.limits == constants)
    }

    @Test func typesMatchThePage() throws {
        #expect(page.types.count == AttributeType.allCases.count)
        for type in AttributeType.allCases {
            let row = try #require(page.types["\(type)"])
            #expect(row.number == Int(type.code))
            #expect(row.slotBytes == type.slotBytes)
            #expect(row.content.hasPrefix("variable") == type.isVariable)
        }
    }
}
