# SPDX-License-Identifier: GPL-2.0
"""The template of a migrator: it builds out of tree, is clean, and copies what it is given."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ferry import packages, paths, proc
from ferry.bench import migbench
from ferry.bench.sizes import parse_size
from ferry.kernel import check, kbuild, tree
from ferry.kernel.kbuild import Kernel
from ferry.vm import records
from tests import guest

pytestmark = pytest.mark.vm

TEMPLATE = paths.ROOT / "tools/migrator"
FOLIOS = ("4K", "64K", "2M")

SCRIPT = """
sys=$OFFLOAD/migrators/my_migrator
param=/sys/module/my_migrator/parameters/fail_every
# move NAME FOLIO: a record of what the migrator has done meanwhile; migbench verifies every byte
move() {
	before=$(cat $sys/bytes) errors=$(cat $sys/errors) busy=$(cat $OFFLOAD/stats/fallback_busy)
	@MIGBENCH@ --folio $2 --bytes 32M --runs 2 --warmup 0 >/tmp/said 2>&1 ||
		fail "$1: $(grep -m 1 migbench: /tmp/said)"
	record move of "$1" bytes: $(($(cat $sys/bytes) - before)) errors: $(($(cat $sys/errors) - errors)) \\
		in_service: "$(cat $OFFLOAD/in_service)" busy: $(($(cat $OFFLOAD/stats/fallback_busy) - busy)) \\
		text "$2"
}
insmod @MODULE@ || fail "cannot load my_migrator: see the console"
echo my_migrator >$OFFLOAD/active || fail "cannot use my_migrator"
for folio in 4K 64K 2M; do
	move $folio $folio
done
record pinned text "$(rmmod my_migrator 2>&1)"
echo 3 >$param
move some-fail 64K
echo 1 >$param
move all-fail 64K
echo 0 >$param
move broken 64K
echo none >$OFFLOAD/active
echo my_migrator >$OFFLOAD/active
move again 64K
echo none >$OFFLOAD/active
rmmod my_migrator || fail "cannot unload my_migrator"
record left text "$(cat $OFFLOAD/available)"
insmod @MODULE@ && echo my_migrator >$OFFLOAD/active && move reloaded 2M
echo none >$OFFLOAD/active
rmmod my_migrator || fail "cannot unload my_migrator a second time"
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the template, with a module that was built as its README says."""
    # In the guest's view of the host there is no /tmp.
    folder = paths.BUILD / "migrator"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(TEMPLATE, folder)
    _make(folder)
    return folder


def _make(folder: Path, *words: str, kernel: Kernel | None = None) -> str:
    """What a build against a kernel says, by default ferry; linux-headers is a copy of that folder."""
    kernel = kernel or kbuild.build("ferry")
    command = ["make", "-C", str(folder), f"KDIR={kernel.build_dir}", "W=1", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_it_builds_without_a_warning(built: Path) -> None:
    assert (built / "my_migrator.ko").exists()
    (built / "my_migrator.o").unlink()
    assert "warning" not in _make(built)


def test_sparse_is_content(tmp_path: Path) -> None:
    """With the base that Debian's sparse is for."""
    packages.ensure(["sparse"])
    kernel = kbuild.build("kunit", tree.places(check.SPARSE_BASE))
    folder = shutil.copytree(TEMPLATE, tmp_path / "migrator")
    said = _make(folder, "C=2", "modules", kernel=kernel).splitlines()
    assert any("CHECK" in line for line in said)
    assert [line for line in said if "warning:" in line or "error:" in line] == []


@pytest.mark.parametrize("name", ["my_migrator.c", "Makefile", "Kbuild"])
def test_checkpatch_is_content(name: str) -> None:
    packages.ensure(["perl", "python3-ply", "python3-git"])
    script = kbuild.build("ferry").source_dir / "scripts/checkpatch.pl"
    style = ("--strict", "--no-tree", "--terse", "--show-types", "--no-summary", "--color=never")
    env = {"PATH": f"/usr/bin:{os.environ['PATH']}"}
    proc.output([script, *style, "-f", TEMPLATE / name], env=env)


@pytest.fixture(scope="module")
def said(built: Path) -> str:
    """One boot."""
    script = guest.with_paths(SCRIPT, MODULE=built / "my_migrator.ko", MIGBENCH=migbench.build_migbench())
    return guest.says(script, host_root=True)


def _moved(said: str, name: str) -> tuple[int, int, int]:
    """Bytes, errors and whether it is in service, of one move. Its ring may be full if the host is busy:
    then the CPU copies some folios, which are counted."""
    (found,) = (each for each in records.every(said, "move") if each["of"] == name)
    refused = found["busy"] * parse_size(found["text"])
    assert refused <= found["bytes"]
    return found["bytes"] + refused, found["errors"], found["in_service"]


@pytest.mark.parametrize("move", [*FOLIOS, "again"])
def test_it_copies_all_that_moves(said: str, move: str) -> None:
    """migbench has verified each byte; that it was this engine which copied it, the counter says."""
    assert _moved(said, move) == (2 * (32 << 20), 0, 1)


def test_errors_are_those_of_single_folios(said: str) -> None:
    """Each third of 1,024 folios; the engine's other two thirds count, and all have arrived."""
    copied, errors, in_service = _moved(said, "some-fail")
    assert (copied + errors * (64 << 10), in_service) == (2 * (32 << 20), 1)
    assert 300 <= errors <= 370


def test_an_engine_that_always_fails_is_out_of_service_until_it_is_chosen_anew(said: str) -> None:
    copied, errors, in_service = _moved(said, "all-fail")
    assert (copied, in_service) == (0, 0)
    assert errors >= 8
    assert _moved(said, "broken") == (0, 0, 0)


def test_it_is_pinned_while_it_is_active_and_leaves_nothing(said: str) -> None:
    assert "in use" in records.of(said, "pinned")["text"]
    assert records.of(said, "left")["text"] == "cpu"
    assert _moved(said, "reloaded")[1:] == (0, 1)
