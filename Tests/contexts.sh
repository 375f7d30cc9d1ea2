#!/bin/sh
# Random work in several contexts on one store, for as long as asked, seed after seed.
#
# Tests/contexts.sh [OPERATIONS [FIRST_SEED]]: a million operations from seed 1 on if they are not given. Exit status 1
# at the first difference; the command that replays it is printed. SCRATCH names the build folder, CONFIGURATION debug
# or release.
set -eu
cd "$(dirname "$0")/.."
operations=${1:-1000000}
seed=${2:-1}
scratch=${SCRATCH:-.build}
configuration=${CONFIGURATION:-release}
each=20000
swift build -c "$configuration" --build-tests --scratch-path "$scratch"
tests=$(echo "$scratch/$configuration"/*PackageTests.xctest)
done=0
first=$seed
while [ "$done" -lt "$operations" ]; do
    if ! ANNALS_CONTEXTS_SEED=$seed ANNALS_CONTEXTS_OPERATIONS=$each \
        "$tests" --testing-library swift-testing --filter AnnalsTests.ContextOracleTests >"$scratch/contexts.log" 2>&1; then
        cat "$scratch/contexts.log"
        echo "difference with seed $seed, after $done operations of seeds $first to $((seed - 1))" >&2
        exit 1
    fi
    grep '^contexts, ' "$scratch/contexts.log"
    done=$((done + each))
    seed=$((seed + 1))
done
echo "$done operations, seeds $first to $((seed - 1)), no difference"
