// Places in history as people write them, the same for every command; the units of ages and sizes; and the request that
// the options of `annals history` make.

package import Annals

package enum HistoryPlace: Equatable, Sendable {
    case number(UInt64)
    case token(HistoryToken)
    /// After the last transaction that was committed at that moment or before. In microseconds since 1970.
    case moment(Int64)
    /// So many transactions before the last one.
    case back(UInt64)

    /// The place that an option or an operand of that name names.
    init(_ text: String, _ name: String, _ command: Command) throws(ToolFailure) {
        if let place = Self.short(text, now: Timestamp.now) {
            self = place
            return
        }
        if !text.isEmpty, text.utf8.allSatisfy(\.isDigit) {
            throw command.refusal("\(name) has the number “\(text)”, which is too large for a transaction.")
        }
        do {
            self = .token(try HistoryToken(text))
        } catch {
            let isDate = text.prefixMatch(of: /\d{4}-/) != nil
            throw command.refusal(
                "\(name) takes a transaction number, a token, or a moment, such as 2026-01-02, “2026-01-02 03:04”, 2h, "
                    + "today or yesterday; -1 is the transaction before the last. "
                    + (isDate ? "“\(text)” is not a date or time that exists." : ToolFailure(error).message))
        }
    }

    /// Anything but a token; nil for other texts. `now` is in microseconds since 1970.
    package static func short(_ text: String, now: Int64) -> HistoryPlace? {
        switch text {
        case "now": return .back(0)
        case "today": return .moment(Timestamp.midnight(0, before: now))
        case "yesterday": return .moment(Timestamp.midnight(1, before: now))
        default: break
        }
        let isNegative = text.utf8.first == UInt8(ascii: "-")
        let rest = isNegative ? String(text.dropFirst()) : text
        if !rest.isEmpty, rest.utf8.allSatisfy(\.isDigit) {
            return UInt64(rest).map { isNegative ? .back($0) : .number($0) }
        }
        if let seconds = Unit.seconds(rest) {
            let (microseconds, isTooLong) = seconds.multipliedReportingOverflow(by: 1_000_000)
            return isTooLong ? nil : .moment(now - microseconds)
        }
        return isNegative ? nil : Timestamp.moment(text).map { .moment($0) }
    }
}

extension Store {
    func token(of place: HistoryPlace) throws -> HistoryToken {
        if case .token(let token) = place { return token }
        return try snapshot(at: place).token
    }

    func snapshot(at place: HistoryPlace) throws -> Snapshot {
        switch place {
        case .token(let token): try snapshot(asOf: token)
        case .number(let number): try snapshot(asOf: number)
        case .back(let count): try snapshot(asOf: number(back: count))
        case .moment(let microseconds):
            // Transactions that were committed at exactly that moment are included.
            try snapshot(asOf: try number(before: Microseconds.date(microseconds + 1)) - 1)
        }
    }

    func requestPlace(_ place: HistoryPlace) throws -> HistoryRequest.Place {
        switch place {
        case .number(let number): .number(number)
        case .token(let token): .token(token)
        case .moment(let microseconds): .date(Microseconds.date(microseconds))
        case .back(let count): .number(try number(back: count))
        }
    }
}

/// Ages and sizes with a unit. All parsers return nil for anything else, and for what is too large.
package enum Unit {
    static let ofAges: [(name: String, size: UInt64)] = [
        ("w", 604_800), ("d", 86_400), ("h", 3600), ("min", 60), ("m", 60), ("s", 1),
    ]
    private static let ofSizes: [(name: String, size: UInt64)] = [
        ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40), ("kB", 1000), ("KB", 1000),
        ("MB", 1_000_000), ("GB", 1_000_000_000), ("TB", 1_000_000_000_000), ("B", 1), ("", 1),
    ]

    package static func seconds(_ text: String) -> Int64? { product(text, ofAges).flatMap(Int64.init(exactly:)) }
    package static func bytes(_ text: String) -> UInt64? { product(text, ofSizes) }

    private static func product(_ text: String, _ units: [(name: String, size: UInt64)]) -> UInt64? {
        for unit in units where text.hasSuffix(unit.name) {
            let digits = text.dropLast(unit.name.count)
            guard digits.utf8.allSatisfy(\.isDigit), let count = UInt64(digits) else { continue }
            let (product, isTooLarge) = count.multipliedReportingOverflow(by: unit.size)
            return isTooLarge ? nil : product
        }
        return nil
    }
}

extension UInt8 {
    /// Whether it is a digit of ASCII. `UInt64("+5")` would be a number.
    var isDigit: Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(self) }
}

extension Arguments {
    /// Empty for none. Without a default, a tracker that lists authors would never see the changes of the tool.
    var author: String { value(of: "author") ?? "annals" }

    func place(of option: String) throws(ToolFailure) -> HistoryPlace? {
        guard let text = value(of: option) else { return nil }
        return try HistoryPlace(text, "The option “--\(option)”", command)
    }

    func historyRequest() throws -> HistoryRequest {
        var request = HistoryRequest()
        request.authors = names(of: "author")
        request.excludedAuthors = names(of: "not-author") ?? []
        request.contextNames = names(of: "context")
        request.excludedContextNames = names(of: "not-context") ?? []
        request.entities = values(of: "entity").map { Set($0) }
        request.kinds = try values(of: "kind").map { texts in Set(try texts.map { try choice($0, of: "kind") }) }
        for option in ["after", "before"] { _ = try place(of: option) }
        request.limit = try number(of: "limit").map { Int(clamping: $0) }
        return request
    }

    func complete(_ request: inout HistoryRequest, in store: Store) throws {
        if let place = try place(of: "after") { request.after = try store.requestPlace(place) }
        if let place = try place(of: "before") { request.before = try store.requestPlace(place) }
        if let texts = values(of: "id") {
            let snapshot = try store.snapshot()
            request.objects = Set(try texts.map { try EntityHandle.object($0, in: snapshot) })
        }
        request.changedAttributes = try changedAttributes(in: store)
        if has("not-entity") { request.entities = try entitiesLeft(of: request, in: store) }
    }

    /// The entities of the request, or all that have history, without those of “--not-entity”.
    private func entitiesLeft(of request: HistoryRequest, in store: Store) throws -> Set<String> {
        let known = try store.entities.filter { $0.history != .off }
        var left = request.entities ?? Set(known.map(\.name))
        for name in values(of: "not-entity") ?? [] {
            do {
                _ = try store.transactionCount(HistoryRequest(entities: [name], limit: 0))
            } catch let error as StoreError where error.code != .unknownEntity {
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
            let place = try places.first.orThrow(
                refusal("The option “--attribute” takes an entity, a dot and an attribute, not “\(text)”."))
            attributes[String(text[..<place]), default: []].insert(String(text[text.index(after: place)...]))
        }
        return attributes
    }

    /// An empty name means none.
    private func names(of option: String) -> Set<String?>? {
        values(of: option).map { texts in Set(texts.map { $0.isEmpty ? nil : $0 }) }
    }
}
