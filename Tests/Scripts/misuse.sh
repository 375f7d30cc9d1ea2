#!/usr/bin/env bash
# Compares the errors for wrong uses of contexts and objects with Tests/Misuse/expected.txt.
#
# Usage: Tests/run misuse [--write]
# The programs of Tests/Misuse do not compile, except for main.swift, whose mistakes show when it runs. First, the code
# of tracking must compile with the public API alone. --write replaces the expected errors: read them before you commit
# them.
set -euo pipefail
cd "$(dirname "$0")/../.."

swift build --target Annals 2>&1 | tail -n 1
products=$(swift build --show-bin-path)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
said=$folder/said

export LC_ALL=C SWIFT_BACKTRACE=enable=no
# The tracker uses nothing that a program cannot use as well: it compiles as a module of its own.
swiftc -typecheck -swift-version 6 -module-name Tracking -package-name tracking \
    -Xfrontend -import-module -Xfrontend Annals \
    -I "$products/Modules" Sources/Annals/Tracking/*.swift
for file in Tests/Misuse/[A-Z]*.swift; do
    name=$(basename "$file")
    options=(-emit-sil -o /dev/null -parse-as-library -swift-version 6 -I "$products/Modules")
    if output=$(swiftc "${options[@]}" "$PWD/$file" 2>&1); then
        echo "$file has a mistake, and compiles." >&2
        exit 1
    fi
    echo "$output" | sed -n "s|^.*/\([A-Za-z]*\.swift:[0-9]*\):[0-9]*: error: |\1: |p" |
        sed 's/ *$//' >"$folder/messages"
    [ -s "$folder/messages" ] || {
        echo "The compiler does not say what is wrong with $name." >&2
        exit 1
    }
    cat "$folder/messages" >>"$said"
done

# Objects of sources that are gone may lie there, too.
objects=()
while read -r source; do
    objects+=("$products/Annals.build/$(basename "$source").o")
done < <(find Sources/Annals -name '*.swift')
swiftc -swift-version 6 -I "$products/Modules" Tests/Misuse/main.swift "${objects[@]}" -o "$folder/misuse"
for mistake in another temporary gone ended changed inserted used whole number merged names; do
    status=0
    "$folder/misuse" "$mistake" "$folder/$mistake.annals" >"$folder/out" 2>"$folder/errors" || status=$?
    # A mistake of the program stops it, with a sentence.
    sed -n 's/^.*Precondition failed: /stopped: /p' "$folder/errors" >>"$folder/out"
    [ "$status" = 0 ] || grep -q '^stopped: ' "$folder/out" || {
        cat "$folder/errors" >&2
        echo "The mistake “$mistake” ends the program with status $status." >&2
        exit 1
    }
    sed "s|$folder|FOLDER|g; s/^/$mistake: /" "$folder/out" >>"$said"
done

if [ "${1:-}" = --write ]; then
    cp "$said" Tests/Misuse/expected.txt
    exit
fi
diff Tests/Misuse/expected.txt "$said" || {
    echo "Something else is said than in Tests/Misuse/expected.txt (<)." >&2
    exit 1
}
echo "$(ls Tests/Misuse/*.swift | wc -l) programs, as expected."
