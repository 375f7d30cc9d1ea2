#!/usr/bin/env bash
# Lets 150 processes watch one store, more than the system allows; each must see every transaction.
#
# Usage: Tests/run watchers [WATCHERS [TRANSACTIONS]]
# 150 and 40 by default. Besides, an idle watcher must make no system call, and one whose event queue has overflowed
# must miss nothing. This is no part of the suite, because it takes all inotify instances that a user may have. SCRATCH
# names the build folder, CONFIGURATION debug or release.
set -euo pipefail
cd "$(dirname "$0")/../.."
watchers=${1:-150}
transactions=${2:-40}
. Tests/Scripts/support/build.sh
build annals
annals=$programs/annals
folder=$(mktemp -d "${TMPDIR:-/tmp}/annals-watchers-XXXXXX")
# Files that come and go beside a store wake who watches its name: here there are none.
mkdir "$folder/store"
store=$folder/store/s.annals
pids=
finish() {
    for pid in $pids; do kill -9 "$pid" 2> "$folder/kill" || true; done
    rm -r "$folder"
}
trap finish EXIT
fail() {
    echo "failed: $1" >&2
    exit 1
}

echo '{"title":"a"}' > "$folder/one.jsonl"
"$annals" load "$store" "$folder/one.jsonl" --entity Clip > "$folder/token"
last() { "$annals" history "$store" | tail -1 | sed 's/^{"number":\([0-9]*\),.*/\1/'; }
insert() { "$annals" insert "$store" Clip "title=\"$1\"" > "$folder/token"; }

# Waits until a file has a line that says so.
until_line() {
    tries=0
    until [ -e "$1" ] && grep -q "$2" "$1"; do
        tries=$((tries + 1))
        [ "$tries" -lt 600 ] || fail "$1 never had a line with $2"
        sleep 0.1
    done
}

# Whether the signals in a file tell every transaction up to that one, once and in order.
in_order() {
    sed 's/^{"first":\([0-9]*\),"last":\([0-9]*\),.*/\1 \2/' "$1" | awk -v last="$2" '
        $1 != next_number + 1 || $2 < $1 { print "out of order: " $0; exit 1 }
        { next_number = $2 }
        END { if (next_number != last) exit 1 }'
}

# Idle: every thread of one watcher under strace for two seconds; what it is told afterwards shows that it was there.
if command -v strace > "$folder/strace"; then
    "$annals" watch "$store" --after 0 > "$folder/idle" &
    idle=$!
    pids="$pids $idle"
    until_line "$folder/idle" '"last"'
    if timeout -s INT 2 strace -f -q -o "$folder/calls" -p "$idle" 2> "$folder/errors"; then :; fi
    # A call that was on when strace came, and is still on when it goes, is what waiting is.
    if grep -v -e 'unfinished' -e 'resumed' -e 'detached' -e 'restart_syscall' "$folder/calls" > "$folder/made"; then
        cat "$folder/made" >&2
        fail "a watcher makes system calls while nothing happens"
    fi
    [ -s "$folder/calls" ] || fail "strace has seen nothing: $(cat "$folder/errors")"
    insert idle
    until_line "$folder/idle" "\"last\":$(last)"
    kill -TERM "$idle"
    wait "$idle" || fail "the watcher did not end as done"
    echo "idle: no system calls in two seconds"
else
    echo "idle: NOT TESTED, there is no strace" >&2
fi

# A watcher stands still while the system's queue for it overflows. What it was to be told is lost: it must look itself.
"$annals" watch "$store" --after 0 > "$folder/late" &
late=$!
pids="$pids $late"
until_line "$folder/late" "\"last\":$(last)"
kill -STOP "$late"
queue=$(cat /proc/sys/fs/inotify/max_queued_events)
# An event that equals the last one in the queue is not added: the two alternate.
python3 -c '
import os, sys
name = sys.argv[1] + "/other"
for _ in range(int(sys.argv[2]) // 2 + 500):
    os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o600))
    os.unlink(name)
' "$folder/store" "$queue"
# The name leads to another file after compaction; these events come too late to find room.
insert overflowed
"$annals" compact "$store" > "$folder/compacted"
insert compacted
kill -CONT "$late"
until_line "$folder/late" "\"last\":$(last)"
insert afterwards
until_line "$folder/late" "\"last\":$(last)"
in_order "$folder/late" "$(last)" || fail "a watcher whose queue overflowed has missed something"
kill -TERM "$late"
wait "$late" || fail "the watcher whose queue overflowed did not end as done"
echo "overflow: after more than $queue events it saw all $(last) transactions"

# Many: each sees every number once and in order.
first=$(last)
number=0
watching=
while [ "$number" -lt "$watchers" ]; do
    "$annals" watch "$store" --after 0 > "$folder/watch.$number" 2> "$folder/errors.$number" &
    watching="$watching $!"
    number=$((number + 1))
done
pids="$pids $watching"
number=0
while [ "$number" -lt "$watchers" ]; do
    until_line "$folder/watch.$number" '"last"'
    number=$((number + 1))
done
instances=0
for pid in $watching; do
    if ls -l "/proc/$pid/fd" | grep -q 'anon_inode:inotify'; then instances=$((instances + 1)); fi
done
count=0
while [ "$count" -lt "$transactions" ]; do
    insert "$count"
    count=$((count + 1))
done
last=$(last)
[ "$last" -eq $((first + transactions)) ] || fail "the store has $last transactions, not $((first + transactions))"
number=0
while [ "$number" -lt "$watchers" ]; do
    until_line "$folder/watch.$number" "\"last\":$last,"
    in_order "$folder/watch.$number" "$last" || fail "watcher $number has missed something"
    number=$((number + 1))
done
for pid in $watching; do kill -TERM "$pid"; done
for pid in $watching; do wait "$pid" || fail "a watcher did not end as done"; done
"$annals" verify "$store" > "$folder/verify" || fail "the store is damaged"
echo "$watchers watchers, $instances of them with a watch of the system:" \
    "each saw all $last transactions once and in order"
