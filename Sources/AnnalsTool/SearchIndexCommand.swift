// `annals search-index STORE` prints the search indexes of a store, and manages them.

internal import Annals

enum SearchIndexCommand {
    static let command = Command(
        "search-index", "Prints the search indexes of a store; adds, updates, rebuilds and removes them.",
        details: """
            A search index has the words of an entity's texts, so that “find --text” does not read all objects. It is
            part of the store. Programs that declare searchable texts keep it up to date while they write, and so does
            --update. Objects that are new or have changed since are not indexed. Searches find them, too, by reading
            them.

            NAME is an attribute of the type string. With title:3, a word in the title counts three times for the order
            of matches. Attributes that are searched already stay so. If you end the command while it builds an index,
            --update continues.

            --words leaves out objects that are not indexed. It prints words as searches compare them: without case and
            accents. Text without spaces between words, such as Chinese, becomes pairs of characters. --terms prints the
            words of any text in that form, and needs no store.
            """, operands: ["[STORE]", "[NAME[:WEIGHT]…]"],
        options: [
            Option("add", value: "ENTITY", "makes texts of the entity searchable, and builds their index"),
            Option("update", "brings all indexes up to date"),
            Option("rebuild", value: "ENTITY", "throws the index of the entity away, and builds it again"),
            Option("remove", value: "ENTITY", "removes the index of the entity"),
            Option("words", value: "ENTITY", "prints the commonest words, and the number of objects with each"),
            Option("limit", value: "N", "at most N words (20)"),
            Option("terms", value: "TEXT", "prints the words of a text, in their order"), .jsonOrText,
        ]
    ) { arguments, output in
        let action = try arguments.onlyOne(of: ["add", "update", "rebuild", "remove", "words", "terms"])
        let value = action.flatMap(arguments.value) ?? ""
        let texts = arguments.operands.dropFirst()
        guard texts.isEmpty == (action != "add") else {
            throw arguments.refusal(
                texts.isEmpty
                    ? "--add needs the NAME of an attribute." : "“\(texts[1])” needs --add ENTITY: it names a text.")
        }
        if arguments.has("limit"), action != "words" { throw arguments.refusal("--limit needs --words ENTITY.") }
        let limit = try arguments.number(of: "limit").map { Int(clamping: $0) } ?? 20
        guard arguments.operands.isEmpty == (action == "terms") else {
            throw arguments.refusal(
                action == "terms" ? "--terms needs no STORE." : "“annals search-index” needs STORE, or --terms TEXT.")
        }
        switch action {
        case "terms":
            for term in Tokenizer.terms(of: value) { output.line(json: ["term": term], text: term) }
        case "words":
            let words = try StoreAccess.with(arguments.operands[0], .readOnly) {
                try $0.commonestTerms(of: value, limit: limit)
            }
            if output.isJSON {
                for (term, objects) in words { output.data(["term": term, "objects": objects]) }
            } else {
                output.table(["word", "#objects"], words.map { [$0.term, String(grouped: UInt64($0.objects))] })
            }
        default:
            let indexes = try change(action, value, texts, arguments)
            output.hasChanges = action != nil
            show(indexes, output)
        }
    }

    /// Does what the options say. Returns the indexes after it.
    private static func change(
        _ action: String?, _ entity: String, _ texts: ArraySlice<String>, _ arguments: Arguments
    ) throws -> [SearchIndexStatus] {
        guard let action else { return try StoreAccess.with(arguments.operands[0], .readOnly) { try $0.searchIndexes } }
        let ending = try Ending.onSignals()
        return try StoreAccess.with(arguments.operands[0], .readWrite) { store in
            let progress = Progress("objects")
            ending.holdBack()
            func goesOn(_ indexes: [SearchIndexStatus]) -> Bool {
                let done = indexes.reduce(0) { $0 + $1.indexedObjects }
                let left = indexes.reduce(0) { $0 + ($1.unindexedObjects ?? 0) }
                progress.show(UInt64(clamping: done), of: UInt64(clamping: done + left))
                return !ending.isAsked
            }
            switch action {
            case "add":
                try store.addSearchIndex(of: entity, try weights(texts, of: try store.entity(entity)))
                try store.updateSearchIndexes(progress: goesOn)
            case "rebuild": try store.rebuildSearchIndex(of: entity, progress: goesOn)
            case "remove": try store.removeSearchIndex(of: entity)
            default: try store.updateSearchIndexes(progress: goesOn)
            }
            let indexes = try store.searchIndexes
            guard !ending.isAsked || indexes.allSatisfy({ $0.unindexedObjects == 0 }) else {
                throw ToolFailure("The work was ended: “annals search-index STORE --update” continues.")
            }
            return indexes
        }
    }

    private static func weights(_ texts: ArraySlice<String>, of entity: EntityHandle) throws -> [String: Double] {
        var weights: [String: Double] = [:]
        for text in texts {
            var (name, weight) = (text, 1.0)
            // A name may contain “:” too.
            if entity.position(of: text) == nil, let colon = text.lastIndex(of: ":"), colon > text.startIndex {
                name = String(text[..<colon])
                weight = try Double(text[text.index(after: colon)...]).orThrow(
                    command.refusal("The weight in “\(text)” is no number: write it such as title:3."))
            }
            guard weights.updateValue(weight, forKey: name) == nil else {
                throw command.refusal("“\(name)” is given twice: give it once.")
            }
        }
        return weights
    }

    private static func show(_ indexes: [SearchIndexStatus], _ output: Output) {
        if output.isJSON {
            for index in indexes { output.data(json(index)) }
            return
        }
        if indexes.isEmpty { output.line("No entity has a search index. To add one: annals help search-index") }
        output.table(
            ["entity", "texts", "#indexed", "#not indexed", "#words", "#parts", "#bytes"],
            indexes.map { index in
                // As --add takes them.
                let texts = index.weights.sorted { $0.key < $1.key }.map { name, weight in
                    weight == 1 ? name : "\(name):" + (Int(exactly: weight).map(String.init) ?? "\(weight)")
                }
                return [index.entity, texts.joined(separator: " ")]
                    + [index.indexedObjects, index.unindexedObjects, Int(clamping: index.terms), index.segments]
                    .map { $0.map { String(grouped: UInt64($0)) } ?? "unknown" } + [String(grouped: index.bytes)]
            })
    }

    private static func json(_ index: SearchIndexStatus) -> JSONLine {
        let weights = JSONLine(index.weights.sorted { $0.key < $1.key }.map { ($0.key, Value.double($0.value)) })
        return [
            "entity": index.entity, "weights": weights, "indexed": index.indexedObjects,
            "notIndexed": index.unindexedObjects, "words": index.terms, "segments": index.segments,
            "bytes": index.bytes,
        ]
    }
}
