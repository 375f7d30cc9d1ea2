// Tracks current reads, so that the memory of nodes that they may use is reused only after they have ended.
//
// Invariants:
// E1  A read section counts in the epoch in which it began; an epoch begins only when the one before the previous has
//     no sections left.
// E2  A node that became unreachable in an epoch is reused when no section of that epoch or an earlier one is left.
// E3  Once `isClosed`, no section begins; `close` returns when none is left.

internal import Synchronization

/// Epoch-based reclamation (Fraser, "Practical lock-freedom", 2004), with counters instead of per-thread lists.
///
/// Entering and leaving are two atomic additions each to a counter that few threads share, and never wait.
/// Sound although it is shared: the counters are atomic; the lists of nodes are touched only by code that may change
/// the indexes (X2), and so accesses to them cannot overlap, and are not checked for it.
final class ReadSections: @unchecked Sendable {
    /// The counter that counts a section.
    struct Section { fileprivate let counter: Int }

    private static let stripes = 16
    /// Two cache lines apart, because processors fetch pairs.
    private static let strideBytes = 128
    private let counters: UnsafeMutableRawPointer
    private let epoch = Atomic<Int>(0)
    private let closed = Atomic<Bool>(false)
    private let process = OwnProcess()
    @exclusivity(unchecked) private var retired: [NodeReference] = []
    @exclusivity(unchecked) private var waiting: [NodeReference] = []
    /// Nodes that no thread reads. Kept, because after freeing them the system supplies memory page by page, each of
    /// which costs more than writing it.
    @exclusivity(unchecked) private var spare: [UnsafeMutableRawPointer] = []
    private static let mostSpare = 256

    init() {
        let bytes = 2 * Self.stripes * Self.strideBytes
        counters = .allocate(byteCount: bytes, alignment: Self.strideBytes)
        counters.initializeMemory(as: UInt8.self, repeating: 0, count: bytes)
    }

    deinit {
        for reference in waiting + retired { reference.memory?.deallocate() }
        for node in spare { node.deallocate() }
        counters.deallocate()
    }

    @inline(__always)
    private func counter(_ index: Int) -> UnsafeMutablePointer<Atomic<Int>> {
        assert(UInt(bitPattern: counters) % 8 == 0 && Self.strideBytes % 8 == 0, "not aligned")
        return (counters + index &* Self.strideBytes).assumingMemoryBound(to: Atomic<Int>.self)
    }

    /// Each thread has its own stack, so the address of a local variable distinguishes threads well enough.
    @inline(__always)
    private static var stripe: Int {
        var marker: UInt8 = 0
        let address = withUnsafeMutablePointer(to: &marker) { UInt(bitPattern: $0) }
        return Int(truncatingIfNeeded: (address >> 16) &* 0x9E37_79B9 >> 12) & (stripes - 1)
    }

    /// Begins a section. Throws `closed` when the store was closed, and `forked` in a child.
    @inline(__always)
    func enter() throws(StoreError) -> Section {
        if process.wasForked { throw process.refusal() }
        let stripe = Self.stripe
        while true {
            let now = epoch.load(ordering: .acquiring)
            let index = (now & 1) &* Self.stripes &+ stripe
            counter(index).pointee.wrappingAdd(1, ordering: .sequentiallyConsistent)
            if epoch.load(ordering: .sequentiallyConsistent) == now {
                if closed.load(ordering: .sequentiallyConsistent) {
                    leave(Section(counter: index))
                    throw StoreError(.closed, "The store was closed: open it again.")
                }
                return Section(counter: index)
            }
            counter(index).pointee.wrappingSubtract(1, ordering: .releasing)
        }
    }

    @inline(__always)
    func leave(_ section: Section) { counter(section.counter).pointee.wrappingSubtract(1, ordering: .releasing) }

    private func hasSections(parity: Int) -> Bool {
        (0..<Self.stripes).contains {
            counter(parity * Self.stripes + $0).pointee.load(ordering: .sequentiallyConsistent) != 0
        }
    }

    /// Memory for a node, with any content. `retire` frees it.
    func makeNode() -> UnsafeMutableRawPointer {
        spare.popLast() ?? .allocate(byteCount: IndexNode.bytes, alignment: 64)
    }

    /// Retires a node in memory that no new section can reach: it is reused after the sections that may use it have
    /// ended.
    func retire(_ reference: NodeReference) {
        assert(reference.memory != nil, "E2: a node in the file is retired.")
        retired.append(reference)
    }

    /// Reclaims nodes that no section can read any more, and starts the next epoch if nodes wait. Never blocks.
    func reclaim() {
        guard !retired.isEmpty || !waiting.isEmpty else { return }
        let now = epoch.load(ordering: .relaxed)
        // E1.
        guard !hasSections(parity: (now + 1) & 1) else { return }
        assert(spare.count <= Self.mostSpare, "More nodes are kept than the limit allows.")
        for reference in waiting {
            guard let memory = reference.memory else { continue }
            if !reference.isDelta, spare.count < Self.mostSpare {
                spare.append(memory)
            } else {
                memory.deallocate()
            }
        }
        // The nodes retired in this epoch wait for the end of the next one: E2.
        waiting = retired
        retired = []
        epoch.store(now + 1, ordering: .sequentiallyConsistent)
    }

    /// Prevents new sections and waits for those under way.
    func close(_ environment: any Environment) {
        // E3.
        closed.store(true, ordering: .sequentiallyConsistent)
        var pause: UInt64 = 10
        while hasSections(parity: 0) || hasSections(parity: 1) {
            environment.sleep(microseconds: pause)
            pause = min(pause * 2, 1000)
        }
    }
}
