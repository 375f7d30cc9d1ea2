#!/usr/bin/env bash
# Fuzzes decoders, files and messages, each over a copy of its corpus, and fails on a finding.
#
# Usage: Tests/run fuzz [--build]
# --build only builds the fuzzers. FUZZ_SECONDS says how long each runs (40). FUZZ_SANITIZER=address adds the
# address sanitizer, which needs lld: without it, coverage is not counted. The run fails too if coverage is not counted.
# SCRATCH names the build folder (.build); the fuzzers are built in its folder "fuzz".
set -euo pipefail

cd "$(dirname "$0")/../.."
seconds=${FUZZ_SECONDS:-40}
scratch=${SCRATCH:-.build}/fuzz
# The order of the flags matters, or coverage is lost.
extra=${FUZZ_SANITIZER:-}
export SWIFT_BACKTRACE=enable=no
rss=512
flags="--sanitize fuzzer"
if [ "$extra" = address ]; then
    scratch=$scratch-address
    flags="$flags --sanitize address -Xswiftc -use-ld=lld"
    # The sanitizer keeps what was freed for a while.
    rss=2048
fi

status=0
for target in FuzzRecords FuzzFile FuzzMessages; do
    # shellcheck disable=SC2086
    timeout 1200 swift build -c release --scratch-path "$scratch" --product "$target" $flags
    if [ "${1:-}" = --build ]; then continue; fi
    work=$scratch/run-$target
    rm -rf "$work"
    mkdir -p "$work/corpus"
    case $target in
        FuzzRecords) name=records; length=4096 ;;
        FuzzFile) name=file; length=65536 ;;
        FuzzMessages) name=messages; length=4096 ;;
    esac
    cp Fuzz/Corpus/$name/* "$work/corpus/"
    code=0
    timeout $((seconds + 120)) "$scratch/release/$target" "$work/corpus" -max_total_time="$seconds" -max_len=$length \
        -rss_limit_mb=$rss -timeout=20 -print_final_stats=1 -artifact_prefix="$work/" >"$work/log" 2>&1 || code=$?
    if ! grep -Eq 'Loaded 1 modules +\([1-9][0-9]* inline 8-bit counters\)' "$work/log"; then
        echo "$target: coverage is not counted" >&2
        status=1
    fi
    if [ "$code" -ne 0 ]; then
        tail -n 60 "$work/log" >&2
        echo "$target: a finding (or a failure) with exit code $code; the input is in $work" >&2
        status=1
    fi
    rate=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$work/log")
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/log")
    echo "$target: ${runs:-0} executions, ${rate:-0} a second"
done
exit $status
