#!/bin/sh
# Many processes on one store, and two random kills a second: writers, compactors that clean, readers, and watchers who must miss nothing.
#
# Tests/processes.sh [SECONDS [SEED]]: 60 and 1 unless said. Exit status 1 where something was lost, doubled, torn or held up. What is checked stands
# in Tests/processes.py. SCRATCH names the build folder, CONFIGURATION debug or release; PROCESSES="4 2 3"
# says how many writers, compactors and readers; KEEP=1 keeps the folder.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-60}
seed=${2:-1}
scratch=${SCRATCH:-.build}
configuration=${CONFIGURATION:-release}
for product in annals process-helper; do swift build -c "$configuration" --product "$product" --scratch-path "$scratch"; done
exec timeout -k 10 $((seconds + 300)) python3 Tests/processes.py "$scratch/$configuration" "$seconds" "$seed"
