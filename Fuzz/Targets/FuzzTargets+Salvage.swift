// Salvage of any bytes at all.

internal import Annals
internal import SimulatedDisk

extension FuzzTargets {
    /// Z10: salvage changes nothing in what it reads, and makes an intact store or none; of an intact store it loses no
    /// object.
    static func salvage(_ bytes: [UInt8], _ report: CheckReport) {
        let disk = SimulatedDisk()
        disk.install(bytes, at: "/data/f.annals")
        let environment = SimulatedEnvironment(name: "salvage")
        var options = SalvageOptions()
        options.engine = .lowered
        options.engine.log.limits.mappingReserveBytes = 2 << 20
        options.engine.log.synchronizesInBackground = false
        (options.transactionBytes, options.sortingBytes, options.windowBytes) = (8192, 8192, 16384)
        let result: SalvageReport
        do throws(StoreError) {
            result = try Salvage.run(
                from: "/data/f.annals", to: "/data/new", options: options, files: disk, environment: environment)
        } catch {
            requireByteError(error, "Salvaging")
            // A new store with nothing but a torn tail has no frame.
            require(!report.isIntact || report.tornTail != nil, "Z10", "an intact store cannot be salvaged: \(error)")
            require(disk.names(in: "/data") == ["f.annals"], "Z10", "salvage that failed has left something")
            return
        }
        require(disk.contents(of: "/data/f.annals") == bytes, "Z10", "salvage has changed the damaged file")
        do throws(StoreError) {
            var checking = CheckOptions()
            checking.spillDirectory = "/data"
            checking.sortingBytes = 1 << 20
            let after = try Checker.check("/data/new", options: checking, files: disk)
            require(after.isIntact && after.isSealed, "Z10", "a salvaged store is damaged: \(after.findings)")
        } catch {
            violation("Z10", "a salvaged store cannot be read: \(error)")
        }
        if report.isIntact, report.tornTail == nil {
            require(!result.hasLosses && result.objectsOfGaps == 0, "Z10", "an intact store lost something")
            require(live(disk, "/data/f.annals") == live(disk, "/data/new"), "Z10", "other objects than there were")
        }
    }

    private static func live(_ disk: SimulatedDisk, _ path: String) -> [ObjectID] {
        var objects: [ObjectID] = []
        do throws(StoreError) {
            var options = EngineOptions.lowered
            options.log.limits.mappingReserveBytes = 2 << 20
            let engine = try Engine.open(
                path, access: .readOnly, options: options, files: disk,
                environment: SimulatedEnvironment(name: "reader"))
            let view = try engine.view()
            for entity in view.catalog.entities(version: view.catalog.newestVersion) {
                try view.scan(entity: entity.number) { (object, _) in
                    objects.append(object)
                    return true
                }
            }
            try engine.close()
        } catch {
            violation("Z10", "a store cannot be read: \(error)")
        }
        return objects
    }
}
