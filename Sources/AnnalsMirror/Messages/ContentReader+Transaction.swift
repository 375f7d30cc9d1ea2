// Reads transactions and the descriptions of entities.

internal import Annals
internal import FoundationEssentials

extension ContentReader {
    mutating func readTransaction() throws(StoreError) -> ExportedTransaction {
        let fields = try input.readByte()
        let token = try readToken()
        let previous = fields & TransactionBit.previous == 0 ? nil : try readToken()
        let microseconds = try input.readFixed(Int64.self)
        let author = fields & TransactionBit.author == 0 ? nil : try input.readText()
        let contextName = fields & TransactionBit.contextName == 0 ? nil : try input.readText()
        let origin = fields & TransactionBit.origin == 0 ? nil : try readToken()
        let originPrevious = fields & TransactionBit.originPrevious == 0 ? nil : try readToken()
        let holds = fields & TransactionBit.holds == 0 ? nil : try readTokens()
        let schema = fields & TransactionBit.schema == 0 ? nil : try readSchema()
        let renames = fields & TransactionBit.renames == 0 ? [] : try readRenames()
        let transaction = ExportedTransaction(
            token: token, previous: previous, microseconds: microseconds, author: author, contextName: contextName,
            origin: origin, originPrevious: originPrevious, holds: holds, schema: schema, renames: renames,
            changes: try readChanges())
        try transaction.validate()
        return transaction
    }

    private mutating func readTokens() throws(StoreError) -> [HistoryToken] {
        // The store's place, the number and the tag.
        let count = try input.readCount(ofAtLeast: 10)
        var tokens: [HistoryToken] = []
        tokens.reserveCapacity(count)
        for _ in 0..<count { tokens.append(try readToken()) }
        return tokens
    }

    private mutating func readRenames() throws(StoreError) -> [ExportedRename] {
        let count = try input.readCount(ofAtLeast: 3)
        guard count > 0 else { throw input.malformed("it has a list without renames") }
        var renames: [ExportedRename] = []
        renames.reserveCapacity(count)
        for _ in 0..<count {
            let hasAttribute = try readFlag()
            let entity = try readName()
            let attribute = hasAttribute ? try readName() : nil
            renames.append(ExportedRename(entity: entity, attribute: attribute, name: try readName()))
        }
        return renames
    }

    // MARK: The schema

    private mutating func readSchema() throws(StoreError) -> [EntityDescription] {
        let count = try input.readCount(ofAtLeast: 4)
        var entities: [EntityDescription] = []
        entities.reserveCapacity(count)
        for _ in 0..<count { entities.append(try readEntity()) }
        return entities
    }

    private mutating func readEntity() throws(StoreError) -> EntityDescription {
        let name = try readName()
        let history: HistoryPolicy = try readFlag() ? .off : .full
        let attributeCount = try input.readCount(ofAtLeast: 4)
        var attributes: [AttributeDescription] = []
        attributes.reserveCapacity(attributeCount)
        for _ in 0..<attributeCount { attributes.append(try readAttribute()) }
        let keyCount = try input.readCount(ofAtLeast: 2)
        var keys: [IndexDescription] = []
        keys.reserveCapacity(keyCount)
        for _ in 0..<keyCount {
            let isUnique = try readFlag()
            let nameCount = try input.readCount(ofAtLeast: 1)
            var names: [String] = []
            names.reserveCapacity(nameCount)
            for _ in 0..<nameCount { names.append(try readName()) }
            keys.append(IndexDescription(names, isUnique: isUnique))
        }
        return EntityDescription(name, attributes: attributes, keys: keys, history: history)
    }

    private mutating func readAttribute() throws(StoreError) -> AttributeDescription {
        let name = try readName()
        let (code, bits, rule) = (try input.readByte(), try input.readByte(), try input.readByte())
        guard let type = AttributeType(code: code) else {
            throw StoreError.newerMessage("has an attribute of type \(code)")
        }
        guard bits & AttributeBit.unknown == 0 else { throw StoreError.newerMessage("has a flag of an attribute") }
        guard let deleteRule = DeleteRule(code: rule) else { throw StoreError.newerMessage("has a delete rule") }
        var attribute = AttributeDescription(
            name, type, isOptional: bits & AttributeBit.isOptional != 0, isIndexed: bits & AttributeBit.isIndexed != 0,
            isUnique: bits & AttributeBit.isUnique != 0,
            isPreservedOnDeletion: bits & AttributeBit.isPreservedOnDeletion != 0, whenTargetIsDeleted: deleteRule)
        if bits & AttributeBit.defaultValue != 0 { attribute.defaultValue = try readDefault() }
        if bits & AttributeBit.target != 0 { attribute.target = try readName() }
        if bits & AttributeBit.inverse != 0 { attribute.inverse = try readName() }
        return attribute
    }
}
