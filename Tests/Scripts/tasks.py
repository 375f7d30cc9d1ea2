#!/usr/bin/env python3
"""Does the daily tasks of an operator with `annals`, on real input, and compares what is printed.

Usage: Tests/run tasks [FILE.jsonl NEXT.jsonl]

Each task is one command, without other programs. tasks.txt has each task as a question, its command and the expected
output; `!` is the exit status, if it is not 0. The two files are descriptions of packages of two days, one a line, in
../shared/data by default; without them the script says so and ends. Identifiers, tokens and times in the output are
replaced by their names. ANNALS_TOOL names a built tool; otherwise it is built. ANNALS_WRITE_GOLDEN=1 writes tasks.txt
anew with what is printed today: read the difference before committing it.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile

from support import programs

LINES = 3000
PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tasks.txt")
SHARED = os.path.join(programs.ROOT, "..", "shared", "data")

# What differs in each run.
VARIABLE = [
    (r"A1\.[0-9a-f]{32}\.(\d+)\.[0-9a-f]{16}\.[0-9a-f]{8}", r"TOKEN-\1"),
    (r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+Z)?", "TIME"),
    (r"[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}", "IDENTIFIER"),
    (r'("processID":|in process )\d+', r"\1PROCESS"),
    (r"TIME +\d+\b", "TIME PROCESS"),
    (r" *\d+( bytes)", r" N\1"),
    (r"(before,|end at) \d+", r"\1 N"),
]


def tasks():
    """The tasks of the page: question, command, exit status and expected output."""
    with open(PAGE, encoding="utf-8") as page:
        for part in page.read().split("\n# ")[1:]:
            question, command, *output = part.rstrip("\n").split("\n")
            status = 0
            if output and output[0].startswith("! "):
                status = int(output.pop(0)[2:])
            yield question, command.removeprefix("$ "), status, "".join(line + "\n" for line in output)


def run(tool, command, folder):
    environment = {**os.environ, "TZ": "UTC", "COLUMNS": "100"}
    words = shlex.split(command)
    assert words[0] == "annals", command
    source = None
    if "<" in words:
        source = open(os.path.join(folder, words[words.index("<") + 1]), encoding="utf-8")
        words = words[:words.index("<")]
    target = words[words.index(">") + 1] if ">" in words else None
    if target:
        words = words[:words.index(">")]
    result = subprocess.run(
        [tool, *words[1:]], cwd=folder, stdin=source or subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, env=environment, timeout=120)
    if target:
        with open(os.path.join(folder, target), "wb") as file:
            file.write(result.stdout)
        return result.returncode, ""
    text = result.stdout.decode("utf-8")
    for pattern, name in VARIABLE:
        text = re.sub(pattern, name, text)
    return result.returncode, text


def main():
    files = sys.argv[1:] or [os.path.join(SHARED, name) for name in ("packages.jsonl", "packages-next.jsonl")]
    missing = [file for file in files if not os.path.exists(file)]
    if missing:
        print(f"SKIPPED: there is no {missing[0]}", file=sys.stderr)
        return
    tool = programs.tool()
    found, mistakes = [], 0
    with tempfile.TemporaryDirectory(prefix="annals-tasks-") as folder:
        for file, name in zip(files, ("monday.jsonl", "tuesday.jsonl")):
            with open(file, encoding="utf-8") as source:
                lines = [line for line, _ in zip(source, range(LINES))]
            with open(os.path.join(folder, name), "w", encoding="utf-8") as copy:
                copy.writelines(lines)
        with open(os.path.join(folder, "owners.csv"), "w", encoding="utf-8") as file:
            file.write('name,since,packages\n"Games, and more",2026-01-02,1\nUtilities,,2\n')
        for question, command, status, expected in tasks():
            result = run(tool, command, folder)
            found.append((question, command, *result))
            if result != (status, expected):
                mistakes += 1
                print(f"# {question}\n$ {command}\nexpected {status}:\n{expected}found {result[0]}:\n{result[1]}")
    if os.environ.get("ANNALS_WRITE_GOLDEN") == "1":
        with open(PAGE, "w", encoding="utf-8") as page:
            for question, command, status, output in found:
                page.write(f"\n# {question}\n$ {command}\n" + (f"! {status}\n" if status else "") + output)
    print(f"{len(found)} tasks, {mistakes} of them differ")
    sys.exit(1 if mistakes else 0)


if __name__ == "__main__":
    main()
