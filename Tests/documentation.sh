#!/bin/bash
# Builds the guides and the API as a site, and fails on any warning.
#
# Tests/documentation.sh [FOLDER]: into .build/documentation unless said. To read it: python3 -m http.server -d FOLDER,
# then http://localhost:8000/documentation/annals. SCRATCH names the build folder, CONFIGURATION debug or release.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
site=${1:-.build/documentation}
graphs=$(mktemp -d "${TMPDIR:-/tmp}/annals-documentation.XXXXXX")
trap 'rm -rf "$graphs"' EXIT
build=(-c "${CONFIGURATION:-release}" --scratch-path "${SCRATCH:-.build}")
swift build "${build[@]}" --target Annals
modules=$(swift build "${build[@]}" --show-bin-path)/Modules
swift symbolgraph-extract -module-name Annals -I "$modules" -minimum-access-level public \
    -target "$(swift -print-target-info | sed -n 's/^ *"unversionedTriple": "\(.*\)",$/\1/p')" -output-dir "$graphs"
rm -rf "$site"
docc convert Sources/Annals/Annals.docc --additional-symbol-graph-dir "$graphs" \
    --fallback-display-name Annals --fallback-bundle-identifier annals --warnings-as-errors \
    --transform-for-static-hosting --output-path "$site"
echo "The site is in $site."
