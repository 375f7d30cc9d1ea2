// Names under which a store must work as under any other. Tests/run names has them, too.

package enum OddNames {
    /// Names of one file that a program, a person or another system may choose.
    package static let all: [String] = [
        "ä.annals", "a\u{308}.annals", "日本語.annals", "👩‍👩‍👧‍👦🇩🇪.annals", "\u{301}.annals", "e\u{301}\u{323}", "한글",
        "\u{1112}\u{1161}\u{11AB}",
        " leading and trailing ", "two  spaces.annals", "tab\tname", "new\nline.annals", "\r\n.annals", "-dash.annals",
        "--help", "%41%00.annals", "100%.annals", "#1?x=y&z.annals", "a:b;c.annals", "back\\slash", "'quote'",
        "\"double\"", "$HOME", "`id`", "*.annals", "[a]", "{a,b}", "~", "~root", ".hidden", "..two", "...", "a.", "a",
        "\u{1}\u{7F}.annals", "\u{FEFF}bom", "\u{202E}gpj.annals", "ﷺ", "ß", "İ", "x.annals.compacting.annals",
        String(repeating: "n", count: 244), String(repeating: "n", count: 245), String(repeating: "n", count: 255),
        String(repeating: "ä", count: 127), String(repeating: "👍", count: 63),
    ]
}
