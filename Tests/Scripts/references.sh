#!/usr/bin/env bash
# Lets two processes change objects that refer to each other; no reference may lead to nothing.
#
# Usage: Tests/run references [OPERATIONS [SEED]]
# 1000000 and 1 by default. Both insert, move and delete. Folders are deleted with all that hangs on them; shelves may
# not be deleted while they are in use. Exit status 1 if a process finds something missing, or the checker does. SCRATCH
# names the build folder, CONFIGURATION debug or release.
set -euo pipefail
cd "$(dirname "$0")/../.."
operations=${1:-1000000}
seed=${2:-1}
. Tests/Scripts/support/build.sh
build annals process-helper
folder=$(mktemp -d "${TMPDIR:-/tmp}/annals-references-XXXXXX")
trap 'rm -r "$folder"' EXIT
store=$folder/s.annals
helper=$programs/process-helper
"$helper" folders "$store" "$seed" 1
status=0
pids=
for number in 1 2; do
    timeout -k 5 3000 "$helper" folders "$store" $((seed * 2 + number)) $((operations / 2)) &
    pids="$pids $!"
done
for pid in $pids; do wait "$pid" || status=1; done
found=$("$programs/annals" verify "$store" --format text) || status=1
echo "$found"
case $found in *notice*) status=1 ;; esac
exit $status
