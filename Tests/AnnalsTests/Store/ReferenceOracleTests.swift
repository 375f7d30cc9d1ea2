// Random transactions over entities that refer to each other: the store comes to what the rules say.

import Annals
import TestSupport
import Testing

@Suite struct ReferenceOracleTests {
    @Test(arguments: 1...16) func theStoreFollowsTheRules(seed: UInt64) throws {
        let folder = try StoreFolder()
        var random = SeededRandom(seed)
        let reading: Store.Reading = seed % 2 == 0 ? .mapped : .copied
        var store = try folder.open(ReferenceSample.entities) { $0.reading = reading }
        var model = ReferenceModel()
        for step in 0..<150 {
            let (next, isAllowed) = try run(&random, model, store)
            if isAllowed { model = next }
            let shown = try ReferenceModel(try store.snapshot())
            #expect(shown == model, "seed \(seed), step \(step)")
            if shown != model { break }
            if step % 25 == 24 {
                try compareIndexes(model, store, "seed \(seed), step \(step)")
                if step % 50 == 49 { try store.compact() }
                try store.close()
                store = try folder.open(ReferenceSample.entities) { $0.reading = reading }
            }
        }
        try store.close()
        try folder.expectIntact()
    }

    /// One transaction of several operations. Returns what it should come to, and whether it went through.
    private func run(
        _ random: inout SeededRandom, _ model: ReferenceModel, _ store: Store
    ) throws -> (ReferenceModel, Bool) {
        let start = random
        var next = model
        var isAllowed = true
        do {
            _ = try store.writeOptimistically { transaction in
                // The body may run again.
                random = start
                (next, isAllowed) = try Self.fill(transaction, model, &random)
            }
            #expect(isAllowed)
        } catch let error as StoreError where error.code == .deleteDenied {
            #expect(!isAllowed)
        }
        return (next, isAllowed)
    }

    private static func fill(
        _ transaction: Transaction, _ model: ReferenceModel, _ random: inout SeededRandom
    ) throws -> (ReferenceModel, Bool) {
        var next = model
        var deleted: Set<ObjectID> = []
        for _ in 0..<Int.random(in: 1...12, using: &random) {
            let live = next.objects.keys.filter { !deleted.contains($0) }.sorted()
            switch Int.random(in: 0..<10, using: &random) {
            case 0..<5:
                let entity = ReferenceSample.entities[Int.random(in: 0..<3, using: &random)].name
                let (values, references) = Self.references(of: entity, next, live, &random)
                let object = try transaction.insert(entity, values)
                next.objects[object] = (entity, references)
            case 5..<8:
                guard let object = live.randomElement(using: &random), let mine = next.objects[object] else { continue }
                let (values, references) = Self.references(of: mine.entity, next, live, &random)
                try transaction.update(object, values)
                next.objects[object]?.references.merge(references) { $1 }
            default:
                guard let object = live.randomElement(using: &random) else { continue }
                try transaction.delete(object)
                deleted.insert(object)
            }
        }
        // What refers to something deleted before it was written is refused: such a transaction is not made here.
        let isAllowed = next.delete(deleted)
        return (next, isAllowed)
    }

    private static func references(
        of entity: String, _ model: ReferenceModel, _ live: [ObjectID], _ random: inout SeededRandom
    ) -> ([String: Value], [String: [ObjectID]]) {
        var values: [String: Value] = [:]
        var references: [String: [ObjectID]] = [:]
        let description = ReferenceSample.entities.first { $0.name == entity }
        for attribute in description?.attributes ?? [] where attribute.type.isReference {
            if Bool.random(using: &random) { continue }
            let targets = live.filter { attribute.target == nil || model.objects[$0]?.entity == attribute.target }
            var chosen: [ObjectID] = []
            for _ in 0..<(attribute.type == .object ? 1 : Int.random(in: 0...4, using: &random)) {
                if let target = targets.randomElement(using: &random), !chosen.contains(target) {
                    chosen.append(target)
                }
            }
            switch attribute.type {
            case .object: values[attribute.name] = chosen.first.map { .object($0) } ?? .null
            case .objects:
                chosen.sort()
                values[attribute.name] = .objects(chosen)
            default: values[attribute.name] = .orderedObjects(chosen)
            }
            references[attribute.name] = chosen
        }
        return (values, references)
    }

    private func compareIndexes(_ model: ReferenceModel, _ store: Store, _ place: String) throws {
        let snapshot = try store.snapshot()
        for attribute in ReferenceModel.attributes {
            let entity = try snapshot.entity(attribute.entity)
            for target in model.objects.keys {
                let found = try snapshot.objects(of: entity, where: attribute.name, equals: .object(target))
                #expect(
                    Set(found) == model.referring(to: target, attribute) && Set(found).count == found.count, "\(place)")
            }
        }
    }
}
