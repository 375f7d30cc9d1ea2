// The help of all commands as one manual page, in the language of `man`.

enum ManualPage {
    static var text: String {
        var page = ".TH ANNALS 1 \"\" \"annals \(Tool.version)\"\n"
        page += ".SH NAME\nannals \\- \(escaped(HelpCommand.purpose))\n"
        page += ".SH SYNOPSIS\n.B annals\nCOMMAND [OPTION…] [OPERAND…]\n.SH COMMANDS\n"
        for command in Commands.all {
            page += ".SS \(escaped(command.usage))\n\(escaped(command.summary))\n"
            for paragraph in command.details.split(separator: "\n\n") {
                page += ".PP\n" + paragraph.split(separator: "\n").map { escaped(String($0)) + "\n" }.joined()
            }
            for option in command.options { page += item(option.usage, option.summary) }
        }
        page += ".SH NOTES\n" + HelpCommand.notes.map { escaped($0) + "\n.br\n" }.joined()
        page += ".SH EXIT STATUS\n" + ExitStatus.allCases.map { item(String($0.rawValue), $0.meaning) }.joined()
        return page
    }

    private static func item(_ name: String, _ meaning: String) -> String {
        ".TP\n.B \(escaped(name))\n\(escaped(meaning))\n"
    }

    /// A backslash begins a command, and so does a point or an apostrophe at the beginning of a line.
    private static func escaped(_ text: String) -> String {
        let text = text.replacing("\\", with: "\\e").replacing("-", with: "\\-")
        return [".", "'"].contains(text.prefix(1)) ? "\\&" + text : text
    }
}
