#!/usr/bin/env python3
"""Kills the tool's commands at every system call that touches files, and checks what is left.

Usage: Tests/run syscalls [STEP [COMMAND...]]

Kills `load`, `clean`, `compact`, `backup`, `salvage`, `apply`, `consumers`, and a program that migrates a store when it
opens it, at every STEP-th call of each kind (1), for all commands or the named ones. `names` is `compact` under every
odd name of names.py. Interrupts syncs, which must go on. Exit status 1 if the store is neither as before nor as after
(load and apply: if it has a part of a transaction), if verify finds anything, or if something is left in the directory
after the next compaction. SCRATCH names the build folder, CONFIGURATION debug or release, SECONDS_EACH how long it may
take (7200: each of the 49 names takes half a minute to more than one). Needs strace.
"""

import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile

from names import NAMES
from support import programs

if not shutil.which("strace"):
    sys.exit("NOT TESTED: there is no strace")
step = int(sys.argv[1]) if len(sys.argv) > 1 else 1
only = sys.argv[2:]
products = programs.build("annals", "process-helper")
annals, helper = products + "/annals", products + "/process-helper"
CALLS = (
    "openat,open,creat,close,read,pread64,write,pwrite64,fallocate,ftruncate,fdatasync,fsync,sync_file_range,rename,"
    "renameat,renameat2,unlink,unlinkat,link,linkat,fcntl,mmap,munmap,fstat,newfstatat,statx,fchmod,fchown"
)
BATCH = 50
folder = tempfile.mkdtemp(prefix="annals-syscalls-", dir=os.environ.get("TMPDIR", "/tmp"))
failures = []


def fail(sentence):
    failures.append(sentence)
    if len(failures) <= 20:
        print("failed: " + sentence, file=sys.stderr)


def tool(*words, check=True, program=annals):
    result = subprocess.run([program, *words], capture_output=True, text=True, timeout=60)
    if check and result.returncode != 0:
        raise SystemExit(f"{program} {' '.join(words)}: {result.stderr}")
    return result


def state(store):
    """Rows, history and consumers; None if there is no store. Times are left out: the commands run at many."""
    if not os.path.exists(store):
        return None
    rest = tool("history", store).stdout + tool("consumers", store).stdout
    changing = r'"(timestamp|token|process|processID|lastSeen|registered)":("[^"]*"|[0-9]+)'
    return tool("dump", store).stdout, re.sub(changing, "", rest)


def rows(number, count):
    lines = [f'{{"title":"row {n}","rank":{n}}}' for n in range(number, number + count)]
    return "\n".join(lines) + "\n"


class Work:
    """A command on a copy of a store, and the states that it may leave. With NEW among its words, it makes a store
    there and leaves its own as it was. If it `repeats`, a second run leaves the last of the states. `file` is the
    name of the store."""

    def __init__(self, name, words, original, allowed, repeats=False, program=annals, file="s.annals"):
        self.program, self.file = program, file
        self.name, self.words, self.original, self.allowed = name, words, original, allowed
        self.repeats = repeats
        self.made = None

    def command(self, directory):
        places = {"STORE": directory + "/" + self.file, "NEW": directory + "/new.annals"}
        return [places.get(word, word) for word in self.words]

    def run(self, *inject):
        """In a new directory: gives it back with how strace ended."""
        directory = tempfile.mkdtemp(dir=folder)
        store = directory + "/" + self.file
        if self.original:
            shutil.copy(self.original, store)
        log = folder + "/calls"
        words = ["strace", "-f", "-qq", "-o", log, "-e", "trace=" + CALLS, *inject, self.program]
        words += self.command(directory)
        result = subprocess.run(words, capture_output=True, text=True, timeout=120)
        return directory, store, result.returncode

    def counts(self):
        directory, store, status = self.run()
        if status != 0:
            raise SystemExit(f"{self.name} ends with {status}")
        if state(store) not in self.allowed:
            raise SystemExit(f"{self.name} does not leave what it should")
        self.made = state(directory + "/new.annals")
        if ("NEW" in self.words) != (self.made is not None):
            raise SystemExit(f"{self.name} does not make what it should")
        shutil.rmtree(directory)
        calls = re.findall(r"^\d+ +([a-z0-9_]+)\(", open(folder + "/calls").read(), re.M)
        return collections.Counter(calls)

    def kill_at(self, call, number):
        directory, store, status = self.run("-e", f"inject={call}:signal=KILL:when={number}")
        place = f"{self.name} killed at {call} {number}"
        try:
            self.look(store, directory, place)
        except (SystemExit, subprocess.TimeoutExpired) as error:
            fail(f"{place}: {error}")
        shutil.rmtree(directory)
        return status != 0

    def look(self, store, directory, place):
        if not os.path.exists(store):
            if None not in self.allowed:
                fail(f"{place}: there is no store")
            elif os.listdir(directory):
                fail(f"{place}: there is {os.listdir(directory)} and no store")
            return
        verify = tool("verify", store, check=False)
        if verify.returncode != 0:
            fail(f"{place}: verify ends with {verify.returncode}: {verify.stdout}{verify.stderr}")
        left = state(store)
        if left not in self.allowed:
            fail(f"{place}: the store is neither as before nor as after")
        names = [self.file]
        if self.made:
            names = sorted(["new.annals", self.file])
            self.look_at_made(directory, place)
        if self.repeats:
            tool(*self.command(directory), program=self.program)
            left = state(store)
            if left != self.allowed[-1]:
                fail(f"{place}: a second run does not finish it")
        # What writes next removes what was left.
        if self.original:
            tool("compact", store)
            if sorted(os.listdir(directory)) != names:
                fail(f"{place}: {os.listdir(directory)} is left")
            if state(store) != left:
                fail(f"{place}: compaction afterwards changes the state")
            if tool("verify", store, check=False).returncode != 0:
                fail(f"{place}: the store is damaged after another compaction")


    def look_at_made(self, directory, place):
        """The new store is whole, or not there: then another run makes it, and removes what was left."""
        new = directory + "/new.annals"
        if not os.path.exists(new):
            tool(*self.command(directory), program=self.program)
        if state(new) != self.made:
            fail(f"{place}: the new store is not as it should be")
        if tool("verify", new, check=False).returncode != 0:
            fail(f"{place}: the new store is damaged")


def applied():
    """Applies exported transactions to a store that has the first of them."""
    source, lines, first = folder + "/source.annals", folder + "/lines", folder + "/applied1.annals"
    with open(folder + "/part", "w") as file:
        file.write(rows(0, 3 * BATCH))
    tool("load", source, folder + "/part", "--entity", "Clip", "--batch", str(BATCH))
    tool("delete", source, "Clip", "3")
    exported = tool("export", source).stdout.splitlines(keepends=True)
    states = []
    for count in range(1, len(exported) + 1):
        store = folder + f"/applied{count}.annals"
        with open(lines, "w") as file:
            file.writelines(exported[:count])
        tool("apply", store, lines)
        states.append(state(store))
    return Work("apply", ["apply", "STORE", lines], first, states, repeats=True)


def consumers(original):
    """Commands that register a consumer, move it and remove it."""
    works, before = [], original
    for name, words in (("register", ["2", "--register", "reader"]), ("advance", ["4", "--advance", "reader"]),
                        ("remove", ["--remove", "reader"])):
        after = folder + f"/{name}.annals"
        shutil.copy(before, after)
        tool("consumers", after, *words)
        # Nothing can be removed twice.
        works.append(Work("consumers --" + name, ["consumers", "STORE", *words], before, [state(before), state(after)],
                          repeats=name != "remove"))
        before = after
    return works


def migrated():
    """Opens a store with a newer version of a program, which has two migrations."""
    states = []
    for count, mode in enumerate([None, "first", "run"]):
        store = folder + f"/migrated{count}.annals"
        tool("migrate", "make", store, program=helper)
        if mode:
            tool("migrate", mode, store, program=helper)
        states.append(state(store))
    return Work("migrate", ["migrate", "run", "STORE"], folder + "/migrated0.annals", states, repeats=True,
                program=helper)


def prepare():
    """A store with history of which a part is cleaned, and the commands."""
    original = folder + "/original.annals"
    with open(folder + "/first", "w") as file:
        file.write(rows(0, 200))
    with open(folder + "/more", "w") as file:
        file.write(rows(1000, 4 * BATCH))
    tool("load", original, folder + "/first", "--entity", "Clip", "--batch", str(BATCH))
    tool("delete", original, "Clip", "3")
    cleaned = folder + "/cleaned.annals"
    shutil.copy(original, cleaned)
    tool("clean", cleaned, "--before", "4")
    loads = [state(original)]
    for count in range(1, 5):
        loaded = folder + f"/loaded{count}.annals"
        shutil.copy(original, loaded)
        with open(folder + "/part", "w") as file:
            file.write(rows(1000, count * BATCH))
        tool("load", loaded, folder + "/part", "--entity", "Clip", "--batch", str(BATCH))
        loads.append(state(loaded))
    load = ["load", "STORE", folder + "/more", "--entity", "Clip", "--batch", str(BATCH)]
    return [
        Work("load", load, original, loads),
        Work("clean", ["clean", "STORE", "--before", "4"], original, [state(original), state(cleaned)]),
        Work("compact", ["compact", "STORE"], cleaned, [state(cleaned)]),
        *(Work("names", ["compact", "STORE"], cleaned, [state(cleaned)], file=name) for name in NAMES),
        Work("backup", ["backup", "STORE", "NEW"], original, [state(original)]),
        Work("salvage", ["salvage", "STORE", "NEW"], original, [state(original)]),
        applied(),
        migrated(),
        *consumers(original),
    ]


def interrupted(original):
    """Signals that interrupt a sync are no failure of it."""
    store = folder + "/interrupted.annals"
    shutil.copy(original, store)
    words = ["strace", "-f", "-o", folder + "/trace", "-e", "trace=fsync,fdatasync"]
    words += ["-e", "inject=fsync,fdatasync:error=EINTR:when=1..2", annals, "insert", store, "Clip", "rank=1"]
    result = subprocess.run(words, capture_output=True, text=True, timeout=60)
    with open(folder + "/trace") as file:
        calls = file.read().count("EINTR")
    if result.returncode != 0 or calls < 2:
        fail(f"an insert with {calls} interrupted syncs ended with {result.returncode}: {result.stderr}")
    tool("verify", store)
    print(f"interrupted syncs: {calls} calls, status {result.returncode}", flush=True)


def main():
    works = prepare()
    interrupted(works[0].original)
    for work in works:
        # Compaction under every odd name takes as long as everything else together, so it runs when it is asked for.
        if work.name not in (only or [other.name for other in works if other.name != "names"]):
            continue
        runs, killed = 0, 0
        counts = work.counts()
        for call, count in sorted(counts.items()):
            for number in range(1, count + 1, step):
                killed += work.kill_at(call, number)
                runs += 1
        title = work.name if work.file == "s.annals" else f"{work.name}, {work.file[:40]!r}"
        total = sum(counts.values())
        print(f"{title}: {runs} runs over {len(counts)} kinds of calls, {killed} killed; {total} calls", flush=True)
        if killed < runs // 2:
            fail(f"{work.name}: only {killed} of {runs} were killed")


programs.limit(int(os.environ.get("SECONDS_EACH", "7200")))
try:
    main()
finally:
    shutil.rmtree(folder)
sys.exit(1 if failures else 0)
