#!/usr/bin/env bash
# Uses contexts in every way and forgets them: no object, thread, descriptor or memory may be left.
#
# Usage: Tests/run leaks [CONTEXTS]
# 10,000 contexts by default. Then, for an object, a context, a thread, a descriptor and memory, a run that leaks one on
# purpose must be noticed. SCRATCH names the build folder, CONFIGURATION debug or release.
set -euo pipefail
cd "$(dirname "$0")/../.."
contexts=${1:-10000}
. Tests/Scripts/support/build.sh
build process-helper
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$programs/process-helper" leaks "$folder/s.annals" "$contexts"
for plant in object context thread descriptor memory; do
    if "$programs/process-helper" leaks "$folder/s.annals" 200 $plant 2>"$folder/errors"; then
        echo "a leaked $plant was not noticed" >&2
        exit 1
    fi
    cat "$folder/errors"
done
