// F22 for large values: determines piece by piece which forms a value has, before its use is known.

/// A set of forms: those that a value has, or those that an attribute's type allows.
package struct ValueForms: OptionSet, BitwiseCopyable, Sendable {
    package let rawValue: UInt64
    package init(rawValue: UInt64) { self.rawValue = rawValue }

    /// Valid UTF-8.
    package static let text = ValueForms(rawValue: 1)
    /// Object IDs. Duplicates in an ordered list are not detected: that would take memory for the whole list.
    package static let objects = ValueForms(rawValue: 2)
    /// Object IDs, each greater than the one before.
    package static let ascendingObjects = ValueForms(rawValue: 4)

    /// The forms that a value of this type must have.
    static func needed(for type: AttributeType) -> ValueForms {
        switch type {
        case .string, .json: .text
        case .orderedObjects: .objects
        case .objects: [.objects, .ascendingObjects]
        default: []
        }
    }
}

/// Examines the pieces of a value of any size, in their order.
package struct LargeValueForm {
    private var forms: ValueForms = [.text, .objects, .ascendingObjects]
    private var text = TextForm()
    /// The bytes of an object ID that continues in the next piece, and their number.
    private var word: UInt64 = 0
    private var wordBytes: UInt64 = 0
    private var lastObject: UInt64 = 0

    package init() {}

    package mutating func accept(_ piece: UnsafeRawBufferPointer) {
        if forms.contains(.text), !text.accept(piece) { forms.remove(.text) }
        if forms.contains(.objects) { takeObjects(piece) }
    }

    /// The forms of the value after its last piece.
    package func finish() -> ValueForms {
        var found = forms
        if !text.isComplete { found.remove(.text) }
        if wordBytes != 0 { found.subtract([.objects, .ascendingObjects]) }
        return found
    }

    private mutating func takeObjects(_ piece: UnsafeRawBufferPointer) {
        assert(wordBytes < 8, "An object ID has more than 8 bytes.")
        var position = 0
        while position < piece.count, forms.contains(.objects) {
            if wordBytes == 0, piece.count - position >= 8 {
                takeObject(piece.integer(at: position, as: UInt64.self))
                position += 8
            } else {
                word |= UInt64(piece[position]) << (wordBytes * 8)
                wordBytes += 1
                position += 1
                if wordBytes == 8 {
                    takeObject(word)
                    (word, wordBytes) = (0, 0)
                }
            }
        }
    }

    private mutating func takeObject(_ object: UInt64) {
        if ObjectID(rawValue: object) == nil { forms.subtract([.objects, .ascendingObjects]) }
        if object <= lastObject { forms.remove(.ascendingObjects) }
        lastObject = object
    }
}

/// UTF-8 in pieces: no surrogates, no overlong forms, nothing above U+10FFFF.
struct TextForm {
    /// The number of bytes that the current character still lacks, and the range allowed for the next one.
    private var missing = 0
    private var next: ClosedRange<UInt8> = TextForm.anyNext
    private static let anyNext: ClosedRange<UInt8> = 0x80...0xBF

    /// Whether no character is incomplete.
    var isComplete: Bool { missing == 0 }

    /// False if the bytes cannot follow the earlier ones; then it must not be used any more.
    mutating func accept(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var position = 0
        while position < bytes.count {
            if missing == 0, bytes.count - position >= 8,
                bytes.integer(at: position, as: UInt64.self) & 0x8080_8080_8080_8080 == 0
            {
                position += 8
                continue
            }
            guard accept(bytes[position]) else { return false }
            position += 1
        }
        return true
    }

    private mutating func accept(_ byte: UInt8) -> Bool {
        if missing == 0 { return begin(byte) }
        guard next.contains(byte) else { return false }
        missing -= 1
        next = Self.anyNext
        return true
    }

    private mutating func begin(_ byte: UInt8) -> Bool {
        assert(missing == 0, "A character begins inside another one.")
        switch byte {
        case 0x00...0x7F: return true
        case 0xC2...0xDF: missing = 1
        case 0xE0: (missing, next) = (2, 0xA0...0xBF)
        case 0xED: (missing, next) = (2, 0x80...0x9F)
        case 0xE1...0xEF: missing = 2
        case 0xF0: (missing, next) = (3, 0x90...0xBF)
        case 0xF1...0xF3: missing = 3
        case 0xF4: (missing, next) = (3, 0x80...0x8F)
        default: return false
        }
        return true
    }
}
