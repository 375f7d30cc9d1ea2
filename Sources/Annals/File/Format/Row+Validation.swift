// F21 and F22 for one row: whether it is written in its only form.

extension RowImage {
    /// Throws an error of code `damaged`, with the offset of the fault, unless the row is exactly as a writer writes
    /// it.
    ///
    /// The bytes must hold the padding as well. A row alone cannot show the rest: that its entry agrees (F20), that the
    /// layout is that of its schema version, and that its references lead to objects (F23).
    ///
    /// - Returns: whether the row refers to large values.
    @discardableResult
    package func validate(isDeletion: Bool = false, hasPadding: Bool = true) throws(StoreError) -> Bool {
        var end = variableOffset
        var hasReferences = false
        for position in 0..<count {
            try validatePresence(position, isDeletion)
            if slot(at: position).type.isVariable {
                end += try validateVariable(position, &hasReferences)
            } else {
                try validateFixed(position)
            }
        }
        guard end == rowBytes else { throw damaged("a row does not end with its last value.", RowField.rowBytes) }
        guard end - variableOffset <= FormatLimits.maximumInlineRowBytes else {
            throw damaged("the values in a row exceed its limit.", RowField.rowBytes)
        }
        try validatePresenceRest()
        if hasPadding { try validatePadding() }
        return hasReferences
    }

    private func validatePresence(_ position: Int, _ isDeletion: Bool) throws(StoreError) {
        let slot = slot(at: position)
        if isPresent(position) {
            guard !isDeletion || slot.isPreservedOnDeletion else {
                throw damaged("a deleted object's row has an attribute that is not preserved.", presenceOffset)
            }
        } else {
            guard slot.isOptional || isDeletion else {
                throw StoreError(
                    .damaged, "F22: a required attribute has no value.",
                    offset: fileOffset &+ UInt64(presenceOffset))
            }
        }
    }

    private func validateFixed(_ position: Int) throws(StoreError) {
        let slot = slot(at: position)
        let start = Int(slot.offset)
        let content = UnsafeRawBufferPointer(rebasing: bytes[start..<start + slot.type.slotBytes])
        if isPresent(position) {
            guard StoredForm.isCanonical(content, slot.type) else { throw malformed(position) }
        } else {
            guard content.allSatisfy({ $0 == 0 }) else {
                throw damaged("the slot of an absent value is not zero.", start)
            }
        }
    }

    /// Returns the bytes of the value. Values follow each other without gaps, because a slot holds only the end of its
    /// value.
    private func validateVariable(_ position: Int, _ hasReferences: inout Bool) throws(StoreError) -> Int {
        let type = slot(at: position).type
        let (content, isLarge) = try variableBytes(position)
        if !isPresent(position) {
            guard content.isEmpty, !isLarge else {
                throw damaged("an absent value has bytes.", Int(slot(at: position).offset))
            }
        } else if type.isObjectList {
            guard !isLarge, content.count <= FormatLimits.maximumListElements * 8, StoredForm.isCanonical(content, type)
            else { throw malformed(position) }
        } else if isLarge {
            hasReferences = true
            guard reference(content, type) != nil else {
                throw StoreError(
                    .damaged, "F23: a reference to a large value is impossible.",
                    offset: fileOffset &+ UInt64(slot(at: position).offset))
            }
        } else {
            guard content.count <= FormatLimits.maximumInlineValueBytes else {
                throw damaged("a value in a row is too long.", Int(slot(at: position).offset))
            }
            guard StoredForm.isCanonical(content, type) else { throw malformed(position) }
        }
        return content.count
    }

    private func validatePresenceRest() throws(StoreError) {
        guard count % 8 != 0 else { return }
        guard bytes[variableOffset - 1] >> UInt8(count % 8) == 0 else {
            throw damaged("presence bits beyond the last attribute are set.", variableOffset - 1)
        }
    }

    private func validatePadding() throws(StoreError) {
        let padded = (rowBytes + 7) & ~7
        guard padded <= bytes.count else { throw damaged("a row is cut off.", rowBytes) }
        guard bytes[rowBytes..<padded].allSatisfy({ $0 == 0 }) else {
            throw damaged("the padding of a row is not zero.", rowBytes)
        }
    }

    private func damaged(_ message: String, _ offset: Int) -> StoreError {
        RowHeader.damaged(message, fileOffset &+ UInt64(offset))
    }
}
