#!/usr/bin/env bash
# Plants one fault after the other (Sources/Annals/File/System/Mutant.swift) and expects the default suite to notice each.
# Tests/mutants.sh [NAME ...]: all of them, or these. Exit status 1 if one goes unnoticed.
set -uo pipefail
cd "$(dirname "$0")/.."
export ANNALS_MUTANTS=1
scratch=${MUTANTS_SCRATCH:-.build/mutants}
seconds=${MUTANT_SECONDS:-400}
swift build -c release --build-tests --scratch-path "$scratch" || exit 1
names=("$@")
if [ ${#names[@]} -eq 0 ]; then
    mapfile -t names < <(sed -n '/enum Mutant/,/^    }/s/^        case \([a-zA-Z]*\)$/\1/p' Sources/Annals/File/System/Mutant.swift)
fi
unnoticed=0
echo "without a mutant:"
# The bundle itself and not `swift test`: that leaves its child running when its time is over.
suite() { timeout -k 5 "$seconds" "$scratch/release/annalsPackageTests.xctest" --testing-library swift-testing; }
if ! suite >"$scratch/none.log" 2>&1; then
    echo "  the suite fails by itself, see $scratch/none.log"
    exit 1
fi
for name in "${names[@]}"; do
    start=$(date +%s)
    ANNALS_MUTANT=$name suite >"$scratch/$name.log" 2>&1
    status=$?
    took=$(($(date +%s) - start))
    by=$(grep -oE '✘ Test [A-Za-z0-9_]+' "$scratch/$name.log" | grep -v 'Test run' | sort -u | sed 's/✘ Test //' | tr '\n' ' ')
    if [ $status -eq 0 ]; then
        echo "UNNOTICED $name (${took} s)"
        unnoticed=$((unnoticed + 1))
    else
        echo "noticed $name (${took} s) by ${by:-a crash or a timeout, status $status}"
    fi
done
echo "$((${#names[@]} - unnoticed)) passed, $unnoticed failed"
[ $unnoticed -eq 0 ]
