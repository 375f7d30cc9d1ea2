// A place in the history of a store of a group: all transactions up to it are settled, or are contained in a state.

package import Annals
package import FoundationEssentials

package struct MergePlace: Equatable, Sendable {
    /// The last transaction up to there; 0 for none.
    package var number: UInt64
    /// The highest number in the group's order up to there.
    package var lamport: UInt64
    /// The last own transaction for the group up to there.
    package var published: HistoryToken?
    /// For each other store, its last transaction up to there.
    package var knowledge: VersionVector

    package init(
        number: UInt64 = 0, lamport: UInt64, published: HistoryToken? = nil, knowledge: VersionVector = VersionVector()
    ) {
        (self.number, self.lamport) = (number, lamport)
        (self.published, self.knowledge) = (published, knowledge)
    }

    /// The transactions of all stores up to there, those of this one included.
    package func contents(_ own: UUID) -> VersionVector {
        var contents = knowledge
        if let published { contents[own] = published.number }
        return contents
    }
}

extension MergePlace: Codable {
    private enum Key: String, CodingKey { case number, lamport, publishedNumber, publishedTag, store, knowledge }

    package init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: Key.self)
        number = try values.decode(UInt64.self, forKey: .number)
        lamport = try values.decode(UInt64.self, forKey: .lamport)
        knowledge = try values.decode(VersionVector.self, forKey: .knowledge)
        if let store = try values.decodeIfPresent(UUID.self, forKey: .store) {
            published = HistoryToken(
                storeIdentifier: store, number: try values.decode(UInt64.self, forKey: .publishedNumber),
                tag: try values.decode(UInt64.self, forKey: .publishedTag))
        }
    }

    package func encode(to encoder: any Encoder) throws {
        var values = encoder.container(keyedBy: Key.self)
        try values.encode(number, forKey: .number)
        try values.encode(lamport, forKey: .lamport)
        try values.encode(knowledge, forKey: .knowledge)
        guard let published else { return }
        try values.encode(published.storeIdentifier, forKey: .store)
        try values.encode(published.number, forKey: .publishedNumber)
        try values.encode(published.tag, forKey: .publishedTag)
    }
}

extension VersionVector: Codable {
    package init(from decoder: any Decoder) throws {
        self.init()
        for (peer, number) in try decoder.singleValueContainer().decode([String: UInt64].self) {
            guard let peer = UUID(uuidString: peer) else { continue }
            self[peer] = number
        }
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(
            Dictionary(entries.map { ($0.peer.uuidString, $0.number) }, uniquingKeysWith: { first, _ in first }))
    }
}
