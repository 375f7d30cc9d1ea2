#!/bin/sh
# Ends `annals load`, `clean`, `compact`, `backup`, `salvage`, `apply` and `consumers` at every system call that touches
# files, one after the other, and looks at what is left. The same for a program that migrates a store when it opens it.
# Interrupts syncs, which must go on.
#
# Tests/syscalls.sh [STEP [COMMAND...]]: at every STEP-th call of each kind, 1 if it is not given; all commands if none is
# given, such as `load` or `migrate`. `names` is `compact` under every odd name of Tests/names.py. Exit status 1 if the
# store is neither as before nor as after (load and apply: if it has a part of a transaction), if verify finds anything,
# or if something is left in the directory after the next compaction. What is checked stands in Tests/syscalls.py.
# SCRATCH names the build folder, CONFIGURATION debug or release, SECONDS_EACH how long it may take (7200: each of the 49
# names takes half a minute to more than one, by what else the machine does).
set -eu
cd "$(dirname "$0")/.."
scratch=${SCRATCH:-.build}
configuration=${CONFIGURATION:-release}
if ! command -v strace > /dev/null; then
    echo "NOT TESTED: there is no strace" >&2
    exit 1
fi
for product in annals process-helper; do swift build -c "$configuration" --product "$product" --scratch-path "$scratch"; done
step=${1:-1}
if [ $# -gt 0 ]; then shift; fi
exec timeout -k 10 "${SECONDS_EACH:-7200}" python3 Tests/syscalls.py "$scratch/$configuration/annals" "$scratch/$configuration/process-helper" \
    "$step" "$@"
