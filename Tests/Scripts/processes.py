#!/usr/bin/env python3
"""Starts and kills many processes on one store, and compares what they have logged with what is there.

Usage: Tests/run processes [SECONDS [SEED]]

60 and 1 by default. Writers, compactors that clean, readers through maps and through copies, consumers that advance in
their own transactions, and watchers that must miss nothing use the store; two of them are killed each second. Exit
status 1 if something was lost, doubled, torn or held up. SCRATCH names the build folder, CONFIGURATION debug or
release; PROCESSES="4 2 4" sets how many writers, compactors and readers there are; KEEP=1 keeps the folder.

Checked:
- What a writer was told of as committed is in the rows: at every start it compares its notes with its log, and at the
  end all are compared. Its last transaction, if it was killed before it could note the answer, is there whole or not
  at all.
- The counter says how often it was incremented.
- Every number comes once and in order to both watchers; the one that reads history finds each acknowledged
  transaction under its number.
- Accounts have the same sum in every snapshot, a snapshot that is held stays as it was, and numbers never go back.
- Each consumer has counted every transaction of a writer up to its cursor, and each once.
- The tool opens the store beside all of them within ten seconds.
- `annals verify` finds the store whole, every second or so and at the end, and no file stands beside the store at the
  end.
- Who waits while a writer is killed waits for less than 100 ms, unless a compaction ends meanwhile: that wait is
  another one. Of commits that need not be durable: who waits for the disk does so without the lock, and disks stall
  for as long as they like.
"""

import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from support import programs

seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60
seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
products = programs.build("annals", "process-helper")
helper, annals = products + "/process-helper", products + "/annals"
WRITERS, COMPACTORS, READERS = (int(count) for count in os.environ.get("PROCESSES", "4 2 4").split())
CONSUMERS = 2  # as the helper makes them
TOOL_SECONDS = 10
LONGEST_WAIT_MS = 100
chance = random.Random(seed)
folder = tempfile.mkdtemp(prefix="annals-processes-", dir=os.environ.get("TMPDIR", "/tmp"))
os.mkdir(folder + "/store")
store = folder + "/store/s.annals"
errors = open(folder + "/errors", "w+")
running = {}
tool_times = []
failures = []


def fail(sentence):
    failures.append(sentence)
    if len(failures) <= 20:
        print("failed: " + sentence, file=sys.stderr)


def log(role):
    return f"{folder}/{role[0]}.{role[1]}"


def start(role):
    kind, number = role
    words = {
        "writer": [store, log(role), str(number), str(chance.getrandbits(60))],
        "compactor": [store, log(role), str(chance.getrandbits(60)), log(("watcher", 0)), log(("watcher", 1)),
                      *(log(("consumer", n + 1)) for n in range(CONSUMERS))],
        "reader": [store, log(role), str(chance.getrandbits(60)), "copied" if number % 2 else "mapped"],
        "consumer": [store, log(role), str(number)],
        "watcher": [store, log(role), folder + "/stop", "history" if number else "signals"],
    }[kind]
    running[role] = subprocess.Popen([helper, kind, *words], stderr=errors, stdin=subprocess.DEVNULL)


def check_all_run():
    for role, process in list(running.items()):
        if process.poll() is not None:
            fail(f"{role} has ended by itself with {process.returncode}")
            del running[role]


def verify():
    result = subprocess.run([annals, "verify", store], capture_output=True, text=True, timeout=120)
    if result.returncode != 0:
        fail(f"verify ends with {result.returncode}: {result.stdout}{result.stderr}")
        if not os.path.exists(folder + "/damaged"):
            shutil.copy(store, folder + "/damaged")


def tool_beside():
    """The tool looks at the store while all others use it. It reads through copies."""
    for command in ("info", "consumers"):
        began = time.monotonic()
        try:
            result = subprocess.run([annals, command, store], capture_output=True, text=True, timeout=TOOL_SECONDS)
        except subprocess.TimeoutExpired:
            fail(f"annals {command} takes more than {TOOL_SECONDS} seconds beside the others")
            continue
        tool_times.append(time.monotonic() - began)
        if result.returncode != 0:
            fail(f"annals {command} ends with {result.returncode}: {result.stderr}")
        elif '"lost":true' in result.stdout:
            fail(f"cleaning has passed a consumer: {result.stdout}")


def now():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000


def kill(role):
    process = running.pop(role)
    moment = now()
    process.send_signal(signal.SIGKILL)
    process.wait()
    return moment


def words(role):
    try:
        return [line.split() for line in open(log(role)) if line.endswith("\n") and line.strip()]
    except FileNotFoundError:
        return []


def run():
    """Gives back when writers were killed."""
    subprocess.run([helper, "make", store], check=True, timeout=60)
    roles = [("writer", n) for n in range(WRITERS)] + [("compactor", n) for n in range(COMPACTORS)]
    roles += [("reader", n) for n in range(READERS)] + [("consumer", n + 1) for n in range(CONSUMERS)]
    for role in [("watcher", 0), ("watcher", 1), *roles]:
        start(role)
    end = time.monotonic() + seconds
    next_verify = time.monotonic() + 1
    kills = {"writer": [], "compactor": [], "reader": [], "consumer": []}
    while time.monotonic() < end and not failures:
        time.sleep(chance.uniform(0, 1))
        check_all_run()
        role = chance.choice(roles)
        if role in running:
            kills[role[0]].append((role, kill(role)))
            start(role)
        if time.monotonic() >= next_verify:
            verify()
            tool_beside()
            next_verify = time.monotonic() + 1
    check_all_run()
    for role in roles:
        if role in running:
            kill(role)
    return kills


def check_rows():
    logs = [log(("writer", n)) for n in range(WRITERS)]
    result = subprocess.run([helper, "check", store, *logs], capture_output=True, text=True, timeout=120)
    if result.returncode != 0:
        fail("check: " + result.stderr)
    return result.stdout.strip()


def check_watchers(last):
    with open(folder + "/stop.new", "w") as file:
        file.write(f"{last}\n")
    os.rename(folder + "/stop.new", folder + "/stop")
    for number in range(2):
        process = running.pop(("watcher", number), None)
        if process is None:
            continue
        try:
            if process.wait(timeout=30) != 0:
                fail(f"watcher {number} has ended with {process.returncode}")
        except subprocess.TimeoutExpired:
            fail(f"watcher {number} has not seen transaction {last}")
            process.kill()
            process.wait()
        seen = [int(line[0]) for line in words(("watcher", number))]
        if seen != list(range(1, last + 1)):
            place = next((n for n, value in enumerate(seen) if value != n + 1), len(seen))
            fail(f"watcher {number} has seen {len(seen)} of {last} transactions; "
                 f"place {place} has {seen[place:place + 3]}")


def check_history():
    """Each acknowledged transaction stands in history under its number; of those not acknowledged, those that were
    found."""
    told = {}
    for line in words(("watcher", 1)):
        if line[1] == "writer":
            told[(int(line[2]), int(line[3]))] = told.get((int(line[2]), int(line[3])), []) + [int(line[0])]
    expected = {}
    busy = 0
    for writer in range(WRITERS):
        for line in words(("writer", writer)):
            if line[0] == "a":
                expected[(writer, int(line[1]))] = int(line[2])
            elif line[0] == "r" and line[2] == "in":
                expected[(writer, int(line[1]))] = None
            busy += line[0] == "n"
    for key, number in expected.items():
        if len(told.get(key, [])) != 1 or number not in (None, told[key][0]):
            fail(f"transaction {key}, acknowledged as {number}, was told as {told.get(key)}")
    for key in told:
        if key not in expected:
            fail(f"transaction {key} was told and is not in the rows")
    return len(expected), busy


def check_consumers(found):
    """Found: of each consumer, the transaction that it stands at, and how many of writers it has counted."""
    writers = [int(line[0]) for line in words(("watcher", 1)) if line[1] == "writer"]
    for number, (cursor, read) in enumerate(found, 1):
        expected = sum(1 for value in writers if value <= cursor)
        if read != expected:
            fail(f"consumer {number} has counted {read} transactions up to {cursor}, and there are {expected}")
        if seconds >= 10 and read == 0:
            fail(f"consumer {number} has read nothing")


def waits(kills):
    """Of each killed writer how long another's relaxed commit that was under way then still took, in ms: the longest;
    all of them, and without
    those in which a compaction ended. And the times of all relaxed and of all durable commits."""
    commits, durable = [], []
    for writer in range(WRITERS):
        for line in words(("writer", writer)):
            if line[0] in "an" and len(line) == 7:
                kind = durable if line[5] == "full" else commits
                kind.append((int(line[3]), int(line[3]) + int(line[4]), writer, line[6]))
    commits.sort()
    longest, without = [], []
    for role, moment in kills:
        under_way = [((end - max(began, moment)) / 1000, file) for began, end, writer, file in commits
                     if began <= moment + 1000 and end >= moment and writer != role[1]]
        longest.append(max((wait for wait, _ in under_way), default=0))
        without.append(max((wait for wait, file in under_way if file == "same"), default=0))
    return longest, without, *([(end - began) / 1000 for began, end, _, _ in kind] for kind in (commits, durable))


def summary(kills, last, transactions, busy, rows):
    longest, without, commits, durable = waits(kills["writer"])
    compactions = [line for n in range(COMPACTORS) for line in words(("compactor", n))]
    done = [line for line in compactions if line[0] == "c"]
    if COMPACTORS and not done:
        fail("nothing was compacted")
    if max(without, default=0) >= LONGEST_WAIT_MS:
        fail(f"a writer waited {max(without):.1f} ms when another was killed")
    print(f"seed {seed}, {seconds:.0f} s: {last} transactions, {transactions} of writers, {busy} busy")
    print("kills: " + ", ".join(f"{len(value)} {kind}s" for kind, value in kills.items()))
    horizon = done[-1][1] if done else 0
    print(f"compactions: {len(done)} done, {len(compactions) - len(done)} busy; last horizon {horizon}")
    for remainder, kind in enumerate(("mapped", "copied")):
        logged = [line for n in range(remainder, READERS, 2) for line in words(("reader", n))]
        opens = [int(line[1]) / 1000 for line in logged if line[0] == "open"]
        print(f"{kind} readers: {len(logged) - len(opens)} snapshots, longest opening {max(opens, default=0):.0f} ms")
    print(f"rows: {rows}")
    if tool_times:
        print(f"the tool beside them: {len(tool_times)} runs, median {statistics.median(tool_times) * 1000:.0f} ms, "
              f"max {max(tool_times) * 1000:.0f} ms")
    if longest:
        print(f"longest wait from a writer's kill: median {statistics.median(longest):.2f} ms, "
              f"max {max(longest):.2f} ms; where no compaction ended: median {statistics.median(without):.2f} ms, "
              f"max {max(without):.2f} ms")
    for kind, times in (("relaxed", commits), ("durable", durable)):
        if times:
            times.sort()
            print(f"{kind} commit: median {statistics.median(times):.2f} ms, "
                  f"99 % {times[len(times) * 99 // 100]:.2f} ms, max {times[-1]:.2f} ms")


def finish():
    for process in running.values():
        process.kill()
        process.wait()
    errors.seek(0)
    said = errors.read()
    if said:
        print(said[:4000], file=sys.stderr)
    if os.environ.get("KEEP") == "1":
        print("kept: " + folder, file=sys.stderr)
    else:
        shutil.rmtree(folder)


def main():
    kills = run()
    verify()
    rows = check_rows()
    last = json.loads(rows)["number"] if rows else 0
    check_watchers(last)
    check_consumers(json.loads(rows)["consumers"] if rows else [])
    transactions, busy = check_history()
    # What a killed compactor has left, the next one who writes removes.
    subprocess.run([annals, "compact", store], capture_output=True, timeout=120)
    verify()
    check_rows()
    if os.listdir(folder + "/store") != ["s.annals"]:
        fail(f"beside the store there is {os.listdir(folder + '/store')}")
    summary(kills, last, transactions, busy, rows)


programs.limit(seconds + 300)
try:
    main()
finally:
    finish()
sys.exit(1 if failures else 0)
