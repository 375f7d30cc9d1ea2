// Parts of predicates as programs write them, for explanations.

internal import FoundationEssentials

/// Expressions whose title is not that of their operation and its operands.
protocol TitledExpression {
    func title(_ translator: PredicateTranslator) -> String
}

extension PredicateTranslator {
    /// An expression with the names of properties, and … for each constant: constants are values of objects.
    func title<X: PredicateExpression>(_ expression: X) -> String {
        if constant(expression) != nil { return "…" }
        if let titled = expression as? any TitledExpression { return titled.title(self) }
        var operands: [String] = []
        var name = String("\(X.self)".prefix { $0 != "<" })
        for child in Mirror(reflecting: expression).children {
            if child.value is any VariableExpression { continue }
            if let operand = child.value as? any PredicateExpression {
                operands.append(title(operand))
            } else if child.label == "op" {
                name = "\(child.value)"
            }
        }
        if operands.count == 2, let symbol = Self.symbols[name] { return "\(operands[0]) \(symbol) \(operands[1])" }
        if name == "OptionalFlatMap", operands.count == 2 { return "\(operands[0])?.\(operands[1])" }
        return "\(name.prefix(1).lowercased())\(name.dropFirst())(\(operands.joined(separator: ", ")))"
    }

    private static let symbols = [
        "Equal": "==", "NotEqual": "!=", "Conjunction": "&&", "Disjunction": "||", "NilCoalesce": "??",
        "IntDivision": "/", "FloatDivision": "/", "IntRemainder": "%", "add": "+", "subtract": "-", "multiply": "*",
        "lessThan": "<", "lessThanOrEqual": "<=", "greaterThan": ">", "greaterThanOrEqual": ">=",
    ]
}

extension PredicateExpressions.Variable: TitledExpression {
    func title(_ translator: PredicateTranslator) -> String { key == translator.variable ? "object" : "element" }
}

extension PredicateExpressions.KeyPath: TitledExpression {
    func title(_ translator: PredicateTranslator) -> String {
        if let object = Root.Output.self as? any AnyObjectType.Type, let variable = variable(of: root),
            let owner = object.translator(translator, variable)
        {
            return owner.title(of: keyPath)
        }
        let root = translator.title(root)
        return switch kind {
        case .collectionCount: "\(root).count"
        case .collectionIsEmpty: "\(root).isEmpty"
        default: "\(root).\(TextFolding(keyPath)?.title ?? "…")"
        }
    }

    private func variable<X>(of expression: X) -> PredicateExpressions.VariableID? {
        PredicateNode.of(X.self).variable?.cast(expression).variable
    }
}

extension PredicateTranslator {
    /// The property or the other side that a key path of the variable leads to.
    fileprivate func title(of path: AnyKeyPath) -> String {
        if let index = property(path) { return binding.properties[index].name }
        guard let offset = offset(path) else { return "reference" }
        return binding.model.otherSides.first { $0.offset == offset }?.name ?? "…"
    }
}
