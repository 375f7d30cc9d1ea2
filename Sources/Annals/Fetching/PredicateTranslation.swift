// From predicates of the library to conditions on rows. Unknown expressions are evaluated on the object.

internal import FoundationEssentials

/// Translates the predicates over objects of one entity.
struct PredicateTranslator {
    let snapshot: Snapshot
    let binding: EntityBinding
    /// The variable that represents the object.
    private(set) var variable: PredicateExpressions.VariableID
    /// The constants that `if let` has bound to variables.
    var bound = PredicateBindings()
    /// Finds the place in a value of the property that a key path of objects leads to.
    let offset: (AnyKeyPath) -> Int?

    private init<E: Entity>(
        _ type: E.Type, _ snapshot: Snapshot, _ binding: EntityBinding, _ variable: PredicateExpressions.VariableID
    ) {
        let model = binding.model
        (self.snapshot, self.binding, self.variable) = (snapshot, binding, variable)
        offset = { path in model.paths.offset(path) { PathProbe.offset(path, type) } }
    }

    /// The condition that a predicate means.
    static func condition<E: Entity>(
        _ predicate: Predicate<Object<E>>, _ snapshot: Snapshot, _ binding: EntityBinding,
        _ reads: ReadRecorder? = nil
    ) -> Condition {
        let variable = predicate.variable
        let translator = PredicateTranslator(E.self, snapshot, binding, variable.key)
        return translator.condition(predicate.expression) { expression in
            .evaluated(
                Condition.Evaluation { object in
                    let source = SnapshotSource(snapshot)
                    let storeMark = binding.storeMark
                    source.reads = reads
                    reads?.subject = object
                    let isMatch = try expression.evaluate(
                        PredicateBindings((variable, binding.model.object(Reference<E>(object, of: storeMark), source)))
                    )
                    if let failure = source.failure { throw failure }
                    return isMatch
                } title: {
                    translator.title(expression)
                })
        }
    }

    /// Translates and, or, not; parts that cannot be translated become `.evaluated`. A part without the object is
    /// computed here, once.
    func condition<X: PredicateExpression<Bool>>(
        _ expression: X, _ evaluate: (any PredicateExpression<Bool>) -> Condition
    ) -> Condition {
        let node = PredicateNode.of(X.self)
        if let type = node.combined { return type.cast(expression).condition(self, evaluate) }
        if let type = node.logical { return type.cast(expression).condition(self, evaluate) }
        if let condition = node.translated?.cast(expression).condition(self) { return condition }
        return value(expression).map { .constant($0) } ?? evaluate(expression)
    }

    /// The same for parts of which all must be translated.
    func wholly<X: PredicateExpression>(_ expression: X) -> Condition? {
        let node = PredicateNode.of(X.self)
        if let type = node.logical { return type.cast(expression).condition(self) }
        if let condition = node.translated?.cast(expression).condition(self) { return condition }
        return (value(expression) as? Bool).map { .constant($0) }
    }

    // MARK: Constants

    /// The value of a part that does not depend on the object; nil if it does, or cannot be computed.
    func constant<X: PredicateExpression>(_ expression: X) -> Any? {
        if let type = PredicateNode.of(X.self).constant { return type.cast(expression).constant }
        return computed(expression)
    }

    /// This is a function of its own because it looks up the type of the optional.
    @inline(never)
    private func computed<X: PredicateExpression>(_ expression: X) -> Any? { value(expression) }

    /// The same with its type. Evaluation ends at the first variable that is an object.
    func value<X: PredicateExpression>(_ expression: X) -> X.Output? {
        do { return try expression.evaluate(bound) } catch { return nil }
    }

    /// A translator for the body of `if let` with a constant.
    func binding<V>(_ variable: PredicateExpressions.Variable<V>, _ constant: V) -> PredicateTranslator {
        var translator = self
        translator.bound[variable] = constant
        return translator
    }

    // MARK: Properties

    /// The property that a key path of the variable leads to, by its index.
    func property(_ path: AnyKeyPath) -> Int? {
        guard let offset = offset(path) else { return nil }
        return binding.index(ofPropertyAt: offset)
    }

    /// The relationship that a key path of the variable leads to.
    func relationship(_ path: AnyKeyPath) -> RelationshipStep? {
        guard let offset = offset(path) else { return nil }
        if let index = property(path) {
            let property = binding.properties[index]
            guard let target = property.codec.target, let layout = try? snapshot.layout(of: target.model) else {
                return nil
            }
            return RelationshipStep(
                name: property.name, way: .property(position: binding.position(of: index)), target: layout)
        }
        guard let (target, name) = try? binding.model.relationship(otherSideAt: offset),
            let layout = try? snapshot.layout(of: target),
            let position = layout.position(ofProperty: name, snapshot.view.catalog),
            let index = snapshot.view.shape.index(
                of: layout.number, over: [layout.entity.attributes[position].number])
        else { return nil }
        let side = binding.model.otherSides.first { $0.offset == offset }?.name ?? name
        return RelationshipStep(name: side, way: .referring(index), target: layout)
    }

    /// A translator for the objects that a step leads to.
    func inner<T: Entity>(
        _ type: T.Type, _ variable: PredicateExpressions.VariableID
    ) -> PredicateTranslator? {
        guard let layout = try? snapshot.layout(of: T.model),
            let binding = try? layout.binding(type, snapshot.view.catalog)
        else { return nil }
        var inner = PredicateTranslator(type, snapshot, binding, variable)
        inner.bound = bound
        return inner
    }

    /// The same for another variable that represents the object.
    func with(_ variable: PredicateExpressions.VariableID) -> PredicateTranslator {
        var translator = self
        translator.variable = variable
        return translator
    }

    // MARK: Comparisons

    /// The condition that an operand compares in this way with a constant; nil if it cannot be translated.
    func compared(
        _ operand: PredicateOperand, _ comparison: PropertyTest.Comparison, _ all: [Any]
    ) -> Condition? {
        // A reference of another store names no object of this one, even if the ID is the same.
        var constants = all
        if mayRefer(operand) {
            constants.removeAll { isForeign($0) }
            if constants.isEmpty, !all.isEmpty { return .constant(false) }
        }
        guard case .property(let index, let folding, let absent) = operand else {
            return comparedOther(operand, comparison, constants)
        }
        let property = binding.properties[index]
        let type = property.codec.attributeType
        guard Self.decides(comparison, property.codec, type) else { return nil }
        var values: [Value] = []
        values.reserveCapacity(constants.count)
        for constant in constants {
            if type.isObjectList {
                guard let object = Self.reference(constant) else { return nil }
                values.append(.object(object))
                continue
            }
            do {
                guard let value = try property.codec.value(of: constant) else { return nil }
                if value.hasStoredForm { values.append(value) } else if comparison != .oneOf { return nil }
            } catch {
                // A value that cannot be stored is not translated. No object has it.
                if comparison != .oneOf { return nil }
            }
        }
        if let fallback = property.codec.fallback {
            // The fallback replaces stored values that the type does not have: only the property itself knows which.
            if comparison == .isNull ? fallback.isNull : values.contains(fallback) { return nil }
        }
        if comparison == .oneOf, values.isEmpty { return .constant(false) }
        var known = property.codec.isOptional ? Value.null : property.initial
        if let absent {
            guard let value = try? property.codec.value(of: absent) else { return nil }
            known = value
        }
        return .test(
            PropertyTest(
                binding.position(of: index), type, property.name, comparison, values, absent: known,
                folding: folding))
    }

    /// Whether an operand may be a reference.
    private func mayRefer(_ operand: PredicateOperand) -> Bool {
        guard case .property(let index, _, _) = operand else { return true }
        let codec = binding.properties[index].codec
        return codec.attributeType.isReference || codec.target != nil
    }

    private func comparedOther(
        _ operand: PredicateOperand, _ comparison: PropertyTest.Comparison, _ constants: [Any]
    ) -> Condition? {
        switch operand {
        case .property: return nil
        case .identity:
            let objects = constants.compactMap { Self.reference($0) }
            guard comparison == .equal || comparison == .oneOf, objects.count == constants.count else { return nil }
            return .isOne(Set(objects))
        case .step(let step, let translator, let inner, let absent):
            let isMissing: Bool?
            if let absent {
                isMissing = Self.compare(absent, comparison, constants)
            } else {
                isMissing = (comparison == .equal || comparison == .oneOf) && constants.contains { Self.isNone($0) }
            }
            guard let isMissing else { return nil }
            let present = absent.flatMap { translator.withAbsent(inner, $0) } ?? inner
            return translator.compared(present, comparison, constants).map { .step(step, $0, isMissing: isMissing) }
        case .count(let step):
            guard let bound = constants.first as? Int, constants.count == 1, comparison != .oneOf else { return nil }
            return .count(step, comparison, bound)
        }
    }

    private func withAbsent(_ operand: PredicateOperand, _ absent: Any) -> PredicateOperand? {
        if case .property(let index, let folding, nil) = operand, binding.properties[index].codec.isOptional {
            return .property(index, folding: folding, absent: absent)
        }
        return nil
    }

    private static func isNone(_ constant: Any) -> Bool { (constant as? any OptionalProperty)?.isNone ?? false }

    static func reference(_ constant: Any) -> ObjectID? { anyReference(constant)?.id }

    private static func anyReference(_ constant: Any) -> (any AnyReference)? {
        if let reference = constant as? any AnyReference { return reference }
        return (constant as? any OptionalProperty)?.content.flatMap { anyReference($0) }
    }

    private func isForeign(_ constant: Any) -> Bool {
        Self.anyReference(constant).map { $0.store != 0 && $0.store != binding.storeMark && binding.storeMark != 0 }
            ?? false
    }

    /// Compares two constants of a type that attributes have.
    private static func compare(_ left: Any, _ comparison: PropertyTest.Comparison, _ right: [Any]) -> Bool? {
        guard let codec = propertyCodec(of: type(of: left)), let value = try? codec.value(of: left) else { return nil }
        var constants: [Value] = []
        for constant in right {
            guard let constant = try? codec.value(of: constant) else { return nil }
            constants.append(constant)
        }
        return PropertyTest(0, codec.attributeType, "", comparison, constants).matches(value)
    }

    /// Whether stored values compare as the properties do.
    private static func decides(
        _ comparison: PropertyTest.Comparison, _ codec: any PropertyCodec, _ type: AttributeType
    ) -> Bool {
        switch comparison {
        case .isNull: true
        case .equal, .oneOf: type != .json && !type.isObjectList
        case .hasElement: type.isObjectList
        case .startsWith, .contains: type == .string && codec.form == .string
        case .less, .lessOrEqual, .greater, .greaterOrEqual:
            switch codec.form {
            case .bool, .reference, .other: false
            default: true
            }
        }
    }
}

/// One side of a comparison.
indirect enum PredicateOperand {
    /// A property of the object, by its index; `absent` is its value if it is nil.
    case property(Int, folding: TextFolding?, absent: Any?)
    /// The reference of the object.
    case identity
    /// An operand of the object that a property refers to; `absent` is its value if that is nil.
    case step(RelationshipStep, PredicateTranslator, PredicateOperand, absent: Any?)
    /// The number of objects that a relationship leads to.
    case count(RelationshipStep)
}

// MARK: Translations of expressions

/// Expressions that combine several parts.
protocol LogicalExpression: KnownExpression {
    func condition(
        _ translator: PredicateTranslator, _ evaluate: (any PredicateExpression<Bool>) -> Condition
    ) -> Condition
    /// Nil if a part cannot be translated.
    func condition(_ translator: PredicateTranslator) -> Condition?
}

/// Expressions that may mean a condition on rows.
protocol TranslatedExpression: KnownExpression {
    func condition(_ translator: PredicateTranslator) -> Condition?
}

/// Expressions that may be an operand.
protocol OperandExpression: KnownExpression {
    func operand(_ translator: PredicateTranslator) -> PredicateOperand?
}

/// Expressions that are a constant.
protocol ConstantExpression: KnownExpression {
    var constant: Any { get }
}
