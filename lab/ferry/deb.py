# SPDX-License-Identifier: GPL-2.0
"""Debian packages of a kernel with Ferry, by the kernel's own bindeb-pkg, from the exported series.

The config is that of the running kernel (/boot/config-*) without its debug information, cut down to
the modules that are loaded, or, where there is none, as in a container, the lab's: that one is for
QEMU.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ferry import config, files, kbuild, packages, paths, series, tree
from ferry.errors import FerryError
from ferry.progress import note

PACKAGES = (*kbuild.PACKAGES, "dpkg-dev", "debhelper", "rsync", "cpio", "fakeroot")

# Debian's keys and certificates are not in its source package, and debug
# information makes a build three times as long.
_OVERRIDES = {
    "CONFIG_SYSTEM_TRUSTED_KEYS": '""',
    "CONFIG_SYSTEM_REVOCATION_KEYS": '""',
    "CONFIG_MODULE_SIG_ALL": "n",
    "CONFIG_DEBUG_INFO_NONE": "y",
    "CONFIG_LOCALVERSION_AUTO": "n",
    "CONFIG_LOCALVERSION": '""',
}


def build(given: Path | None, all_modules: bool) -> list[Path]:
    """Make the packages; returns them. given: a .config to start from, instead of the machine's."""
    packages.ensure(PACKAGES)
    start = _start(given)
    with files.locked(paths.BUILD / "kernel.lock"):
        tree.assemble_current()
        series.commit(series.load(), tree.HERE)
        source = series.checkout(tree.HERE)
        out = source / "out-ferry"
        out.mkdir(exist_ok=True)
        _configure(out, start, all_modules)
        kbuild.make(out, "bzImage", "modules", title="build for the packages", on_line=kbuild.counter())
        for old in source.glob("linux-*.deb"):
            old.unlink()
        kbuild.make(out, "bindeb-pkg", title="make the packages")
        return _collect(source)


def _start(given: Path | None) -> Path | None:
    """The .config to start from; None: the lab's."""
    if given:
        if not given.is_file():
            raise FerryError(f"no config {given}; name a file like /boot/config-6.12.0")
        return given
    running = Path(f"/boot/config-{os.uname().release}")
    if running.is_file():
        return running
    note(f"no {running}: taking the lab's config, made for QEMU; name yours with --config for real machines")
    return None


def _configure(out: Path, start: Path | None, all_modules: bool) -> None:
    folder = paths.KERNEL / "config"
    wanted = config.merge([folder / "ferry.config"])
    if start is None:
        files.write(out / "ferry.config", config.render(config.merge([folder / "common.config"]) | wanted))
        kbuild.make(out, f"KCONFIG_ALLCONFIG={out / 'ferry.config'}", "allnoconfig", title="configure")
    else:
        (out / ".config").write_text(start.read_text() + config.render(_OVERRIDES | wanted))
        kbuild.make(out, "olddefconfig", title="configure")
        if not all_modules:
            kbuild.make(out, "localmodconfig", title="keep the modules in use")
            with (out / ".config").open("a") as file:
                file.write(config.render(wanted))
            kbuild.make(out, "olddefconfig", title="configure")
    config.verify(wanted, config.parse((out / ".config").read_text()))


def _collect(source: Path) -> list[Path]:
    """Move image and headers to out/deb; the C library's headers stay Debian's own."""
    target = paths.OUT / "deb"
    target.mkdir(parents=True, exist_ok=True)
    made = [p for p in sorted(source.glob("linux-*.deb")) if not p.name.startswith("linux-libc-dev")]
    if not made:
        raise FerryError(f"bindeb-pkg left no packages in {source}; see {paths.LOGS}")
    return [Path(shutil.move(path, target / path.name)) for path in made]
