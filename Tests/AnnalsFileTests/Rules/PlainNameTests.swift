// Names of tests keep to plain English: the rule of the guides also holds for the words of a test's function.

import Testing

@Suite struct PlainNameTests {
    @Test func namesOfTestsArePlain() {
        let files = SourceFile.all(under: "Tests")
        let names = files.flatMap { file in Self.testNames(in: file.text).map { (file, $0) } }
        #expect(names.count > 1500)
        for (file, name) in names { #expect(Self.faults(in: name) == [], "\(file.path): \(name)") }
    }

    /// The rule must be able to fail.
    @Test(arguments: [
        ("whatIsMissingIsAdded", "What"), ("whateverIsReadIsKept", "Whatever"), ("whoWritesWaits", "Who"),
        ("whoeverWaitsWritesNothing", "Whoever"), ("whoseLockIsFreeWrites", "Whose"),
        ("whereNothingIsReadNothingIsLeft", "Where"), ("itVanishesWithTheLastHandle", "It"),
        ("itsEditsAreDropped", "Its"), ("theyAreObserved", "They"), ("othersDeleteTheObject", "others"),
        ("aChangeOfOthersStays", "others"), ("somebodyHoldsTheLock", "somebody"),
        ("reservedNumbersAreGivenToNobodyElse", "nobody"), ("everybodyReads", "everybody"),
        ("anObjectIsReadAnew", "anew"), ("wrongBytesBehindASealAreFound", "behind"),
        ("aValueStandsInItsRow", "stands"), ("aClosedHandleSaysSo", "says"), ("aTagTellsTransactionsApart", "tells"),
        ("anObserverIsToldOnce", "told"), ("closingGivesItBack", "give back"),
        ("duplicatesThatComeUpMeanwhileAreListed", "meanwhile"), ("aWriterDoesNotWaitForEver", "for ever"),
        ("aStoreInUseIsReadAsItIs", "as it is"), ("anErrorLeavesTheContextAsItWas", "as it was"),
        ("viewsStayAsTheyAre", "as they are"), ("insertsOfManyThreadsAreAllThere", "all there"),
        ("namesThatAreNoneAreRefused", "that are none"),
    ]) func aPlantedFaultIsFound(name: String, fault: String) {
        #expect(Self.faults(in: name[...]) == [fault], "\(name)")
    }

    @Test(arguments: [
        "aReaderSeesWhatAnotherHandleAppends", "severalHandlesWriteAndSignalEachOther",
        "theErrorNamesTheUsersWhoMayCompact", "descriptorsStayAboveTheStandardStreams",
        "recordsAreDumpedAsTheyWereLoaded", "textIsReadBack", "withoutItsIndexARowIsFound",
    ]) func clausesWithANounAreNoFaults(name: String) { #expect(Self.faults(in: name[...]) == []) }

    @Test func everyFormOfATestIsFound() {
        let source =
            "    @Test func first() {}\n    @MainActor @Test(arguments: [1])\n    func second(_ number: Int) {}\n"
            + "    @Test(\n        arguments: [1]\n    ) private func third(_ number: Int) {}\n"
            + "    func helper() {}\n    // @Test func none() {}\n    @Suite struct Inner { func other() {} }\n"
        #expect(Self.testNames(in: source) == ["first", "second", "third"])
    }
}

// MARK: The rule

extension PlainNameTests {
    /// A reader of the name alone does not know what they mean.
    private static let pronouns: Set<String> = ["It", "Its", "They"]

    private static let phrases = ["as it is", "as it was", "as they are", "all there", "that are none"]

    private static func faults(in name: Substring) -> [String] {
        let sentence = sentence(of: name)
        var found = PlainEnglishTests.faults(in: sentence).map(\.pattern)
        if let first = sentence.split(separator: " ").first, pronouns.contains(String(first)) {
            found.append(String(first))
        }
        let line = " " + sentence + " "
        return found + phrases.filter { line.contains(" " + $0 + " ") }
    }

    /// “aFileStays” is “A file stays”.
    private static func sentence(of name: Substring) -> String {
        var sentence = name.prefix(1).uppercased()
        for character in name.dropFirst() {
            sentence += character.isUppercase ? " " + character.lowercased() : String(character)
        }
        return sentence
    }

    /// The attribute may be on a line before the function.
    private static func testNames(in source: String) -> [Substring] {
        var names: [Substring] = []
        var isTest = false
        for line in source.split(separator: "\n") {
            let line = line.drop { $0 == " " }
            if line.hasPrefix("@"), line.contains("@Test") { isTest = true }
            if isTest, let start = line.firstRange(of: "func ")?.upperBound {
                names.append(line[start...].prefix { $0 != "(" })
                isTest = false
            }
        }
        return names
    }
}
