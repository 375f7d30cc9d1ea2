#!/usr/bin/env python3
"""Kills a mirror at every system call, and checks that nothing is lost or doubled.

Usage: Tests/run mirrorkills [ENGINE [STEP [CALL...]]]

ENGINE is folder (the default) or nats. Two stores are mirrored. For each kind of system call and each STEP-th call of
it (1): both stores get new objects, a mirror begins with what the last one has left, and is killed at that call. Then
another mirror of the store runs until both stores have confirmed everything. Checked: both have the same objects, each
object that was written is there once, `verify` finds nothing, and nothing was parked. Ends when no thread makes as many
calls of any kind in a run from the start to the end of a mirror. CALLs limit it to these kinds. Needs strace, and
nats-server for nats. ANNALS_TOOL names the tool; without it the script builds one.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from support import programs

engine = sys.argv[1] if len(sys.argv) > 1 else "folder"
step = int(sys.argv[2]) if len(sys.argv) > 2 else 1
if engine not in ("nats", "folder"):
    sys.exit(f"There is no engine {engine}: nats or folder.")
for needed in ["strace"] + (["nats-server"] if engine == "nats" else []):
    if not shutil.which(needed):
        sys.exit(f"NOT TESTED: there is no {needed}")
CALLS = sys.argv[3:] or [
    "pwrite64", "write", "fdatasync", "fsync", "sync_file_range", "fallocate", "ftruncate", "rename", "renameat",
    "renameat2", "unlink", "unlinkat", "link", "linkat", "sendto", "sendmsg", "openat", "close", "fcntl", "pread64",
    "read", "recvfrom", "poll", "ppoll", "mmap", "munmap", "fstat", "newfstatat", "statx", "fchmod", "fchown",
    "getdents64", "inotify_add_watch", "connect", "socket", "flock"]
SETTLE_SECONDS, RUN_SECONDS = 60, 1.5

annals = programs.tool()
folder = tempfile.mkdtemp(prefix="annals-mirrorkills-", dir=os.environ.get("TMPDIR", "/tmp"))
stores = [f"{folder}/a.annals", f"{folder}/b.annals"]
written = set()
children = []


def tool(*words, lines=None):
    result = subprocess.run([annals, *words], input=lines, capture_output=True, text=True, timeout=60)
    if result.returncode != 0:
        raise SystemExit(f"annals {' '.join(words)}: {result.stderr}")
    return result.stdout


def route():
    return ["--nats", "nats://127.0.0.1:4399"] if engine == "nats" else ["--folder", folder + "/shared"]


def start(index, before=()):
    child = subprocess.Popen(
        [*before, annals, "mirror", "run", stores[index], "--group", "kills", "--name", "ab"[index],
         "--format", "jsonl", *route()],
        stdout=subprocess.DEVNULL, stderr=open(f"{folder}/errors", "a"))
    children.append(child)
    return child


def end(child):
    child.send_signal(signal.SIGTERM)
    status = child.wait(60)
    children.remove(child)
    if status != 0:
        raise SystemExit(f"a mirror ended with {status}: see {folder}/errors")


def write(index, number):
    """A transaction of one object, and one of two."""
    markers = [f"{'ab'[index]} {number} {part}" for part in range(3)]
    for batch in (markers[:1], markers[1:]):
        lines = "".join(json.dumps({"marker": marker}) + "\n" for marker in batch)
        tool("load", "--entity", "Entry", "--batch", "10", stores[index], "-", lines=lines)
    written.update(markers)


def status(index):
    return json.loads(tool("mirror", "status", "--format", "json", stores[index]))


def rows(index):
    return sorted(json.loads(line)["marker"] for line in tool("dump", stores[index]).splitlines())


def settle(where):
    """Waits until both stores have everything, and both know it."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        both = [status(0), status(1)]
        peers = [peer for one in both for peer in one.get("peers", [])]
        if len(peers) == 2 and all(peer["confirmed"] >= one["published"] > 0 and peer["lag"] == 0
                                   for one in both for peer in one["peers"]):
            if rows(0) == rows(1) == sorted(written):
                break
        if time.monotonic() > deadline:
            lost = [sorted(written - set(rows(index))) for index in range(2)]
            doubled = [len(rows(index)) - len(set(rows(index))) for index in range(2)]
            raise SystemExit(
                f"failed at {where}: the stores are not equal after {SETTLE_SECONDS} s. Lost: {lost}, doubled: "
                f"{doubled}, {json.dumps(both)}; see {folder}")
        time.sleep(0.05)
    for one in both:
        if one.get("parked"):
            raise SystemExit(f"failed at {where}: parked: {one['parked']}; see {folder}")


def main():
    os.mkdir(folder + "/shared")
    if engine == "nats":
        children.append(subprocess.Popen(
            ["nats-server", "-js", "-sd", folder + "/nats", "-a", "127.0.0.1", "-p", "4399"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    for index in range(2):
        write(index, 0)
    other, mirror = start(1), start(0)
    settle("the beginning")
    end(mirror)
    kills, number = 0, 0
    for call in CALLS:
        count = 0
        while True:
            count += step
            number += 1
            where = f"{call} {count}"
            for index in range(2):
                write(index, number)
            begin = time.monotonic()
            traced = start(0, [
                "strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e",
                f"inject={call}:signal=KILL:when={count}"])
            while traced.poll() is None and time.monotonic() < begin + RUN_SECONDS:
                time.sleep(0.01)
            # The end of a mirror makes calls, too.
            if traced.poll() is None:
                ended = subprocess.run(["pkill", "-TERM", "-P", str(traced.pid)])
                if ended.returncode != 0:
                    traced.terminate()
            died = traced.wait(60)
            children.remove(traced)
            mirror = start(0)
            settle(where)
            end(mirror)
            if died == 0:
                break
            kills += 1
        print(f"{call}: {count // step - 1} kills", flush=True)
        for store in stores:
            tool("verify", store)
    end(other)
    print(f"{kills} kills, {len(written)} objects: nothing lost or doubled")


try:
    main()
    shutil.rmtree(folder)
finally:
    for child in children:
        child.kill()
        child.wait()
