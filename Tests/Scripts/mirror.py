#!/usr/bin/env python3
"""Disturbs mirrored stores while programs write them, and compares them at the end.

Usage: Tests/run mirror [SECONDS [SEED [ENGINE]]]

600, 1 and nats by default; ENGINE is nats or folder. Three stores, each with a mirror and two writers. A fourth store
joins in the middle. Exit status 1 if something was lost, doubled or differs, or if a program did what it must not.
ANNALS_TOOL names the tool; without it the script builds one. KEEP=1 keeps the folder, which is also kept after a
failure. HOLD=1 waits for ten minutes after a failure, while everything runs, so that one can look.
WITHOUT="streams_deleted node_emptied" leaves out these faults, by the names of their functions.

With nats the messages go through three nodes of nats-server, and each message has three copies. With folder each store
has a folder of its own. The script copies the files between these folders: late, out of order, some of them twice,
some of them not at once. Files that were removed in one folder are removed in the others later.

What happens meanwhile, at random:
- Commands that write are killed or stopped at any moment.
- Mirrors are killed, stopped for a while, ended and started later. Stores are compacted.
- The clock of a machine changes by an hour, for its mirror and its writers (with a compiler of C).
- The disk of one store is full for a while (as root).
- nats: nodes are killed, stopped for a while, and emptied while they are down. All nodes are killed. The streams are
  deleted. The disk of one node is full for a while (as root). The network is divided into two parts (as root).
- folder: nothing is copied from and to one folder for a while.
What is impossible on a machine is left out, and the script says so. If the servers leave the stream without a leader
for a minute although all of them run, the script deletes it, as an operator would.

Checked:
- All stores have the same objects with the same values. A reference counts as the marker of the object that it names.
- Each object of Entry that a command has acknowledged is in each store, once, with its values. Entries are never
  changed or deleted. An entry whose command was killed may be there or not, but in all stores alike.
- `annals verify` finds each store whole, every few seconds and at the end.
- At the end all mirrors are without an error, and each has confirmed the transactions of all others. None ever parks a
  transaction.
- No mirror ends by itself, none takes more than 120 seconds to end, and none ever shows an error that the faults do
  not explain.

As root the script runs in a network and with mounts of its own, which go when it ends.
"""

import collections
import contextlib
import heapq
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

from support import programs

seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 600
seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
engine = sys.argv[3] if len(sys.argv) > 3 else "nats"
if engine not in ("nats", "folder"):
    sys.exit(f"There is no engine {engine}: nats or folder.")
annals = programs.tool()

IS_ALONE = "ANNALS_MIRROR_ALONE"
if os.geteuid() == 0 and IS_ALONE not in os.environ and shutil.which("unshare"):
    if subprocess.run(["unshare", "-n", "-m", "true"], stderr=subprocess.DEVNULL).returncode == 0:
        environment = {**os.environ, IS_ALONE: "1", "ANNALS_TOOL": annals}
        command = ["unshare", "-n", "-m", "--", sys.executable, os.path.abspath(sys.argv[0])]
        os.execvpe("unshare", [*command, *sys.argv[1:]], environment)

GROUP = "test"
STORES, NODES, WRITERS = 3, 3, 2
# On average, in seconds. All stores share the processors of one machine, and a store that has much to merge is slow.
WRITER_PAUSE = 1.5
FAULT_PAUSE = 3.0  # on average, in seconds
LONGEST_FAULT = min(25.0, max(4.0, seconds / 5))
EQUAL_SECONDS = 240
MEND_SECONDS = 60
END_SECONDS = 120
COMMAND_SECONDS = 120
DISK_BYTES = 256 << 20
# Errors of a mirror that a fault explains.
EXPECTED_MIRROR_ERRORS = {"courierUnreachable", "courierUnsuitable", "courierFull", "noSpace", "busy"}
# Errors of a command: the value or the object is impossible at this moment, or a fault explains it.
EXPECTED_COMMAND_ERRORS = {
    "uniqueViolation", "objectNotFound", "referenceMissing", "requiredMissing", "deleteDenied", "noSpace", "busy",
    "revert"}
SCHEMA = {"entities": [
    {"name": "Entry", "attributes": [
        {"name": "marker", "type": "string", "optional": False, "indexed": True},
        {"name": "number", "type": "int", "optional": False},
        {"name": "text", "type": "string"}]},
    {"name": "Team", "attributes": [
        {"name": "marker", "type": "string", "optional": False},
        {"name": "name", "type": "string", "optional": False, "unique": True},
        {"name": "size", "type": "int"}]},
    {"name": "Person", "attributes": [
        {"name": "marker", "type": "string", "optional": False},
        {"name": "key", "type": "string", "unique": True},
        {"name": "rank", "type": "int"},
        {"name": "score", "type": "double"},
        {"name": "note", "type": "string"},
        {"name": "boss", "type": "object", "target": "Person", "deleteRule": "nullify"},
        {"name": "team", "type": "object", "target": "Team", "deleteRule": "cascade"},
        {"name": "friends", "type": "objects", "target": "Person", "deleteRule": "nullify"},
        {"name": "queue", "type": "orderedObjects", "target": "Person", "deleteRule": "nullify"}]},
    {"name": "Badge", "attributes": [
        {"name": "marker", "type": "string", "optional": False},
        {"name": "owner", "type": "object", "target": "Person", "deleteRule": "nullify", "optional": False},
        {"name": "color", "type": "string"}]},
    {"name": "Seat", "attributes": [
        {"name": "marker", "type": "string", "optional": False},
        {"name": "row", "type": "int", "optional": False},
        {"name": "place", "type": "int", "optional": False},
        {"name": "guard", "type": "object", "target": "Person", "deleteRule": "deny"}],
     "keys": [{"attributes": ["row", "place"], "unique": True}]}]}
# The attributes that refer to objects. Those of SETS have no order.
SETS = {"friends"}
REFERENCES = {
    entity["name"]: [attribute["name"] for attribute in entity["attributes"] if "target" in attribute]
    for entity in SCHEMA["entities"]}

chance = random.Random(seed)
began = time.monotonic()
folder = tempfile.mkdtemp(prefix="annals-mirror-", dir=os.environ.get("TMPDIR", "/tmp"))
lock = threading.RLock()
children = set()
failures = []
faults = collections.Counter()
ends = []
command_errors = collections.Counter()
events = open(folder + "/events", "w", buffering=1)


def fail(sentence):
    with lock:
        failures.append(sentence)
        note("failed: " + sentence)
        if len(failures) <= 20:
            print(f"failed after {time.monotonic() - began:.1f} s: {sentence}", file=sys.stderr)


def note(sentence):
    events.write(f"{time.monotonic() - began:8.2f} {sentence}\n")


def count(fault):
    with lock:
        faults[fault] += 1


def spawn(words, **options):
    with lock:
        process = subprocess.Popen(words, **options)
        children.add(process)
    return process


def forget(process):
    with lock:
        children.discard(process)


def run(*words, check=True, **options):
    return subprocess.run(words, check=check, timeout=COMMAND_SECONDS, capture_output=True, text=True, **options)


# What this machine can do.

# A wrong clock. The package faketime also changes timers, so that Swift's `Task.sleep` never returns.
CLOCK_SOURCE = r"""
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *now) {
    const char *offset = getenv("CLOCK_OFFSET");
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && offset && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += atol(offset);
    return result;
}
int gettimeofday(struct timeval *now, void *zone) {
    struct timespec exact;
    int result = clock_gettime(CLOCK_REALTIME, &exact);
    (void)zone;
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return result;
}
time_t time(time_t *seconds) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (seconds) *seconds = exact.tv_sec;
    return exact.tv_sec;
}
"""


def clock_library():
    """A library that a program loads first, so that its clock is wrong. None without a compiler of C."""
    compiler = shutil.which("cc") or shutil.which("clang")
    if not compiler:
        return None
    with open(folder + "/clock.c", "w") as file:
        file.write(CLOCK_SOURCE)
    run(compiler, "-shared", "-fPIC", "-O1", "-o", folder + "/clock.so", folder + "/clock.c")
    return folder + "/clock.so"


def mount(path):
    """A small disk in memory. Returns whether there is one."""
    os.makedirs(path, exist_ok=True)
    if IS_ALONE not in os.environ:
        return False
    return run("mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none", path, check=False).returncode == 0


class Network:
    """A bridge with a line to each node and machine. The second bridge is the other part of a divided network."""

    PREFIX = "10.77.0."

    def __init__(self):
        self.lines = []
        self.exists = False
        if engine == "nats" and IS_ALONE in os.environ and shutil.which("ip") and shutil.which("nsenter"):
            try:
                self.make()
                self.exists = True
            except (OSError, subprocess.CalledProcessError) as error:
                print(f"no network of its own: {getattr(error, 'stderr', '')}{error}", file=sys.stderr)
        if IS_ALONE in os.environ:
            run("ip", "link", "set", "lo", "up", check=False)

    def make(self):
        os.makedirs("/run/netns", exist_ok=True)
        # The names of namespaces go with this mount.
        run("mount", "-t", "tmpfs", "none", "/run/netns")
        for bridge in ("b1", "b2"):
            run("ip", "link", "add", bridge, "type", "bridge")
            run("ip", "link", "set", bridge, "up")
        run("ip", "addr", "add", self.PREFIX + "1/24", "dev", "b1")
        names = [f"n{n}" for n in range(NODES)] + [f"m{n}" for n in range(STORES + 1)]
        for place, name in enumerate(names):
            run("ip", "netns", "add", name)
            run("ip", "link", "add", "v" + name, "type", "veth", "peer", "name", "e0", "netns", name)
            run("ip", "link", "set", "v" + name, "master", "b1", "up")
            run("ip", "-n", name, "addr", "add", self.address(place), "dev", "e0")
            run("ip", "-n", name, "link", "set", "e0", "up")
            run("ip", "-n", name, "link", "set", "lo", "up")
            self.lines.append(name)

    def address(self, place):
        return f"{self.PREFIX}{10 + place}/24"

    def within(self, name):
        return ["nsenter", f"--net=/run/netns/{name}", "--"] if self.exists else []

    def divide(self, names):
        for name in self.lines:
            run("ip", "link", "set", "v" + name, "master", "b2" if name in names else "b1")


# The NATS cluster.


class Node:
    def __init__(self, number, address, ports, routes):
        self.number, self.address, self.port = number, address, ports[0]
        self.name = f"n{number}"
        self.folder = f"{folder}/{self.name}"
        self.has_disk = number == 0 and mount(self.folder)
        os.makedirs(self.folder + "/data", exist_ok=True)
        self.config = f"{folder}/{self.name}.conf"
        with open(self.config, "w") as file:
            file.write(
                f"server_name: {self.name}\nlisten: \"{address}:{ports[0]}\"\n"
                f"jetstream {{ store_dir: \"{self.folder}/data\", max_memory_store: 64MB, max_file_store: 1GB }}\n"
                f"cluster {{ name: annals, listen: \"{address}:{ports[1]}\", routes: {json.dumps(routes)} }}\n")
        self.process = None

    def start(self):
        with open(f"{folder}/{self.name}.log", "a") as log:
            self.process = spawn(
                [*network.within(self.name), "nats-server", "-c", self.config], stdout=log, stderr=log,
                stdin=subprocess.DEVNULL)

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            forget(self.process)
            self.process = None

    def empty(self):
        shutil.rmtree(self.folder + "/data")
        os.mkdir(self.folder + "/data")

    def request(self, subject, body=b"", wait=5):
        """One request with the plain protocol. Returns the answer as JSON; None without one."""
        with contextlib.suppress(OSError, ValueError):
            with socket.create_connection((self.address, self.port), timeout=wait) as connection:
                inbox = f"_INBOX.{os.getpid()}.{time.monotonic_ns()}"
                connection.sendall(
                    b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}\r\n'
                    + f"SUB {inbox} 1\r\nPUB {subject} {inbox} {len(body)}\r\n".encode() + body + b"\r\n")
                end = time.monotonic() + wait
                received = connection.makefile("rb")
                while time.monotonic() < end:
                    line = received.readline()
                    if line.startswith(b"MSG "):
                        return json.loads(received.read(int(line.split()[-1])))
                    if line.startswith(b"HMSG "):
                        return {"error": received.read(int(line.split()[-1])).decode().strip()}
                    if line.startswith(b"PING"):
                        connection.sendall(b"PONG\r\n")
                    if not line:
                        break
        return None


class Cluster:
    def __init__(self):
        if network.exists:
            addresses = [network.address(n).split("/")[0] for n in range(NODES)]
            ports = [(4222, 6222)] * NODES
        else:
            addresses = ["127.0.0.1"] * NODES
            ports = free_ports(NODES)
        routes = [f"nats://{address}:{pair[1]}" for address, pair in zip(addresses, ports)]
        self.nodes = [Node(n, addresses[n], ports[n], routes) for n in range(NODES)]
        self.address = ",".join(f"nats://{node.address}:{node.port}" for node in self.nodes)

    def ask(self, subject, body=b"", wait=5):
        for node in self.nodes:
            if node.process:
                answer = node.request(subject, body, wait)
                if answer is not None and "error" not in answer:
                    return answer
        return None

    def wait_until_ready(self):
        end = time.monotonic() + 60
        while time.monotonic() < end:
            # An account gets an answer only if the cluster has a leader.
            if all("error" not in (node.request("$JS.API.INFO") or {"error": ""}) for node in self.nodes):
                return
            time.sleep(0.2)
        raise RuntimeError("The nodes of NATS have not become a cluster.")

    def health(self):
        """The state of the stream in one line."""
        answer = self.ask(f"$JS.API.STREAM.INFO.ANNALS_{GROUP}", wait=6)
        if answer is None:
            return "the stream gives no answer"
        cluster = answer.get("cluster", {})
        replicas = [(r["name"], r.get("current"), r.get("offline", False)) for r in cluster.get("replicas") or []]
        # A message without an identifier is none of a mirror.
        passes = {node.name: node.request(f"annals.{GROUP}.probe") for node in self.nodes}
        return (f"leader {cluster.get('leader')}, replicas {replicas}, state {answer.get('state')}, "
                f"answers to a message through each node: {passes}")

    def bad_lines(self):
        """Lines of the logs of the nodes that announce a state from which they do not recover."""
        for node in self.nodes:
            with open(f"{folder}/{node.name}.log") as log:
                for line in log:
                    if "duplicate assignment" in line or "No RAFT group" in line:
                        yield f"{node.name}: {line.strip()}"


def free_ports(number):
    sockets = [socket.socket() for _ in range(2 * number)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return list(zip(ports[::2], ports[1::2]))


# A synchronizer of folders.


class Synchronizer(threading.Thread):
    """Copies new files between folders, and removes in the others what was removed in one. Everything happens late."""

    def __init__(self):
        super().__init__(daemon=True)
        self.chance = random.Random(seed + 77)
        self.machines = []
        # By folder: the paths that it has or had.
        self.known = {}
        self.removed = set()
        self.jobs = []
        self.order = 0
        self.apart = set()
        self.is_quick = True
        self.ends = threading.Event()
        self.copied = self.again = self.slow = 0

    def add(self, machine):
        """A folder that begins with everything that the first one has."""
        path = machine.shared
        os.makedirs(path, exist_ok=True)
        with lock:
            if self.machines:
                for name in self.files(self.machines[0].shared):
                    os.makedirs(os.path.dirname(f"{path}/{name}"), exist_ok=True)
                    with contextlib.suppress(FileNotFoundError):
                        shutil.copy(f"{self.machines[0].shared}/{name}", f"{path}/{name}")
            self.known[machine.number] = set(self.files(path))
            self.machines.append(machine)

    @staticmethod
    def files(path):
        found = []
        for root, _, names in os.walk(path):
            found += [os.path.relpath(os.path.join(root, name), path) for name in names if not name.startswith(".")]
        return found

    def delay(self):
        if self.is_quick:
            return 0.05
        kind = self.chance.random()
        if kind < 0.5:
            return self.chance.uniform(0, 0.5)
        return self.chance.uniform(0, 4) if kind < 0.97 else self.chance.uniform(4, 15)

    def add_job(self, delay, *job):
        self.order += 1
        heapq.heappush(self.jobs, (time.monotonic() + delay, self.order, job))

    def run(self):
        try:
            while not self.ends.wait(0.05):
                with lock:
                    self.look()
                self.work()
        except Exception:
            fail("the synchronizer has ended: " + traceback.format_exc())

    def look(self):
        for machine in self.machines:
            if machine.number in self.apart:
                continue
            present = set(self.files(machine.shared))
            known = self.known[machine.number]
            for name in sorted(present - known):
                known.add(name)
                try:
                    content = open(f"{machine.shared}/{name}", "rb").read()
                except FileNotFoundError:
                    continue
                for other in self.machines:
                    if other is not machine and name not in self.known[other.number]:
                        self.add_job(self.delay(), "copy", other, name, content)
                        if self.chance.random() < 0.1 and not self.is_quick:
                            self.again += 1
                            self.add_job(self.delay() + 2, "copy", other, name, content)
            for name in sorted(known - present):
                # It has arrived here before, so it was removed here.
                known.discard(name)
                if (name, machine.number) in self.removed:
                    continue
                self.removed.add((name, machine.number))
                for other in self.machines:
                    if other is not machine:
                        self.add_job(self.delay(), "remove", other, name, None)

    def work(self):
        later = []
        while self.jobs and self.jobs[0][0] <= time.monotonic():
            due, order, job = heapq.heappop(self.jobs)
            if job[1].number in self.apart:
                later.append((due, order, job))
            elif job[0] == "copy":
                self.copy(*job[1:])
            else:
                with lock:
                    self.removed.add((job[2], job[1].number))
                    self.known[job[1].number].discard(job[2])
                with contextlib.suppress(FileNotFoundError):
                    os.remove(f"{job[1].shared}/{job[2]}")
        for each in later:
            heapq.heappush(self.jobs, each)

    def copy(self, machine, name, content):
        path = f"{machine.shared}/{name}"
        if (name, machine.number) in self.removed:
            return
        os.makedirs(os.path.dirname(path), exist_ok=True)
        half = self.chance.randrange(len(content) + 1)
        if name == "FORMAT" and os.path.exists(path):
            return
        with lock:
            self.known[machine.number].add(name)
        self.copied += 1
        if self.chance.random() < 0.05 and not self.is_quick and not os.path.exists(path):
            # Not every synchronizer renames.
            self.slow += 1
            with open(path, "wb") as file:
                file.write(content[:half])
                file.flush()
                time.sleep(self.chance.uniform(0, 0.5))
                file.write(content[half:])
            return
        temporary = f"{os.path.dirname(path)}/.sync-{os.path.basename(name)}.part"
        with open(temporary, "wb") as file:
            file.write(content[:half])
            file.flush()
            if self.chance.random() < 0.1:
                time.sleep(self.chance.uniform(0, 0.2))
            file.write(content[half:])
        os.rename(temporary, path)


# Stores, their mirrors and writers.


class Machine:
    def __init__(self, number, offset=0):
        self.number = number
        self.name = f"m{number}"
        self.offset = offset
        self.folder = f"{folder}/{self.name}"
        self.has_disk = number == 0 and mount(self.folder)
        os.makedirs(self.folder, exist_ok=True)
        self.store = self.folder + "/s.annals"
        self.shared = f"{folder}/shared-{self.name}"
        self.mirror = None
        self.read_bytes = 0
        self.status = {}
        self.errors = collections.Counter()
        self.acknowledged = {}
        self.attempted = {}
        self.writes = 0
        self.log = open(f"{folder}/{self.name}.log", "w", buffering=1)
        with open(folder + "/schema.json", "w") as file:
            json.dump(SCHEMA, file)
        run(annals, "schema", self.store, "--apply", folder + "/schema.json")
        self.writers = [Writer(self, n) for n in range(WRITERS)]

    def environment(self):
        if self.offset == 0:
            return None
        return {**os.environ, "LD_PRELOAD": clock, "CLOCK_OFFSET": str(self.offset)}

    def start_mirror(self):
        route = ["--folder", self.shared]
        if engine == "nats":
            route = ["--nats", cluster.address, "--require-replicas", str(NODES)]
        words = [*network.within(self.name), annals, "mirror", "run", self.store, "--group", GROUP]
        with open(f"{folder}/{self.name}.out", "a") as out, open(f"{folder}/{self.name}.err", "a") as err:
            err.write(f"--- started after {time.monotonic() - began:.2f} s, clock {self.offset:+d} s\n")
            err.flush()
            self.status = {}
            self.mirror = spawn(
                [*words, *route, "--name", self.name, "--format", "jsonl"], stdout=out, stderr=err,
                stdin=subprocess.DEVNULL, env=self.environment())

    def kill_mirror(self):
        self.mirror.kill()
        self.mirror.wait()
        self.mirror_has_ended()

    def end_mirror(self):
        start = time.monotonic()
        self.mirror.terminate()
        try:
            # It has not said anything yet: the signal may have come before the tool could handle it.
            accepted = (0,) if self.status else (0, -signal.SIGTERM)
            if self.mirror.wait(timeout=END_SECONDS) not in accepted:
                fail(f"the mirror of {self.name} has ended with {self.mirror.returncode} after SIGTERM")
        except subprocess.TimeoutExpired:
            fail(f"the mirror of {self.name} has not ended {END_SECONDS} s after SIGTERM")
            self.mirror.kill()
            self.mirror.wait()
        ends.append(time.monotonic() - start)
        self.mirror_has_ended()

    def mirror_has_ended(self):
        forget(self.mirror)
        self.mirror = None
        # A killed one may have written a part of a line.
        with open(f"{folder}/{self.name}.out", "a") as out:
            out.write("\n")

    def read_output(self):
        """The states that the mirror has printed since the last call."""
        try:
            with open(f"{folder}/{self.name}.out", "rb") as file:
                file.seek(self.read_bytes)
                content = file.read()
        except FileNotFoundError:
            return
        end = content.rfind(b"\n") + 1
        self.read_bytes += end
        for line in content[:end].splitlines():
            try:
                status = json.loads(line)
            except ValueError:
                continue
            code = (status["error"] or {}).get("code")
            if code and code != (self.status.get("error") or {}).get("code"):
                self.errors[code] += 1
                note(f"{self.name} shows {code}: {status['error'].get('message')}")
                if code not in EXPECTED_MIRROR_ERRORS:
                    fail(f"the mirror of {self.name} shows {code}: {status['error'].get('message')}")
            # All stores have one schema.
            for parked in status["parked"]:
                fail(f"the mirror of {self.name} has parked a transaction: {parked}")
            self.status = status

    def objects(self, entity=None):
        words = [annals, "dump", self.store] + (["--entity", entity] if entity else [])
        result = run(*words, check=False)
        if result.returncode != 0:
            raise RuntimeError(f"annals dump of {self.name} ends with {result.returncode}: {result.stderr}")
        return [json.loads(line) for line in result.stdout.splitlines()]

    def contents(self):
        """All objects as texts without identifiers, sorted."""
        objects = self.objects()
        names = {each["_id"]: f"{each['_entity']} {each['marker']}" for each in objects}

        def name(reference):
            if reference not in names:
                fail(f"{self.name} has a reference to {reference}, which does not exist")
            return names.get(reference, "missing")

        for each in objects:
            del each["_id"]
            for attribute in REFERENCES[each["_entity"]]:
                value = each[attribute]
                if isinstance(value, list):
                    names_of_all = [name(reference) for reference in value]
                    each[attribute] = sorted(names_of_all) if attribute in SETS else names_of_all
                elif value is not None:
                    each[attribute] = name(value)
        return sorted(json.dumps(each, sort_keys=True) for each in objects)

    def verify(self):
        result = run(annals, "verify", self.store, check=False)
        if result.returncode != 0:
            fail(f"verify of {self.name} ends with {result.returncode}: {result.stdout}{result.stderr}")
            with contextlib.suppress(OSError):
                shutil.copy(self.store, f"{folder}/damaged-{self.name}")

    def compact(self):
        result = run(annals, "compact", self.store, check=False)
        if result.returncode not in (0, 75) and "no room" not in result.stderr:
            fail(f"compact of {self.name} ends with {result.returncode}: {result.stderr}")


class Writer(threading.Thread):
    """Writes random changes with commands, some of which it kills or stops."""

    goes_on = True
    may_revert = True

    def __init__(self, machine, number):
        super().__init__(daemon=True)
        self.machine, self.number = machine, number
        self.chance = random.Random(seed * 1000 + machine.number * 10 + number)
        self.people, self.teams, self.badges, self.seats = [], [], [], []
        self.steps = 0
        self.tokens = []

    def run(self):
        try:
            while Writer.goes_on:
                time.sleep(self.chance.uniform(0, 2 * WRITER_PAUSE))
                if self.steps % 12 == 0:
                    self.look()
                self.steps += 1
                self.step()
        except Exception:
            fail(f"a writer of {self.machine.name} has ended: {traceback.format_exc()}")

    def look(self):
        found = collections.defaultdict(list)
        for entity in ("Team", "Person", "Badge", "Seat"):
            found[entity] = [each["_id"] for each in self.machine.objects(entity)]
        self.people, self.teams = found["Person"], found["Team"]
        self.badges, self.seats = found["Badge"], found["Seat"]

    def call(self, *words, lines=None, error=None):
        """Runs a command. Returns what it has printed, or None if it is not acknowledged."""
        process = spawn(
            [annals, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=self.machine.environment())
        fate = self.chance.random()
        if fate < 0.06:
            time.sleep(self.chance.uniform(0, 0.025))
            if fate < 0.04:
                process.kill()
            else:
                process.send_signal(signal.SIGSTOP)
                time.sleep(self.chance.uniform(0.05, 3))
                process.send_signal(signal.SIGCONT)
                count("writer stopped")
        text = "".join(json.dumps(line) + "\n" for line in lines) if lines else ""
        try:
            out, err = process.communicate(text.encode(), timeout=COMMAND_SECONDS)
        except subprocess.TimeoutExpired:
            fail(f"annals {' '.join(words)} takes more than {COMMAND_SECONDS} s")
            process.kill()
            process.communicate()
            return None
        finally:
            forget(process)
        if fate < 0.04 and process.returncode == -signal.SIGKILL:
            count("writer killed")
            return None
        if process.returncode == 0:
            with lock:
                self.machine.writes += 1
            return out.decode()
        code = self.code(err.decode(), error)
        with lock:
            command_errors[code] += 1
        if process.returncode < 0 or code not in EXPECTED_COMMAND_ERRORS:
            fail(f"annals {' '.join(words)} in {self.machine.name} ends with {process.returncode}: {err.decode()}")
        return None

    @staticmethod
    def code(text, error):
        for line in text.splitlines():
            with contextlib.suppress(ValueError, KeyError, TypeError):
                return json.loads(line)["error"]["code"]
        return error or text.strip()[:100]

    # What it writes.

    def some(self, ids):
        return self.chance.choice(ids) if ids else None

    def marker(self):
        return f"{self.machine.name}.{self.number}.{self.chance.getrandbits(48):x}"

    def key(self):
        return f"k{self.chance.randrange(60)}"

    def person(self):
        """Random attributes of a person, not all of them."""
        choices = {
            "rank": lambda: self.chance.randrange(1000),
            "score": lambda: self.chance.randrange(1000) / 8,
            "note": lambda: self.chance.choice(["", "ä", "x" * self.chance.randrange(200), "line\nline", None]),
            "boss": lambda: self.chance.choice([self.some(self.people), None]),
            "team": lambda: self.chance.choice([self.some(self.teams), self.some(self.teams), None]),
            "friends": lambda: self.chance.sample(self.people, min(len(self.people), self.chance.randrange(5))),
            "queue": lambda: self.chance.sample(self.people, min(len(self.people), self.chance.randrange(5))),
        }
        names = self.chance.sample(sorted(choices), self.chance.randrange(1, 4))
        return {name: choices[name]() for name in names}

    @staticmethod
    def words(values):
        return [f"{name}={json.dumps(value)}" for name, value in values.items()]

    def change(self, *words):
        out = self.call(words[0], "--format", "json", self.machine.store, *words[1:])
        # No token: nothing differed.
        token = json.loads(out)["token"] if out else None
        if token:
            self.tokens = self.tokens[-9:] + [token]

    def step(self):
        steps = {
            self.insert_entry: 20, self.load_entries: 5, self.insert_person: 15, self.set_person: 22,
            self.load_people: 8, self.delete_person: 12, self.change_team: 8, self.change_badge: 5,
            self.change_seat: 5, self.revert: 2, self.prune: 0.3,
        }
        self.chance.choices(list(steps), weights=list(steps.values()))[0]()

    def entry(self):
        values = {
            "marker": self.marker(), "number": self.chance.randrange(1 << 40),
            "text": "e" * self.chance.randrange(40)}
        with lock:
            self.machine.attempted[values["marker"]] = values
        return values

    def acknowledge(self, entries):
        with lock:
            for values in entries:
                self.machine.acknowledged[values["marker"]] = values
        for values in entries:
            self.machine.log.write(f"{time.monotonic() - began:.3f} {json.dumps(values)}\n")

    def insert_entry(self):
        values = self.entry()
        if self.call("insert", "--format", "json", self.machine.store, "Entry", *self.words(values)) is not None:
            self.acknowledge([values])

    def load_entries(self):
        entries = [self.entry() for _ in range(self.chance.randrange(2, 12))]
        batch = str(self.chance.randrange(1, 12))
        words = ["load", "--format", "json", "--batch", batch, "--entity", "Entry", self.machine.store, "-"]
        if self.call(*words, lines=entries) is not None:
            self.acknowledge(entries)

    def insert_person(self):
        key = {"key": self.key()} if self.chance.random() < 0.9 else {}
        self.change("insert", "Person", *self.words({"marker": self.marker(), **key, **self.person()}))

    def set_person(self):
        if self.people:
            key = {"key": self.key()} if self.chance.random() < 0.15 else {}
            self.change("set", "Person", self.some(self.people), *self.words({**key, **self.person()}))

    def load_people(self):
        keys = {self.key() for _ in range(self.chance.randrange(1, 7))}
        lines = [{"key": key, "marker": self.marker(), **self.person()} for key in sorted(keys)]
        self.call(
            "load", "--format", "json", "--entity", "Person", "--key", "key", self.machine.store, "-", lines=lines)

    def prune(self):
        """Deletes about half of the people with one transaction."""
        keys = [f"k{n}" for n in range(60) if self.chance.random() < 0.5]
        lines = [{"key": key, "marker": self.marker(), "rank": 1} for key in keys]
        words = ["load", "--format", "json", "--prune", "--entity", "Person", "--key", "key", self.machine.store, "-"]
        self.call(*words, lines=lines)

    def delete_person(self):
        if self.people:
            self.change("delete", "Person", self.some(self.people))

    def change_team(self):
        kind = self.chance.random()
        name = f"t{self.chance.randrange(8)}"
        if kind < 0.5:
            self.change("insert", "Team", *self.words({"marker": self.marker(), "name": name}))
        elif kind < 0.85 and self.teams:
            values = {"size": self.chance.randrange(99), **({"name": name} if self.chance.random() < 0.2 else {})}
            self.change("set", "Team", self.some(self.teams), *self.words(values))
        elif self.teams:
            self.change("delete", "Team", self.some(self.teams))

    def change_badge(self):
        kind = self.chance.random()
        if not self.people:
            return
        if kind < 0.5:
            values = {"marker": self.marker(), "owner": self.some(self.people), "color": self.key()}
            self.change("insert", "Badge", *self.words(values))
        elif self.badges and kind < 0.75:
            self.change("set", "Badge", self.some(self.badges), *self.words({"owner": self.some(self.people)}))
        elif self.badges:
            self.change("delete", "Badge", self.some(self.badges))

    def change_seat(self):
        kind = self.chance.random()
        values = {"row": self.chance.randrange(4), "place": self.chance.randrange(5)}
        if kind < 0.5:
            values |= {"marker": self.marker(), "guard": self.some(self.people)}
            self.change("insert", "Seat", *self.words(values))
        elif self.seats and kind < 0.8:
            values = self.chance.choice([values, {"guard": self.some(self.people)}])
            self.change("set", "Seat", self.some(self.seats), *self.words(values))
        elif self.seats:
            self.change("delete", "Seat", self.some(self.seats))

    def revert(self):
        if self.tokens and Writer.may_revert:
            self.call("revert", self.machine.store, self.some(self.tokens), error="revert")


# Faults. Each begins something, and returns what it holds, how long it lasts in seconds, and what ends it. None if it
# is impossible now.

held = set()
lasting = []


def free(prefix, names):
    found = [name for name in names if f"{prefix}{name.number}" not in held]
    return chance.choice(found) if found else None


def stop(process, kind, name):
    process.send_signal(signal.SIGSTOP)
    note(f"{kind}: {name}")
    return lambda: process.send_signal(signal.SIGCONT)


def mirror_killed():
    machine = free("mirror", machines)
    if machine:
        machine.kill_mirror()
        note(f"mirror killed: {machine.name}")
        return {f"mirror{machine.number}"}, chance.choice([0, 0, chance.uniform(0, 3)]), machine.start_mirror


def mirror_stopped():
    machine = free("mirror", machines)
    if machine:
        end = stop(machine.mirror, "mirror stopped", machine.name)
        return {f"mirror{machine.number}"}, chance.uniform(0.2, LONGEST_FAULT / 2), end


def mirror_off():
    machine = free("mirror", machines)
    if machine:
        machine.end_mirror()
        note(f"mirror off: {machine.name}")
        return {f"mirror{machine.number}"}, chance.uniform(1, LONGEST_FAULT), machine.start_mirror


def clock_changed():
    machine = free("mirror", machines)
    if machine and clock:
        machine.end_mirror()
        machine.offset = chance.choice([offset for offset in (0, 3600, -3600) if offset != machine.offset])
        note(f"clock changed: {machine.name} {machine.offset:+d} s")
        return {f"mirror{machine.number}"}, 0, machine.start_mirror


def store_compacted():
    machine = chance.choice(machines)
    note(f"store compacted: {machine.name}")
    machine.compact()
    return set(), 0, lambda: None


def fill(path):
    """Takes all room of a disk in memory."""
    name = path + "/ballast"
    with open(name, "wb") as file:
        size, step = 0, DISK_BYTES
        while step >= 4096:
            try:
                os.posix_fallocate(file.fileno(), size, step)
                size += step
            except OSError:
                step //= 2
    return lambda: os.remove(name)


def store_full():
    machine = machines[0]
    if machine.has_disk and "disk" not in held:
        note(f"store full: {machine.name}")
        return {"disk"}, chance.uniform(1, LONGEST_FAULT / 2), fill(machine.folder)


def node_killed():
    node = free("node", cluster.nodes)
    if node:
        node.kill()
        note(f"node killed: {node.name}")
        return {f"node{node.number}"}, chance.choice([0, chance.uniform(0, LONGEST_FAULT / 2)]), node.start


def node_stopped():
    node = free("node", cluster.nodes)
    if node:
        end = stop(node.process, "node stopped", node.name)
        return {f"node{node.number}"}, chance.uniform(0.2, LONGEST_FAULT / 2), end


def node_emptied():
    """Only while the others run: they have the rest."""
    node = free("node", cluster.nodes)
    if node and not any(name.startswith("node") or name == "network" for name in held):
        node.kill()
        node.empty()
        note(f"node emptied: {node.name}")
        return {f"node{node.number}"}, chance.uniform(0, LONGEST_FAULT / 2), node.start


def nodes_killed():
    if any(name.startswith("node") for name in held):
        return None
    note("all nodes killed")
    for node in cluster.nodes:
        node.kill()

    def end():
        for node in cluster.nodes:
            node.start()

    return {f"node{node.number}" for node in cluster.nodes}, chance.uniform(0, LONGEST_FAULT / 2), end


def node_full():
    node = cluster.nodes[0]
    if node.has_disk and f"node{node.number}" not in held:
        note(f"node full: {node.name}")
        end_of_fill = fill(node.folder)

        def end():
            end_of_fill()
            # Without room a node stops JetStream until it is started again.
            node.kill()
            node.start()

        return {f"node{node.number}"}, chance.uniform(1, LONGEST_FAULT / 2), end


def network_divided():
    if network.exists and "network" not in held:
        names = [name for name in network.lines if chance.random() < 0.4]
        note(f"network divided: {' '.join(names)}")
        network.divide(names)
        return {"network"}, chance.uniform(1, LONGEST_FAULT), lambda: network.divide([])


def streams_deleted():
    streams = [f"ANNALS_{GROUP}"] + [f"ANNALS_{GROUP}_STATES"] * (chance.random() < 0.3)
    answers = [cluster.ask(f"$JS.API.STREAM.DELETE.{stream}", wait=2) for stream in streams]
    note(f"stream deleted: {answers}")
    return (set(), 0, lambda: None) if answers[0] else None


def folder_apart():
    machine = free("folder", machines)
    if machine:
        note(f"folder apart: {machine.name}")
        synchronizer.apart.add(machine.number)
        return ({f"folder{machine.number}"}, chance.uniform(1, LONGEST_FAULT),
                lambda: synchronizer.apart.discard(machine.number))


def available():
    kinds = {mirror_killed: 4, mirror_stopped: 3, mirror_off: 2, store_compacted: 1}
    if clock:
        kinds[clock_changed] = 1
    if machines[0].has_disk:
        kinds[store_full] = 1
    if engine == "folder":
        kinds[folder_apart] = 3
        return kinds
    kinds |= {node_killed: 3, node_stopped: 3, node_emptied: 1, nodes_killed: 0.5, streams_deleted: 1.5}
    if cluster.nodes[0].has_disk:
        kinds[node_full] = 1
    if network.exists:
        kinds[network_divided] = 2.5
    return kinds


def begin_fault():
    left_out = os.environ.get("WITHOUT", "").split()
    kinds = {kind: weight for kind, weight in available().items() if kind.__name__ not in left_out}
    kind = chance.choices(list(kinds), weights=list(kinds.values()))[0]
    result = kind()
    if result:
        holds, lasts, end = result
        count(kind.__name__.replace("_", " "))
        held.update(holds)
        lasting.append((time.monotonic() + lasts, len(lasting), holds, end))


def end_faults(all_of_them=False):
    now = time.monotonic()
    for fault in sorted(lasting, key=lambda fault: fault[0]):
        if all_of_them or fault[0] <= now:
            lasting.remove(fault)
            fault[3]()
            held.difference_update(fault[2])
            note(f"over: {' '.join(sorted(fault[2]))}")


def check_all_run():
    for machine in machines:
        machine.read_output()
        if machine.mirror and machine.mirror.poll() is not None:
            fail(f"the mirror of {machine.name} has ended by itself with {machine.mirror.returncode}")
            machine.mirror_has_ended()
            machine.start_mirror()
    for node in cluster.nodes if cluster else []:
        if node.process and node.process.poll() is not None:
            note(f"{node.name} has ended by itself with {node.process.returncode}")
            count("node ended by itself")
            forget(node.process)
            node.start()


# The run.


def wait_for(condition, what, wait=60):
    end = time.monotonic() + wait
    while time.monotonic() < end:
        check_all_run()
        if condition():
            return True
        time.sleep(0.2)
    fail(f"{what}: not within {wait} s")
    return False


def has_peers(machine, number):
    peers = machine.status.get("peers", [])
    return len(peers) >= number and all(peer["lag"] == 0 for peer in peers)


def make_group():
    machines[0].start_mirror()
    if not wait_for(lambda: machines[0].status.get("published", 0) > 0, "the first store has not founded the group"):
        return False
    for machine in machines[1:]:
        machine.start_mirror()
    return wait_for(
        lambda: all(has_peers(machine, STORES - 1) for machine in machines), "the stores have not become a group")


def mend_streams():
    """What an operator does if the servers do not find a leader for a stream any more: the mirrors make it again."""
    codes = [(machine.status.get("error") or {}).get("code") for machine in machines]
    if engine == "nats" and all(code == "courierUnsuitable" for code in codes):
        note(f"stream without a leader deleted: {cluster.ask(f'$JS.API.STREAM.DELETE.ANNALS_{GROUP}', wait=5)}")
        faults["stream without a leader"] += 1


def messages_pass():
    """An entry of each store comes to all others."""
    entries = []
    for machine in machines:
        values = machine.writers[0].entry()
        run(annals, "insert", machine.store, "Entry", *Writer.words(values))
        machine.writers[0].acknowledge([values])
        entries.append(values["marker"])

    def has_come():
        return all(
            run(annals, "get", machine.store, "Entry", "--key", f"marker={json.dumps(marker)}", check=False).stdout
            for machine in machines for marker in entries)

    end = time.monotonic() + MEND_SECONDS
    while not has_come() and time.monotonic() < end:
        time.sleep(0.5)
    if not has_come():
        mend_streams()
    return wait_for(has_come, "without faults, messages do not pass", EQUAL_SECONDS)


def join_another():
    """No fault meanwhile: a store that nobody answers founds a group of its own."""
    end_faults(all_of_them=True)
    if not messages_pass():
        return
    # A store that joins does not know which objects had two names before they were deleted.
    Writer.may_revert = False
    machine = Machine(STORES)
    if synchronizer:
        synchronizer.add(machine)
    note(f"{machine.name} joins")
    for writer in machine.writers:
        writer.start()
    time.sleep(1)
    machine.start_mirror()
    machines.append(machine)
    wait_for(lambda: len(machine.status.get("peers", [])) >= STORES and machine.status.get("published", 0) > 0,
             "the fourth store has not joined", EQUAL_SECONDS)
    count("store joined")


def disturb():
    end = time.monotonic() + seconds
    joins = time.monotonic() + seconds * chance.uniform(0.4, 0.6)
    next_fault = next_check = time.monotonic() + 1
    while time.monotonic() < end and not failures:
        time.sleep(0.05)
        check_all_run()
        end_faults()
        if time.monotonic() >= joins and len(machines) == STORES:
            began_joining = time.monotonic()
            join_another()
            end += time.monotonic() - began_joining
        if time.monotonic() >= next_fault:
            begin_fault()
            next_fault = time.monotonic() + chance.expovariate(1 / FAULT_PAUSE)
        if time.monotonic() >= next_check:
            chance.choice(machines).verify()
            next_check = time.monotonic() + 5


def heal():
    end_faults(all_of_them=True)
    if synchronizer:
        synchronizer.is_quick = True
    Writer.goes_on = False
    for machine in machines:
        for writer in machine.writers:
            writer.join(timeout=COMMAND_SECONDS)
    # Mirrors that go on must come to the end as well as new ones.
    if chance.random() < 0.5:
        note("all mirrors are started again")
        for machine in machines:
            machine.end_mirror()
            machine.start_mirror()
        return "all started again"
    return "not started again"


def differences(contents):
    """What a store has and the first one has not, or the other way round."""
    first = collections.Counter(contents[0])
    found = []
    for machine, texts in zip(machines[1:], contents[1:]):
        other = collections.Counter(texts)
        found += [f"only {machines[0].name}, not {machine.name}: {text}" for text in (first - other).elements()]
        found += [f"only {machine.name}, not {machines[0].name}: {text}" for text in (other - first).elements()]
    return found


def wait_until_equal():
    """Returns the seconds until the contents are equal, and until everything is confirmed; None for never."""
    start = time.monotonic()
    equal = None
    is_mended = False
    while time.monotonic() < start + EQUAL_SECONDS:
        check_all_run()
        if not is_mended and time.monotonic() > start + MEND_SECONDS:
            mend_streams()
            is_mended = True
        if equal is None:
            contents = [machine.contents() for machine in machines]
            if all(other == contents[0] for other in contents):
                equal = time.monotonic() - start
                note("equal")
        if equal is not None and all(is_quiet(machine) for machine in machines):
            return equal, time.monotonic() - start
        time.sleep(0.5)
    return equal, None


def is_quiet(machine):
    peers = machine.status.get("peers", [])
    return (machine.status.get("error") is None and len(peers) == len(machines) - 1
            and all(p["lag"] == 0 and p["confirmed"] == machine.status["published"] for p in peers))


def check_entries():
    for machine in machines:
        found = collections.defaultdict(list)
        for each in machine.objects("Entry"):
            found[each["marker"]].append({name: each[name] for name in ("marker", "number", "text")})
        for writer in machines:
            for marker, values in writer.attempted.items():
                have = found.pop(marker, [])
                if marker in writer.acknowledged and have != [values]:
                    fail(f"{machine.name} has {have} for the acknowledged entry {values} of {writer.name}")
                elif have not in ([], [values]):
                    fail(f"{machine.name} has {have} for the entry {values} of {writer.name}")
        for marker in found:
            fail(f"{machine.name} has the entry {marker}, which nobody has written")


def report(started_again, equal, confirmed):
    print(f"seed {seed}, {engine}, {seconds:.0f} s, {len(machines)} stores")
    for machine in machines:
        history = run(annals, "history", machine.store, "--count", check=False).stdout.strip()
        print(f"{machine.name}: {machine.writes} acknowledged commands, {len(machine.acknowledged)} entries, "
              f"{history} transactions in the store, {machine.status.get('conflicts')} conflicts; "
              f"errors of the mirror: {dict(machine.errors)}")
    print(f"transactions written: {sum(machine.writes for machine in machines)} acknowledged commands")
    print("faults: " + ", ".join(f"{number} {kind}" for kind, number in sorted(faults.items())))
    print("commands without success: " + ", ".join(f"{n} {code}" for code, n in sorted(command_errors.items())))
    if synchronizer:
        print(f"files: {synchronizer.copied} copied, {synchronizer.again} of them twice, {synchronizer.slow} slowly")
    print(f"longest end of a mirror after SIGTERM: {max(ends, default=0):.1f} s; mirrors at the end: {started_again}")
    for what, time_of in (("equal", equal), ("everything confirmed", confirmed)):
        print(what + (f" after {time_of:.1f} s" if time_of is not None else f": not within {EQUAL_SECONDS} s"))


def replay():
    return f"Tests/run mirror {seconds:.0f} {seed} {engine}"


def main():
    if not clock:
        print("left out: wrong clocks, as there is no compiler of C")
    if not machines[0].has_disk:
        print("left out: full disks, as nothing can be mounted")
    if engine == "nats" and not network.exists:
        print("left out: a divided network, as there is no network of its own")
    if cluster:
        for node in cluster.nodes:
            node.start()
        cluster.wait_until_ready()
    if synchronizer:
        for machine in machines:
            synchronizer.add(machine)
        synchronizer.start()
    if not make_group():
        return
    if synchronizer:
        synchronizer.is_quick = False
    for machine in machines:
        for writer in machine.writers:
            writer.start()
    disturb()
    started_again = heal()
    equal, confirmed = wait_until_equal()
    for machine in machines:
        machine.verify()
    if equal is None:
        found = differences([machine.contents() for machine in machines])
        fail(f"the stores differ in {len(found)} objects after {EQUAL_SECONDS} s")
        for text in found[:10]:
            print("  " + text, file=sys.stderr)
    elif confirmed is None:
        fail(f"not everything is confirmed after {EQUAL_SECONDS} s: "
             + json.dumps({machine.name: machine.status for machine in machines}))
    check_entries()
    if failures and os.environ.get("HOLD") == "1":
        print(f"held; everything runs; nsenter -a -t {os.getpid()}", file=sys.stderr, flush=True)
        time.sleep(600)
    if failures and cluster:
        print("NATS: " + cluster.health(), file=sys.stderr)
        for line in cluster.bad_lines():
            print(line, file=sys.stderr)
    for machine in machines:
        if machine.mirror:
            machine.end_mirror()
    report(started_again, equal, confirmed)


def finish():
    Writer.goes_on = False
    if synchronizer:
        synchronizer.ends.set()
    with lock:
        for process in children:
            process.kill()
        for process in children:
            process.wait()
    if is_over:
        for path in mounted():
            subprocess.run(["umount", "-l", path], stderr=subprocess.DEVNULL)
        shutil.rmtree(folder, ignore_errors=True)
        return
    for path in mounted():
        # The disks in memory go with the script.
        shutil.copytree(path, path + "-kept", ignore=shutil.ignore_patterns("ballast"), dirs_exist_ok=True)
    print("kept: " + folder, file=sys.stderr)


def mounted():
    owners = [*machines, *(cluster.nodes if cluster else [])]
    return [owner.folder for owner in owners if owner.has_disk]


signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
programs.limit(seconds + 1200)
clock = clock_library()
machines, cluster, synchronizer = [], None, None
is_over = False
try:
    network = Network()
    if engine == "nats":
        cluster = Cluster()
    else:
        synchronizer = Synchronizer()
    machines += [Machine(n, 3600 if n == 1 and clock else 0) for n in range(STORES)]
    main()
    is_over = not failures and os.environ.get("KEEP") != "1"
finally:
    finish()
if failures:
    print(f"{len(failures)} failures; again, with other moments: {replay()}", file=sys.stderr)
sys.exit(1 if failures else 0)
