"""Kills the tool at every system call that touches files, and looks at what is left. See Tests/syscalls.sh."""

import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile

annals, step = os.path.abspath(sys.argv[1]), int(sys.argv[2])
CALLS = (
    "openat,open,creat,close,read,pread64,write,pwrite64,fallocate,ftruncate,fdatasync,fsync,sync_file_range,rename,renameat,renameat2,unlink,"
    "unlinkat,link,linkat,fcntl,mmap,munmap,fstat,newfstatat,statx,fchmod,fchown"
)
BATCH = 50
folder = tempfile.mkdtemp(prefix="annals-syscalls-", dir=os.environ.get("TMPDIR", "/tmp"))
failures = []


def fail(sentence):
    failures.append(sentence)
    if len(failures) <= 20:
        print("failed: " + sentence, file=sys.stderr)


def tool(*words, check=True):
    result = subprocess.run([annals, *words], capture_output=True, text=True, timeout=60)
    if check and result.returncode != 0:
        raise SystemExit(f"annals {' '.join(words)}: {result.stderr}")
    return result


def state(store):
    """Rows and history; None where there is no store. History says when, and the same commands are run at many times."""
    if not os.path.exists(store):
        return None
    history = tool("history", store).stdout
    return tool("dump", store).stdout, re.sub(r'"(timestamp|token|process|processID)":("[^"]*"|[0-9]+)', "", history)


def rows(number, count):
    lines = [f'{{"title":"row {n}","rank":{n}}}' for n in range(number, number + count)]
    return "\n".join(lines) + "\n"


class Work:
    """A command on a copy of a store, and the states that it may leave."""

    def __init__(self, name, words, original, allowed):
        self.name, self.words, self.original, self.allowed = name, words, original, allowed

    def run(self, *inject):
        """In a new directory: gives it back with how strace ended."""
        directory = tempfile.mkdtemp(dir=folder)
        store = directory + "/s.annals"
        if self.original:
            shutil.copy(self.original, store)
        log = folder + "/calls"
        words = ["strace", "-f", "-qq", "-o", log, "-e", "trace=" + CALLS, *inject, annals]
        words += [store if word == "STORE" else word for word in self.words]
        result = subprocess.run(words, capture_output=True, text=True, timeout=120)
        return directory, store, result.returncode

    def counts(self):
        directory, store, status = self.run()
        if status != 0:
            raise SystemExit(f"{self.name} ends with {status}")
        if state(store) not in self.allowed:
            raise SystemExit(f"{self.name} does not leave what it should")
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
        # What writes next removes what was left.
        if self.original:
            tool("compact", store)
            if os.listdir(directory) != ["s.annals"]:
                fail(f"{place}: {os.listdir(directory)} is left")
            if state(store) != left:
                fail(f"{place}: compaction afterwards changes the state")
            if tool("verify", store, check=False).returncode != 0:
                fail(f"{place}: the store is damaged after another compaction")


def prepare():
    """A store with history of which a part is cleaned, and the four commands."""
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
    ]


def main():
    for work in prepare():
        runs, killed = 0, 0
        counts = work.counts()
        for call, count in sorted(counts.items()):
            for number in range(1, count + 1, step):
                killed += work.kill_at(call, number)
                runs += 1
        print(f"{work.name}: {runs} runs over {len(counts)} kinds of calls, {killed} killed; {sum(counts.values())} calls", flush=True)
        if killed < runs // 2:
            fail(f"{work.name}: only {killed} of {runs} were killed")


try:
    main()
finally:
    shutil.rmtree(folder)
sys.exit(1 if failures else 0)
