// A courier in memory for tests, which treats messages as badly as a real engine may, by seed.

import Annals
import AnnalsMirror
import TestSupport

/// The engine that simulated couriers share: one of a group.
///
/// Everything happens in simulated time, in the thread of the caller, and is decided by one generator. Equal seeds and
/// equal calls give equal runs.
final class SimulatedExchange {
    /// How often the engine does what couriers may do. Chances are between 0 and 1.
    struct Faults {
        /// A message does not reach a reader.
        var drop = 0.0
        /// A message reaches a reader twice.
        var double = 0.0
        /// An acknowledged message reaches no reader.
        var forget = 0.0
        /// The longest time that a message takes. Messages with different times change their order.
        var maximumDelaySeconds = 0.0
        /// A call fails before, in the middle of or after its work.
        var fail = 0.0
        /// A call finds the engine down.
        var goDown = 0.0
        var maximumDownSeconds = 5.0
        /// A call finds that the engine has begun again with nothing.
        var beginAgain = 0.0
        /// A fetched state turns out to be damaged after its first parts.
        var damageState = 0.0

        static let none = Faults()
        static let rough = Faults(
            drop: 0.05, double: 0.1, forget: 0.02, maximumDelaySeconds: 3, fail: 0.03, goDown: 0.005,
            beginAgain: 0.001, damageState: 0.05)
    }

    private struct Entry {
        var message: IncomingMessage
        /// It was acknowledged and lost.
        var isForgotten: Bool
    }

    /// Messages on their way to a reader, and those that have arrived.
    private struct Reader {
        var pending: [(due: Double, order: Int, message: IncomingMessage)] = []
        var arrived: [IncomingMessage] = []
    }

    let seed: UInt64
    var faults: Faults
    let maximumBodyBytes: Int
    private(set) var now = 0.0
    private var random: SeededRandom
    private var epoch = 0
    private var entries: [Entry] = []
    private var readers: [String: Reader] = [:]
    private var states: [String: [[UInt8]]] = [:]
    private var order = 0
    private var downUntil = 0.0
    private var partitions: Set<String> = []

    init(seed: UInt64, faults: Faults = .none, maximumBodyBytes: Int = 4096) {
        self.seed = seed
        self.faults = faults
        self.maximumBodyBytes = maximumBodyBytes
        random = SeededRandom(seed)
    }

    /// For the messages of failed expectations.
    var note: String { "The simulated courier has seed \(seed), and its time is \(now)." }
}

// MARK: Control

extension SimulatedExchange {
    func courier(for peer: String) -> SimulatedCourier { SimulatedCourier(peer, self) }

    func advance(by seconds: Double) { now += seconds }

    /// Ends all faults. Messages on their way arrive now; lost ones stay lost until they are sent again.
    func calm() {
        faults = .none
        downUntil = now
        partitions = []
        for name in readers.keys.sorted() {
            guard var reader = readers[name] else { continue }
            for index in reader.pending.indices { reader.pending[index].due = now }
            readers[name] = reader
        }
    }

    /// Forgets everything, states included, as an engine does whose data was deleted.
    func beginAgain() {
        epoch += 1
        entries = []
        readers = [:]
        states = [:]
    }

    /// All messages of a peer, in their order.
    func messages(from sender: String) -> [IncomingMessage] {
        entries.map(\.message).filter { $0.sender == sender }
    }

    var messageCount: Int { entries.count }

    /// All bodies that it has, of messages and of states.
    var bodies: [[UInt8]] { entries.map(\.message.body) + states.values.joined() }

    /// Sends messages of a peer again, from a number on.
    func double(from sender: String, number: UInt64) {
        for entry in entries where entry.message.sender == sender && entry.message.number >= number {
            for reader in readers.keys.sorted() { send(entry, to: reader) }
        }
    }

    func goDown(forSeconds seconds: Double) { downUntil = now + seconds }

    /// Cuts a peer off: its calls fail until it is joined again.
    func cutOff(_ peer: String) { partitions.insert(peer) }

    func join(_ peer: String) { partitions.remove(peer) }
}

// MARK: Calls

extension SimulatedExchange {
    private func happens(_ chance: Double) -> Bool { chance > 0 && random.happens(chance) }

    private func unreachable(_ sentence: String) -> StoreError {
        StoreError(.courierUnreachable, "\(sentence) The mirror tries again. \(note)")
    }

    /// Begins a call of a peer: the engine may be down, or fail.
    fileprivate func enter(_ peer: String) throws {
        if partitions.contains(peer) { throw unreachable("The simulated network is cut at this peer.") }
        if happens(faults.goDown) { downUntil = now + Double.random(in: 0...faults.maximumDownSeconds, using: &random) }
        if now < downUntil { throw unreachable("The simulated engine is down.") }
        if happens(faults.beginAgain) { beginAgain() }
        try failSometimes()
    }

    private func failSometimes() throws {
        if happens(faults.fail) { throw unreachable("The simulated engine has failed.") }
    }

    fileprivate func append(_ messages: [OutgoingMessage], from peer: String) throws {
        for message in messages {
            try failSometimes()
            let entry = Entry(
                message: IncomingMessage(sender: peer, number: message.number, body: message.body),
                isForgotten: happens(faults.forget))
            entries.append(entry)
            for reader in readers.keys.sorted() { send(entry, to: reader) }
        }
        try failSometimes()
    }

    private func send(_ entry: Entry, to reader: String) {
        if entry.isForgotten || happens(faults.drop) { return }
        for _ in 0..<(happens(faults.double) ? 2 : 1) {
            let delay =
                faults.maximumDelaySeconds > 0
                ? Double.random(in: 0...faults.maximumDelaySeconds, using: &random) : 0
            order += 1
            readers[reader]?.pending.append((now + delay, order, entry.message))
        }
    }

    /// The messages of a reader that have arrived by now.
    private func arrived(at name: String) -> [IncomingMessage] {
        if readers[name] == nil {
            readers[name] = Reader()
            for entry in entries { send(entry, to: name) }
        }
        guard var reader = readers[name] else { return [] }
        let due = reader.pending.filter { $0.due <= now }.sorted { ($0.due, $0.order) < ($1.due, $1.order) }
        reader.arrived += due.map(\.message)
        reader.pending.removeAll { $0.due <= now }
        readers[name] = reader
        return reader.arrived
    }

    fileprivate func messages(
        for name: String, after place: CourierPlace?, maximumBytes: Int, waitSeconds: Double
    ) throws -> IncomingBatch {
        var (index, beganAgain) = position(place, name)
        var all = arrived(at: name)
        if index >= all.count && !beganAgain && waitSeconds > 0 {
            // The wait is over at once: simulated time passes to the next message, or to the end of the wait.
            let next = readers[name]?.pending.map(\.due).min() ?? .infinity
            now = min(max(now, next), now + waitSeconds)
            all = arrived(at: name)
        }
        if index > all.count { (index, beganAgain) = (0, true) }
        var batch: [IncomingMessage] = []
        var bytes = 0
        while index < all.count {
            let message = all[index]
            if !batch.isEmpty && bytes + message.body.count > maximumBytes { break }
            batch.append(message)
            bytes += message.body.count
            index += 1
        }
        return IncomingBatch(messages: batch, place: self.place(index), beganAgain: beganAgain)
    }

    private func place(_ index: Int) -> CourierPlace { CourierPlace("simulated \(epoch) \(index)") }

    private func position(_ place: CourierPlace?, _ name: String) -> (index: Int, beganAgain: Bool) {
        guard let place else { return (0, false) }
        let words = place.text.split(separator: " ")
        guard words.count == 3, words[0] == "simulated", Int(words[1]) == epoch, let index = Int(words[2]) else {
            return (0, true)
        }
        return (index, false)
    }

    fileprivate func newestPlace(for name: String) -> CourierPlace { place(arrived(at: name).count) }

    fileprivate func discard(from peer: String, through number: UInt64) {
        entries.removeAll { $0.message.sender == peer && $0.message.number <= number }
    }

    fileprivate func store(_ name: String, _ next: () throws -> [UInt8]?) throws {
        var parts: [[UInt8]] = []
        while let part = try next() {
            precondition(part.count <= maximumBodyBytes, "A part of a state is larger than a message may be.")
            if !part.isEmpty { parts.append(part) }
            try failSometimes()
        }
        states[name] = parts
        try failSometimes()
    }

    fileprivate func fetch(_ name: String, _ part: ([UInt8]) throws -> Void) throws -> Bool {
        guard let parts = states[name] else { return false }
        let isDamaged = happens(faults.damageState)
        let end = isDamaged ? Int.random(in: 0...parts.count, using: &random) : parts.count
        for index in 0..<end {
            try failSometimes()
            try part(parts[index])
        }
        if isDamaged {
            throw StoreError(
                .courierDamaged, "The simulated state is damaged after part \(end): store it again. \(note)")
        }
        return true
    }
}

// MARK: The courier

/// A peer's way to a simulated exchange.
final class SimulatedCourier: Courier {
    let peer: String
    let exchange: SimulatedExchange

    init(_ peer: String, _ exchange: SimulatedExchange) {
        self.peer = peer
        self.exchange = exchange
    }

    var maximumBodyBytes: Int { exchange.maximumBodyBytes }

    func append(_ messages: [OutgoingMessage]) throws {
        try exchange.enter(peer)
        for message in messages where message.body.count > maximumBodyBytes {
            throw StoreError(.invalidArgument, "A message is larger than the simulated engine takes: divide it.")
        }
        try exchange.append(messages, from: peer)
    }

    func messages(
        after place: CourierPlace?, maximumBytes: Int, waitSeconds seconds: Double
    ) throws -> IncomingBatch {
        try exchange.enter(peer)
        return try exchange.messages(for: peer, after: place, maximumBytes: maximumBytes, waitSeconds: seconds)
    }

    func newestPlace() throws -> CourierPlace {
        try exchange.enter(peer)
        return exchange.newestPlace(for: peer)
    }

    func storeState(named name: String, next: () throws -> [UInt8]?) throws {
        try exchange.enter(peer)
        try exchange.store(name, next)
    }

    func fetchState(named name: String, part: ([UInt8]) throws -> Void) throws -> Bool {
        try exchange.enter(peer)
        return try exchange.fetch(name, part)
    }

    func discard(through number: UInt64) throws {
        try exchange.enter(peer)
        exchange.discard(from: peer, through: number)
    }

    func weaknesses() throws -> [String] {
        try exchange.enter(peer)
        return ["The courier is simulated: it keeps messages in memory."]
    }
}
