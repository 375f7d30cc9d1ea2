// A store that was made for nothing goes again, and no other one does.

import Annals
import Glibc
import TestSupport
import Testing

@Suite struct AbandonTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    @Test func anAbandonedStoreIsRemoved() throws {
        let store = try folder.open()
        #expect(try store.abandon())
        #expect(folder.temporary.names == [])
        expect(.closed) { try store.snapshot() }
        #expect(try !store.abandon(), "There is nothing any more.")
        // With what the handle itself has written.
        let second = try folder.open([Sample.clip])
        #expect(try second.currentToken.number == 1)
        #expect(try second.abandon(ownTransactions: 1))
        #expect(folder.temporary.names == [])
    }

    /// Two make a store at once, and the one that made the file commits last.
    @Test func aStoreWithAnEarlierCommitOfAnotherHandleStays() throws {
        let first = try folder.open()
        let second = try folder.open([Sample.clip])
        try second.close()
        _ = try first.write { try $0.changeSchema([.addEntity(EntityDescription("Own", attributes: []))]) }
        #expect(try first.currentToken.number == 2)
        #expect(try !first.abandon(ownTransactions: 1))
        let again = try folder.open()
        #expect(try again.currentToken.number == 2)
        try again.close()
    }

    @Test func aStoreThatExistedOrIsUsedStays() throws {
        let first = try folder.open()
        let second = try folder.open()
        #expect(try !second.abandon(), "It was there.")
        // Somebody else has written to it, registered at it, or said how long it keeps its history.
        try second.close()
        let other = try folder.open([Sample.clip])
        #expect(try !first.abandon())
        #expect(try other.currentToken.number == 1)
        try other.close()
        for change: (Store) throws -> Void in [
            { _ = try $0.registerConsumer("reader") }, { try $0.setRetention(.forever) },
        ] {
            try Store.destroy(at: folder.path)
            let made = try folder.open()
            let user = try folder.open()
            try change(user)
            #expect(try !made.abandon())
            try user.close()
            try folder.expectIntact()
        }
    }

    @Test func impossibleEntitiesCreateNoStore() throws {
        let impossible = EntityDescription("", attributes: [])
        expect(.schemaRefused) { try folder.open([impossible]) }
        #expect(folder.temporary.names == [])
        // A store that was there stays.
        try folder.open().close()
        expect(.schemaRefused) { try folder.open([impossible]) }
        try folder.expectIntact()
    }

    @Test func anotherStoreInItsPlaceStays() throws {
        let store = try folder.open()
        let elsewhere = try StoreFolder()
        try elsewhere.open().close()
        #expect(rename(elsewhere.path, folder.path) == 0)
        #expect(try !store.abandon())
        try folder.expectIntact()
    }

    /// Who is writing to it at that moment is not passed over.
    @Test func aStoreThatIsBeingWrittenStays() throws {
        let store = try folder.open()
        let other = try folder.open([])
        try other.write { _ in
            let error = #expect(throws: StoreError.self) { try store.abandon() }
            #expect(error?.code == .busy)
        }
        try other.close()
        try folder.expectIntact()
    }
}
