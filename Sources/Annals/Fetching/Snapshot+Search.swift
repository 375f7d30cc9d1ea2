// Searching for words in a state.

public import FoundationEssentials

/// An object that a search has found.
public struct SearchMatch<E: Entity> {
    /// The object's reference.
    public let reference: Reference<E>
    /// The object's value.
    public let value: E
    /// The rank: greater for better matches. Scores of different searches cannot be compared. See <doc:Searching>.
    public let score: Double
    let plan: SearchPlan
    let scope: SearchedEntity

    /// A part of a text with the words that the search has found in it; its beginning if it has none of them, or if the
    /// property is not searchable. Nil for a property without a text.
    ///
    /// - Parameters:
    ///   - path: The property.
    ///   - length: The most characters of the part, without the “…” at its ends.
    ///
    /// Linear in the text.
    public func snippet<V: TextProperty>(of path: any KeyPath<E, V> & Sendable, length: Int = 160) -> SearchSnippet? {
        FoundText(value, path, plan, scope.names)?.snippet(length)
    }

    /// The ranges of a text in which the search has found its words. Empty for a property without a text, and for one
    /// that is not searchable.
    ///
    /// Linear in the text.
    public func highlights<V: TextProperty>(of path: any KeyPath<E, V> & Sendable) -> [Range<String.Index>] {
        FoundText(value, path, plan, scope.names)?.highlights ?? []
    }
}

/// A text of an object, with the words that a search has found in it.
struct FoundText {
    private let text: String
    /// The number of the attribute; nil if it is not searched.
    private let column: Int?
    private let leaves: [SearchLeaf]

    /// Nil for a property without a text. `searched` are the names of the searchable properties.
    fileprivate init?<E: Entity, V: TextProperty>(
        _ value: E, _ path: any KeyPath<E, V> & Sendable, _ plan: SearchPlan, _ searched: [String]
    ) {
        guard let text = (value[keyPath: path] as V) as? String else { return nil }
        let name = E.model.index(of: path as PartialKeyPath<E>).map { E.model.properties[$0].name }
        column = searched.firstIndex { $0 == name }
        (self.text, leaves) = (text, column == nil ? [] : plan.leaves)
    }

    func snippet(_ length: Int) -> SearchSnippet {
        SearchSnippet(text, leaves, attribute: column, maximumCharacters: length)
    }

    var highlights: [Range<String.Index>] { SearchSnippet.highlights(in: text, leaves, attribute: column) }
}

extension SearchQuery {
    /// A part of a text of any object, with the words of the query: for the objects of a live list. See
    /// `SearchMatch.snippet`.
    public func snippet<E: Entity, V: TextProperty>(
        of path: any KeyPath<E, V> & Sendable, in value: E, length: Int = 160
    ) -> SearchSnippet? {
        text(path, value)?.snippet(length)
    }

    /// The ranges of a text of any object in which the words of the query occur. See `SearchMatch.highlights`.
    public func highlights<E: Entity, V: TextProperty>(
        of path: any KeyPath<E, V> & Sendable, in value: E
    ) -> [Range<String.Index>] {
        text(path, value)?.highlights ?? []
    }

    private func text<E: Entity, V: TextProperty>(_ path: any KeyPath<E, V> & Sendable, _ value: E) -> FoundText? {
        let searched = E.model.properties.filter { $0.searchWeight != nil }.map(\.name)
        let names = Array(searched.prefix(SearchPlan.maximumAttributes))
        return FoundText(value, path, SearchPlan(self, attributes: names), names)
    }
}

extension Snapshot {
    /// The objects whose searchable texts match a query, best match first.
    ///
    /// ```swift
    /// for match in try store.snapshot().search(Note.self, for: "swift lin", limit: 20) {
    ///     print(match.value.title, match.snippet(of: \.text)?.marked() ?? "")
    /// }
    /// ```
    ///
    /// Everything committed is found, also what no index has yet: the search reads those rows itself. A state of the
    /// past has no index, so there it reads all rows of the entity.
    ///
    /// - Parameters:
    ///   - type: The entity. Its schema must have a property with the option `.searchable`.
    ///   - query: The words: a text as people type it, or a condition that your program builds.
    ///   - predicate: A further condition; nil for none. It is evaluated on the rows of matches.
    ///   - sort: The order; the first key counts most. Without one, the best match comes first, and of equal ones the
    ///     newer object.
    ///   - limit: The most matches to return; nil for all.
    ///   - offset: The number of matches to skip first. A number below zero counts as zero.
    ///
    /// Throws `StoreError`: `modelInvalid` if the entity has no searchable property, and as `fetch`.
    public func search<E: Entity>(
        _ type: E.Type, for query: SearchQuery, where predicate: Predicate<Object<E>>? = nil,
        sortedBy sort: SortKey<E>..., limit: Int? = nil, offset: Int = 0
    ) throws -> [SearchMatch<E>] {
        var search = try Search(self, query, predicate, FetchPage(limit: limit, offset: offset))
        return try search.matches(SortKey.parts(of: sort))
    }

    /// The same for a text as people type it.
    public func search<E: Entity>(
        _ type: E.Type, for text: String, where predicate: Predicate<Object<E>>? = nil,
        sortedBy sort: SortKey<E>..., limit: Int? = nil, offset: Int = 0
    ) throws -> [SearchMatch<E>] {
        var search = try Search(self, SearchQuery(text), predicate, FetchPage(limit: limit, offset: offset))
        return try search.matches(SortKey.parts(of: sort))
    }

    /// The number of objects whose searchable texts match a query, and that satisfy a predicate. As `search`.
    public func searchCount<E: Entity>(
        _ type: E.Type, for query: SearchQuery, where predicate: Predicate<Object<E>>? = nil
    ) throws -> Int {
        var search = try Search(self, query, predicate)
        return try search.count()
    }

    /// The same for a text as people type it.
    public func searchCount<E: Entity>(
        _ type: E.Type, for text: String, where predicate: Predicate<Object<E>>? = nil
    ) throws -> Int {
        try searchCount(type, for: SearchQuery(text), where: predicate)
    }
}

extension SearchQuery {
    /// The query about some of the searchable properties: `SearchQuery("swift").in(\Note.title)`. Properties that an
    /// inner query names count only if they are among these, too.
    public func `in`<E: Entity, V: TextProperty>(_ paths: any KeyPath<E, V> & Sendable...) -> Self {
        let names = paths.map { path in
            guard let index = E.model.index(of: path as PartialKeyPath<E>) else {
                preconditionFailure("A search is in stored properties, and \(path) is none.")
            }
            return E.model.properties[index].name
        }
        return inAttributes(names)
    }
}

extension SearchedEntity {
    /// The searchable properties of a type. Throws `modelInvalid` if it has none.
    init(_ binding: EntityBinding, _ layout: RowLayout) throws(StoreError) {
        var columns: [Column] = []
        for (index, property) in binding.properties.enumerated() {
            guard let weight = property.searchWeight else { continue }
            let (attribute, position) = (binding.attributes[index], binding.position(of: index))
            columns.append(
                Column(name: property.name, attribute: attribute, position: position, weight: weight))
        }
        guard !columns.isEmpty else {
            throw StoreError(
                .modelInvalid,
                "“\(binding.model.name)” has no searchable property: give a text the option .searchable in its schema.",
                ObjectFacts(binding.model.name))
        }
        self.init(layout, columns)
    }
}

/// A search in a state for objects of a type.
struct Search<E: Entity> {
    private var search: FilteredSearch
    private let snapshot: Snapshot
    private let binding: EntityBinding

    init(
        _ snapshot: Snapshot, _ query: SearchQuery, _ predicate: Predicate<Object<E>>?, _ page: FetchPage = FetchPage()
    ) throws(StoreError) {
        let snapshot = snapshot.inPresentTerms
        let layout = try snapshot.layout(of: E.model)
        let binding = try layout.binding(E.self, snapshot.view.catalog)
        (self.snapshot, self.binding) = (snapshot, binding)
        let condition = predicate.map { PredicateTranslator.condition($0, snapshot, binding) } ?? .constant(true)
        search = FilteredSearch(SearchRun(snapshot, try SearchedEntity(binding, layout), query), condition, page)
    }

    mutating func objects(_ sort: [SortPart<E>]) throws(StoreError) -> [FoundObject] {
        try search.objects(try binding.columns(sort))
    }

    mutating func matches(_ sort: [SortPart<E>]) throws(StoreError) -> [SearchMatch<E>] {
        let found = try objects(sort)
        var matches: [SearchMatch<E>] = []
        matches.reserveCapacity(found.count)
        for one in found {
            let reference = Reference<E>(one.object, of: binding.storeMark)
            guard let value = try snapshot.value(reference) else { continue }
            matches.append(
                SearchMatch(
                    reference: reference, value: value, score: one.score, plan: search.plan, scope: search.scope))
        }
        return matches
    }

    mutating func count() throws(StoreError) -> Int { try search.count() }
}
