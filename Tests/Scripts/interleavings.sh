#!/usr/bin/env bash
# Runs two processes in every order of their calls with up to three preemptions, with power cuts.
#
# Usage: Tests/run interleavings [SCENARIO ...]
# All scenarios, or the named ones, with deaths and power cuts. Exit status 1 if one ends badly; the command that
# replays it is printed. One schedule by hand: ANNALS_INTERLEAVING='SCENARIO:SCHEDULE' with the same test. SCRATCH names
# the build folder, CONFIGURATION debug or release.
set -euo pipefail
cd "$(dirname "$0")/../.."
. Tests/Scripts/support/build.sh
build_tests
ANNALS_INTERLEAVINGS=all ANNALS_INTERLEAVING_SCENARIOS="$*" \
    "$tests" --testing-library swift-testing --filter AnnalsFileTests.InterleavingTests
