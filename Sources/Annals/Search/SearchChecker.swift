// Compares the search indexes of a store with its rows, in both directions.
//
// Invariants:
// SC1  Two texts with the same terms at the same positions have the same sum; two others have different ones, but for
//      a chance of 1 in 2^64. In an attribute without positions, all of them are 0.

/// A place where a search index and the rows of a store differ.
public struct SearchIndexFault: Hashable, Sendable, CustomStringConvertible {
    /// The name of the entity.
    public let entity: String
    /// The object; nil if the index itself is damaged.
    public let object: ObjectID?
    /// The difference, and the way to mend it.
    public let description: String
}

extension Store {
    /// Compares the search indexes with the rows: each object must be found by exactly the words of its texts, and
    /// nothing else. Returns the first faults, at most 100 for each entity. Objects that the index does not have yet
    /// are not compared: a search reads their rows.
    ///
    /// Reads all of the searched rows, and takes 8 bytes of memory for each object.
    ///
    /// - Parameter progress: Called now and then with the name of the entity and the number of objects compared.
    ///
    /// Throws `StoreError`: `damaged` if a row cannot be read, `closed`.
    public func searchIndexFaults(
        progress: (_ entity: String, _ objects: Int) -> Void = { _, _ in }
    ) throws -> [SearchIndexFault] {
        let snapshot = try snapshot()
        guard let blocks = try SearchBlocks(snapshot.view) else { return [] }
        var faults: [SearchIndexFault] = []
        for record in try blocks.records() {
            guard let layout = snapshot.view.shape.newestLayout(record.entity) else { continue }
            let none: [SearchedEntity.Column] = []
            let scope = record.state.map { SearchedEntity(layout, $0) } ?? SearchedEntity(layout, none)
            var checker = SearchChecker(snapshot, scope)
            do throws(StoreError) {
                guard try record.readableState() != nil else { continue }
                try checker.run(progress)
            } catch {
                // A condition of the clause would crash the compiler.
                guard error.code == .damaged else { throw error }
                checker.report(nil, error.message)
            }
            faults += checker.faults
        }
        return faults
    }
}

/// The comparison for one entity.
private struct SearchChecker {
    private static let mostFaults = 100
    private static let objectsBetweenReports = 8192

    private let snapshot: Snapshot
    private let scope: SearchedEntity
    private(set) var faults: [SearchIndexFault] = []
    private var tokenizer = Tokenizer()

    init(_ snapshot: Snapshot, _ scope: SearchedEntity) { (self.snapshot, self.scope) = (snapshot, scope) }

    mutating func report(_ object: ObjectID?, _ what: String) {
        guard faults.count < Self.mostFaults else { return }
        let name = scope.layout.entity.name.text
        let whose = object.map { "the object \($0) " } ?? ""
        faults.append(
            SearchIndexFault(
                entity: name, object: object,
                description: "The search index of “\(name)”: \(whose)\(what) Build it again: "
                    + "`annals search-index STORE --rebuild \(name)`."))
    }

    mutating func run(_ progress: (String, Int) -> Void) throws(StoreError) {
        let snapshot = snapshot
        try snapshot.view.core.reading { () throws(StoreError) in
            guard let index = try SearchIndex(snapshot, scope) else { return }
            var sums: [[UInt64]] = []
            for segment in index.segments {
                try segment.reader.verify()
                sums.append(try Self.sums(of: segment, index.columns))
            }
            try compare(index, sums, progress)
        }
    }

    /// For each object of a segment, the sum over its terms. Attributes that the entity has no longer do not count.
    private static func sums(of segment: SearchIndex.Segment, _ columns: [Int]) throws(StoreError) -> [UInt64] {
        var sums = [UInt64](repeating: 0, count: segment.objects)
        var positions = PostingPositions()
        try segment.reader.forEachList(of: UnsafeRawBufferPointer(start: nil, count: 0), isPrefix: true) {
            (term, attribute, list) throws(StoreError) in
            guard columns.contains(attribute) else { return true }
            let base = hash(term, attribute)
            let hasPositions = segment.reader.descriptor.hasPositions(attribute)
            var postings = list.iterator()
            while try postings.next() {
                try postings.readPositions(&positions)
                for position in positions.values {
                    sums[postings.ordinal] &+= mixed(base &+ (hasPositions ? UInt64(position) : 0))
                }
            }
            return true
        }
        return sums
    }

    private mutating func compare(
        _ index: SearchIndex, _ sums: [[UInt64]], _ progress: (String, Int) -> Void
    ) throws(StoreError) {
        let (snapshot, layout) = (snapshot, scope.layout)
        let loose = Set(index.changed)
        var (compared, found) = (0, 0)
        let last = index.firstUnbuilt - 1
        try snapshot.view.scan(entity: scope.entity, through: last) { (object, row) throws(StoreError) in
            if loose.contains(object) { return true }
            compared += 1
            if compared % Self.objectsBetweenReports == 0 { progress(layout.entity.name.text, compared) }
            let holders = try index.holders(of: object)
            found += holders.count
            guard holders.count == 1 else {
                report(object, holders.isEmpty ? "is not in it." : "is in it twice.")
                return faults.count < Self.mostFaults
            }
            try snapshot.lend(object, row, layout) { (row) throws(StoreError) in
                let (segment, ordinal) = holders[0]
                let (sum, lengths) = try contents(
                    of: row, index.columns, index.segments[segment].reader.descriptor)
                var isRight = sum == sums[segment][ordinal]
                for (column, length) in lengths.enumerated() where isRight {
                    isRight = try index.segments[segment].reader.length(ordinal, index.columns[column]) == length
                }
                if !isRight { report(object, "is in it with other words.") }
            }
            return faults.count < Self.mostFaults
        }
        let alive = index.segments.reduce(0) { $0 + $1.objects - $1.deadObjects }
        if faults.isEmpty, alive != found { report(nil, "it has \(alive - found) objects that do not exist.") }
    }

    /// The sum over the terms of a row (SC1), and their number by column.
    private mutating func contents(
        of row: borrowing RowView, _ columns: [Int], _ descriptor: SegmentDescriptor
    ) throws(StoreError) -> (sum: UInt64, lengths: [UInt32]) {
        var sum: UInt64 = 0
        var lengths = [UInt32](repeating: 0, count: scope.columns.count)
        try scope.forEachText(row) { (column, text) in
            tokenizer.forEachTerm(of: text) { (term, place) in
                let position = descriptor.hasPositions(columns[column]) ? UInt64(place.position) : 0
                sum &+= Self.mixed(Self.hash(term, columns[column]) &+ position)
                lengths[column] += 1
            }
        }
        return (sum, lengths)
    }

    private static func hash(_ term: UnsafeRawBufferPointer, _ attribute: Int) -> UInt64 {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in term { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
        return mixed(hash &+ UInt64(attribute))
    }

    /// The finalizer of MurmurHash3.
    private static func mixed(_ value: UInt64) -> UInt64 {
        var value = value
        value = (value ^ value >> 33) &* 0xFF51_AFD7_ED55_8CCD
        value = (value ^ value >> 33) &* 0xC4CE_B9FE_1A85_EC53
        return value ^ value >> 33
    }
}

extension SearchIndex {
    /// The segments in which an object is alive.
    fileprivate func holders(of object: ObjectID) throws(StoreError) -> [(segment: Int, ordinal: Int)] {
        var holders: [(segment: Int, ordinal: Int)] = []
        for (number, segment) in segments.enumerated() {
            guard let ordinal = try segment.reader.ordinal(of: object.number) else { continue }
            if !segment.isDead(ordinal) { holders.append((number, ordinal)) }
        }
        return holders
    }
}
