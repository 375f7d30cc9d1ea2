#!/bin/sh
# Versions of a program take turns on one store after the other, for as many rounds as asked: a round is a transaction
# of one of them. In between they reopen the store, migrate and compact it.
#
# Tests/versions.sh [ROUNDS [FIRST_SEED]]: 100000 rounds from seed 1 on if they are not given. Exit status 1 if anything
# is lost; the command that replays it is printed. SCRATCH names the build folder, CONFIGURATION debug or release.
set -eu
cd "$(dirname "$0")/.."
rounds=${1:-100000}
seed=${2:-1}
scratch=${SCRATCH:-.build}
configuration=${CONFIGURATION:-release}
each=10000
swift build -c "$configuration" --build-tests --scratch-path "$scratch"
tests=$(echo "$scratch/$configuration"/*PackageTests.xctest)
done=0
first=$seed
while [ "$done" -lt "$rounds" ]; do
    if ! ANNALS_VERSIONS_SEED=$seed ANNALS_VERSIONS_ROUNDS=$each \
        "$tests" --testing-library swift-testing --filter AnnalsTests.VersionTurnTests >"$scratch/versions.log" 2>&1; then
        cat "$scratch/versions.log"
        echo "something is lost with seed $seed, after $done rounds of seeds $first to $((seed - 1))" >&2
        exit 1
    fi
    grep '^versions, ' "$scratch/versions.log"
    done=$((done + each))
    seed=$((seed + 1))
done
echo "$done rounds, seeds $first to $((seed - 1)), nothing lost"
