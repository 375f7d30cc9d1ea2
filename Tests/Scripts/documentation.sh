#!/usr/bin/env bash
# Builds the guides and the API as a site, and fails on any warning.
#
# Usage: Tests/run documentation [FOLDER]
# The site goes to .build/documentation by default. To read it, run `python3 -m http.server -d FOLDER` and open
# http://localhost:8000/documentation/annals. SCRATCH names the build folder, CONFIGURATION debug or release.
set -euo pipefail
cd "$(dirname "$0")/../.."
site=${1:-.build/documentation}
graphs=$(mktemp -d "${TMPDIR:-/tmp}/annals-documentation.XXXXXX")
trap 'rm -rf "$graphs"' EXIT
. Tests/Scripts/support/build.sh
build=(-c "$configuration" --scratch-path "$scratch")
swift build "${build[@]}" --target Annals
modules=$(swift build "${build[@]}" --show-bin-path)/Modules
swift symbolgraph-extract -module-name Annals -I "$modules" -minimum-access-level public \
    -target "$(swift -print-target-info | sed -n 's/^ *"unversionedTriple": "\(.*\)",$/\1/p')" -output-dir "$graphs"
rm -rf "$site"
docc convert Sources/Annals/Annals.docc --additional-symbol-graph-dir "$graphs" \
    --fallback-display-name Annals --fallback-bundle-identifier annals --warnings-as-errors \
    --transform-for-static-hosting --output-path "$site"
echo "The site is in $site."
