#!/usr/bin/env bash
# Prints how many bytes a store's file has for each byte of its rows, beside the peers.
#
# Usage: Tests/run space [ROWS]
# After inserting ROWS rows (1,000,000), after as many random updates, after deleting half of the rows, and after the
# older half of the history was removed and the file compacted; for Annals also without history. A row is 221 bytes of
# values. COMPARE_PEERS names the folder with the built peers; without it, only Annals is measured. COMPARE_BENCH and
# COMPARE_TOOL name the programs of Annals.
set -euo pipefail
cd "$(dirname "$0")/../.."
rows=${1:-1000000}
if [ -z "${COMPARE_BENCH:-}" ] || [ -z "${COMPARE_TOOL:-}" ]; then
    swift build -c release >&2
    COMPARE_BENCH=$PWD/.build/release/annals-bench
    COMPARE_TOOL=$PWD/.build/release/annals
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/annals-space.XXXXXX")
trap 'rm -rf "$work"' EXIT

# The bytes of a folder, for each byte of so many rows.
ratio() { du -sb --exclude=lock.mdb --exclude='LOG*' "$1" | awk -v rows="$2" '{ printf "%.2f", $1 / (rows * 221) }'; }

measure() { # NAME COMPACT PROGRAM OPTION...: COMPACT is a function that compacts the store in $folder
    local folder=$work/store
    rm -rf "$folder"
    "${@:3}" load --rows "$rows" --path "$folder" >/dev/null
    printf '%s: inserted %s' "$1" "$(ratio "$folder" "$rows")"
    "${@:3}" update --rows "$rows" --path "$folder" >/dev/null
    printf ', updated %s' "$(ratio "$folder" "$rows")"
    "${@:3}" delete --rows $((rows / 2)) --path "$folder" >/dev/null
    printf ', half deleted %s' "$(ratio "$folder" $((rows / 2)))"
    "$2" "$folder" "${@:3}" >/dev/null
    printf ', compacted with half of the history %s\n' "$(ratio "$folder" $((rows / 2)))"
}

# Removes the history before the transaction at that share of all, and compacts.
compact_annals() { # FOLDER SHARE
    local place
    place=$("$COMPARE_TOOL" info --format json "$1/bench.annals" |
        python3 -c "import json, sys; print(int(json.load(sys.stdin)['number'] * $2))")
    "$COMPARE_TOOL" clean --before "$place" "$1/bench.annals" >/dev/null
    "$COMPARE_TOOL" compact "$1/bench.annals" >/dev/null
}
compact_half() { compact_annals "$1" 0.5; }
compact_peer() { "${@:2}" cleanup --rows "$rows" --path "$1"; }

measure Annals compact_half "$COMPARE_BENCH"
compact_annals "$work/store" 1
echo "Annals: compacted without history $(ratio "$work/store" $((rows / 2)))"
for peer in lmdb sqlite rocksdb; do
    if [ -x "${COMPARE_PEERS:-}/peer_$peer" ]; then measure $peer compact_peer "$COMPARE_PEERS/peer_$peer"; fi
done
