// A simulated directory: durable names, the names that processes see, and the operations between the two.

/// A change of names that is not durable yet. It happens whole or not at all.
struct NameOperation: Sendable, Equatable {
    enum Kind: Sendable {
        case add, remove
        /// From `name` to `newName`.
        case rename
    }
    var kind: Kind
    var name: String
    var newName: String?
    /// The file that is added, renamed or removed.
    var inode: Int
}

/// Names and what they stand for, in the order of their making; there are few, so looking through them is fastest.
struct NameTable: Sendable, Equatable {
    struct Entry: Sendable, Equatable {
        var name: String
        var inode: Int
    }
    private(set) var entries: [Entry] = []

    subscript(name: String) -> Int? {
        get { entries.first { $0.name == name }?.inode }
        set {
            let position = entries.firstIndex { $0.name == name }
            switch (position, newValue) {
            case (let position?, let inode?): entries[position].inode = inode
            case (let position?, nil): entries.remove(at: position)
            case (nil, let inode?): entries.append(Entry(name: name, inode: inode))
            case (nil, nil): break
            }
        }
    }

    mutating func apply(_ operation: NameOperation) {
        switch operation.kind {
        case .add: self[operation.name] = operation.inode
        case .remove: self[operation.name] = nil
        case .rename:
            self[operation.name] = nil
            if let newName = operation.newName { self[newName] = operation.inode }
        }
    }

    func contains(inode: Int) -> Bool { entries.contains { $0.inode == inode } }
}

struct Directory: Sendable {
    let path: String
    private(set) var durable = NameTable()
    private(set) var cached = NameTable()
    private(set) var pending: [NameOperation] = []
    /// How many operations are pending no longer.
    private var settled = 0

    init(path: String, durable: NameTable = NameTable()) {
        self.path = path
        self.durable = durable
        cached = durable
    }

    mutating func change(_ operation: NameOperation) {
        cached.apply(operation)
        pending.append(operation)
    }

    /// The number of the last operation so far: a synchronize covers everything up to it.
    var lastSequence: Int { settled + pending.count }

    /// Makes the operations up to and including `sequence` durable.
    mutating func makeDurable(through sequence: Int) {
        for operation in settle(through: sequence) { durable.apply(operation) }
    }

    mutating func lose(through sequence: Int, revertingCache: Bool) {
        _ = settle(through: revertingCache ? lastSequence : sequence)
        if revertingCache { cached = durable }
    }

    private mutating func settle(through sequence: Int) -> [NameOperation] {
        let covered = Array(pending.prefix(max(0, sequence - settled)))
        pending.removeFirst(covered.count)
        settled += covered.count
        return covered
    }

    mutating func restart(losingPending losing: Bool) {
        if !losing { makeDurable(through: lastSequence) }
        lose(through: lastSequence, revertingCache: true)
    }

    /// Puts a name there durably, as if it always had been.
    mutating func install(_ name: String, inode: Int) {
        durable[name] = inode
        cached[name] = inode
    }

    /// Whether any name leads to the inode, or would after some power cut.
    func mentions(inode: Int) -> Bool {
        cached.contains(inode: inode) || durable.contains(inode: inode) || pending.contains { $0.inode == inode }
    }
}
