// The terms of texts in several languages, and of any bytes.

import Annals
import Testing

/// The terms of a text with their places.
struct ReadTerms {
    var terms: [String] = []
    var places: [TermPlace] = []

    init(_ text: String) { self.init(bytes: Array(text.utf8)) }

    init(bytes: [UInt8]) {
        var tokenizer = Tokenizer()
        bytes.withUnsafeBytes { bytes in
            tokenizer.forEachTerm(of: bytes) { term, place in
                terms.append(String(decoding: term, as: UTF8.self))
                places.append(place)
            }
        }
    }
}

struct TokenizerTests {
    private func terms(_ text: String) -> [String] { ReadTerms(text).terms }

    @Test(arguments: [
        ("", ""), ("  \n\t", ""), ("Hello, World!", "hello world"), ("x86 ipv6 3D 2024", "x86 ipv6 3d 2024"),
        ("foo_bar.baz-qux", "foo bar baz qux"), ("don't", "don t"), ("anna@example.org", "anna example org"),
        ("C++ and C#", "c and c"), ("a", "a"), ("(a)", "a"), ("naïve café", "naive cafe"),
    ])
    func wordsOfASCIIAndEnglish(_ text: String, _ expected: String) {
        #expect(terms(text).joined(separator: " ") == expected)
    }

    @Test(arguments: [
        // German, Polish, Danish, Icelandic, French, Vietnamese, Turkish, Croatian, Hausa
        ("Straße STRASSE Maß ẞ Äpfel", "strasse strasse mass ss apfel"), ("Łódź, żółć", "lodz zolc"),
        ("Smørrebrød Æbler Århus", "smorrebrod aebler arhus"), ("Þingvellir, Guðrún", "thingvellir gudrun"),
        ("Cœur, à l’été", "coeur a l ete"), ("Hà Nội", "ha noi"), ("Đường", "duong"),
        ("İstanbul ISPARTA Iğdır ılık", "istanbul isparta igdir ilik"), ("Đorđe", "dorde"), ("ɓera ƙasa", "bera kasa"),
        // Greek with the final sigma, and with the iota below
        ("ΟΔΥΣΣΕΥΣ Οδυσσεύς ὀδυσσεύς", "οδυσσευσ οδυσσευσ οδυσσευσ"), ("ᾳ ᾼ α", "α α α"),
        // Russian
        ("Ёлка Йод ПЁТР", "елка иод петр"),
    ])
    func wordsOfEuropeanLanguages(_ text: String, _ expected: String) {
        #expect(terms(text).joined(separator: " ") == expected)
    }

    @Test(arguments: [
        ("ﬁn ﬄ", "fin ffl"), ("Ｓｗｉｆｔ　６", "swift 6"), ("𝓢𝔀𝓲𝓯𝓽", "swift"), ("x² H₂O", "x2 h2o"),
        ("2½ ½", "2 1 2 1 2"), ("½", "1 2"), ("Annals™", "annals"),
        ("soft\u{ad}hyphen zero\u{200b}width", "softhyphen zerowidth"),
        ("٢٠٢٤ ２０２４ २०२४", "2024 2024 2024"), ("№5", "no5"), ("ⓐⓑ ①", "ab 1"),
    ])
    func widthFormsAndDigitsAreFolded(_ text: String, _ expected: String) {
        #expect(terms(text).joined(separator: " ") == expected)
    }

    @Test(arguments: [
        ("مُحَمَّد محـمد", "محمد محمد"), ("أحمد إيمان آمن", "احمد ايمان امن"), ("مدرسة", "مدرسه"),
        ("ﻻ", "لا"), ("کتاب كتاب", "كتاب كتاب"), ("שָׁלוֹם שלום", "שלום שלום"),
        ("हिन्दी हिंदी", "हिन्दी हिंदी"), ("क़लम क\u{93c}लम", "क\u{93c}लम क\u{93c}लम"),
        ("தமிழ் கொ க\u{bc6}\u{bbe}", "தமிழ் கொ கொ"),
    ])
    func marksOfOtherScriptsAreDroppedOrStay(_ text: String, _ expected: String) {
        #expect(terms(text).joined(separator: " ").unicodeScalars.elementsEqual(expected.unicodeScalars))
    }

    @Test(arguments: [
        ("入", "入"), ("入門", "入門 門"), ("全文検索。索引", "全文 文検 検索 索 索引 引"), ("Swift入門2024", "swift 入門 門 2024"),
        ("がか", "がか か"), ("か\u{3099}か", "がか か"), ("ﾊﾟﾝ パン", "パン ン パン ン"), ("カー", "カー ー"),
        ("검색 엔진", "검색 색 엔진 진"), ("ㅋㅋ", "ㅋㅋ ㅋ"), ("ไม่ดี", "ไม่ ม่ดี ดี"), ("กำ", "ก\u{e4d}า า"), ("㈱", "株"),
        ("1月 ㋀", "1 月 1 月"), ("ミャンマー", "ミャ ャン ンマ マー ー"), ("မြန်မာ", "မြန် န်မာ မာ"), ("中a文", "中 a 文"), ("⼀", "一"),
    ])
    func charactersWithoutSpacesAreFoundInPairs(_ text: String, _ expected: String) {
        #expect(terms(text).joined(separator: " ").unicodeScalars.elementsEqual(expected.unicodeScalars))
    }

    @Test(arguments: [
        ("Party🎉time", "party 🎉 time"), ("🎉🎉", "🎉 🎉"), ("👍🏽 👍", "👍 👍"), ("👩‍👧", "👩 👧"), ("❤️ ❤", "❤ ❤"),
        ("a → b $5 ©", "a b 5"), ("1️⃣", "1"), ("🇩🇪", "🇩 🇪"),
    ])
    func picturesAreTerms(_ text: String, _ expected: String) {
        #expect(terms(text).joined(separator: " ").unicodeScalars.elementsEqual(expected.unicodeScalars))
    }
}
