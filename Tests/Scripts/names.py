#!/usr/bin/env python3
"""Lets a store of every odd name go through every command of the tool.

Usage: Tests/run names [NAME...]

Each store is named by its relative and by its absolute path. What the commands print of objects is compared with what
they print under a plain name. ANNALS_TOOL names a built tool; otherwise it is built.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from support import programs

# Names of one file that a program, a person or another system may choose.
NAMES = [
    "ä.annals", "a\u0308.annals", "日本語.annals", "👩‍👩‍👧‍👦🇩🇪.annals", "\u0301.annals", "e\u0301\u0323", "한글",
    "\u1112\u1161\u11ab", " leading and trailing ", "two  spaces.annals", "tab\tname", "new\nline.annals",
    "\r\n.annals", "-dash.annals", "--help", "-", "%41%00.annals", "100%.annals", "#1?x=y&z.annals", "a:b;c.annals",
    "back\\slash", "'quote'", '"double"', "$HOME", "`id`", "*.annals", "[a]", "{a,b}", "~", "~root", ".hidden",
    "..two", "...", "a.", "a", "\x01\x7f.annals", "\ufeffbom", "\u202egpj.annals", "ﷺ", "ß", "İ", "s", "s.annals.",
    "x.annals.compacting.annals", "n" * 244, "n" * 245, "n" * 255, "ä" * 127, "👍" * 63,
]
PLAIN = "s.annals"
# Folders to find it in, and whether by an absolute path. A path that a system call takes has at most 4,095 bytes.
FOLDERS = [("f", False), ("ä %41\n👍", True), ("/".join(["d" * 250] * 14), True)]
LINES = "".join(f'{{"title":"row {n}","url":"u{n}","rank":{n}}}\n' for n in range(30))


class Run:
    """The commands on one store. `path` is as the tool is given it; `here` is where it runs."""

    def __init__(self, tool, here, path):
        self.tool, self.here, self.path = tool, here, path
        self.printed = []

    def run(self, *words, text=None, keeps=False, status=0):
        result = subprocess.run(
            [self.tool, *words], cwd=self.here, input=text or "", capture_output=True, text=True, timeout=60)
        if result.returncode != status:
            raise Failure(f"annals {' '.join(words)[:200]} ends with {result.returncode}: {result.stderr[:500]}")
        if keeps:
            self.printed.append((words[0], result.stdout))
        return result.stdout

    def all(self):
        store, run = self.path, self.run
        # A name that begins with a dash is an operand after “--”.
        run("load", "--entity", "Clip", "--key", "url", "--batch", "10", "--", store, "-", text=LINES)
        run("schema", "--apply", "-", "--", store, text=run("schema", "--format", "json", "--", store))
        run("insert", "--", store, "Clip", 'title="new"', 'url="new"', "rank=100")
        run("set", "--", store, "Clip", "3", 'title="changed"')
        token = run("history", "--format", "jsonl", "--", store).splitlines()[-1]
        number = re.search(r'"number":(\d+)', token).group(1)
        run("delete", "--", store, "Clip", "5")
        run("revert", "--", store, number)
        run("get", "--key", 'url="u7"', "--", store, "Clip", keeps=True)
        run("find", "--where", "rank > 20", "--", store, "Clip", keeps=True)
        run("count", "--", store, keeps=True)
        run("versions", "--", store, "Clip", "3")
        run("consumers", "--register", "reader", "--", store)
        run("consumers", "--", store)
        run("retention", "--", store)
        self.watch()
        exported = run("export", "--", store)
        run("apply", "--", self.beside("applied"), "-", text=exported)
        run("dump", "--", self.beside("applied"), keeps=True)
        run("consumers", "--remove", "reader", "--", store)
        run("clean", "--before", number, "--", store)
        run("retention", "--", store, "7d")
        run("compact", "--", store)
        run("backup", "--", store, self.beside("copy"))
        run("salvage", "--", store, self.beside("saved"))
        for folder in ("copy", "saved"):
            run("verify", "--", self.beside(folder))
            run("dump", "--", self.beside(folder), keeps=True)
        run("info", "--", store)
        run("frames", "--", store)
        run("verify", "--", store)
        run("dump", "--", store, keeps=True)
        folder = os.path.dirname(os.path.join(self.here, self.path))
        left = sorted(os.listdir(folder))
        if left != sorted([os.path.basename(self.path), "applied", "copy", "saved"]):
            raise Failure(f"other files are left: {left}")

    def beside(self, folder):
        """A store of the same name in a folder beside this one."""
        folder = os.path.join(os.path.dirname(self.path), folder)
        os.makedirs(os.path.join(self.here, folder), exist_ok=True)
        return os.path.join(folder, os.path.basename(self.path))

    def watch(self):
        words = [self.tool, "watch", "--after", "0", "--format", "jsonl", "--", self.path]
        with subprocess.Popen(words, cwd=self.here, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            line = process.stdout.readline()
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
            if not line.startswith(b"{") or process.returncode != 0:
                raise Failure(f"watch ends with {process.returncode} after {line[:200]}")


class Failure(Exception):
    pass


def printed(tool, name, folder, is_absolute):
    """What the commands print of objects."""
    root = tempfile.mkdtemp(prefix="annals-names-")
    try:
        here = os.path.join(root, folder)
        os.makedirs(here)
        run = Run(tool, here, os.path.join(here, name) if is_absolute else name)
        run.all()
        return run.printed
    finally:
        shutil.rmtree(root)


def main():
    tool = programs.tool()
    wanted = printed(tool, PLAIN, "plain", True)
    failures = runs = 0
    for name in sys.argv[1:] or NAMES:
        for folder, is_absolute in FOLDERS:
            runs += 1
            try:
                if printed(tool, name, folder, is_absolute) != wanted:
                    raise Failure("other objects are printed than under a plain name")
            except Failure as failure:
                failures += 1
                print(f"{name!r} in {folder!r}: {failure}", file=sys.stderr)
    print(f"{runs} stores of odd names went through every command, {failures} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
