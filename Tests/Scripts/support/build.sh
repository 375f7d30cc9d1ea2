# Sourced by scripts that run programs of the package. SCRATCH names the build folder (.build), CONFIGURATION debug or
# release.
scratch=${SCRATCH:-.build}
configuration=${CONFIGURATION:-release}
programs=$scratch/$configuration

# Builds products into $programs.
build() {
    for product in "$@"; do
        swift build -c "$configuration" --product "$product" --scratch-path "$scratch" >&2
    done
}

# Builds the tests. $tests is the program that runs them.
build_tests() {
    swift build -c "$configuration" --build-tests --scratch-path "$scratch" >&2
    tests=$programs/annalsPackageTests.xctest
}
