#!/bin/sh
# A reader that is stopped while others commit 100,000 times and compact 20 times: it holds nobody up, and reads on what
# it had.
#
# Tests/frozen.sh [ROUNDS [COMMITS]]: 20 rounds of 5,000 commits and one compaction, unless said; as often without the
# reader, for comparison. Exit status 1 where its snapshot has changed, a new one is not the newest, or the writer has
# less than 0.7 of its rate. SCRATCH names the build folder, CONFIGURATION debug or release.
set -eu
cd "$(dirname "$0")/.."
scratch=${SCRATCH:-.build}
configuration=${CONFIGURATION:-release}
for product in annals process-helper; do swift build -c "$configuration" --product "$product" --scratch-path "$scratch"; done
exec timeout -k 10 600 python3 Tests/frozen.py "$scratch/$configuration" "${1:-20}" "${2:-5000}"
