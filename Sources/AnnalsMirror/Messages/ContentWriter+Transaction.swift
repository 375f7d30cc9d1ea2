// Writes transactions and the descriptions of entities.

internal import Annals
internal import FoundationEssentials

/// Bits of the first byte of a transaction: which of the fields follow.
enum TransactionBit {
    static let previous: UInt8 = 1
    static let author: UInt8 = 2
    static let contextName: UInt8 = 4
    static let origin: UInt8 = 8
    static let originPrevious: UInt8 = 16
    static let holds: UInt8 = 32
    static let schema: UInt8 = 64
    static let renames: UInt8 = 128
}

/// Bits of an attribute in a schema.
enum AttributeBit {
    static let isOptional: UInt8 = 1
    static let isIndexed: UInt8 = 2
    static let isUnique: UInt8 = 4
    static let isPreservedOnDeletion: UInt8 = 8
    static let defaultValue: UInt8 = 16
    static let target: UInt8 = 32
    static let inverse: UInt8 = 64
    static let unknown: UInt8 = 128
}

extension ContentWriter {
    mutating func append(_ transaction: ExportedTransaction) throws(StoreError) {
        var fields: UInt8 = 0
        if transaction.previous != nil { fields |= TransactionBit.previous }
        if transaction.author != nil { fields |= TransactionBit.author }
        if transaction.contextName != nil { fields |= TransactionBit.contextName }
        if transaction.origin != nil { fields |= TransactionBit.origin }
        if transaction.originPrevious != nil { fields |= TransactionBit.originPrevious }
        if transaction.holds != nil { fields |= TransactionBit.holds }
        if transaction.schema != nil { fields |= TransactionBit.schema }
        if !transaction.renames.isEmpty { fields |= TransactionBit.renames }
        out.append(fields)
        append(transaction.token)
        if let previous = transaction.previous { append(previous) }
        out.append(fixed: transaction.microseconds)
        if let author = transaction.author { out.append(text: author) }
        if let name = transaction.contextName { out.append(text: name) }
        if let origin = transaction.origin { append(origin) }
        if let previous = transaction.originPrevious { append(previous) }
        if let holds = transaction.holds {
            out.append(count: holds.count)
            for token in holds { append(token) }
        }
        if let schema = transaction.schema {
            out.append(count: schema.count)
            for entity in schema { try append(entity) }
        }
        if !transaction.renames.isEmpty { append(transaction.renames) }
        append(transaction.changes)
    }

    private mutating func append(_ renames: [ExportedRename]) {
        out.append(count: renames.count)
        for rename in renames {
            out.append(rename.attribute == nil ? 0 : 1)
            append(name: rename.entity)
            if let attribute = rename.attribute { append(name: attribute) }
            append(name: rename.name)
        }
    }

    private mutating func append(_ entity: EntityDescription) throws(StoreError) {
        append(name: entity.name)
        out.append(entity.history == .full ? 0 : 1)
        out.append(count: entity.attributes.count)
        for attribute in entity.attributes { try append(attribute) }
        out.append(count: entity.keys.count)
        for key in entity.keys {
            out.append(key.isUnique ? 1 : 0)
            out.append(count: key.attributes.count)
            for attribute in key.attributes { append(name: attribute) }
        }
    }

    private mutating func append(_ attribute: AttributeDescription) throws(StoreError) {
        var bits: UInt8 = 0
        if attribute.isOptional { bits |= AttributeBit.isOptional }
        if attribute.isIndexed { bits |= AttributeBit.isIndexed }
        if attribute.isUnique { bits |= AttributeBit.isUnique }
        if attribute.isPreservedOnDeletion { bits |= AttributeBit.isPreservedOnDeletion }
        if attribute.defaultValue != nil { bits |= AttributeBit.defaultValue }
        if attribute.target != nil { bits |= AttributeBit.target }
        if attribute.inverse != nil { bits |= AttributeBit.inverse }
        append(name: attribute.name)
        out.append(attribute.type.code)
        out.append(bits)
        out.append(attribute.whenTargetIsDeleted.code)
        if let value = attribute.defaultValue { try append(default: value) }
        if let target = attribute.target { append(name: target) }
        if let inverse = attribute.inverse { append(name: inverse) }
    }
}
