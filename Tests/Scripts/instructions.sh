#!/usr/bin/env bash
# Counts the instructions of each operation with callgrind, and compares them with an older build.
#
# Usage: Tests/run instructions [BENCH [OLD-BENCH]]
# Each workload of annals-bench runs at two sizes; the difference of the counts is divided by the difference in
# operations. Unlike times, the counts hardly depend on what else runs. BENCH is this clone's release build by default.
# With OLD-BENCH, exit status 1 if an operation costs more than 2 % more than there. COMPARE_PEERS names a folder with
# built peers, which are counted, too. Stores have 60,000 rows with one ordered index; `_1m` has 1,000,000 without one.
# Needs valgrind.
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

# The instructions of one run in a folder of its own, which begins as a copy of $2 (nothing: a new store).
run() { # BENCH STORE WORKLOAD ROWS
    rm -rf "$folder/run"
    mkdir "$folder/run"
    if [ -n "$2" ]; then cp "$2"/* "$folder/run/"; fi
    # shellcheck disable=SC2086 # a workload may come with an option
    count "$1" $3 --path "$folder/run" --rows "$4"
}

# The instructions per operation, with so many operations per row asked for, in hundredths.
cost() { # BENCH WORKLOAD SMALL-STORE LARGE-STORE SMALL LARGE HUNDREDTHS
    local small large
    small=$(run "$1" "$3" "$2" "$5")
    large=$(run "$1" "$4" "$2" "$6")
    echo $(((large - small) * 100 / (($6 - $5) * $7)))
}

# The instructions from the call of Store.open to a row that was read: the first time in a process, and again.
openings() { # BENCH STORE
    local both again
    both=$(opening "$1" "$2" --toggle-collect='*openAndRead*tyKF' | awk '/Collected :/ { print $NF }')
    opening "$1" "$2" --dump-before='*openAndRead*tyKF' --dump-before='*WorkloadsV6report*' >/dev/null
    again=$(awk '/^totals:/ { print $2 }' "$folder/callgrind.3")
    echo "open_first $((both - again))"
    echo "open_again $again"
}

opening() { # BENCH STORE OPTION ...
    rm -rf "$folder/run" "$folder"/callgrind*
    mkdir "$folder/run"
    cp "$2"/* "$folder/run/"
    timeout 300 valgrind --tool=callgrind --callgrind-out-file="$folder/callgrind" "${@:3}" \
        "$1" open --path "$folder/run" --rows 60000 2>&1
}

costs() { # BENCH: one line for each operation
    local bench=$1 small=$folder/small large=$folder/large
    rm -rf "$small" "$large" "$small".* "$large".*
    "$bench" load --path "$small" --rows 20000 --index >/dev/null
    "$bench" load --path "$large" --rows 60000 --index >/dev/null
    "$bench" commit --path "$small.commit" --rows 20000 >/dev/null
    "$bench" commit --path "$large.commit" --rows 60000 >/dev/null
    "$bench" load --path "$large.plain" --rows 1000000 >/dev/null
    echo "load $(cost "$bench" load "" "" 20000 60000 100)"
    echo "load_index $(cost "$bench" "load --index" "" "" 10000 30000 100)"
    echo "commit $(cost "$bench" commit "" "" 5000 15000 100)"
    # Reading is done twice in each run: the first pass also verifies what it reads for the first time.
    echo "get $(cost "$bench" get "$large" "$large" 20000 60000 200)"
    echo "get_1m $(cost "$bench" get "$large.plain" "$large.plain" 20000 60000 200)"
    echo "get_each $(cost "$bench" get_each "$large" "$large" 20000 60000 200)"
    echo "scan $(cost "$bench" scan "$small" "$large" 20000 60000 200)"
    echo "query $(cost "$bench" query "$large" "$large" 5000 15000 200)"
    echo "update_index $(cost "$bench" update "$large" "$large" 10000 30000 100)"
    echo "update_1m $(cost "$bench" update "$large.plain" "$large.plain" 10000 30000 100)"
    echo "delete_index $(cost "$bench" delete "$large" "$large" 10000 30000 100)"
    echo "delete_1m $(cost "$bench" delete "$large.plain" "$large.plain" 10000 30000 100)"
    # The last tenth of the history is read, then all of it.
    echo "history $(cost "$bench" history "$small" "$large" 20000 60000 110)"
    echo "history_single $(cost "$bench" history "$small.commit" "$large.commit" 20000 60000 110)"
    echo "typed_load $(cost "$bench" typed_load "" "" 5000 15000 100)"
    echo "typed_get $(cost "$bench" typed_get "$large" "$large" 5000 15000 200)"
    echo "typed_scan $(cost "$bench" typed_scan "$small" "$large" 20000 60000 200)"
    echo "typed_query $(cost "$bench" typed_query "$large" "$large" 200 600 200)"
    echo "typed_sum $(cost "$bench" typed_sum "$small" "$large" 20000 60000 200)"
    echo "object_load $(cost "$bench" object_load "" "" 2000 6000 100)"
    echo "object_fetch $(cost "$bench" object_fetch "$large" "$large" 5000 15000 200)"
    openings "$bench" "$large"
}

# The same of the peers.
peers() {
    local peer=$1 small=$folder/peer.small large=$folder/peer.large
    rm -rf "$small" "$large" "$small.commit" "$large.commit"
    "$peer" load --path "$small" --rows 20000 --index >/dev/null
    "$peer" load --path "$large" --rows 60000 --index >/dev/null
    "$peer" commit --path "$small.commit" --rows 20000 >/dev/null
    "$peer" commit --path "$large.commit" --rows 60000 >/dev/null
    echo "load $(cost "$peer" load "" "" 20000 60000 100)"
    echo "commit $(cost "$peer" commit "" "" 5000 15000 100)"
    echo "get $(cost "$peer" get "$large" "$large" 20000 60000 200)"
    echo "get_each $(cost "$peer" get_each "$large" "$large" 20000 60000 200)"
    echo "scan $(cost "$peer" scan "$small" "$large" 20000 60000 200)"
    case $peer in *sqlite) echo "query $(cost "$peer" query "$large" "$large" 200 600 200)" ;; esac
    echo "update $(cost "$peer" update "$large" "$large" 10000 30000 100)"
    echo "delete $(cost "$peer" delete "$large" "$large" 10000 30000 100)"
    echo "history $(cost "$peer" history "$small" "$large" 20000 60000 110)"
    echo "history_single $(cost "$peer" history "$small.commit" "$large.commit" 20000 60000 110)"
}

costs "$bench" >"$folder/new"
if [ -z "$old" ]; then
    printf '%-14s %12s\n' operation instructions
    awk '{ printf "%-14s %12d\n", $1, $2 }' "$folder/new"
else
    costs "$old" >"$folder/old"
    printf '%-14s %12s %12s %8s\n' operation instructions old change
    awk '
        NR == FNR { old[$1] = $2; next }
        {
            change = ($2 / old[$1] - 1) * 100
            printf "%-14s %12d %12d %+7.1f%%\n", $1, $2, old[$1], change
            if (change > 2) more++
        }
        END { if (more) { print more " cost more than 2 % more"; exit 1 } }' "$folder/old" "$folder/new"
fi
for peer in lmdb sqlite rocksdb; do
    if [ -z "${COMPARE_PEERS:-}" ] || ! [ -x "$COMPARE_PEERS/peer_$peer" ]; then continue; fi
    peers "$COMPARE_PEERS/peer_$peer" | awk -v peer=$peer '{ printf "%-14s %12d %s\n", $1, $2, peer }'
done
