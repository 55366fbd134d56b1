# SPDX-License-Identifier: GPL-2.0
"""Debian packages of a kernel with Ferry, by the kernel's own bindeb-pkg, from the exported series.

The config is that of the running kernel (/boot/config-*), or another that is named, with Ferry and the
drivers of DMA engines (kernel/config/operator.config), without debug information, cut down to the
modules that are loaded, or to those of a list. Where there is no config, as in a container, it is the
lab's: that one is for QEMU. What is left out is said before the build.
"""

from __future__ import annotations

import lzma
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ferry import files, packages, paths
from ferry.errors import FerryError
from ferry.kernel import base, config, kbuild, series, sign, tree
from ferry.progress import note

# What bindeb-pkg asks for; libdw-dev and python3 from 7.3 on.
PACKAGES = (
    *(*kbuild.PACKAGES, "build-essential", "debhelper", "rsync", "cpio", "fakeroot"),
    *("libdw-dev", "python3"),
)
# What --config may say instead of a file: the kernels that Debian ships, the second for virtual machines.
DEBIAN, CLOUD = "debian", "debian-cloud"
DEBIAN_CONFIGS = {DEBIAN: "config.amd64_none_amd64.xz", CLOUD: "config.amd64_none_cloud-amd64.xz"}
LOADED = "/proc/modules"

# Debian's keys and certificates are not in its source package, and debug information makes a build
# three times as long.
_OVERRIDES = {
    "CONFIG_SYSTEM_TRUSTED_KEYS": '""',
    "CONFIG_SYSTEM_REVOCATION_KEYS": '""',
    "CONFIG_MODULE_SIG_ALL": "n",
    "CONFIG_DEBUG_INFO_NONE": "y",
    "CONFIG_DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT": "n",
    "CONFIG_LOCALVERSION_AUTO": "n",
    "CONFIG_LOCALVERSION": '""',
}


@dataclass(frozen=True)
class Choice:
    """What kernel it is to be."""

    config: str | None = None  # a file, or one of DEBIAN_CONFIGS; None: the running kernel's
    all_modules: bool = False
    tests: bool = False  # with softdma and the modules that test
    modules: str = LOADED  # a file that lists, one to a line, those to keep unless all are
    sign: str | None = None  # a key for Secure Boot


def build(choice: Choice, target: Path = paths.OUT / "deb") -> list[Path]:
    """Make the packages, into a folder; returns them."""
    if choice.modules != LOADED and not Path(choice.modules).is_file():
        raise FerryError(f"no list of modules {choice.modules}; lsmod or /proc/modules of a machine is one")
    key = sign.check_key(choice.sign) if choice.sign else None
    packages.ensure((*PACKAGES, *(sign.PACKAGES if key else ())))
    start = _start(choice.config)
    for line in left_out(choice, start):
        note(f"left out: {line}")
    with files.locked(tree.HERE.build / "kernel.lock"):
        tree.assemble_current()
        series.commit(series.load(), tree.HERE)
        source = series.checkout(tree.HERE)
        out = source / "out-ferry"
        out.mkdir(exist_ok=True)
        modules = None if choice.all_modules else Path(choice.modules)
        configure(out, start, modules, tests=choice.tests, signed=bool(key))
        kbuild.make(out, "bzImage", "modules", title="build for the packages", on_line=kbuild.counter())
        for old in source.glob("linux-*.deb"):
            old.unlink()
        kbuild.make(out, "bindeb-pkg", title="make the packages")
        debs = _collect(source, target)
    for path in debs:
        if key and path.name.startswith("linux-image-"):
            sign.package(path, key)
    return debs


def left_out(choice: Choice, start: str | None) -> list[str]:
    """What the running kernel has and this one will not, and what to do about it."""
    lines = []
    if start and config.parse(start).get("CONFIG_DEBUG_INFO_BTF") == "y":
        lines.append("debug information, and with it BTF: BPF programs that relocate (CO-RE) will not load")
    if start and not choice.all_modules and choice.modules == LOADED:
        lines.append("modules that are not loaded now: plug in and mount what you need, or use --all-modules")
    elif start and not choice.all_modules:
        lines.append(f"modules that {choice.modules} does not list")
    if not choice.tests:
        lines.append("softdma and the test modules: --with-tests adds them")
    if not choice.sign:
        on = ", and it is on here" if _secure_boot() else ""
        lines.append(f"signatures: Secure Boot refuses this kernel{on}; --sign KEY signs it, or turn it off")
    return lines


def _secure_boot(folder: Path = Path("/sys/firmware/efi/efivars")) -> bool:
    """The last byte of the firmware's variable; the first four are its attributes."""
    return any(path.read_bytes()[-1:] == b"\1" for path in folder.glob("SecureBoot-*"))


def _start(name: str | None) -> str | None:
    """The config to start from; None: the lab's."""
    if name in DEBIAN_CONFIGS:
        return read(base.config_folder(tree.HERE.base / "base.toml", tree.HERE.build) / DEBIAN_CONFIGS[name])
    if name:
        if not Path(name).is_file():
            raise FerryError(f"no config {name}; name a file like /boot/config-6.12.0, or '{DEBIAN}'")
        return read(Path(name))
    running = Path(f"/boot/config-{os.uname().release}")
    if running.is_file():
        return read(running)
    note(f"no {running}: taking the lab's config, made for QEMU; for real machines use --config")
    return None


def read(path: Path) -> str:
    """A config, also if it is compressed as in Debian's package. Raises FerryError for what is none."""
    data = path.read_bytes()
    try:
        return (lzma.decompress(data) if path.suffix == ".xz" else data).decode()
    except (lzma.LZMAError, UnicodeDecodeError) as err:
        raise FerryError(f"{path} is no config: {err}; name a file like /boot/config-6.12.0") from err


def ferry_options(start: str | None, tests: bool) -> config.Options:
    """The options that make it Ferry's kernel, as far as the config that it starts from has their place."""
    names = ["common"] if start is None else []
    names += ["ferry", "operator", *(["test"] if tests else [])]
    options = config.merge(tree.HERE.fragments(names))
    if tests and start is not None:
        options["CONFIG_KUNIT"] = "m"
    return options


def configure(
    out: Path, start: str | None, modules: Path | None, *, tests: bool = False, signed: bool = False
) -> None:
    """Make .config; modules lists those to keep, as /proc/modules does, None: all of start's."""
    options = ferry_options(start, tests) | (sign.OPTIONS if signed else {})
    if start is None:
        kbuild.set_options(out, options)
    else:
        _write(out, start, _OVERRIDES | options)
        if modules:
            kbuild.make(
                out, f"LSMOD={_lsmod(out, modules)}", "localmodconfig", title="keep the modules in use"
            )
            _write(out, (out / ".config").read_text(), options)
    config.verify(options, config.parse((out / ".config").read_text()))


def _write(out: Path, text: str, options: Mapping[str, str]) -> None:
    """A config with options on top; Kconfig takes the last of several values, and adds what is new."""
    (out / ".config").write_text(text + config.render(options))
    kbuild.make(out, "olddefconfig", title="configure")


def _lsmod(out: Path, modules: Path) -> Path:
    """What lsmod says of modules: localmodconfig reads the first column, after a heading."""
    lines = (files.read(modules) or "").splitlines()
    names = [line.split()[0] for line in lines if line.strip() and not line.startswith("Module ")]
    listed = out / "ferry-lsmod"
    files.write(
        listed, "".join(f"{line}\n" for line in ("Module Size Used by", *(f"{n} 0 0" for n in names)))
    )
    return listed


def _collect(source: Path, target: Path) -> list[Path]:
    """Move image and headers to their folder; the C library's headers stay Debian's own."""
    target.mkdir(parents=True, exist_ok=True)
    debs = [p for p in sorted(source.glob("linux-*.deb")) if not p.name.startswith("linux-libc-dev")]
    if not debs:
        raise FerryError(f"bindeb-pkg left no packages in {source}; see {paths.LOGS}")
    # Of an older Linux: who installs linux-image-*.deb wants one
    for old in [each for kind in ("image", "headers") for each in target.glob(f"linux-{kind}-*-ferry_*.deb")]:
        old.unlink()
    return [Path(shutil.move(path, target / path.name)) for path in debs]
