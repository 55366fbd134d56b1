# SPDX-License-Identifier: GPL-2.0
"""Random calls that move memory say the same on vanilla and on Ferry: each status, and where each page is.

What is known to differ has a word in differ.c, which docs/engine-free.md explains.
"""

import re
from itertools import zip_longest
from pathlib import Path

import pytest

from ferry import paths, proc
from ferry.kernel import kbuild
from ferry.vm import machine, qemu

pytestmark = pytest.mark.vm

SOURCE = Path(__file__).with_name("differ.c")
STEPS = 150
MORE = [(seed, engine) for seed in range(2, 7) for engine in ("none", "cpu")]
MORE_STEPS = 800
RUN_S = 900.0


def said(kernel: str, engine: str, seed: int, steps: int, tmp_path: Path) -> list[str]:
    """The steps of differ on a kernel."""
    program = tmp_path / "differ"
    proc.run(["gcc", "-O2", "-Wall", "-Werror", "-static", "-o", program, SOURCE], title="build differ")
    lines = [] if kernel == "vanilla" else [f"use_engine {engine} 0"]
    lines += [f"differ {seed} {steps} >/tmp/said || fail differ ended early", "cat /tmp/said"]
    job = qemu.Job("\n".join(lines), RUN_S, programs={"bin/differ": program}, name=f"differ-{kernel}")
    result = qemu.run(kbuild.build(kernel), machine.get("icount"), job)
    return [line for line in result.output.splitlines() if re.match(r"\d+: ", line)]


def first_difference(one: list[str], other: list[str]) -> str:
    """The first step that differs, without what comes after: it follows from that."""
    for ours, theirs in zip_longest(one, other):
        if ours != theirs:
            return f"vanilla: {ours}\nferry:   {theirs}"
    return ""


def test_a_difference_is_seen() -> None:
    steps = ["0: mbind ret 0", "1: touch", "2: ask ret 0 5x0"]
    assert first_difference(steps, steps) == ""
    assert first_difference(steps, [*steps[:2], "2: ask ret 0 4x0 1x1"]).startswith(
        "vanilla: 2: ask ret 0 5x0"
    )
    assert first_difference(steps, steps[:2]).endswith("ferry:   None")


@pytest.mark.parametrize(
    ("seed", "engine", "steps"),
    [
        (1, "none", STEPS),
        *(pytest.param(seed, engine, MORE_STEPS, marks=pytest.mark.long) for seed, engine in MORE),
    ],
)
def test_random_calls_say_the_same(seed: int, engine: str, steps: int, tmp_path: Path) -> None:
    vanilla, ferry = (said(kernel, engine, seed, steps, tmp_path) for kernel in ("vanilla", "ferry"))
    assert len(vanilla) == steps
    assert not [line for line in vanilla + ferry if not line.endswith("| wrong 0")]
    assert first_difference(vanilla, ferry) == ""


def test_what_is_known_to_differ_is_explained() -> None:
    known = set(re.findall(r" (~[a-z]+)", SOURCE.read_text()))
    assert known == {"~again", "~left", "~status"}
    text = (paths.ROOT / "docs/engine-free.md").read_text()
    assert {f"`{word}`" for word in known} <= set(re.findall(r"`~[a-z]+`", text))
