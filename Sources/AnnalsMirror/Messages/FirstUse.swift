// Things that a message contains once, and then names by their place: stores, names and shapes.

/// The things in the order of their first use, each once.
struct FirstUse<Element: Hashable> {
    private(set) var elements: [Element] = []
    /// Empty as long as a search from the beginning is faster.
    private var places: [Element: Int] = [:]

    private static var searchedCount: Int { 12 }

    var count: Int { elements.count }

    subscript(place: Int) -> Element { elements[place] }

    @inline(__always)
    func place(of element: Element) -> Int? {
        elements.count <= Self.searchedCount ? elements.firstIndex(of: element) : places[element]
    }

    /// Adds a thing that it does not have.
    mutating func append(_ element: Element) {
        elements.append(element)
        guard elements.count > Self.searchedCount else { return }
        if places.isEmpty {
            for (place, element) in elements.enumerated() { places[element] = place }
        } else {
            places[element] = elements.count - 1
        }
    }
}

/// The name of an entity or attribute. Names are equal if their bytes are.
struct MessageName: Hashable {
    let text: String

    init(_ text: String) { self.text = text }

    @inline(__always)
    static func == (left: MessageName, right: MessageName) -> Bool {
        // Texts that differ for Swift have different bytes, and most names differ.
        left.text == right.text && left.text.utf8.elementsEqual(right.text.utf8)
    }

    func hash(into hasher: inout Hasher) {
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }
}
