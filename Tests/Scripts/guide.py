#!/usr/bin/env python3
"""Runs the commands of a guide, and compares what they print with what the guide shows.

Usage: Tests/run guide

The guide is TheTool.md. Its blocks that begin with `$ ` are for a shell, in one folder, from top to bottom. A line that
begins with `$ ` is a command, with the lines of a here document; the lines after it are what it prints on a terminal of
100 columns. `…` stands for anything in a line. Times, tokens, numbers of processes and sizes may differ. ANNALS_TOOL
names a built tool; otherwise it is built. ANNALS_WRITE_GOLDEN=1 writes the guide anew with what is printed today: read
the difference before committing it.
"""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios

from support import programs
from tasks import VARIABLE

GUIDE = os.path.join(programs.ROOT, "Sources", "Annals", "Annals.docc", "TheTool.md")


def commands(block):
    """The commands of a block, each with what it prints."""
    found, end = [], None
    for line in block.splitlines(keepends=True):
        if end is not None:
            found[-1][0] += line
            end = None if line.strip() == end else end
        elif line.startswith("$ "):
            found.append([line[2:], ""])
            here = re.search(r"<<'(\w+)'", line)
            end = here.group(1) if here else None
        else:
            found[-1][1] += line
    return found


def comparable(text):
    token = (VARIABLE[0][0], "A1.…")
    for pattern, name in [token] + VARIABLE[1:] + [(r"\d[\d,]*( bytes|%| %)", r"N\1"), (r" +", " ")]:
        text = re.sub(pattern, name, text)
    return text


def agrees(expected, found):
    pattern = ".*".join(re.escape(part) for part in comparable(expected).split("…"))
    return re.fullmatch(pattern, comparable(found)) is not None


def run(command, folder, tool):
    environment = {
        **os.environ, "TZ": "UTC", "TERM": "dumb", "PAGER": "cat",
        "PATH": os.path.dirname(tool) + ":" + os.environ["PATH"]}
    environment.pop("COLUMNS", None)
    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    process = subprocess.Popen(
        ["/bin/sh", "-c", command], cwd=folder, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
        env=environment)
    os.close(theirs)
    printed = b""
    try:
        while part := os.read(ours, 65536):
            printed += part
    except OSError:
        # So a terminal ends when its last user has closed it.
        pass
    os.close(ours)
    process.wait(timeout=60)
    # Progress is overwritten.
    return re.sub(r"\r[^\r\n]*\x1b\[K", "", printed.decode("utf-8")).replace("\r\n", "\n").replace(folder + "/", "")


def main():
    if len(sys.argv) > 1:
        sys.exit(__doc__)
    tool = programs.tool()
    with open(GUIDE, encoding="utf-8") as page:
        text = page.read()
    count, wrong = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        def checked(match):
            nonlocal count, wrong
            shown = ""
            for command, expected in commands(match.group(1)):
                count += 1
                found = run(command, folder, tool)
                if not agrees(expected, found):
                    wrong += 1
                    print(f"$ {command}expected:\n{expected}found:\n{found}")
                    expected = found
                shown += "$ " + command + expected
            return "```\n" + shown + "```\n"
        text = re.sub(r"(?m)^```\n(\$ (?:.*\n)*?)```\n", checked, text)
        for name in os.listdir(folder):
            if name.endswith(".annals") and name != "broken.annals":
                if subprocess.run([tool, "verify", os.path.join(folder, name)], stdout=subprocess.DEVNULL).returncode:
                    wrong += 1
                    print(f"{name} is not intact.")
    if os.environ.get("ANNALS_WRITE_GOLDEN") == "1":
        with open(GUIDE, "w", encoding="utf-8") as page:
            page.write(text)
    print(f"{count} commands of the guide, {wrong} of them differ")
    if wrong or not count:
        sys.exit(1)


if __name__ == "__main__":
    main()
