#!/bin/sh
# Random operations against the oracle for as long as asked, seed after seed.
#
# Tests/oracle.sh [OPERATIONS [FIRST_SEED]]: a million operations from seed 1 on unless said. Exit status 1 at the first
# difference; the command that replays it is printed. One seed by hand: ANNALS_ORACLE_SEED=N ANNALS_ORACLE_OPERATIONS=M
# with the same test.
set -eu
cd "$(dirname "$0")/.."
operations=${1:-1000000}
seed=${2:-1}
scratch=${ORACLE_SCRATCH:-.build}
# Each seed runs once with small limits and once with those of a product.
each=50000
swift build -c release --build-tests --scratch-path "$scratch"
tests=$(echo "$scratch"/release/*PackageTests.xctest)
done=0
first=$seed
while [ "$done" -lt "$operations" ]; do
    if ! ANNALS_ORACLE_SEED=$seed ANNALS_ORACLE_OPERATIONS=$each \
        "$tests" --testing-library swift-testing --filter AnnalsFileTests.OracleTests > "$scratch/oracle.log" 2>&1; then
        cat "$scratch/oracle.log"
        echo "difference with seed $seed, after $done operations of seeds $first to $((seed - 1))" >&2
        exit 1
    fi
    grep '^oracle, ' "$scratch/oracle.log"
    done=$((done + 2 * each))
    seed=$((seed + 1))
done
echo "$done operations, seeds $first to $((seed - 1)), no difference"
