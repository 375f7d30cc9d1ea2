// A list of postings.

/// The objects in which a term occurs, in one attribute. Valid as long as its reader.
package struct PostingList {
    let reader: SegmentReader
    let entry: SegmentEntry
    let termLength: Int

    package var attribute: Int { entry.attribute }

    /// The number of objects. It is read from the entries alone: one for each block that the list continues in.
    package func count() throws(StoreError) -> Int {
        var count = try entry.objectCount()
        var part = entry
        while part.continues {
            part = try reader.continuation(
                inBlock: part.block.index + 1, attribute: attribute, termLength: termLength)
            count += try part.objectCount()
        }
        guard count > 0, count <= reader.descriptor.objectCount else {
            throw PostingFormat.damaged("a list has an impossible number of objects.")
        }
        return count
    }

    /// A position before the first posting.
    package func iterator() -> PostingIterator { PostingIterator(self) }
}

extension SegmentReader {
    /// The entry that continues a list, at the start of a block.
    func continuation(inBlock index: Int, attribute: Int, termLength: Int) throws(StoreError) -> SegmentEntry {
        let next = try SegmentEntry(termBlock(index), 0)
        guard next.attribute == attribute, try next.wholeTerm.count == termLength else {
            throw PostingFormat.damaged("a list continues as another one.")
        }
        return next
    }
}
