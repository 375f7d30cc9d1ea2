// Comparisons of texts that leave cases or diacritics aside.

/// The differences that a comparison ignores.
enum TextFolding {
    case cases
    case casesAndDiacritics

    /// The folding that a property of `String` does; nil for another property.
    init?(_ keyPath: AnyKeyPath) {
        switch keyPath {
        case \String.caseFolded: self = .cases
        case \String.caseAndDiacriticFolded: self = .casesAndDiacritics
        default: return nil
        }
    }

    var title: String { self == .cases ? "caseFolded" : "caseAndDiacriticFolded" }

    func folded(_ text: String) -> String { self == .cases ? text.caseFolded : text.caseAndDiacriticFolded }
}

extension String {
    /// The text without the difference of cases, for comparisons in predicates:
    /// `$0.title.caseFolded.contains("swift")`.
    ///
    /// It is Unicode's full case folding: "Straße", "STRASSE" and "strasse" are one text, and so are all three sigmas.
    /// The result is in the normal form NFC, so texts that are equal in Swift stay equal. Diacritics count: "é" is not
    /// "e". It is the same in every locale: "I" becomes "i", also in Turkish. Fold the other text of a comparison, too.
    public var caseFolded: String {
        utf8.allSatisfy { $0 < 0x80 } ? lowercased() : CaseFolding.folded(self, withoutDiacritics: false)
    }

    /// The text without the difference of cases and without diacritics, for a search as users expect it:
    /// `$0.title.caseAndDiacriticFolded.contains("resume")`.
    ///
    /// It is ``caseFolded`` of the decomposed text without combining diacritical marks, which are those of Unicode's
    /// five blocks of that name: "Résumé" becomes "resume", "Й" becomes "и", "ΐ" becomes "ι". Letters with a stroke,
    /// such as "ø" and "ł", have no mark and stay. So do vowel signs and points of Hebrew, Arabic and Indic scripts,
    /// and the voiced marks of Kana. It is the same in every locale. Fold the other text of a comparison, too.
    public var caseAndDiacriticFolded: String {
        utf8.allSatisfy { $0 < 0x80 } ? lowercased() : CaseFolding.folded(self, withoutDiacritics: true)
    }
}
