// Stores and fetches states.

internal import Annals

extension FolderCourier {
    private var statesPath: String { path + "/" + FolderNames.states }

    package func storeState(named name: String, next: () throws -> [UInt8]?) throws {
        try Self.check(name, "state")
        try withFolder { root in
            try about(statesPath) {
                let folder = try disk.openOrMakeFolder(FolderNames.states, in: root)
                defer { MirrorSystem.closeDescriptor(folder) }
                let names = try MirrorSystem.names(in: folder)
                let older = names.compactMap { StateName($0) }.filter { $0.name == name }
                // A generation beyond all numbers is not one that this engine wrote.
                let generation = older.map(\.generation).filter { $0 < .max }.max() ?? 0
                try write(name, generation: generation + 1, in: folder, next)
                try disk.synchronizeFolder(folder)
                for state in older { try disk.remove(state.text, in: folder) }
                try disk.removeOldTemporaries(in: folder, names: names)
            }
        }
    }

    private func write(
        _ name: String, generation: UInt64, in folder: Int32, _ next: () throws -> [UInt8]?
    ) throws {
        let tag = UInt64.random(in: .min ... .max)
        let state = StateName(name: name, generation: generation, tag: tag)
        let isNew = try disk.writeFile(state.text, in: folder) { append in
            var encoder = StateEncoder(group: group, name: name)
            try append(encoder.header)
            while let part = try next() {
                if part.isEmpty { continue }
                try goOn()
                precondition(part.count <= maximumBodyBytes, "A part of a state is larger than a message may be.")
                try append(encoder.part(part))
            }
            try append(encoder.trailer)
        }
        if !isNew { throw MirrorSystem.Failure.nameTaken }
    }

    package func fetchState(named name: String, part: ([UInt8]) throws -> Void) throws -> Bool {
        try withFolder { root in
            try about(statesPath) {
                guard let folder = try openStates(in: root) else { return false }
                defer { MirrorSystem.closeDescriptor(folder) }
                let states = try MirrorSystem.names(in: folder).compactMap { StateName($0) }
                    .filter { $0.name == name }
                    .sorted { ($0.generation, $0.tag) > ($1.generation, $1.tag) }
                for state in states {
                    let file = try about(statesPath + "/" + state.text) { try open(state, in: folder) }
                    guard let file else { continue }
                    defer { MirrorSystem.closeDescriptor(file) }
                    if try deliver(state, file, part) { return true }
                }
                return false
            }
        }
    }

    private func openStates(in root: Int32) throws(MirrorSystem.Failure) -> Int32? {
        do throws(MirrorSystem.Failure) {
            return try MirrorSystem.openFolder(FolderNames.states, in: root)
        } catch {
            if error.isMissing { return nil }
            throw error
        }
    }

    /// Nil if a later state has replaced it just now.
    private func open(_ state: StateName, in folder: Int32) throws(MirrorSystem.Failure) -> Int32? {
        do throws(MirrorSystem.Failure) {
            return try MirrorSystem.openFile(state.text, in: folder)
        } catch {
            if error.isMissing { return nil }
            throw error
        }
    }

    /// Delivers the parts of a state's file.
    ///
    /// - Returns: False if the file is not complete yet.
    private func deliver(_ state: StateName, _ file: Int32, _ part: ([UInt8]) throws -> Void) throws -> Bool {
        let path = statesPath + "/" + state.text
        let bytes = try about(path) { try MirrorSystem.status(file).bytes }
        func read(_ offset: Int, _ count: Int) throws -> [UInt8] {
            try about(path) { try MirrorSystem.readBytes(file, at: offset, count: count) }
        }
        do {
            var decoder = StateDecoder(fileBytes: bytes, maximumPartBytes: maximumBodyBytes)
            guard try decoder.begin(group: group, name: state.name, read: read) else { return false }
            while let next = try decoder.next(read: read) {
                try goOn()
                try part(next)
            }
            return true
        } catch let damage as StateDecoder.Damage {
            switch damage.kind {
            case .laterVersion: throw FolderError.laterVersion(path)
            case .otherGroup(let group): throw FolderError.otherGroup(group, path)
            case .bytes:
                throw StoreError(
                    .courierDamaged,
                    "The state differs from its checksum: check the disk or the synchronizer, and remove the file. A "
                        + "peer stores a new one when it is asked for it.",
                    path: path, offset: UInt64(damage.offset))
            }
        }
    }
}
