# SPDX-License-Identifier: GPL-2.0
"""ferryctl on a kernel with Ferry, and on one without."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from ferry import paths
from ferry.bench import migbench
from ferry.kernel import kbuild
from ferry.vm import machine, qemu

pytestmark = pytest.mark.vm

SCRIPT = """
ctl() { /usr/bin/python3 @CTL@ "$@"; }
# say NAME COMMAND...: a record of the JSON that a command prints, or of its error
say() {
	name=$1
	shift
	echo "$name $(ctl "$@" --json 2>&1)" >&3
}
say boot status
say junk set window_pages=junk
say mtcopy use mtcopy --save
say set set window_pages=1024 chunk_pages=512 inaccessible_enabled=1 --save
/usr/bin/python3 @CTL@ watch --json --interval 0.5 >/tmp/watched &
watch=$!
while [ ! -s /tmp/watched ]; do sleep 0.1; done
@MIGBENCH@ --folio 2M --bytes 64M --runs 3 >/tmp/said || fail "$(tail -n 1 /tmp/said)"
sleep 2
kill $watch
echo "watch [$(paste -s -d , /tmp/watched)]" >&3
say status status
say reset reset
say apply apply
echo "user $(setpriv --reuid 65534 --clear-groups /usr/bin/python3 @CTL@ use none --json 2>&1)" >&3
echo "text $(ctl status | head -n 2 | tail -n 1)" >&3
"""


def _run(flavour: str, script: str) -> dict[str, str]:
    """What each record says."""
    for name, path in (("@CTL@", "tools/ferryctl/ferryctl.py"), ("@MIGBENCH@", "bench/migbench")):
        script = script.replace(name, shlex.quote(str(paths.ROOT / path)))
    job = qemu.Job(script, 300.0, host_root=True)
    records = qemu.run(kbuild.build(flavour), machine.get("smp"), job).records
    return dict(record.split(" ", 1) for record in records if " " in record)


@pytest.fixture(scope="module")
def said() -> dict[str, str]:
    """One boot, every command."""
    migbench.build_migbench()
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


def test_what_the_kernel_refuses_is_said(said: dict[str, str]) -> None:
    assert _json(said["junk"])["error"].startswith("window_pages=junk: the kernel refuses that value")


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
