# SPDX-License-Identifier: GPL-2.0
"""A tiny Linux, and programs that stand in for those of the system."""

import hashlib
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from ferry import paths
from ferry.git import git
from ferry.kernel import tree
from ferry.kernel.base import Base
from ferry.kernel.tree import Places
from ferry.results import page, provenance
from ferry.vm import machine as computer
from tests.unit.fake_ferry import Machine, machine_in

FakeProgram = Callable[[str, str], Path]

MAKEFILE = """\
fragment = $(KCONFIG_ALLCONFIG)
allnoconfig: ; cp $(fragment) $(KCONFIG_CONFIG)
bzImage: modules
	@echo built >> $(O)/times
	@test ! -e $(O)/fail || { echo "mm/migrate.c:7: error: broken"; exit 1; }
	@mkdir -p $(O)/arch/x86/boot $(O)/include/config
	@cp mm/migrate.c $(O)/arch/x86/boot/bzImage
	@echo 6.12.1$(LOCALVERSION) > $(O)/include/config/kernel.release
modules: ; @echo "  CC      mm/migrate.o"
modules_install: ; mkdir -p $(INSTALL_MOD_PATH)/lib/modules/6.12.1$(LOCALVERSION)
"""


@pytest.fixture
def fake_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeProgram:
    """Put a shell script of that name and text at the front of PATH; returns its folder."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def make(name: str, text: str) -> Path:
        path = folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return folder

    return make


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine with Ferry, nothing active."""
    return machine_in(tmp_path)


@pytest.fixture
def no_vms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No kernel is there to be asked for its release, and results go into a new folder, which it returns."""
    monkeypatch.setattr(provenance, "of_vms", lambda *_, **__: {})
    monkeypatch.setattr(page, "write", lambda: [])
    monkeypatch.setattr(computer, "available_mib", lambda: 1 << 20)
    monkeypatch.setattr(paths, "OUT", tmp_path / "out")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def linux(tmp_path: Path) -> Base:
    """A source package whose Linux has two files and a Makefile."""
    return linux_of(tmp_path, "6.12.1-1", {})


def linux_of(folder: Path, version: str, changed: dict[int, str]) -> Base:
    """One of a version, where lines of mm/migrate.c have changed."""
    source = folder / f"linux-source-{version}"
    (source / "mm").mkdir(parents=True)
    (source / "Makefile").write_text(MAKEFILE)
    lines = [changed.get(n, f"line {n}") for n in range(1, 21)]
    (source / "mm/migrate.c").write_text("".join(f"{line}\n" for line in lines))
    (source / "mm/Kconfig").write_text("config MIGRATION\n\tbool\n")
    tarball = folder / f"linux-{version}.tar.xz"
    with tarfile.open(tarball, "w:xz") as tar:
        tar.add(source, source.name)
    return Base("linux-source-6.12", version, tarball, digest_of(tarball), "6.12.1-1", "http://archive")


def digest_of(path: Path) -> str:
    """SHA-256 of a file, as sha256sum prints it."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    """A kernel folder with one patch and one file of its own, for a tree that needs no room."""
    monkeypatch.setattr(tree, "ROOM", 0)
    kernel = tmp_path / "kernel"
    base = kernel / "bases/6.12"
    (base / "patches").mkdir(parents=True)
    (base / "patches/0001-mm-hook.patch").write_text(patch("mm: hook", "line 10", "line ten"))
    (kernel / "src/mm/offload").mkdir(parents=True)
    (kernel / "src/mm/offload/core.c").write_text("int core;\n")
    return Places(tmp_path / "build", base, kernel / "src")


def patch(subject: str, old: str, new: str) -> str:
    """A patch to the tiny mm/migrate.c, as a mail."""
    number = int(old.split()[1])
    context = [f" line {n}\n" for n in range(number - 3, number + 4) if n != number]
    hunk = "".join([*context[:3], f"-{old}\n+{new}\n", *context[3:]])
    return (
        "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\n"
        "From: A Developer <dev@ferry.invalid>\nDate: Thu, 1 Jan 2026 00:00:00 +0000\n"
        f"Subject: [PATCH] {subject}\n\nWhy.\n\nSigned-off-by: A Developer <dev@ferry.invalid>\n---\n"
        f" mm/migrate.c | 2 +-\n\ndiff --git a/mm/migrate.c b/mm/migrate.c\n"
        f"--- a/mm/migrate.c\n+++ b/mm/migrate.c\n@@ -{number - 3},7 +{number - 3},7 @@\n{hunk}"
    )


def commit_a_copy(places: Places) -> Path:
    """Commit what a patch may do to Linux besides hooks: mm/copy.c becomes the half of mm/migrate.c."""
    original, copy = places.tree / "mm/migrate.c", places.tree / "mm/copy.c"
    lines = original.read_text().splitlines(keepends=True)
    original.write_text("".join(lines[8:]))
    copy.write_text("".join([*lines[:16], "line of the copy\n"]))
    git(places.tree, "add", "mm/migrate.c", "mm/copy.c")
    git(places.tree, "commit", "-q", "-m", "mm: split migrate.c")
    return copy


@pytest.fixture(scope="session")
def fresh_clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository as it is now, where nothing was ever built or installed."""
    root = tmp_path_factory.mktemp("fresh") / "clone"
    listed = ["git", "-c", "safe.directory=*", "ls-files", "-z", "-co", "--exclude-standard"]
    names = subprocess.run(listed, cwd=paths.ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if (paths.ROOT / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(paths.ROOT / name, root / name)
    return root
