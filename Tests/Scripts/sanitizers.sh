#!/usr/bin/env bash
# Runs the suite under the thread sanitizer and the address sanitizer; both must report nothing.
#
# Usage: Tests/run sanitizers [thread|address] [FILTER]
# Both and everything by default. FILTER is one of the test runner. Exit status 1 if a test fails or a sanitizer reports
# something; then its reports are printed. The suite starts the tools and helpers, which are built the same way.
# Three reports of the thread sanitizer are suppressed, because they are no races: each empty array that is made writes
# the same into the same words; a view that has no other user is advanced behind a fence, which the sanitizer does not
# know; nor does it know Mutex, whose value is reached nowhere but in the bodies of `withLock`.
# Left out under the thread sanitizer: the tests that fork, because the child of a process with threads hangs in its
# runtime; those that count system calls, descriptors and memory, because the sanitizer and the process that finds
# names for it have some; the one that counts on all addresses, because the sanitizer leaves few of them; and the one
# that opens so many images of a disk that the sanitizer takes more than 24 GiB for what it remembers of them.
# Images of a disk run by themselves: they take so long that tests beside them wait for a thread longer than they may.
# SCRATCH names the build folder (.build), SECONDS_EACH how long a run may take (3600).
set -uo pipefail
cd "$(dirname "$0")/../.."
kinds=(thread address)
case ${1:-} in thread | address) kinds=("$1") && shift ;; esac
left='ForkTests|aForkedChildCannotUseTheWatcherOfItsParent|TrackerIdleTests|ContextLeakTests|ManyStoresTests'
left+='|everyCrashImageOfTheEngineRecovers'
images='[.](CrashTests|EngineCrashTests)/'
status=0
for kind in "${kinds[@]}"; do
    scratch=${SCRATCH:-.build}/$kind
    # Optimised, because the interleavings take too long otherwise. Assertions stay.
    swift build --build-tests --sanitize "$kind" -Xswiftc -O -Xswiftc -assert-config -Xswiftc Debug \
        --scratch-path "$scratch" || exit 1
    reports=$(mktemp -d)
    # Names as the compiler writes them; the last one is what each closure of the type of `withLock`'s body ends with.
    printf 'race:%s\n' _swiftEmptyArrayStorage 6Annals4ViewC7advance2to zYuYTXEfU >"$reports/suppressions"
    options=(--testing-library swift-testing)
    if [ "$kind" = thread ]; then options+=(--skip "$left"); fi
    # A report ends no process: so one run has them all, and what a process returns is what the test expects.
    export TSAN_OPTIONS="exitcode=0 memory_limit_mb=6000 log_path=$reports/report suppressions=$reports/suppressions"
    # Some tests let a process crash, and the toolchain's backtrace reads its stack as nothing else may.
    export SWIFT_BACKTRACE=enable=no
    # Leaks are not looked for: what the runtime keeps until the end of a process counts as one.
    export ASAN_OPTIONS="detect_leaks=0 log_path=$reports/report"
    ended=0
    # The bundle itself and not `swift test`, which leaves its child running when its time is over.
    run() {
        timeout -k 5 "${SECONDS_EACH:-3600}" "$scratch/debug/annalsPackageTests.xctest" "${options[@]}" "$@" \
            >"$scratch/suite.log" 2>&1 || ended=$?
        grep -aE '✘ Test|Test run with' "$scratch/suite.log"
    }
    if [ $# -gt 0 ]; then
        run --filter "$1"
    else
        run --skip "$images"
        run --filter "$images"
    fi
    found=$(cat "$reports"/report* 2>/dev/null | grep -c '^SUMMARY: ')
    echo "$kind sanitizer: the suite ended with $ended, $found reports"
    if [ "$ended" != 0 ] || [ "$found" != 0 ]; then
        cat "$reports"/report* 2>/dev/null
        status=1
    fi
    rm -rf "$reports"
done
exit $status
