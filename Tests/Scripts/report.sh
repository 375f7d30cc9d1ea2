#!/usr/bin/env bash
# Opens pages of `annals report` in Chromium, and looks for overflow, overlapping labels and errors.
#
# Usage: Tests/run report
# Each page is opened at widths of 400 and 1,200 pixels, light and dark, with all tables open. ANNALS_TOOL names a built
# tool; otherwise it is built. ANNALS_DATA names a folder with packages.jsonl and packages-next.jsonl
# (../shared/data); without them, lines are generated. PICTURES names a folder for pictures of the pages. Exit status 1
# if something is wrong. Without Chromium (Debian's package chromium) nothing is checked.
set -euo pipefail
cd "$(dirname "$0")/../.."
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [ -z "$browser" ]; then
    echo "NOTHING WAS CHECKED: there is no Chromium. Install Debian's package chromium." >&2
    exit 0
fi
if [ -z "${ANNALS_TOOL:-}" ]; then
    . Tests/Scripts/support/build.sh
    build annals
    ANNALS_TOOL=$programs/annals
fi
annals=$(realpath "$ANNALS_TOOL")
data=$(realpath "${ANNALS_DATA:-../shared/data}" 2>/dev/null || true)
work=$(mktemp -d "${TMPDIR:-/tmp}/annals-report.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

# Stores

if [ -e "$data/packages-next.jsonl" ]; then
    cp "$data"/packages.jsonl "$data"/packages-next.jsonl .
else
    python3 - <<'PYTHON'
import json, random
random.seed(1)
for name in "packages.jsonl", "packages-next.jsonl":
    with open(name, "w") as file:
        for number in random.sample(range(9000), 8000):
            package = {"name": f"package-{number}", "version": str(random.random()), "size": number}
            file.write(json.dumps(package) + "\n")
PYTHON
fi

load() { "$annals" load "$@" >/dev/null; }

load packages.annals packages.jsonl --entity Package --key name --author importer
"$annals" consumers packages.annals --register search-index >/dev/null
for author in app widget nightly share-extension sync admin tester me ''; do
    head -n $((20 + ${#author} * 10)) packages.jsonl | sed "s/\"version\":\"/&$author/" >some.jsonl
    load packages.annals some.jsonl --entity Package --key name --author "$author" --batch 9
done
load packages.annals packages-next.jsonl --entity Package --key name --author importer --prune

# Names of all widths, in right-to-left scripts, with markup and control characters.
python3 - <<'PYTHON'
import json
names = ["W" * 300, "中" * 300, "ﷺ" * 60, "שלום " * 40, "</svg><script>console.error(1)</script>", "\u202e\u001b[2J\n",
         "'\"&amp;", "👩‍👩‍👧‍👦" * 40]
with open("names.jsonl", "w") as file:
    for number in range(3):
        for name in names:
            file.write(json.dumps({"name": name, "<b>": number}) + "\n")
PYTHON
load names.annals names.jsonl --entity '<Wide & "odd">' --key name --author "$(printf 'W%.0s' {1..300})"
load names.annals names.jsonl --entity '<Wide & "odd">' --key name --author '<b>bold</b>'
"$annals" consumers names.annals --register "$(printf 'M%.0s' {1..300})" --format json >/dev/null

echo '{"entities":[]}' >schema.json
"$annals" schema empty.annals --apply schema.json >/dev/null
load off.annals packages.jsonl --entity Package --key name
"$annals" retention off.annals none >/dev/null
for number in $(seq 40); do echo "{\"n\":$number}" | load entities.annals - --entity "Entity$number"; done

# Pages

# Looks at a page. A window cannot be narrower than 500 pixels, so the page is in a frame.
cat >check.js <<'JS'
function check(page, areNamesWhole) {
    const [view, root, wrong] = [page.defaultView, page.documentElement, []];
    for (const details of page.querySelectorAll("details")) details.open = true;
    if (root.scrollWidth > view.innerWidth) wrong.push(`the page is ${root.scrollWidth} pixels wide`);
    for (const svg of page.querySelectorAll("svg[role=img]")) {
        const frame = svg.getBoundingClientRect();
        const all = [...svg.querySelectorAll("text")];
        const texts = all.filter(text => text.textContent && text.getClientRects().length);
        const boxes = texts.map(text => text.getBoundingClientRect());
        texts.forEach((text, i) => {
            const [a, words] = [boxes[i], text.textContent.slice(0, 40)];
            const isCut = a.left < frame.left - 1 || a.right > frame.right + 1;
            if (areNamesWhole && isCut) wrong.push(`“${words}” is cut`);
            for (let j = 0; j < i; j++) {
                const across = Math.min(a.right, boxes[j].right) - Math.max(a.left, boxes[j].left);
                const down = Math.min(a.bottom, boxes[j].bottom) - Math.max(a.top, boxes[j].top);
                if (across > 1 && down > 1) wrong.push(`“${words}” is on “${texts[j].textContent.slice(0, 40)}”`);
            }
        });
    }
    const scheme = view.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    return `${view.innerWidth} ${scheme};` + wrong.join("\n");
}
JS
frame_page() { # STORE WIDTH CHECK
    python3 - "$@" <<'PYTHON' >frame.html
import html, sys
store, width, check = sys.argv[1:]
page = open(store + ".html", encoding="utf-8").read()
print(f"""<!DOCTYPE html><html style="color-scheme: light dark"><meta charset="utf-8"><body style="margin: 0">
<iframe style="width: {width}px; height: 6000px; border: 0" srcdoc="{html.escape(page)}"></iframe>
<pre id="found"></pre><script>{open("check.js").read()}
const [frame, found] = [document.querySelector("iframe"), document.getElementById("found")];
if ({check}) frame.onload = () => {{ found.textContent = check(frame.contentDocument, {store != "names":d}); }};
</script>""")
PYTHON
}

status=0
open_page() { # SCHEME OPTION...
    local blink=1
    if [ "$1" = dark ]; then blink=0; fi
    timeout 60 "$browser" --headless=new --no-sandbox --disable-gpu --hide-scrollbars --enable-logging=stderr \
        --user-data-dir="$work/profile" --blink-settings=preferredColorScheme=$blink --window-size=1200,6000 \
        "${@:2}" "file://$work/frame.html"
}

for store in packages names empty off entities; do
    "$annals" report $store.annals $store.html >/dev/null
    for width in 400 1200; do
        for scheme in light dark; do
            frame_page $store $width true
            open_page $scheme --dump-dom >dom 2>errors
            found=$(python3 -c 'import html, re, sys
found = re.search(r"<pre id=\"found\">(.*?)</pre>", sys.stdin.read(), re.S)
print(html.unescape(found.group(1)) if found else "no answer")' <dom)
            if [ "$found" != "$width $scheme;" ] || grep CONSOLE errors; then
                echo "$store at $width pixels, $scheme: $found" >&2
                status=1
            fi
            if [ -n "${PICTURES:-}" ]; then
                frame_page $store $width false
                open_page $scheme --screenshot="$PICTURES/$store-$width-$scheme.png" 2>/dev/null
            fi
        done
    done
done
if [ $status = 0 ]; then echo "All pages are in order."; fi
exit $status
