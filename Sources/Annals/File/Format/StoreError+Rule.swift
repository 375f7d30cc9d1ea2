// Names the broken rule of FileFormat.md in errors about damage: the message begins with it.

extension StoreError {
    /// The rule that the message begins with, such as "F7"; nil if it begins with none.
    package var rule: String? {
        let name = message.prefix { $0 != ":" }
        guard name.first == "F", name.count >= 2, name.count <= 3, name.count < message.count,
            name.dropFirst().allSatisfy({ $0.isASCII && $0.isNumber })
        else { return nil }
        return String(name)
    }

    /// The same error, with a rule in front of its message if it had none.
    package func under(_ rule: String) -> StoreError {
        guard self.rule == nil else { return self }
        return saying(rule + ": " + message.prefix(1).lowercased() + message.dropFirst())
    }
}
