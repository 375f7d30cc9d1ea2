#!/bin/sh
# Contexts that are used in every way and forgotten leave nothing: no object, context, thread, descriptor or memory.
#
# Tests/leaks.sh [CONTEXTS]: 10,000 contexts if it is not given. Then, for each of these five, a run that leaks one on
# purpose must be noticed. SCRATCH names the build folder, CONFIGURATION debug or release.
set -eu
cd "$(dirname "$0")/.."
contexts=${1:-10000}
scratch=${SCRATCH:-.build}
configuration=${CONFIGURATION:-release}
swift build -c "$configuration" --product process-helper --scratch-path "$scratch"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$scratch/$configuration/process-helper" leaks "$folder/s.annals" "$contexts"
for plant in object context thread descriptor memory; do
    if "$scratch/$configuration/process-helper" leaks "$folder/s.annals" 200 $plant 2>"$folder/errors"; then
        echo "a leaked $plant was not noticed" >&2
        exit 1
    fi
    cat "$folder/errors"
done
