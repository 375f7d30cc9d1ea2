#!/usr/bin/env bash
# Runs the benchmark and the peers of ../shared/peers in turn, and prints medians as a table.
#
# Usage: Tests/run compare [ROUNDS [ROWS]]
# 5 rounds of 1,000,000 rows by default. COMPARE_PEERS names the folder with the built peers (peer_lmdb, peer_sqlite,
# peer_rocksdb, limit), COMPARE_BENCH the benchmark, TMPDIR a folder for the stores. Memory is touched before each write
# benchmark: writing to memory that was not used lately is slow.
set -euo pipefail
cd "$(dirname "$0")/../.."
rounds=${1:-5}
rows=${2:-1000000}
peers=${COMPARE_PEERS:-../shared/peers}
if ! [ -x "$peers/peer_lmdb" ] || ! [ -x "$peers/limit" ]; then
    echo "SKIPPED: no built peers in $peers: set COMPARE_PEERS to a folder where they are." >&2
    exit 0
fi
if [ -z "${COMPARE_BENCH:-}" ]; then
    # Linked statically, as services are deployed: bound at run time, Swift's library takes a first opening about a
    # quarter longer.
    build=(-c release --static-swift-stdlib --scratch-path .build/static)
    swift build "${build[@]}" --product annals-bench
    COMPARE_BENCH=$(swift build "${build[@]}" --show-bin-path)/annals-bench
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/annals-compare.XXXXXX")
trap 'rm -rf "$work"' EXIT
results=$work/results.jsonl
touch "$results"

# Memory that nobody has used for a second or two is cold again, and what the last one has left to be written slows the
# next one.
warm() {
    sync
    python3 -c 'b = bytearray(1500 << 20)
for i in range(0, len(b), 4096): b[i] = 1'
}

annals() { timeout 300 "$COMPARE_BENCH" "$@" --path "$work/annals" >>"$results" || echo "FAILED: annals $*" >&2; }
peer() {
    local name=$1
    shift
    timeout 300 "$peers/$name" "$@" --path "$work/$name" >>"$results" || echo "FAILED: $name $*" >&2
}
gets=$((rows / 5))
changes=$((rows / 10))
mkdir -p "$work/limit"
warm
peer peer_sqlite load --rows "$rows"
peer peer_rocksdb load --rows "$rows"
for round in $(seq "$rounds"); do
    # In turn: the first one meets what the last one has left in the caches.
    if ((round % 2)); then
        warm
        annals load --rows "$rows"
        warm
        peer limit load --rows "$rows"
    else
        warm
        peer limit load --rows "$rows"
        warm
        annals load --rows "$rows"
    fi
    warm
    peer peer_lmdb load --rows "$rows"
    # As often as run_peers.sh opens.
    for turn in 1 2 3; do
        if (((round + turn) % 2)); then
            annals open --rows "$rows"
            peer peer_sqlite open --rows "$rows"
        else
            peer peer_sqlite open --rows "$rows"
            annals open --rows "$rows"
        fi
    done
    peer peer_lmdb open --rows "$rows"
    for work_load in get get_each; do
        annals $work_load --rows $gets
        peer peer_lmdb $work_load --rows $gets
    done
    # In two processes at once; each reports what it did.
    for turn in 1 2; do annals get --rows $gets --tag _two & done
    wait
    for turn in 1 2; do peer peer_lmdb get --rows $gets --tag _two & done
    wait
    annals scan
    peer peer_lmdb scan
    annals history
    peer peer_lmdb history
    warm
    annals update --rows $changes
    peer peer_lmdb update --rows $changes
    annals delete --rows $changes
    peer peer_lmdb delete --rows $changes
    annals query --rows 1000
    peer peer_sqlite query --rows 1000 --mmap 2147483648
    warm
    annals commit --rows $gets
    peer peer_rocksdb commit --rows $gets
    peer limit commit_fast --rows $gets
    annals history --tag _small
    peer peer_lmdb commit --rows $gets
    peer peer_lmdb history --tag _small
    annals commit --rows 2000 --durable
    peer limit commit_durable --rows 2000
    peer peer_rocksdb commit --rows 2000 --durable
    warm
    annals load --rows $gets --durable --tag _durable
    warm
    peer peer_rocksdb load --rows $gets --durable --tag _durable
    peer peer_sqlite load --rows "$rows"
    echo "round $round of $rounds, load average $(cut -d' ' -f1-3 /proc/loadavg)" >&2
done
python3 Tests/Scripts/support/comparison.py "$results"
