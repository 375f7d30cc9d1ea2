#!/bin/sh
# Random work with live results, of contexts and of stores, for as long as asked, seed after seed.
#
# Tests/results.sh [ROUNDS [FIRST_SEED]]: 100,000 rounds from seed 1 on if they are not given. Exit status 1 at the first
# difference; the command that replays it is printed. SCRATCH names the build folder, CONFIGURATION debug or release.
set -eu
cd "$(dirname "$0")/.."
rounds=${1:-100000}
seed=${2:-1}
scratch=${SCRATCH:-.build}
configuration=${CONFIGURATION:-release}
each=5000
swift build -c "$configuration" --build-tests --scratch-path "$scratch"
tests=$(echo "$scratch/$configuration"/*PackageTests.xctest)
done=0
first=$seed
while [ "$done" -lt "$rounds" ]; do
    if ! ANNALS_RESULTS_SEED=$seed ANNALS_RESULTS_ROUNDS=$each "$tests" --testing-library swift-testing \
        --filter 'ResultsOracleTests|updatesAreWhatAFetchFinds' >"$scratch/results.log" 2>&1; then
        cat "$scratch/results.log"
        echo "difference with seed $seed, after $done rounds of seeds $first to $((seed - 1))" >&2
        exit 1
    fi
    grep -E '^(store )?results, ' "$scratch/results.log"
    done=$((done + each))
    seed=$((seed + 1))
done
echo "$done rounds of contexts and of stores, seeds $first to $((seed - 1)), no difference"
