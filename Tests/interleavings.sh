#!/bin/sh
# Every order of the calls of two processes with up to three preemptions, for each scenario, with deaths and power cuts.
#
# Tests/interleavings.sh [SCENARIO ...]: all scenarios, or those named. Exit status 1 if one ends badly; the command
# that replays it is printed. One schedule by hand: ANNALS_INTERLEAVING='SCENARIO:SCHEDULE' with the same test.
set -eu
cd "$(dirname "$0")/.."
scratch=${INTERLEAVINGS_SCRATCH:-.build}
swift build -c release --build-tests --scratch-path "$scratch"
ANNALS_INTERLEAVINGS=all ANNALS_INTERLEAVING_SCENARIOS="$*" \
    "$scratch"/release/annalsPackageTests.xctest --testing-library swift-testing --filter AnnalsFileTests.InterleavingTests
