// A hundred damaged stores: every row in a frame that was not damaged is in the new store.

import Annals
import SimulatedDisk
import Testing

@Suite struct SalvageDamageTests {
    private static let path = "/data/new"

    static func options(_ machine: Machine) -> SalvageOptions {
        var options = SalvageOptions()
        options.engine = SalvageStores.options(machine)
        options.transactionBytes = 40_000
        options.sortingBytes = 2048
        options.windowBytes = 8192
        return options
    }

    @Test(arguments: 0..<10) func everyRowInAnIntactFrameIsSalvaged(_ tens: Int) throws {
        var found = 0
        for seed in UInt64(tens * 10)..<UInt64(tens * 10 + 10) {
            let sample = try SalvageSample(SalvageStores.make(seed))
            let damaged = SalvageStores.damaged(sample, seed)
            found += try salvage(sample, damaged, seed)
        }
        #expect(found > 300)
    }

    /// An undamaged store loses nothing.
    @Test func anUndamagedStoreLosesNothing() throws {
        for seed: UInt64 in [0, 1, 3] {
            let sample = try SalvageSample(SalvageStores.make(seed))
            let machine = Machine()
            machine.disk.install(sample.bytes, at: Machine.path)
            let result = try Salvage.run(
                from: Machine.path, to: Self.path, options: Self.options(machine), files: machine.files(),
                environment: machine.environment)
            #expect(result.framesRead == UInt64(sample.frames.count) && result.framesBad == 0)
            #expect(result.bytesPassedOver == 0 && result.transactionsWithGaps == 0 && result.transactionsMissing == 0)
            #expect(!result.hasLosses && result.lostObjects == 0, "\(result)")
            let before = try machine.open(2, access: .readOnly).current.catalog
            let after = try Log.open(
                Self.path, access: .readOnly, options: machine.options, files: machine.files(),
                environment: machine.environment
            ).current.catalog
            #expect(
                after.entities(version: after.newestVersion) == before.entities(version: before.newestVersion))
        }
    }

    private func salvage(_ sample: SalvageSample, _ damaged: [UInt8], _ seed: UInt64) throws -> Int {
        let expectation = sample.expectation(of: damaged)
        let machine = Machine(seed: seed)
        machine.disk.install(damaged, at: Machine.path)
        let result = try Salvage.run(
            from: Machine.path, to: Self.path, options: Self.options(machine), files: machine.files(),
            environment: machine.environment)
        #expect(machine.disk.contents(of: Machine.path) == damaged, "seed \(seed): the source has changed")
        #expect(machine.disk.names(in: "/data") == ["new", "s.annals"])
        let found = try rows(machine)
        #expect(UInt64(found.count) == result.objects)
        let missing = sample.live.subtracting(found.keys)
        if !missing.isEmpty {
            #expect(result.hasLosses, "seed \(seed): \(missing.count) objects are missing, and no loss is named")
        }
        #expect(result.lostObjects <= UInt64(sample.everAlive.subtracting(found.keys).count), "seed \(seed)")
        var expected = 0
        var isUnsure = false
        for (object, newest) in expectation.objects {
            switch newest {
            case .deleted:
                if found[object] != nil { Issue.record("seed \(seed): \(object) was deleted, and is there") }
            case .unsure: isUnsure = true
            case .row(let values):
                expected += 1
                guard let row = found[object] else {
                    Issue.record("seed \(seed): \(object) is missing")
                    continue
                }
                for (attribute, value) in row where values[attribute] ?? value != value {
                    Issue.record("seed \(seed): attribute \(attribute) of \(object) has another value")
                }
                // What the newest definition still has of the row's attributes.
                for attribute in values.keys where row[attribute] == nil && !isUnsure {
                    Issue.record("seed \(seed): \(object) has no attribute \(attribute)")
                }
            }
        }
        for object in found.keys where expectation.objects[object] == nil {
            Issue.record("seed \(seed): \(object) is there, and in no frame that checks")
        }
        try expectIntact(machine.disk, Self.path, isSealed: true, mayRefer: true)
        return expected
    }

    /// The new store's objects, with their values by attribute number.
    private func rows(_ machine: Machine) throws -> [ObjectID: [UInt16: StoredValue]] {
        let engine = try Engine.open(
            Self.path, access: .readOnly, options: SalvageStores.options(machine), files: machine.files(2),
            environment: machine.environment)
        let view = try engine.view()
        var rows: [ObjectID: [UInt16: StoredValue]] = [:]
        for entity in view.catalog.entities(version: view.catalog.newestVersion) {
            try view.scan(entity: entity.number) { (object, row) throws(StoreError) in
                var values: [UInt16: StoredValue] = [:]
                for (position, attribute) in row.layout.entity.attributes.enumerated() {
                    values[attribute.number] = try view.value(row, at: position)
                }
                rows[object] = values
                return true
            }
        }
        try engine.close()
        return rows
    }
}
