#!/usr/bin/env bash
# Looks at more of the disks that a power cut may leave than the suite does: some 300,000 of them.
#
# Usage: Tests/run crashes
# Every step of every workload of CrashTests and EngineCrashTests. Exit status 1 if a store does not recover; the
# command that replays it is printed. SCRATCH names the build folder, CONFIGURATION debug or release.
set -euo pipefail
cd "$(dirname "$0")/../.."
. Tests/Scripts/support/build.sh
build_tests
ANNALS_CRASH_IMAGES=more "$tests" --testing-library swift-testing --filter 'AnnalsFileTests.(Engine)?CrashTests'
