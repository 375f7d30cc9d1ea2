// The normal form NFC of texts, of Unicode 17.0.0: two texts are equal in Swift exactly if their normal forms have the
// same bytes, and texts have the order of those bytes. One exception: Swift 6.3 does not divide U+0F73, U+0F75 and
// U+0F81 before it orders marks, so two texts with one of them after another mark can be equal here and not in Swift.
//
// Invariants:
// NF1  The normal form of a normal form is that form.
// NF2  The normal form of two texts one after the other begins with that of the first one, if the second begins with a
//      scalar before which every text can be divided.
// NF3  Bytes that are not valid UTF-8 are their own normal form: the reader of the text reports them.

/// Brings texts into their normal form NFC.
package enum NormalForm {
    /// Calls `body` with the normal form of a text in UTF-8. The bytes are valid until `body` returns.
    static func with(_ text: UnsafeRawBufferPointer, _ body: (UnsafeRawBufferPointer) -> Void) {
        if isNormal(text) { return body(text) }
        guard let normal = normalForm(text) else { return body(text) }
        normal.withUnsafeBytes(body)
    }

    /// The normal form of a text.
    package static func of(_ text: String) -> String {
        var text = text
        let normal = text.withUTF8 { bytes -> [UInt8]? in
            let bytes = UnsafeRawBufferPointer(bytes)
            return isNormal(bytes) ? nil : normalForm(bytes)
        }
        return normal.map { String(decoding: $0, as: UTF8.self) } ?? text
    }

    /// Whether a text comes before another in the order of normal forms. Swift's `<` has that order, unless one text
    /// begins with the other and continues with marks that sort before the other's marks.
    package static func isBefore(_ left: String, _ right: String) -> Bool { of(left) < of(right) }

    /// The text decomposed, in canonical order: the normal form NFD.
    package static func decomposed(_ text: String) -> String {
        var letters = Decomposition(capacity: text.utf8.count)
        for scalar in text.unicodeScalars { letters.append(scalar.value) }
        return String(decoding: UTF8Bytes.of(letters.scalars()), as: UTF8.self)
    }

    /// Whether a text can be recognized as its own normal form without computing that. If false, it may still be
    /// normal.
    package static func isNormal(_ text: UnsafeRawBufferPointer) -> Bool {
        if text.isASCII { return true }
        var scalars = ScalarReader(text)
        while let scalar = scalars.next() { if !ScalarKind(scalar).isStable { return false } }
        return !scalars.isMalformed
    }

    /// Nil if the bytes are not valid UTF-8.
    @inline(never)
    private static func normalForm(_ text: UnsafeRawBufferPointer) -> [UInt8]? {
        var letters = Decomposition(capacity: text.count)
        var scalars = ScalarReader(text)
        while let scalar = scalars.next() { letters.append(scalar) }
        guard scalars.isAtEnd, !scalars.isMalformed else { return nil }
        return UTF8Bytes.of(letters.composed())
    }

    /// The start of the last scalar before which the text can be divided (NF2); 0 if only its beginning qualifies.
    static func lastBoundary(in text: UnsafeRawBufferPointer) -> Int {
        var offset = text.count
        while offset > 0 {
            offset &-= 1
            // Not the middle of a scalar.
            if text[offset] & 0xC0 == 0x80 { continue }
            var scalars = ScalarReader(text.slice(offset, text.count - offset))
            if let scalar = scalars.next(), ScalarKind(scalar).isBoundary { return offset }
        }
        return 0
    }
}

/// The normal form of a text in pieces.
package struct NormalFormStream {
    /// The bytes whose normal form the next piece may change.
    private var rest: [UInt8] = []

    package init() {}

    /// Calls `body` with the normal form of the bytes that no later piece can change.
    package mutating func append(_ piece: UnsafeRawBufferPointer, _ body: (UnsafeRawBufferPointer) -> Void) {
        rest += piece
        let end = rest.withUnsafeBytes { NormalForm.lastBoundary(in: $0) }
        guard end > 0 else { return }
        rest.withUnsafeBytes { NormalForm.with($0.slice(0, end), body) }
        rest.removeSubrange(..<end)
    }

    /// Calls `body` with the end of the normal form.
    package mutating func finish(_ body: (UnsafeRawBufferPointer) -> Void) {
        rest.withUnsafeBytes { NormalForm.with($0, body) }
        rest = []
    }
}
