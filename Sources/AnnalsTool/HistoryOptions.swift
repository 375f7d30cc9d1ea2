// Makes a request from the options of `annals history`.

internal import Annals

extension Arguments {
    /// The part of the request that does not need the store.
    func historyRequest() throws -> HistoryRequest {
        var request = HistoryRequest()
        request.authors = names(of: "author")
        request.excludedAuthors = names(of: "not-author") ?? []
        request.contextNames = names(of: "context")
        request.excludedContextNames = names(of: "not-context") ?? []
        request.entities = values(of: "entity").map { Set($0) }
        let kinds = try values(of: "kind")?.map { text in
            guard let kind = HistoryChange.Kind(rawValue: text) else {
                throw Command.history.refusal("The option “--kind” takes insert, update or delete, not “\(text)”.")
            }
            return kind
        }
        request.kinds = kinds.map { Set($0) }
        for option in ["after", "before"] { _ = try place(of: option, for: .history) }
        request.limit = try number(of: "limit", for: .history).map { Int(clamping: $0) }
        return request
    }

    /// The rest of the request.
    func complete(_ request: inout HistoryRequest, in store: Store) throws {
        if let place = try place(of: "after", for: .history) { request.after = try store.requestPlace(place) }
        if let place = try place(of: "before", for: .history) { request.before = try store.requestPlace(place) }
        if let texts = values(of: "id") {
            let snapshot = try store.snapshot()
            request.objects = Set(try texts.map { try EntityHandle.object($0, in: snapshot) })
        }
        request.changedAttributes = try changedAttributes(in: store)
        if has("not-entity") { request.entities = try entitiesLeft(of: request, in: store) }
    }

    func grouping() throws -> HistorySummary.Grouping? {
        guard let text = value(of: "summary") else { return nil }
        guard let grouping = HistorySummary.Grouping(rawValue: text) else {
            throw Command.history.refusal("The option “--summary” takes author, entity or hour, not “\(text)”.")
        }
        return grouping
    }

    /// The entities of the request, or all that have history, without those of “--not-entity”.
    private func entitiesLeft(of request: HistoryRequest, in store: Store) throws -> Set<String> {
        let known = try store.entities.filter { $0.history != .off }
        var left = request.entities ?? Set(known.map(\.name))
        for name in values(of: "not-entity") ?? [] {
            do {
                _ = try store.transactionCount(HistoryRequest(entities: [name], limit: 0))
            } catch let error as StoreError where error.code == .unknownEntity {
                throw ToolFailure(error)
            } catch {
                // An entity is left out even if something else is wrong with it.
            }
            left.remove(name)
        }
        return left
    }

    /// “ENTITY.NAME”. If a name contains dots, the existing entities decide where it is split.
    private func changedAttributes(in store: Store) throws -> [String: Set<String>]? {
        guard let texts = values(of: "attribute") else { return nil }
        let entities = try store.entities.map(\.name)
        var attributes: [String: Set<String>] = [:]
        for text in texts {
            var places = text.indices.filter { text[$0] == "." }
            if let known = places.first(where: { entities.contains(String(text[..<$0])) }) { places = [known] }
            guard let place = places.first else {
                throw Command.history.refusal(
                    "The option “--attribute” takes an entity, a dot and an attribute, not “\(text)”.")
            }
            attributes[String(text[..<place]), default: []].insert(String(text[text.index(after: place)...]))
        }
        return attributes
    }

    /// An empty name means none.
    private func names(of option: String) -> Set<String?>? {
        values(of: option).map { texts in Set(texts.map { $0.isEmpty ? nil : $0 }) }
    }
}
