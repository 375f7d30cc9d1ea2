#!/bin/sh
# Random operations of the struct API against a model in memory, for as long as asked, seed after seed.
#
# Tests/entities.sh [OPERATIONS [FIRST_SEED]]: a million operations from seed 1 on if they are not given. Exit status 1
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
    if ! ANNALS_ENTITIES_SEED=$seed ANNALS_ENTITIES_OPERATIONS=$each \
        "$tests" --testing-library swift-testing --filter AnnalsTests.EntityOracleTests >"$scratch/entities.log" 2>&1; then
        cat "$scratch/entities.log"
        echo "difference with seed $seed, after $done operations of seeds $first to $((seed - 1))" >&2
        exit 1
    fi
    grep '^entities, ' "$scratch/entities.log"
    done=$((done + each))
    seed=$((seed + 1))
done
echo "$done operations, seeds $first to $((seed - 1)), no difference"
