# SPDX-License-Identifier: GPL-2.0
"""An engine ends no copy for a while: what ferryctl says before, while and after it is stuck.

softdma's channels are stuck as a device's are whose firmware hangs: nothing is copied until it is let go.
docs/engine-fails.txt keeps what one run has said.
"""

import json
import re
from typing import Any

import pytest

from ferry.vm import records
from tests import guest

pytestmark = pytest.mark.vm

SCRIPT = """
ctl() { /usr/bin/python3 -B @CTL@ "$@"; }
# said NAME COMMAND...: a record of what a command prints, and of its exit status
said() {
	name=$1
	shift
	code=0
	ctl "$@" >/tmp/said 2>&1 || code=$?
	record said of "$name" text "$(cat /tmp/said)" code: $code
}
# look MOMENT: all that an operator looks at
look() {
	said "$1 check" check
	said "$1 check.json" check --json
	said "$1 metrics" metrics
}
# move MOMENT NODE: the process moves, and watch sees it, until it has seen one more interval
move() {
	/usr/bin/python3 -B @CTL@ watch --interval 1 >/tmp/watched 2>&1 &
	watch=$!
	while [ ! -s /tmp/watched ]; do sleep 0.1; done
	said "$1 move" move --pid $holder --to "$2"
	lines=$(wc -l </tmp/watched)
	while [ "$(wc -l </tmp/watched)" -lt $((lines + 2)) ]; do sleep 0.1; done
	kill $watch
	wait $watch || true
	record said of "$1 watch" text "$(cat /tmp/watched)" code: 0
}
soft=/sys/module/softdma/parameters
cat >/tmp/holder.py <<'END'
import hashlib, os, signal
memory = os.urandom(1 << 20) * 16
wanted = hashlib.sha256(memory).digest()
def verify(*_):
    open("/tmp/verified", "w").write(str(hashlib.sha256(memory).digest() == wanted))
    os._exit(0)
signal.signal(signal.SIGTERM, verify)
open("/tmp/ready", "w").close()
while True:
    signal.pause()
END
rm -f /etc/ferry.conf
# One channel: an engine is in service as long as any of its channels is
modprobe softdma channels=1 || fail 'cannot load softdma'
ctl use dcbm --save >/dev/null || fail 'dcbm cannot be used'
ctl set deadline_ms=200 inaccessible_enabled=1 min_bytes=4096 >/dev/null || fail 'the deadline cannot be set'
/usr/bin/python3 /tmp/holder.py &
holder=$!
until [ -e /tmp/ready ]; do sleep 0.1; done
ctl move --pid $holder --to 0 >/dev/null
move before 1
look before
echo 1 >$soft/stall_every
move during 0
waited=0
while ! grep -q stuck /sys/kernel/debug/dcbm/channels && [ $waited -lt 300 ]; do
	sleep 0.1
	waited=$((waited + 1))
done
look during
echo 0 >$soft/stall_every
echo 1 >$soft/stall_release
waited=0
while [ "$(cat $OFFLOAD/in_service)" != 1 ] && [ $waited -lt 300 ]; do
	sleep 0.1
	waited=$((waited + 1))
done
look released
ctl use none >/dev/null
ctl use dcbm >/dev/null
move after 0
look after
kill $holder
wait $holder
record said of verified text "$(cat /tmp/verified)" code: 0
"""


@pytest.fixture(scope="module")
def said() -> dict[str, dict[str, Any]]:
    """One boot: what each command printed, and its exit status."""
    found = guest.says(guest.with_paths(SCRIPT), limit_s=600.0, host_root=True)
    return {record["of"]: record for record in records.every(found, "said")}


def _metric(said: dict[str, dict[str, Any]], moment: str, name: str) -> int:
    text = said[f"{moment} metrics"]["text"]
    found = re.findall(rf"^{re.escape(name)} (\d+)$", text, re.MULTILINE)
    assert len(found) == 1, text
    return int(found[0])


def _problems(said: dict[str, dict[str, Any]], moment: str) -> set[str]:
    text = said[f"{moment} check.json"]["text"]
    assert text.startswith("{"), text
    return {each["problem"] for each in json.loads(text)["problems"]}


def test_before_all_is_well(said: dict[str, dict[str, Any]]) -> None:
    assert said["before check"]["code"] == 0
    assert said["before check"]["text"].endswith("has Ferry, engine dcbm is in service")
    assert _metric(said, "before", 'ferry_engine_in_service{engine="dcbm"}') == 1
    assert "OUT OF SERVICE" not in said["before watch"]["text"]


def test_check_says_that_the_engine_fails_and_what_to_do(said: dict[str, dict[str, Any]]) -> None:
    assert said["during check"]["code"] == 1
    assert said["during check"]["text"].startswith(
        "degraded: engine dcbm is out of service, and the kernel copies;"
    )
    assert {"engine_out_of_service", "channels_lost", "memory_given_up"} <= _problems(said, "during")


def test_metrics_count_what_is_stuck(said: dict[str, dict[str, Any]]) -> None:
    assert _metric(said, "during", 'ferry_engine_in_service{engine="dcbm"}') == 0
    assert _metric(said, "during", 'ferry_dma_channels{state="stuck"}') > 0
    assert _metric(said, "during", "ferry_quarantined_bytes_total") > 0


def test_watch_says_out_of_service(said: dict[str, dict[str, Any]]) -> None:
    assert "engine dcbm OUT OF SERVICE:" in said["during watch"]["text"]


@pytest.mark.parametrize("moment", ["released", "after"])
def test_an_engine_that_has_let_go_is_well(said: dict[str, dict[str, Any]], moment: str) -> None:
    """Memory that it held is used again, so nothing is left to tell."""
    assert _problems(said, moment) == set()
    assert _metric(said, moment, 'ferry_engine_in_service{engine="dcbm"}') == 1
    assert "OUT OF SERVICE" not in said["after watch"]["text"]


def test_the_process_has_every_byte(said: dict[str, dict[str, Any]]) -> None:
    assert said["verified"]["text"] == "True"
