#!/bin/sh
# Two processes insert into the same folders, move clips between them, and delete folders with all that hangs on them,
# and shelves, which is denied while they are in use. In the end no reference leads to nothing.
#
# Tests/references.sh [OPERATIONS [SEED]]: 1000000 and 1 if they are not given. Exit status 1 if a process finds
# something missing, or the checker does. SCRATCH names the build folder, CONFIGURATION debug or release.
set -eu
cd "$(dirname "$0")/.."
operations=${1:-1000000}
seed=${2:-1}
scratch=${SCRATCH:-.build}
configuration=${CONFIGURATION:-release}
for product in annals process-helper; do swift build -c "$configuration" --product "$product" --scratch-path "$scratch"; done
folder=$(mktemp -d "${TMPDIR:-/tmp}/annals-references-XXXXXX")
trap 'rm -r "$folder"' EXIT
store=$folder/s.annals
helper=$scratch/$configuration/process-helper
"$helper" folders "$store" "$seed" 1
status=0
pids=
for number in 1 2; do
    timeout -k 5 3000 "$helper" folders "$store" $((seed * 2 + number)) $((operations / 2)) &
    pids="$pids $!"
done
for pid in $pids; do wait "$pid" || status=1; done
found=$("$scratch/$configuration/annals" verify "$store" --format text) || status=1
echo "$found"
case $found in *notice*) status=1 ;; esac
exit $status
