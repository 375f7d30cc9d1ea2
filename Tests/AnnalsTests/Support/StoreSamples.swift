// Stores for tests: a small schema, a path of their own, and the checker at the end.

import Annals
import TestSupport
import Testing

/// Both modules have types of these names; tests mean the public ones.
typealias ObjectID = Annals::ObjectID
typealias Value = Annals::Value
typealias AttributeType = Annals::AttributeType

/// A folder with one store in it.
struct StoreFolder {
    let temporary: TemporaryDirectory
    var path: String { temporary.path("s.annals") }

    init() throws { temporary = try TemporaryDirectory() }

    func open(_ entities: [EntityDescription] = [], _ change: (inout Store.Options) -> Void = { _ in }) throws -> Store
    {
        var options = Store.Options()
        options.durability = .relaxed
        options.reading = .copied
        // A machine under load may keep a writer waiting for long.
        options.lockTimeout = .seconds(600)
        change(&options)
        return try Store(at: path, entities: entities, options: options)
    }

    /// Every test that makes a store ends with this.
    ///
    /// - Parameter others: Files that may be beside the store.
    func expectIntact(beside others: [String] = [], sourceLocation: SourceLocation = #_sourceLocation) throws {
        var options = CheckOptions()
        options.spillDirectory = temporary.path
        try AnnalsTests.expectIntact(path, options: options, sourceLocation: sourceLocation)
        #expect(temporary.names == ["s.annals"] + others, sourceLocation: sourceLocation)
    }
}

/// The checker finds nothing in a store, on the disk or in memory.
func expectIntact(
    _ path: String, options: CheckOptions = CheckOptions(), sourceLocation: SourceLocation = #_sourceLocation
) throws {
    let report = try Checker.check(path, options: options, files: try Store.files(for: path))
    #expect(report.isIntact, "\(report.findings)", sourceLocation: sourceLocation)
}

enum Sample {
    static let clip = EntityDescription(
        "Clip",
        attributes: [
            AttributeDescription("title", .string, isOptional: false, defaultValue: "untitled"),
            AttributeDescription("url", .string, isUnique: true, isPreservedOnDeletion: true),
            AttributeDescription("rank", .int, isIndexed: true),
        ])
}

/// Expects an error of the library with that code.
@discardableResult
func expect<Result>(
    _ code: StoreError.Code, sourceLocation: SourceLocation = #_sourceLocation, _ body: () throws -> Result
) -> StoreError? {
    let error = #expect(throws: StoreError.self, sourceLocation: sourceLocation) { _ = try body() }
    #expect(error?.code == code, "\(error?.description ?? "")", sourceLocation: sourceLocation)
    #expect(error?.message.hasSuffix(".") ?? true, "\(error?.message ?? "")", sourceLocation: sourceLocation)
    return error
}

/// A suite of which each test has a store of its own, and ends it.
protocol StoreSuite {
    var folder: StoreFolder { get }
    var store: Store { get }
}

extension StoreSuite {
    func end() throws {
        try store.close()
        try folder.expectIntact()
    }
}

/// The same with another handle on the store.
protocol TwoHandleSuite: StoreSuite {
    var other: Store { get }
}

extension TwoHandleSuite {
    func end() throws {
        try store.close()
        try other.close()
        try folder.expectIntact()
    }
}
