#!/usr/bin/env bash
# Runs one of the random tests for as long as asked, seed after seed.
#
# Usage: Tests/run long NAME [OPERATIONS [FIRST_SEED]]
# A million operations from seed 1 on by default. The names:
#   oracle      random operations of the engine against a model in memory
#   entities    the struct API against a model in memory
#   contexts    several contexts on one store
#   background  contexts that save in the background, beside merges, `follow`, a tracker and other writers
#   deletions   background saves while others delete what is saved; an operation is one of 100,000 sequences
#   undo        undo and redo in a context; an operation is a round of some changes
#   results     live results of contexts and of stores against fetching; an operation is a round
#   versions    versions of a program take turns on one store, and migrate it; an operation is a round
#   search      searches after random work and steps of the index, against reading all objects
#   searchers   processes that write, index and search one store, and are killed, against reading all objects
#   ways        each way to change a store after each other one, in each setting; an operation is a change
#   savers      processes whose contexts save in the background while they follow the store, and are killed
#   processes   processes with a context each, which are killed, against a model in memory
#   tracker     processes with a tracker each, which are killed, stopped and kept away; 80 operations take a second
#   equal       values are found by all that are equal to them; an operation is a value
#   mirror      groups of mirrored stores that join, leave, are lost and restart, over a courier with faults
#   flips       a bit of the file flips, and a mapped handle compacts or backs up; an operation is a trial
# Exit status 1 at the first difference, with the output of the test. SCRATCH names the build folder, CONFIGURATION
# debug or release.
set -euo pipefail
cd "$(dirname "$0")/../.."
name=${1:-}
operations=${2:-1000000}
seed=${3:-1}
. Tests/Scripts/support/build.sh
target=AnnalsTests each=20000
case $name in
oracle) target=AnnalsFileTests suite=OracleTests each=50000 ;;
entities) suite=EntityOracleTests ;;
contexts) suite=ContextOracleTests ;;
background) suite=BackgroundSaveOracleTests each=5000 ;;
deletions) suite=SaveBesideDeletionTests each=5000 ;;
undo) suite=UndoTests ;;
results) suite='(ResultsOracleTests|StoreResultsTests/updatesAgreeWithAFetch)' ;;
versions) suite=VersionTurnTests ;;
search) suite=SearchOracleTests each=2000 ;;
searchers) suite=SearchProcessTests each=3000 ;;
savers) suite=SaverProcessTests each=30000 ;;
ways) suite=WaysTests each=1000 ;;
processes) suite=ContextProcessTests ;;
tracker) suite=TrackerProcessTests each=200000 ;;
equal) suite=Equal each=2000 ;;
flips) suite=FlippedBitTests each=500 ;;
mirror) target=AnnalsMirrorTests suite=MirrorChurnTests/groupsThatChangeBecomeEqual each=15000 ;;
*)
    sed -n '/^# Usage/,/^# Exit/s/^# //p' "$0" | sed '$d' >&2
    exit 2
    ;;
esac
prefix=ANNALS_$(echo "$name" | tr a-z A-Z)
build_tests
done=0
first=$seed
while [ "$done" -lt "$operations" ]; do
    if [ $((operations - done)) -lt "$each" ]; then each=$((operations - done)); fi
    if ! env "${prefix}_SEED=$seed" "${prefix}_OPERATIONS=$each" \
        "$tests" --testing-library swift-testing --filter "$target.$suite" >"$scratch/$name.log" 2>&1; then
        cat "$scratch/$name.log"
        echo "difference with seed $seed, after $done operations of seeds $first to $((seed - 1))" >&2
        echo "again: Tests/run long $name $each $seed" >&2
        exit 1
    fi
    grep "^$name, " "$scratch/$name.log"
    done=$((done + each))
    seed=$((seed + 1))
done
echo "$done operations, seeds $first to $((seed - 1)), no difference"
