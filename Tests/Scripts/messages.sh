#!/usr/bin/env bash
# Compares what the compiler says of wrong key paths and predicates with Tests/Messages/expected.txt.
#
# Usage: Tests/run messages [--write]
# Each program of Tests/Messages has one mistake, such as a wrong inverse, and Correct.swift has none. --write replaces
# the expected messages: read them before you commit them.
set -euo pipefail
cd "$(dirname "$0")/../.."

swift build --target Annals 2>&1 | tail -n 1
modules=$(swift build --show-bin-path)/Modules
said=$(mktemp)
trap 'rm -f "$said"' EXIT

# The messages of one program, each with its file and line, without the lines of source around them. Those of one line
# are sorted: the compiler's order of overloads is not fixed.
messages() {
    local file=$1 output
    if output=$(swiftc -typecheck -swift-version 6 -I "$modules" "$file" 2>&1); then
        echo "$(basename "$file"): compiles"
    else
        echo "$output" | sed -n "s|^.*/\([A-Za-z]*\.swift:[0-9]*\):[0-9]*: error: |\1: |p" | sed 's/ *$//' |
            sort -t : -k 2,2n -k 3
    fi
}

export LC_ALL=C
for file in Tests/Messages/*.swift; do messages "$PWD/$file"; done >"$said"

if [ "${1:-}" = --write ]; then
    cp "$said" Tests/Messages/expected.txt
    exit
fi
for file in Tests/Messages/*.swift; do
    name=$(basename "$file")
    grep -q "^$name:" "$said" || {
        echo "The compiler neither accepts $file nor says what is wrong with it." >&2
        exit 1
    }
    [ "$name" = Correct.swift ] || ! grep -q "^$name: compiles" "$said" || {
        echo "$file has a mistake, and compiles." >&2
        exit 1
    }
done
diff Tests/Messages/expected.txt "$said" || {
    echo "The compiler says something else than Tests/Messages/expected.txt (<)." >&2
    exit 1
}
echo "$(ls Tests/Messages/*.swift | wc -l) programs, as expected."
