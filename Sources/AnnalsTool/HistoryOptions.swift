// Makes a request from the options of `annals history`.

internal import Annals

extension Arguments {
    /// The part of the request that does not need the store.
    func historyRequest() throws(ToolFailure) -> HistoryRequest {
        var request = HistoryRequest()
        request.after = try place(of: "after", for: .history)?.inRequest
        request.before = try place(of: "before", for: .history)?.inRequest
        request.authors = names(of: "author")
        request.excludedAuthors = names(of: "not-author") ?? []
        request.contextNames = names(of: "context")
        request.excludedContextNames = names(of: "not-context") ?? []
        request.entities = values(of: "entity").map { Set($0) }
        if let texts = values(of: "id") {
            var objects: Set<ObjectID> = []
            for text in texts { objects.insert(try objectID(text)) }
            request.objects = objects
        }
        if let texts = values(of: "kind") {
            var kinds: Set<HistoryChange.Kind> = []
            for text in texts {
                guard let kind = HistoryChange.Kind(rawValue: text) else {
                    throw usage("The option “--kind” takes insert, update or delete, not “\(text)”.")
                }
                kinds.insert(kind)
            }
            request.kinds = kinds
        }
        request.order = has("reverse") ? .newestFirst : .oldestFirst
        request.limit = try number(of: "limit", for: .history).map { Int(clamping: $0) }
        return request
    }

    /// The entities of the request, or all that have history, without those of “--not-entity”.
    func entitiesLeft(of request: HistoryRequest, in store: Store) throws(ToolFailure) -> Set<String> {
        let known = try storing { try store.entities }.filter { $0.history != .off }
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
    func changedAttributes(in store: Store) throws(ToolFailure) -> [String: Set<String>]? {
        guard let texts = values(of: "attribute") else { return nil }
        let entities = try storing { try store.entities }.map(\.name)
        var attributes: [String: Set<String>] = [:]
        for text in texts {
            var places = text.indices.filter { text[$0] == "." }
            if let known = places.first(where: { entities.contains(String(text[..<$0])) }) { places = [known] }
            guard let place = places.first else {
                throw usage("The option “--attribute” takes an entity, a dot and an attribute, not “\(text)”.")
            }
            attributes[String(text[..<place]), default: []].insert(String(text[text.index(after: place)...]))
        }
        return attributes
    }

    /// An empty name means none.
    private func names(of option: String) -> Set<String?>? {
        values(of: option).map { texts in Set(texts.map { $0.isEmpty ? nil : $0 }) }
    }

    private func usage(_ message: String) -> ToolFailure {
        ToolFailure(.usage, message, hint: "Try: annals help history")
    }
}
