// swift-tools-version: 6.2
import PackageDescription

/// CI takes no change that warns; who builds with a later compiler is not stopped by what that warns of.
let strictness: [SwiftSetting] =
    Context.environment["ANNALS_STRICT"] == "1" ? [.treatAllWarnings(as: .error)] : []

let settings: [SwiftSetting] =
    [
        .swiftLanguageMode(.v6),
        .enableUpcomingFeature("ExistentialAny"),
        .enableUpcomingFeature("InternalImportsByDefault"),
        .enableUpcomingFeature("MemberImportVisibility"),
    ] + strictness

/// A release build optimises the library, and not the tests of the API: to optimise them would take longer than to
/// run them. The tests of the file are optimised, because they work more themselves. Packages that depend on this one
/// do not build tests.
let unoptimised = settings + [.unsafeFlags(["-Onone"])]

let package = Package(
    name: "annals",
    products: [
        .library(name: "Annals", targets: ["Annals"]),
        .library(name: "AnnalsMirror", targets: ["AnnalsMirror"]),
        .executable(name: "annals", targets: ["annals"]),
        .executable(name: "annals-bench", targets: ["annals-bench"]),
    ],
    targets: [
        .target(name: "Annals", swiftSettings: settings),
        .target(name: "AnnalsMirror", dependencies: ["Annals"], swiftSettings: settings),
        .target(name: "AnnalsDemo", dependencies: ["Annals"], swiftSettings: settings),
        .executableTarget(
            name: "annals", dependencies: ["Annals", "AnnalsDemo", "AnnalsMirror"], path: "Sources/AnnalsTool",
            swiftSettings: settings),
        .executableTarget(
            name: "annals-bench", dependencies: ["Annals", "AnnalsMirror"], path: "Sources/AnnalsBench",
            swiftSettings: settings),
        .executableTarget(
            name: "crash-helper", dependencies: ["Annals", "FuzzTargets", "SimulatedDisk"], path: "Tests/CrashHelper",
            swiftSettings: settings),
        .executableTarget(
            name: "process-helper", dependencies: ["Annals", "TestSupport"], path: "Tests/ProcessHelper",
            swiftSettings: settings),
        .executableTarget(name: "sample-library", dependencies: ["Annals"], path: "Tests/Samples/Library"),
        .executableTarget(name: "sample-editing", dependencies: ["Annals"], path: "Tests/Samples/Editing"),
        .executableTarget(
            name: "sample-tracking", dependencies: ["Annals", "AnnalsDemo"], path: "Tests/Samples/Tracking"),
        .executableTarget(name: "sample-service", dependencies: ["Annals"], path: "Tests/Samples/Service"),
        .executableTarget(name: "sample-notes", dependencies: ["Annals"], path: "Tests/Samples/Notes"),
        .target(
            name: "SimulatedDisk", dependencies: ["Annals", "TestSupport"], path: "Tests/SimulatedDisk",
            swiftSettings: settings),
        .target(
            name: "TestSupport", dependencies: ["Annals"], path: "Tests/TestSupport", swiftSettings: settings),
        .testTarget(
            name: "AnnalsFileTests",
            dependencies: ["Annals", "SimulatedDisk", "TestSupport", "FuzzTargets", "annals", "crash-helper"],
            resources: [.copy("Golden")], swiftSettings: settings),
        .testTarget(
            name: "AnnalsTests",
            dependencies: [
                "Annals", "TestSupport", "annals", "process-helper", "sample-library", "sample-editing",
                "sample-tracking", "sample-service",
            ],
            exclude: ["Golden"], swiftSettings: unoptimised),
        .testTarget(
            name: "AnnalsMirrorTests", dependencies: ["Annals", "AnnalsMirror", "TestSupport"],
            swiftSettings: settings),
        // Two of its files are links to those of the program: a test cannot import a program in every build.
        .testTarget(
            name: "NotesTests", dependencies: ["Annals", "TestSupport", "annals", "sample-notes"],
            path: "Tests/NotesTests"),
        .testTarget(
            name: "CatchingErrors", dependencies: ["Annals"], path: "Tests/CatchingErrors", swiftSettings: settings),
        .target(
            name: "FuzzTargets", dependencies: ["Annals", "AnnalsMirror", "SimulatedDisk", "TestSupport"],
            path: "Fuzz/Targets", swiftSettings: settings),
        .executableTarget(
            name: "FuzzMessages", dependencies: ["FuzzTargets"], path: "Fuzz/FuzzMessages", swiftSettings: settings),
        .executableTarget(
            name: "FuzzRecords", dependencies: ["FuzzTargets"], path: "Fuzz/FuzzRecords", swiftSettings: settings),
        .executableTarget(
            name: "FuzzFile", dependencies: ["FuzzTargets"], path: "Fuzz/FuzzFile", swiftSettings: settings),
    ]
)
