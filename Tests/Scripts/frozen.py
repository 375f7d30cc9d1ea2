#!/usr/bin/env python3
"""Stops a reader while others commit and compact: it holds nobody up, and reads on in its snapshot.

Usage: Tests/run frozen [ROUNDS [COMMITS]]

20 rounds of 5,000 commits and one compaction by default; as often without the reader, for comparison. Exit status 1 if
its snapshot has changed, a new one is not the newest, or the writer has less than 0.7 of its rate. SCRATCH names the
build folder, CONFIGURATION debug or release.
"""

import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

from support import programs

rounds, commits = (int(word) for word in (sys.argv[1:] + ["20", "5000"][len(sys.argv) - 1:]))
products = programs.build("annals", "process-helper")
helper, annals = products + "/process-helper", products + "/annals"
LEAST_RATIO = 0.7
folder = tempfile.mkdtemp(prefix="annals-frozen-", dir=os.environ.get("TMPDIR", "/tmp"))
processes = []
failures = []


def fail(sentence):
    failures.append(sentence)
    print("failed: " + sentence, file=sys.stderr)


class Helper:
    """A process that answers each line with one."""

    def __init__(self, *words):
        self.process = subprocess.Popen([helper, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        processes.append(self.process)

    def say(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("a process has ended")
        return [int(word) for word in line.split()]

    def end(self):
        self.process.stdin.close()
        if self.process.wait(timeout=60) != 0:
            fail("a process ended with %d" % self.process.returncode)


def run(name, is_frozen):
    """Gives back the microseconds of each round, and how many compactions there were."""
    store = f"{folder}/{name}.annals"
    subprocess.run([helper, "make", store], check=True, timeout=60)
    reader = None
    if is_frozen:
        reader = Helper("hold", store)
        held = reader.answer()
        reader.process.send_signal(signal.SIGSTOP)
    writer = Helper("rounds", store, str(commits))
    times, compactions, last = [], 0, 0
    for _ in range(rounds):
        writer.say()
        # Cleaned and compacted while the writer is at work.
        clean = [annals, "clean", store, "--before", str(max(last, 1))]
        subprocess.run(clean, check=True, capture_output=True, timeout=60)
        compactions += subprocess.run([annals, "compact", store], capture_output=True, timeout=60).returncode == 0
        microseconds, last = writer.answer()
        times.append(microseconds)
    writer.end()
    if reader:
        reader.process.send_signal(signal.SIGCONT)
        reader.say()
        number, checksum, newest, newest_checksum = reader.answer()
        if [number, checksum] != held:
            fail(f"the snapshot was {held}, and is {[number, checksum]}")
        fresh = Helper("hold", store)
        if fresh.answer() != [newest, newest_checksum] or newest != last:
            fail(f"a new snapshot is of {newest}, and the newest transaction is {last}")
        fresh.end()
        reader.end()
    if subprocess.run([annals, "verify", store], capture_output=True, timeout=120).returncode != 0:
        fail("the store is damaged")
    if compactions != rounds:
        fail(f"{compactions} of {rounds} compactions were done")
    os.unlink(store)
    return times


def main():
    # Interleaved, because the machine has others to serve.
    frozen, free = [], []
    for attempt in range(3):
        free += run(f"free{attempt}", False)
        frozen += run(f"frozen{attempt}", True)
    rates = [commits / statistics.median(times) * 1e6 for times in (free, frozen)]
    ratio = rates[1] / rates[0]
    print(f"{rounds * commits} commits and {rounds} compactions, three times each")
    print(f"commits a second, median of rounds: {rates[0]:.0f} without a reader, {rates[1]:.0f} with one that is "
          f"stopped; ratio {ratio:.2f}")
    if ratio < LEAST_RATIO:
        fail(f"a stopped reader slows the writer down to {ratio:.2f}")


programs.limit(600)
try:
    main()
finally:
    for process in processes:
        if process.poll() is None:
            process.kill()
            process.wait()
    shutil.rmtree(folder)
sys.exit(1 if failures else 0)
