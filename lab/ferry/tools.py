# SPDX-License-Identifier: GPL-2.0
"""The Debian package of what an operator uses: ferryctl, migbench, iova_stress (tools/debian)."""

import shutil
import tempfile
from pathlib import Path

from ferry import packages, paths, proc
from ferry.errors import FerryError
from ferry.kernel import tree

# dpkg-buildpackage wants build-essential whatever is in the sources.
PACKAGES = ("bash-completion", "build-essential", "debhelper", "fakeroot", "libnuma-dev")
# What is made, and is made anew.
MADE = (
    *("migbench", "migbench-sanitize", "*.o", "__pycache__", ".gitignore"),
    *("*.ko", "*.mod*", "Module.symvers", "modules.order", ".*.cmd"),
)
UAPI = ("iommufd.h", "vfio.h")
# Debian's own perl and python, whatever else is in the user's PATH.
DEBIANS = "/usr/sbin:/usr/bin:/sbin:/bin"


def build() -> Path:
    """Make the package from a copy of its sources; returns it."""
    packages.ensure(PACKAGES)
    headers = tree.assemble_current() / "include/uapi/linux"
    with tempfile.TemporaryDirectory(prefix="tools-", dir=paths.BUILD) as folder:
        source = Path(folder, "ferry-tools")
        for name in ("bench", "tools"):
            shutil.copytree(paths.ROOT / name, source / name, ignore=shutil.ignore_patterns(*MADE))
        shutil.copy(paths.ROOT / "VERSION", source)
        # Debian 12's own headers are older than what iova_stress can use.
        (source / "uapi").mkdir()
        for name in UAPI:
            shutil.copy(headers / name, source / "uapi")
        (source / "tools/debian").rename(source / "debian")
        command = ["dpkg-buildpackage", "-b", "-us", "-uc"]
        proc.run(command, title="make the package of the tools", cwd=source, env={"PATH": DEBIANS})
        debs = list(Path(folder).glob("ferry-tools_*.deb"))
        if len(debs) != 1:
            raise FerryError(f"dpkg-buildpackage left no package; see {paths.LOGS}")
        target = paths.OUT / "deb" / debs[0].name
        target.parent.mkdir(parents=True, exist_ok=True)
        return Path(shutil.move(debs[0], target))
