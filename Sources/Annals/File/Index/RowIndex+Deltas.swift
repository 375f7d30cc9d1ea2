// Reading the leaves of the row index that have deltas over them.

extension RowIndex {
    /// The word of an object in a leaf with deltas. Inside a read section.
    @inline(never)
    func word(over delta: NodeReference, _ index: UInt64) throws(StoreError) -> UInt64 {
        var reference = delta
        var left = FormatLimits.maximumDeltas + 1
        while reference.isDelta {
            if let memory = reference.memory {
                let changes = LeafChanges(memory)
                let word = changes.word(of: index)
                if word != 0 { return word }
                reference = changes.base
            } else {
                let offset = reference.offset
                left &-= 1
                guard left > 0 else { throw Self.malformed(offset) }
                let head = try head(at: offset)
                let word = try word(of: index, head, at: offset)
                if word != 0 { return word }
                reference = head.base
            }
        }
        let word = try load(reference, index)
        if word & 6 != 0 { throw Self.malformed(reference.word) }
        return word
    }

    private func head(at offset: UInt64) throws(StoreError) -> DeltaHead {
        // X7.
        guard let head = DeltaHead(try source.word(at: offset), at: offset) else { throw Self.malformed(offset) }
        return head
    }

    /// The word in a delta in the file; 0 if that has no entry of the object.
    private func word(
        of index: UInt64, _ head: DeltaHead, at offset: UInt64
    ) throws(StoreError) -> UInt64 {
        guard head.hasPresent else {
            let entries = try source.bytes(at: offset + UInt64(head.entries), count: head.count * 8)
            for place in 0..<head.count {
                let entry = DeltaEntry(bits: entries.integer(at: place &* 8, as: UInt64.self))
                if entry.index >= index { return entry.index == index ? try checked(entry, offset) : 0 }
            }
            return 0
        }
        let present = offset + UInt64(DeltaField.present)
        let group = index >> 6
        let bits = try source.word(at: present + group &* 8)
        if bits >> (index & 63) & 1 == 0 { return 0 }
        var place = (bits & (1 << (index & 63) - 1)).nonzeroBitCount
        for before in 0..<group { place &+= try source.word(at: present + before &* 8).nonzeroBitCount }
        // Wrong bits lead to an error, not to another object.
        guard place < head.count else { throw Self.malformed(offset) }
        let entry = DeltaEntry(bits: try source.word(at: offset + UInt64(head.entries + place * 8)))
        guard entry.index == index else { throw Self.malformed(offset) }
        return try checked(entry, offset)
    }

    @inline(__always)
    private func checked(_ entry: DeltaEntry, _ offset: UInt64) throws(StoreError) -> UInt64 {
        guard entry.isPossible else { throw Self.malformed(offset) }
        return entry.word
    }

    /// A delta in the file, with the base below it.
    struct Link {
        let reference: NodeReference
        let head: DeltaHead
    }

    /// The deltas in the file at a reference and below it, from the highest to the lowest.
    func chain(_ reference: NodeReference) throws(StoreError) -> [Link] {
        var links: [Link] = []
        var next = reference
        while next.isDelta {
            guard links.count < FormatLimits.maximumDeltas else { throw Self.malformed(reference.offset) }
            let link = Link(reference: next, head: try head(at: next.offset))
            links.append(link)
            next = link.head.base
        }
        return links
    }

    /// Passes the entries of a delta in the file to `body`, in ascending order.
    func forEachEntry(of link: Link, _ body: (DeltaEntry) -> Void) throws(StoreError) {
        let offset = link.reference.offset
        guard let delta = StoredDelta(try source.bytes(at: offset, count: link.head.bytes), at: offset) else {
            throw Self.malformed(offset)
        }
        delta.forEachEntry(body)
    }

    /// Copies the words of a leaf, with all deltas over it. Returns the leaf below them, and the bits that any of its
    /// words has.
    @inline(never)
    func fill(
        _ reference: NodeReference, _ words: UnsafeMutablePointer<UInt64>
    ) throws(StoreError) -> (leaf: NodeReference, bits: UInt64) {
        let changes = reference.isDelta ? reference.memory.map { LeafChanges($0) } : nil
        let stored = changes?.base ?? reference
        let links = try chain(stored)
        let leaf = links.last?.head.base ?? stored
        let bits = try copy(leaf, words)
        for link in links.reversed() {
            try forEachEntry(of: link) { words[Int($0.index)] = $0.word }
        }
        changes?.forEachEntry { words[Int($0.index)] = $0.word }
        return (leaf, bits)
    }
}
