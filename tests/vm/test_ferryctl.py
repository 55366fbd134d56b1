# SPDX-License-Identifier: GPL-2.0
"""ferryctl on a kernel with Ferry, and on one without."""

import json
from typing import Any

import pytest

from ferry.bench import migbench
from tests import guest

pytestmark = pytest.mark.vm

SCRIPT = """
ctl() { /usr/bin/python3 @CTL@ "$@"; }
# say NAME COMMAND...: a record of the JSON that a command prints, or of its error
say() {
	name=$1
	shift
	record said of "$name" text "$(ctl "$@" --json 2>&1)"
}
say boot status
say junk set window_pages=junk
say refused set reasons=junk
say mtcopy use mtcopy --save
say set set window_pages=1024 chunk_pages=512 inaccessible_enabled=1 --save
/usr/bin/python3 @CTL@ watch --json --interval 0.5 >/tmp/watched &
watch=$!
while [ ! -s /tmp/watched ]; do sleep 0.1; done
@MIGBENCH@ --folio 2M --bytes 64M --runs 3 >/tmp/said || fail "$(tail -n 1 /tmp/said)"
sleep 2
kill $watch
record said of watch text "[$(paste -s -d , /tmp/watched)]"
say status status
say reset reset
say apply apply
record said of user text "$(setpriv --reuid 65534 --clear-groups /usr/bin/python3 @CTL@ use none --json 2>&1)"
record said of text text "$(ctl status | head -n 2 | tail -n 1)"
"""

# ferryctl tune, on a machine with an engine, settings and a DMA engine that nobody has yet.
TUNE = """
PATH=$(dirname @MIGBENCH@):$PATH
cat >/tmp/ctl <<'END'
import signal, sys
sys.path.insert(0, sys.argv[1].rpartition("/")[0])
import ferryctl, ferryctl_machine
# The lab may be in a container, whose files the guest has.
ferryctl_machine.System.in_container = lambda self: False
# A shell without job control has its jobs ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(ferryctl.main(sys.argv[2:]))
END
ctl() { /usr/bin/python3 -B /tmp/ctl @CTL@ "$@"; }
# state: engine, settings, modules, and the sizes of huge pages, in one line
state() {
	ctl set --json min_bytes=123456 | tr -d '\\n'
	lsmod | awk '$1 ~ /^(mtcopy|dcbm)$/ { print $1 }' | sort | tr '\\n' ' '
	cat /sys/kernel/mm/transparent_hugepage/hugepages-*/enabled | tr '\\n' ' '
}
modprobe softdma channels=2 || fail 'cannot load softdma'
ctl use cpu >/dev/null
ctl set reasons=damon target_us=900 >/dev/null
rm -f /etc/ferry.conf
record said of before text "$(state)"
record said of unasked text "$(ctl tune --json </dev/null 2>&1 | tail -n 1)"
ctl tune --yes --write --json --rounds 3 --bytes 32M >/tmp/tuned 2>/tmp/said ||
	fail "tune: $(cat /tmp/tuned /tmp/said)"
record said of tune text "$(cat /tmp/tuned)"
record said of after text "$(state)"
record said of conf text "$(paste -s -d , /etc/ferry.conf)"
for signal in INT TERM; do
	/usr/bin/python3 -B /tmp/ctl @CTL@ tune --yes --json --bytes 32M --engine mtcopy --rounds 99 \\
		>/tmp/ended 2>&1 &
	tuner=$!
	until grep -q mtcopy /sys/kernel/mm/migrate_offload/active && grep -qsx migbench /proc/[0-9]*/comm; do
		sleep 0.1
	done >/dev/null
	kill -$signal $tuner
	wait $tuner
	record said of "$signal" text "$? $(tail -n 1 /tmp/ended)"
	record said of "after-$signal" text "$(state)"
done
"""


def _run(flavour: str, script: str) -> dict[str, str]:
    """What each record says."""
    script = guest.with_paths(script, MIGBENCH=migbench.build_migbench())
    return guest.texts(guest.says(script, flavour=flavour, host_root=True))


@pytest.fixture(scope="module")
def said() -> dict[str, str]:
    """One boot, every command."""
    return _run("ferry", SCRIPT)


def _json(text: str) -> Any:
    return json.loads(text)


def test_status_after_boot_is_that_of_an_unchanged_kernel(said: dict[str, str]) -> None:
    found = _json(said["boot"])
    assert found["kernel"].endswith("-ferry")
    assert (found["active"], found["available"]) == ("none", ["cpu"])
    assert found["stats"]["folios"] == 0


def test_an_engine_moves_memory_and_is_watched(said: dict[str, str]) -> None:
    assert _json(said["mtcopy"])["active"] == "mtcopy"
    watched, after = _json(said["watch"]), _json(said["status"])
    assert {each["active"] for each in watched} == {"mtcopy"}
    assert after["engines"]["mtcopy"]["bytes"] >= 3 * (64 << 20)
    assert max(each["gbps"]["mtcopy"] for each in watched) > 0
    assert sum(each["folios"] for each in watched) <= after["stats"]["folios"]
    assert sum(after["inaccessible_us"].values()) > 0


def test_what_is_refused_is_said(said: dict[str, str]) -> None:
    assert _json(said["junk"])["error"].startswith("window_pages=junk: it does not take that value; it takes")
    assert "reasons=junk: the kernel refuses that value" in _json(said["refused"])["error"]


def test_saved_settings_come_back(said: dict[str, str]) -> None:
    gone, back = _json(said["reset"]), _json(said["apply"])
    assert (gone["active"], gone["settings"]["window_pages"]) == ("none", "0")
    assert (back["active"], back["settings"]["window_pages"]) == ("mtcopy", "1024")
    assert said["text"].startswith("engine    mtcopy (copies)")


def test_without_root_nothing_changes(said: dict[str, str]) -> None:
    assert "changing active needs root" in _json(said["user"])["error"]


def test_a_kernel_without_ferry_is_said() -> None:
    script = SCRIPT.partition("say junk")[0]
    assert "is without Ferry" in _json(_run("vanilla", script)["boot"])["error"]


@pytest.fixture(scope="module")
def tuned() -> dict[str, str]:
    """One boot of tune."""
    return _run("ferry", TUNE)


def test_tune_measures_every_engine_at_every_size(tuned: dict[str, str]) -> None:
    result = _json(tuned["tune"])
    there = {(row["engine"], row["folio"]) for row in result["measured"]}
    assert there == {(e, f) for e in ("none", "cpu", "mtcopy", "dcbm") for f in ("4K", "64K", "2M")}
    assert result["not_measured"] == {}
    for row in result["measured"]:
        assert 0 < row["gbps"]["least"] <= row["gbps"]["median"] <= row["gbps"]["most"]
        assert 0 < row["p50_us"] <= row["p99_us"]
        assert row["cpu_ns_per_page"] > 0
    # Shares of what it moved itself: it was the engine, and not something else, that was measured.
    shares = {row["engine"]: row["by_engine"] for row in result["measured"] if row["folio"] == "2M"}
    assert shares["none"] is None
    assert shares["cpu"] > 0.9
    assert shares["mtcopy"] > 0.9
    assert result["settings"]["target_us"] == "900"


def test_tune_writes_what_it_recommends(tuned: dict[str, str]) -> None:
    recommended = _json(tuned["tune"])["recommended"]
    conf = recommended["conf"]
    assert tuned["conf"] == ",".join(f"{name} = {value}" for name, value in conf.items())
    # What is set, unless the twofold that tune tries was the better on this machine.
    assert conf["target_us"] == ("1800" if "target_us=1800:" in recommended["why"] else "900")
    assert "reasons" not in conf


@pytest.mark.parametrize("moment", ["after", "after-INT", "after-TERM"])
def test_tune_leaves_the_machine_as_it_was(tuned: dict[str, str], moment: str) -> None:
    """Engine, settings, modules, huge pages; also if it is ended halfway."""
    assert '"active": "cpu"' in tuned["before"]
    assert '"reasons": "damon"' in tuned["before"]
    assert tuned[moment] == tuned["before"]


@pytest.mark.parametrize("signal", ["INT", "TERM"])
def test_tune_says_that_it_was_ended(tuned: dict[str, str], signal: str) -> None:
    code, said = tuned[signal].split(" ", 1)
    assert code == "1"
    assert _json(said)["error"] == f"ended by SIG{signal}; engine and settings are as they were"


def test_tune_asks_first(tuned: dict[str, str]) -> None:
    assert "say --yes" in _json(tuned["unasked"])["error"]
