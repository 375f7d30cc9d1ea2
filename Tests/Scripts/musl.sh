#!/usr/bin/env bash
# Type-checks the library and the tool against the headers of musl, for the static Linux SDK.
#
# Usage: Tests/run musl [HEADERS]
# musl is the C library of Swift's static Linux SDK. HEADERS is the folder with musl's stdio.h; by default, Debian's
# package musl-dev is downloaded. Nothing is linked or run: a name or a type that musl does not have is an error. Code
# under `#if canImport(Glibc)` is left out, and `import Musl` is Glibc's module made of musl's headers. Headers of Linux
# itself are the machine's. annals-bench is not checked: it asks Glibc's malloc for its numbers.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if [ $# -gt 0 ]; then
    headers=$(realpath "$1")
else
    if ! (cd "$folder" && apt-get download musl-dev >&2 && dpkg -x musl-dev*.deb package); then
        echo "NOT TESTED: musl-dev cannot be downloaded; give the folder of musl's headers" >&2
        exit 1
    fi
    headers=$(dirname "$(find "$folder/package" -name stdio.h)")
fi

# A root with musl's headers, and with the toolchain's own modules.
modules=$(dirname "$(dirname "$(realpath "$(command -v swiftc)")")")/lib/swift
root=$folder/root
mkdir -p "$root/usr/include" "$root/usr/lib"
cp -r "$headers/." "$root/usr/include/"
for name in linux asm-generic; do ln -sfn "/usr/include/$name" "$root/usr/include/$name"; done
ln -sfn "/usr/include/$(uname -m)-linux-gnu/asm" "$root/usr/include/asm"
ln -s "$modules" "$root/usr/lib/swift"

cp -r Sources "$folder/Sources"
find "$folder/Sources" -name '*.swift' -print0 |
    xargs -0 sed -i -E 's/#if (!?)canImport\(Glibc\)/#if \1NEVER/; s/import Musl$/import Glibc/'
options=(-wmo -parse-as-library -swift-version 6 -package-name annals -sdk "$root" -resource-dir "$modules"
    -module-cache-path "$folder/cache" -I "$folder")
for feature in ExistentialAny InternalImportsByDefault MemberImportVisibility; do
    options+=(-enable-upcoming-feature "$feature")
done

# That these are musl's headers: in Glibc's, a thread is a number.
echo 'import Glibc; func pointer(of thread: pthread_t) -> OpaquePointer { thread }' >"$folder/probe.swift"
if ! swiftc -typecheck "${options[@]}" "$folder/probe.swift" >"$folder/log" 2>&1; then
    cat "$folder/log" >&2
    echo "The compiler does not read musl's headers." >&2
    exit 1
fi
check() { # TARGET MODULE ACTION...
    local files
    mapfile -t files < <(find "$folder/Sources/$1" -name '*.swift')
    if ! swiftc "${@:3}" "${options[@]}" -module-name "$2" "${files[@]}" >"$folder/log" 2>&1; then
        grep -E 'error:' "$folder/log" | sed "s|$folder/||" | sort -u >&2
        echo "$1 does not compile with musl" >&2
        exit 1
    fi
    echo "$1: ${#files[@]} files compile with musl's headers"
}
check Annals Annals -emit-module -emit-module-path "$folder/Annals.swiftmodule"
for module in AnnalsMirror AnnalsDemo; do
    check "$module" "$module" -emit-module -emit-module-path "$folder/$module.swiftmodule"
done
check AnnalsTool annals -typecheck
