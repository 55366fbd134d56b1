# SPDX-License-Identifier: GPL-2.0
"""Builds: incremental, and only a finished one is trusted. The Linux here is a tiny one."""

import dataclasses
import os
import subprocess
from pathlib import Path

import pytest

from ferry import packages, paths
from ferry.errors import CommandFailed, FerryError
from ferry.kernel import base, kbuild, tree
from ferry.kernel.base import Base
from ferry.kernel.tree import Places


@pytest.fixture
def out(linux: Base, places: Places, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes kbuild work on the tiny Linux; returns the ferry flavour's build directory."""
    (places.src.parent / "config").mkdir()
    for name in ("common", "ferry", "test", "kunit", "debug"):
        (places.src.parent / f"config/{name}.config").write_text(f"CONFIG_{name.upper()}=y\n")
    (places.src / "mm/Kconfig.ferry").write_text(
        "".join(f"config {name}\n\tbool\n" for name in ("FERRY", "TEST", "DEBUG"))
    )
    monkeypatch.setattr(packages, "ensure", lambda names: None)
    monkeypatch.setattr(paths, "BUILD", places.build)
    monkeypatch.setattr(paths, "KERNEL", places.src.parent)
    monkeypatch.setattr(tree, "HERE", places)
    monkeypatch.setattr(base, "find", lambda *_: linux)
    return places.tree / "out-ferry"


def builds(out: Path) -> int:
    """How often make built the kernel in this directory."""
    times = out / "times"
    return len(times.read_text().splitlines()) if times.exists() else 0


def test_a_build_yields_a_kernel(out: Path) -> None:
    kernel = kbuild.build("ferry")
    assert (kernel.flavour, kernel.release) == ("ferry", "6.12.1-ferry")
    assert "line ten" in kernel.image.read_text()
    assert (kernel.modules_dir / "lib/modules/6.12.1-ferry").is_dir()
    assert (paths.BUILD / "kernel-ferry").resolve() == out


def test_vanilla_has_no_patches(out: Path) -> None:
    assert "line 10\n" in kbuild.build("vanilla").image.read_text()


def test_what_is_up_to_date_is_not_built_again(out: Path) -> None:
    kbuild.build("ferry")
    kbuild.build("ferry")
    assert builds(out) == 1


def test_a_change_of_source_or_config_is_built(out: Path) -> None:
    kbuild.build("ferry")
    (tree.HERE.src / "mm/offload/core.c").write_text("int changed;\n")
    kbuild.build("ferry")
    (paths.KERNEL / "config/ferry.config").write_text("CONFIG_FERRY=y\nCONFIG_DEBUG=y\n")
    kbuild.build("ferry")
    assert builds(out) == 3


def test_an_interrupted_build_is_not_trusted(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped after the image but before the modules: everything seems to be there."""
    kbuild.build("ferry")
    (tree.HERE.src / "mm/offload/core.c").write_text("int changed;\n")
    with monkeypatch.context() as patched:
        patched.setattr(kbuild, "install_modules", lambda row, out: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            kbuild.build("ferry")
    assert builds(out) == 2
    kbuild.build("ferry")
    assert builds(out) == 3


def test_a_failed_build_shows_the_compilers_words(out: Path) -> None:
    kbuild.prepare(kbuild.flavour("ferry"), tree.HERE)
    (out / "fail").touch()
    with pytest.raises(CommandFailed, match=r"mm/migrate\.c:7: error: broken"):
        kbuild.build("ferry")
    (out / "fail").unlink()
    assert kbuild.build("ferry").release == "6.12.1-ferry"


def test_an_unfair_comparison_is_refused(out: Path) -> None:
    (paths.KERNEL / "config/ferry.config").write_text("CONFIG_FERRY=y\nCONFIG_HZ=1000\n")
    with pytest.raises(FerryError, match="differ in CONFIG_HZ"):
        kbuild.build("ferry")


def test_flavours_cannot_be_changed_by_accident() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        kbuild.FLAVOURS["ferry"].patched = False  # type: ignore[misc]


def test_progress_counts_what_make_compiles() -> None:
    progress = kbuild.counter(2)
    assert progress("  CC      mm/migrate.o\n") == "1/2 mm/migrate.o"
    assert progress("mm/migrate.c:7: warning: x\n") is None
    assert progress("  CC [M]  drivers/dma/softdma.o\n") == "2/2 drivers/dma/softdma.o"
    assert progress("  LD      vmlinux.o\n") == "3/3 vmlinux.o"


@pytest.mark.parametrize("prefix", ["", kbuild.ARM64.cross])
@pytest.mark.parametrize(
    ("args", "answer"),
    [
        ("-O2 -c -o a.o a.c", "ccache 1 {} -O2 -c -o a.o a.c"),
        ("-Werror -D__SIZEOF_INT128__=0 -S -x c /dev/null -o a", "{} -Werror"),
        ("-E -P -x c -", "{} -E"),
    ],
)
def test_only_what_is_compiled_goes_through_ccache(
    tmp_path: Path, args: str, answer: str, prefix: str
) -> None:
    """And to the compiler that the script's name asks for."""
    gcc = f"{prefix}gcc"
    for name, text in (("ccache", 'echo ccache $CCACHE_NOCPP2 "$@"'), (gcc, f'echo {gcc} "$1"')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = [str(kbuild.COMPILER.with_name(prefix + kbuild.COMPILER.name)), *args.split()]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == answer.format(gcc)


def test_another_architecture_has_a_compiler_of_its_own() -> None:
    assert kbuild.X86.words == ()
    assert kbuild.ARM64.words[:2] == ("ARCH=arm64", "CROSS_COMPILE=aarch64-linux-gnu-")
    assert kbuild.ARM64.words[2].endswith("/aarch64-linux-gnu-cached-gcc")
    assert kbuild.flavour("arm64").arch == kbuild.ARM64
