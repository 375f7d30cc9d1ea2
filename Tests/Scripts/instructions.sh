#!/usr/bin/env bash
# Counts the instructions of each operation with callgrind, and compares them with an older build.
#
# Usage: Tests/run instructions [BENCH [OLD-BENCH]]
# Each workload of annals-bench runs at two sizes; the difference of the counts is divided by the difference in
# operations. Unlike times, the counts hardly depend on what else runs. BENCH is this clone's release build by default.
# With OLD-BENCH, exit status 1 if an operation costs more than 2 % more than there. Needs valgrind.
set -euo pipefail
if [ $# -gt 0 ]; then
    bench=$(realpath "$1")
else
    cd "$(dirname "$0")/../.."
    swift build -c release --product annals-bench >&2
    bench=$PWD/.build/release/annals-bench
fi
old=${2:+$(realpath "$2")}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# The instructions of one run. All threads count: what the background does is part of the cost.
count() {
    local number
    timeout 300 valgrind --tool=callgrind --callgrind-out-file=/dev/null "$@" >"$folder/output" 2>&1 || true
    number=$(awk '/Collected :/ { print $NF }' "$folder/output")
    if [ -z "$number" ]; then
        cat "$folder/output" >&2
        return 1
    fi
    echo "$number"
}

# The instructions of one run in a folder of its own, which begins as a copy of store $2 (an empty one: a new store).
run() { # BENCH STORE WORKLOAD ROWS
    rm -rf "$folder/run"
    mkdir "$folder/run"
    if [ -n "$2" ]; then cp "$2/bench.annals" "$folder/run/"; fi
    count "$1" "$3" --path "$folder/run" --rows "$4"
}

# The instructions per operation, with so many operations per row asked for, in hundredths.
cost() { # BENCH WORKLOAD SMALL-STORE LARGE-STORE SMALL LARGE HUNDREDTHS
    local small large
    small=$(run "$1" "$3" "$2" "$5")
    large=$(run "$1" "$4" "$2" "$6")
    echo $(((large - small) * 100 / (($6 - $5) * $7)))
}

costs() { # BENCH: one line for each operation
    local bench=$1 small=$folder/small large=$folder/large
    rm -rf "$small" "$large"
    "$bench" load --path "$small" --rows 20000 --index >/dev/null
    "$bench" load --path "$large" --rows 60000 --index >/dev/null
    echo "load $(cost "$bench" load "" "" 20000 60000 100)"
    echo "commit $(cost "$bench" commit "" "" 5000 15000 100)"
    # Reading is done twice in each run: the first pass also verifies what it reads for the first time.
    echo "get $(cost "$bench" get "$large" "$large" 20000 60000 200)"
    echo "get_each $(cost "$bench" get_each "$large" "$large" 20000 60000 200)"
    echo "scan $(cost "$bench" scan "$small" "$large" 20000 60000 200)"
    echo "query $(cost "$bench" query "$large" "$large" 5000 15000 200)"
    echo "update $(cost "$bench" update "$large" "$large" 10000 30000 100)"
    echo "delete $(cost "$bench" delete "$large" "$large" 10000 30000 100)"
    # The last tenth of the history is read, then all of it.
    echo "history $(cost "$bench" history "$small" "$large" 20000 60000 110)"
}

costs "$bench" >"$folder/new"
if [ -z "$old" ]; then
    printf '%-10s %12s\n' operation instructions
    awk '{ printf "%-10s %12d\n", $1, $2 }' "$folder/new"
    exit 0
fi
costs "$old" >"$folder/old"
printf '%-10s %12s %12s %8s\n' operation instructions old change
join <(sort "$folder/new") <(sort "$folder/old") | awk '
    { change = ($2 / $3 - 1) * 100; printf "%-10s %12d %12d %+7.1f%%\n", $1, $2, $3, change }
    change > 2 { more++ }
    END { if (more) { print more " cost more than 2 % more"; exit 1 } }'
