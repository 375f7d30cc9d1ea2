#!/usr/bin/env bash
# Plants one fault after the other in a copy of the package, and expects its suites to notice it.
#
# Usage: Tests/run mutants [NAME ...]
#        Tests/run mutants --check
# All faults of Tests/mutants, or the named ones. The first line of a patch names the suites: "Noticed by: SUITE|SUITE".
# A run ends with its first test that fails. --check only tells whether all patches apply and name suites. Exit status 1
# if a fault goes unnoticed, or if a patch does not apply. MUTANTS_SCRATCH names the folder of the copy
# (.build/mutants), MUTANT_SECONDS how long a run may take (900).
set -uo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
names=("$@")
if [ "${1:-}" = --check ]; then names=(); fi
if [ ${#names[@]} -eq 0 ]; then
    for patch in Tests/mutants/*.patch; do names+=("$(basename "$patch" .patch)"); done
fi
suites() { sed -n 's/^Noticed by: //p' "$root/Tests/mutants/$1.patch"; }
stale=0
for name in "${names[@]}"; do
    git apply --check "Tests/mutants/$name.patch" && [ -n "$(suites "$name")" ] && continue
    echo "$name does not apply, or names no suites"
    stale=$((stale + 1))
done
if [ "${1:-}" = --check ] || [ $stale -ne 0 ]; then
    echo "$((${#names[@]} - stale)) patches apply, $stale do not"
    [ $stale -eq 0 ]
    exit
fi

copy=${MUTANTS_SCRATCH:-.build/mutants}
seconds=${MUTANT_SECONDS:-900}
mkdir -p "$copy"
copy=$(cd "$copy" && pwd)
for folder in Sources Tests Fuzz; do rm -rf "${copy:?}/$folder"; done
cp -rp Package.swift Sources Tests Fuzz README.md "$copy/"
cd "$copy" || exit 1

# Optimised and without assertions as a release is, but file by file: so only what a mutant changes is compiled again.
build() {
    swift build --build-tests -Xswiftc -O -Xswiftc -assert-config -Xswiftc Release >"$copy/$1.build.log" 2>&1
}
# The bundle itself and not `swift test`, which leaves its child running when its time is over. Runs suites until a test
# fails, and returns 1 then.
suite() { # LOG SUITES
    : >"$1"
    timeout -k 5 "$seconds" .build/debug/annalsPackageTests.xctest --testing-library swift-testing \
        --filter "[.]($2)/" >"$1" 2>&1 &
    local runner=$!
    while kill -0 $runner 2>/dev/null; do
        if grep -q '^✘ Test' "$1"; then
            # Ends all that it has started, too.
            kill $runner
            wait $runner
            return 1
        fi
        sleep 1
    done
    wait $runner
}
# Outside of a repository `git apply` is a plain patch.
plant() { GIT_CEILING_DIRECTORIES=$(dirname "$copy") git apply "$@" "$root/Tests/mutants/$name.patch"; }

echo "without a mutant:"
all=$(for name in "${names[@]}"; do suites "$name" | tr '|' '\n'; done | sort -u | paste -sd '|')
if ! build none || ! suite "$copy/none.log" "$all"; then
    echo "  a suite fails by itself, see $copy/none.log and $copy/none.build.log"
    exit 1
fi
unnoticed=0
for name in "${names[@]}"; do
    start=$(date +%s)
    plant || exit 1
    if build "$name"; then
        suite "$copy/$name.log" "$(suites "$name")"
        status=$?
    else
        echo "$name does not compile, see $copy/$name.build.log"
        status=0
    fi
    plant -R || exit 1
    took=$(($(date +%s) - start))
    if [ $status -eq 0 ]; then
        echo "UNNOTICED $name (${took} s)"
        unnoticed=$((unnoticed + 1))
    else
        by=$(grep -oE '✘ Test [A-Za-z0-9_]+' "$copy/$name.log" | grep -v 'Test run' | sort -u |
            sed 's/✘ Test //' | tr '\n' ' ')
        echo "noticed $name (${took} s) by ${by:-a crash or a timeout, status $status}"
    fi
done
echo "$((${#names[@]} - unnoticed)) passed, $unnoticed failed"
[ $unnoticed -eq 0 ]
