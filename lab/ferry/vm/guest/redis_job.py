# SPDX-License-Identifier: GPL-2.0
"""In the guest: move a busy redis-server between nodes 0 and 1, and see that no client is lied to.

usage: redis_job.py DATASET_MIB ROUND_TRIPS. Writes a record to descriptor 3.
"""

from __future__ import annotations

import json
import os
import random
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FOLDER = "/dev/shm"  # a tmpfs of the guest
SOCKET = f"{FOLDER}/ferry-redis.sock"
VALUE_BYTES = 4096
PIPELINE = 64
DATASET_DB, LOAD_DB, PROBE_DB = 0, 1, 2
SETTLE_S = 1.0
IDLE_S = 2.0
PAGE_BYTES = 4096


class Client:
    """A connection that speaks as much of redis's protocol as is needed."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(SOCKET)
        self.file = self.socket.makefile("rb")

    def send(self, *words: str | bytes) -> bytes:
        """A command as it goes over the wire."""
        parts = [word.encode() if isinstance(word, str) else word for word in words]
        return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)

    def reply(self) -> bytes:
        """The next reply; an error becomes an exception."""
        line = self.file.readline()
        if line[:1] == b"-" or not line:
            raise RuntimeError(f"redis: {line!r}")
        if line[:1] != b"$":
            return line[1:-2]
        length = int(line[1:])
        return self.file.read(length + 2)[:-2] if length >= 0 else b""

    def __call__(self, *words: str | bytes) -> bytes:
        """Send a command and wait for its reply."""
        self.socket.sendall(self.send(*words))
        return self.reply()


class Probe(threading.Thread):
    """A client that writes a number and reads it back, over and over; keeps its longest round trip."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.longest_s = 0.0
        self.trips = 0
        self.lost: list[str] = []
        self.watching = threading.Event()
        self.stop = threading.Event()

    def run(self) -> None:
        """Until stop is set."""
        client = Client()
        client("SELECT", str(PROBE_DB))
        while not self.stop.is_set():
            word = b"%d" % self.trips
            begin = time.monotonic()
            client("SET", "probe", word)
            got = client("GET", "probe")
            self.longest_s = max(self.longest_s, time.monotonic() - begin)
            self.trips += 1
            self.watching.set()
            if got != word:
                self.lost.append(f"wrote {word!r}, read {got!r}")


@contextmanager
def redis_server() -> Iterator[int]:
    """A server without persistence, its memory and CPU on node 0. Yields its process id."""
    config = ("--port", "0", "--unixsocket", SOCKET, "--save", "", "--appendonly", "no", "--dir", FOLDER)
    more = ("--enable-debug-command", "yes", "--logfile", f"{FOLDER}/ferry-redis.log")
    bind = ("numactl", "--cpunodebind=0", "--membind=0")
    with subprocess.Popen([*bind, "redis-server", *config, *more]) as server:
        try:
            for _ in range(200):
                if Path(SOCKET).exists():
                    break
                time.sleep(0.1)
            yield server.pid
        finally:
            server.kill()


@contextmanager
def load(keys: int) -> Iterator[None]:
    """redis-benchmark reads the dataset and writes to a database of its own."""
    base = ["redis-benchmark", "-s", SOCKET, "-c", "2", "-n", "100000000", "-r", str(keys), "-q"]
    read = [*base, "--dbnum", str(DATASET_DB), "-t", "get"]
    write = [*base, "--dbnum", str(LOAD_DB), "-t", "set", "-d", "512"]
    children = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for command in (read, write)]
    try:
        yield
        if any(child.poll() is not None for child in children):
            raise RuntimeError("redis-benchmark ended early")
    finally:
        for child in children:
            child.kill()
            child.wait()


def fill(client: Client, keys: int) -> None:
    """Random values from a fixed seed, under the keys that redis-benchmark reads."""
    source = random.Random(1)
    for first in range(0, keys, PIPELINE):
        some = range(first, min(first + PIPELINE, keys))
        commands = (client.send("SET", f"key:{i:012d}", source.randbytes(VALUE_BYTES)) for i in some)
        client.socket.sendall(b"".join(commands))
        for _ in some:
            client.reply()


def pages_on(pid: int, node: int) -> int:
    """4 KiB pages of a process on a node."""
    text = Path(f"/proc/{pid}/numa_maps").read_text()
    return sum(int(count) for count in re.findall(rf" N{node}=(\d+)", text))


def move(pid: int, source: int, target: int) -> int:
    """Move all of a process; returns how many pages more are on the target."""
    before = pages_on(pid, target)
    subprocess.run(["migratepages", str(pid), str(source), str(target)], check=True)
    return pages_on(pid, target) - before


@contextmanager
def probed() -> Iterator[Probe]:
    """A probe at work."""
    probe = Probe()
    probe.start()
    probe.watching.wait()
    yield probe
    probe.stop.set()
    probe.join()


def main() -> int:
    """The experiment."""
    mib, trips = (int(word) for word in sys.argv[1:])
    keys = mib * (1 << 20) // VALUE_BYTES
    moves = [(0, 1), (1, 0)] * trips
    with redis_server() as pid:
        client = Client()
        fill(client, keys)
        before = client("DEBUG", "DIGEST").decode()
        with load(keys):
            time.sleep(SETTLE_S)
            with probed() as idle:
                time.sleep(IDLE_S)
            begin = time.monotonic()
            probes, moved = [], 0
            for pair in moves:
                with probed() as probe:
                    moved += move(pid, *pair)
                probes.append(probe)
            spent = time.monotonic() - begin
        for db in (LOAD_DB, PROBE_DB):
            client("SELECT", str(db))
            client("FLUSHDB")
        client("SELECT", str(DATASET_DB))
        result = {
            "record": "redis",
            "digest_before": before,
            "digest_after": client("DEBUG", "DIGEST").decode(),
            "moved_bytes": moved * PAGE_BYTES,
            "move_seconds": spent,
            "stalls_ms": [probe.longest_s * 1e3 for probe in probes],
            "stall_without_move_ms": idle.longest_s * 1e3,
            "probe_trips": min(probe.trips for probe in probes),
            "lost_writes": [lost for probe in (idle, *probes) for lost in probe.lost],
        }
    os.write(3, json.dumps(result).encode() + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
