# SPDX-License-Identifier: GPL-2.0
"""A cgroup moves between nodes at 20 ms a call while its server has a client: how long the client waits.

docs/cgroup-moved.txt keeps what one run has said.
"""

import json
from typing import Any

import pytest

from tests import guest

pytestmark = pytest.mark.vm

MIB = 64

SCRIPT = """
ctl() { /usr/bin/python3 -B @CTL@ "$@"; }
cat >/tmp/server.py <<'END'
import hashlib, os, socket
memory = bytearray(os.urandom(1 << 20) * @MIB@)
link = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
link.bind("/tmp/server")
while True:
    asked, whom = link.recvfrom(16)
    if asked == b"verify":
        answer = hashlib.sha256(memory).hexdigest().encode()
    else:
        at = int(asked)
        answer = bytes(memory[at:at + 8])
    link.sendto(answer, whom)
END
cat >/tmp/client.py <<'END'
import os, random, socket, sys, time
name, stop = sys.argv[1:]
link = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
link.bind(f"/tmp/client-{name}")
link.connect("/tmp/server")
if name.startswith("verify"):
    link.send(b"verify")
    print(link.recv(100).decode())
    sys.exit()
waits = []
while len(waits) < 1000 or not os.path.exists(stop):
    start = time.monotonic_ns()
    link.send(b"%d" % random.randrange((@MIB@ << 20) - 8))
    link.recv(100)
    waits.append((time.monotonic_ns() - start) // 1000)
waits.sort()
print("{\\"requests\\": %d, \\"p50_us\\": %d, \\"p99_us\\": %d, \\"most_us\\": %d}"
      % (len(waits), waits[len(waits) // 2], waits[len(waits) * 99 // 100], waits[-1]))
END
client() { /usr/bin/python3 /tmp/client.py "$@"; }
mountpoint -q /sys/fs/cgroup || mount -t cgroup2 none /sys/fs/cgroup || fail 'no cgroup v2'
group=/sys/fs/cgroup/served
mkdir $group || fail 'no cgroup can be made'
/usr/bin/python3 /tmp/server.py &
server=$!
echo $server >$group/cgroup.procs
until [ -S /tmp/server ]; do sleep 0.1; done
ctl use mtcopy >/dev/null || fail 'mtcopy cannot be used'
record said of begin text "$(ctl move --cgroup $group --to 0 2>&1)"
record said of digest text "$(client verify1 -)"
: >/tmp/stop
record said of still text "$(client still /tmp/stop)"
rm /tmp/stop
client moved /tmp/stop >/tmp/moved &
client=$!
sleep 1
record said of move text "$(ctl move --cgroup $group --to 1 --max-ms 20 --json 2>/tmp/err | tail -n 1)"
record said of back text "$(ctl move --cgroup $group --to 0 --max-ms 20 2>&1)"
: >/tmp/stop
wait $client
record said of moved text "$(cat /tmp/moved)"
record said of after text "$(client verify2 -)"
left=$(awk -F 'N1=' '/anon=/ && !/file=/ { pages += $2 } END { print pages + 0 }' /proc/$server/numa_maps)
record said of left text "${left:-0}"
kill $server
"""


@pytest.fixture(scope="module")
def said() -> dict[str, str]:
    """One boot: there and back, under load."""
    script = guest.with_paths(SCRIPT.replace("@MIB@", str(MIB)))
    return guest.texts(guest.says(script, limit_s=600.0, host_root=True))


def _json(said: dict[str, str], name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(said[name])
    return found


def test_all_of_the_cgroup_moves(said: dict[str, str]) -> None:
    assert _json(said, "move")["moved_bytes"] >= MIB << 20
    assert int(said["left"]) < (MIB << 20) // 4096 // 100


def test_the_server_has_every_byte(said: dict[str, str]) -> None:
    assert said["digest"] == said["after"]
    assert len(said["digest"]) == 64


def test_the_client_is_served_meanwhile(said: dict[str, str]) -> None:
    """No request waits for the whole move. How long one waits at most is the host's affair, too."""
    still, moved, took_us = _json(said, "still"), _json(said, "moved"), _json(said, "move")["seconds"] * 1e6
    assert min(still["requests"], moved["requests"]) >= 1000
    assert 0 < moved["p99_us"] <= moved["most_us"] < took_us
