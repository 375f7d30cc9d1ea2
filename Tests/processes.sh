#!/bin/sh
# Many processes on one store, and two random kills a second: writers, compactors that clean, readers through maps and
# through copies, consumers that advance in their own transactions, and watchers who must miss nothing. The tool looks
# at the store beside them.
#
# Tests/processes.sh [SECONDS [SEED]]: 60 and 1 if they are not given. Exit status 1 if something was lost, doubled,
# torn or held up. What is checked stands in Tests/processes.py. SCRATCH names the build folder, CONFIGURATION debug or
# release; PROCESSES="4 2 4" says how many writers, compactors and readers; KEEP=1 keeps the folder.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-60}
seed=${2:-1}
scratch=${SCRATCH:-.build}
configuration=${CONFIGURATION:-release}
for product in annals process-helper; do swift build -c "$configuration" --product "$product" --scratch-path "$scratch"; done
exec timeout -k 10 $((seconds + 300)) python3 Tests/processes.py "$scratch/$configuration" "$seconds" "$seed"
